"""The start with a long memory: what the evidence finds, and what a linear system gains by it."""

from itertools import product

import numpy as np
import pytest
import torch
from scipy import stats

from deeplfm import DeepLFMRegressor
from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.ensemble.autoregression import Autoregression
from deeplfm.ensemble.autoregression_candidates import (
    linear_autoregression_candidate,
    many_lags,
    set_priors,
)
from deeplfm.ensemble.autoregression_steps import _NOISES, _by_evidence, linear_priors
from deeplfm.errors import UnsuitableError
from deeplfm.estimators.candidates import candidates_of
from deeplfm.selection.candidate import Candidate
from deeplfm.selection.select import select
from deeplfm.terms import BuildContext, parse
from deeplfm.training import Rows


def plain() -> Candidate:
    """A function of time."""
    return candidates_of({"sinusoids": parse("sinusoids + broadband")}, BuildContext(), 2)[0]


def line_config(n_lags: int, n_outputs: int) -> ModelConfig:
    block = BlockConfig("eq", n_features=0, extras=("constant", "trend"))
    output = LayerConfig(n_outputs, (block,), "exact", own_features=True)
    return ModelConfig(n_lags * n_outputs, (output,), n_samples=1, n_paths=4)


def two_lines(n_rows: int, noise: float) -> np.ndarray:
    """Two incommensurate waves: the next value is a straight line through the last four."""
    t = np.arange(n_rows)
    waves = np.sin(0.31 * t) + 0.6 * np.sin(0.83 * t + 1.0)
    return waves + noise * np.random.default_rng(0).standard_normal(n_rows)


def rows_of(time: np.ndarray, values: np.ndarray) -> Rows:
    return Rows(torch.as_tensor(time)[:, None], torch.as_tensor(values).reshape(len(time), -1))


def test_evidence_is_that_of_scipy() -> None:
    generator = np.random.default_rng(1)
    root = generator.standard_normal((2, 30, 30))
    kernels = {"a": root[0] @ root[0].T, "b": 4 * np.eye(30) + root[1][:, :1] @ root[1][:, :1].T}
    target = generator.multivariate_normal(np.zeros(30), 2 * kernels["b"], size=2).T
    found = _by_evidence(
        [(name, torch.as_tensor(kernel)) for name, kernel in kernels.items()],
        torch.as_tensor(target),
    )
    for d, (name, variance, noise) in enumerate(found):
        densities = {}
        for other, kernel in kernels.items():
            for ratio in _NOISES:
                covariance = kernel + ratio * np.eye(30)
                best = target[:, d] @ np.linalg.solve(covariance, target[:, d]) / 30
                normal = stats.multivariate_normal(np.zeros(30), best * covariance)
                densities[other, ratio] = normal.logpdf(target[:, d]), best
        (expected, ratio), (_, best) = max(densities.items(), key=lambda item: item[1][0])
        assert name == expected
        assert (variance, noise) == pytest.approx((best, ratio * best), rel=1e-6)


def test_the_model_that_is_started_has_the_evidence_of_the_best_line() -> None:
    n_rows, n_lags, n_outputs = 40, 3, 2
    generator = np.random.default_rng(5)
    lags = generator.standard_normal((n_rows, n_lags * n_outputs))
    increment = lags[:, :2] - 0.5 * lags[:, 2:4] + 0.3 * generator.standard_normal((n_rows, 2))
    priors = linear_priors(torch.as_tensor(lags), torch.as_tensor(increment))
    model = Autoregression(line_config(n_lags, n_outputs), 0, n_lags).double()
    set_priors(model, priors)
    with torch.no_grad():
        whole = model.step_model.output_layer.features(torch.as_tensor(lags), 1).whole()
        columns = torch.cat(list(whole), dim=-1).numpy()
    for d, y in enumerate(increment.T):
        started = columns[d] @ columns[d].T + priors[d].noise_variance * np.eye(n_rows)
        best = -np.inf
        for others, fading, noise in product((1e-3, 0.1, 1.0), (0.0, 0.5, 1.0), _NOISES):
            slope = np.repeat(np.arange(1.0, n_lags + 1) ** -fading, n_outputs)
            slope *= np.where(np.arange(n_lags * n_outputs) % n_outputs == d, 1.0, others)
            kernel = (lags * slope**2 / (slope**2).sum()) @ lags.T + 1 + noise * np.eye(n_rows)
            size = y @ np.linalg.solve(kernel, y) / n_rows
            normal = stats.multivariate_normal(np.zeros(n_rows), size * kernel)
            best = max(best, normal.logpdf(y))
        normal = stats.multivariate_normal(np.zeros(n_rows), started)
        assert normal.logpdf(y) == pytest.approx(best, abs=1e-6)


def test_an_output_driven_by_others_depends_on_them_and_an_independent_one_does_not() -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(400, 2, generator=generator, dtype=torch.float64)
    lags = torch.cat([values[1:-1], values[:-2]], 1)  # two rows back, two outputs
    noise = 0.1 * torch.randn(398, 2, generator=generator, dtype=torch.float64)
    increment = torch.stack([lags[:, 0] - lags[:, 2], lags[:, 0] + lags[:, 3]], 1) + noise
    alone, driven = linear_priors(lags, increment)
    assert alone.slope_scale[1] < 0.01 * alone.slope_scale[0]
    assert driven.slope_scale[0] > 0.05 * driven.slope_scale[1]
    assert alone.noise_variance == pytest.approx(0.01, rel=0.8)  # the nearest of a coarse grid


def test_a_linear_system_is_forecast_to_the_noise() -> None:
    time, values = np.arange(400.0), two_lines(400, noise=0.05)
    model = DeepLFMRegressor(model="linear-autoregression", random_state=0, progress=False)
    model.fit(time[:300], values[:300])
    mean, std = model.predict(time[300:], return_std=True)
    assert np.sqrt(np.mean((mean - two_lines(400, noise=0.0)[300:]) ** 2)) < 0.05
    low, high = model.predict_interval(time[300:], coverage=0.9)
    inside = np.mean((low <= values[300:]) & (values[300:] <= high))
    assert 0.8 <= inside <= 1.0
    assert std.max() < 0.15


def test_a_linear_system_with_gaps_is_forecast_as_well() -> None:
    time, values = np.arange(400.0), two_lines(400, noise=0.05)
    generator = np.random.default_rng(3)
    values[generator.choice(300, 12, replace=False)] = np.nan
    kept = np.sort(generator.choice(300, 294, replace=False))
    model = DeepLFMRegressor(model="linear-autoregression", random_state=0, progress=False)
    model.fit(time[kept], values[kept])
    error = model.predict(time[300:]) - two_lines(400, noise=0.0)[300:]
    assert np.sqrt(np.mean(error**2)) < 0.1


def test_an_update_and_a_file_keep_its_record(tmp_path) -> None:
    time, values = np.arange(200.0), two_lines(200, noise=0.02)
    values[120:] = two_lines(207, noise=0.02)[127:]  # seven steps are skipped
    model = DeepLFMRegressor(model="linear-autoregression", random_state=0, progress=False)
    model.fit(time[:120], values[:120])
    before = np.abs(model.predict(time[180:190]) - values[180:190]).max()
    model.update(time[120:180], values[120:180])
    assert np.abs(model.predict(time[180:190]) - values[180:190]).max() < 0.2 < before
    model.save(tmp_path / "model")
    loaded = DeepLFMRegressor.load(tmp_path / "model")
    np.testing.assert_allclose(loaded.predict(time), model.predict(time), rtol=1e-12)


def test_it_is_selected_by_a_clear_lead_only() -> None:
    values = np.cumsum(np.random.default_rng(2).standard_normal(160)) / 5
    candidates = [
        plain(),
        linear_autoregression_candidate(BuildContext()),
    ]
    _, selection = select(candidates, rows_of(np.arange(160.0) / 160, values), is_series=True)
    lead = (
        selection.held_out_mnll["sinusoids"][0]
        - selection.held_out_mnll["linear autoregression"][0]
    )
    assert lead < 0.2
    assert selection.weight.get("linear autoregression", [0.0])[0] < 0.5


def test_rows_that_it_is_not_made_for_are_named() -> None:
    with pytest.raises(UnsuitableError, match="even steps"):
        linear_autoregression_candidate(BuildContext()).build(
            rows_of(np.arange(80.0) ** 2, two_lines(80, 0.1)), 0
        )


@pytest.mark.parametrize(
    ("shape", "lags"),
    [((1000, 1), [200, 100, 50, 25, 12]), ((60, 3), [20, 10]), ((90, 100), [6]), ((20, 1), [6])],
)
def test_few_rows_and_many_outputs_have_few_lags(shape, lags) -> None:
    assert many_lags(*shape) == lags
