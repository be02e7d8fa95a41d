"""Series whose swings grow with their level are heard by their logarithms, if all rows speak for it."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm

import deeplfm
from deeplfm import DeepLFMForecaster, DeepLFMRegressor
from deeplfm.errors import ConfigError, InputError
from deeplfm.estimators.logarithms import Trial, best_trial
from deeplfm.estimators.scaling import Scaling
from deeplfm.estimators.targets import amplitude_grows
from deeplfm.training import Rows, interruption
from deeplfm.training.interruption import time_left, within

T, T4 = np.arange(120.0), np.arange(400.0)
RNG = np.random.default_rng(0)
SHAKE = 0.03 * RNG.standard_normal(120)
CYCLE = np.sin(2 * np.pi * T / 12)
SALES = np.exp(3 + 0.015 * T + 0.3 * CYCLE + SHAKE)
FALLS = (60 - 0.4 * T) * (1 + 0.2 * CYCLE) + 20 * SHAKE
EVEN = 50 + 0.5 * T + 5 * CYCLE + 10 * SHAKE
QUICK = {"model": "linear-autoregression", "progress": False}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (SALES, True),
        (SALES * 1e-6, True),
        (np.where(RNG.random(120) < 0.2, np.nan, SALES), True),
        (EVEN, False),
        (SALES - SALES.min(), False),  # reaches zero
        (20 + CYCLE + SHAKE, False),  # one level
        (SALES[:24], False),  # too short to tell
        (np.full(120, 3.0), False),
        (np.full(120, np.nan), False),
        (np.repeat([1.0, 2.0, 3.0, 4.0], 30), False),  # no swings
    ],
    ids=str,
)
def test_amplitudes_that_grow_with_the_level_are_found(values: np.ndarray, expected: bool) -> None:
    assert amplitude_grows(values[:, None]).tolist() == [expected]


def fitted(values: np.ndarray, **options: object) -> DeepLFMRegressor:
    return DeepLFMRegressor(**QUICK | options).fit(T[:96], values[:96])


def error(model: DeepLFMRegressor, values: np.ndarray) -> float:
    return float(np.mean((model.predict(T[96:]) - values[96:]) ** 2) / values[96:].var())


def test_a_time_limit_is_divided_equally_among_selections_and_refits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts: list[float] = []
    selection = SimpleNamespace(logarithms_untried=False)
    monkeypatch.setattr(interruption.time, "monotonic", lambda: sum(parts))

    def trial(is_log: np.ndarray) -> SimpleNamespace:
        parts.append(time_left() / 2)  # as a race takes half
        found = np.where(is_log, [1.0, -1.0], 0.0)
        return SimpleNamespace(evidence=lambda of: found[of], is_log=is_log)

    def cut(is_log: np.ndarray) -> SimpleNamespace:
        if is_log.any():
            interruption._deadline.set(-np.inf)
        return SimpleNamespace(
            evidence=lambda of: 1.0 * is_log[of],
            is_log=is_log,
            comparison=SimpleNamespace(selection=selection),
        )

    with within(80):
        best = best_trial(trial, np.array([True, True]))
        assert [*parts, time_left()] == [20, 20, 20, 20]
    assert best.is_log.tolist() == [True, False]
    with within(80):  # a race that was cut does not count
        assert not best_trial(cut, np.array([True])).is_log.any()
    assert selection.logarithms_untried

    def unsuitable(is_log: np.ndarray) -> SimpleNamespace:
        if is_log.any():
            raise InputError("no start is made for these rows")
        return SimpleNamespace(is_log=is_log)

    assert not best_trial(unsuitable, np.array([True])).is_log.any()  # and time is not to blame


def test_growing_amplitudes_are_forecast_better() -> None:
    chosen, plain = fitted(SALES), fitted(SALES, log_targets=False)
    assert chosen.scaling_.is_log.tolist() == [True]
    assert plain.scaling_.is_log.tolist() == [False]
    assert error(chosen, SALES) < 0.5 * error(plain, SALES)
    low, _ = chosen.predict_interval(T[96:])
    assert (low > 0).all()


def test_held_out_rows_count_in_the_choice_of_logarithms() -> None:
    """Swings that shrink with a level that falls along a line, to which logarithms are no help."""
    assert amplitude_grows(FALLS[:96, None]).tolist() == [True]
    models = {logs: fitted(FALLS, log_targets=logs) for logs in (False, True, None)}
    scores = {
        logs: model.fit_result_.held_out_mnll["linear-autoregression"][0]
        + model.fit_result_.log_jacobian[0]
        for logs, model in models.items()
    }
    assert scores[False] < scores[True]
    assert scores[None] == scores[False]
    assert models[None].scaling_.is_log.tolist() == [False]


def test_evidence_of_a_scale_is_that_of_its_distribution_in_the_users_units() -> None:
    """Rows that have nothing to do with each other: by a normal and a log-normal distribution."""
    normal = np.random.default_rng(0).standard_normal((400, 2))
    values = np.column_stack([50 * np.exp(0.5 * normal[:, 0]), 50 + 10 * normal[:, 1]])
    scores, expected = [], []
    for is_log in (np.array([False, False]), np.array([True, True])):
        scaling = Scaling.of_chunks([(T4[:, None], values, None)], True, is_log)
        scaled = torch.as_tensor(scaling.outputs(values))
        rows = Rows(torch.as_tensor(scaling.inputs(T4[:, None])), scaled)
        held_out = rows.take(torch.arange(300, 400))
        density = torch.distributions.Normal(0, 1).log_prob(held_out.y)
        split = SimpleNamespace(training=rows.take(torch.arange(300)), held_out=held_out)
        trial = Trial(scaling, rows, SimpleNamespace(split=split, density=density))
        scores.append(trial.evidence(np.array([True, True])))
        assert trial.evidence(np.array([False, True])) == pytest.approx(scores[-1][1:])
        seen = np.log(values) if is_log[0] else values
        density = norm(seen.mean(0), seen.std(0)).logpdf(seen)
        expected.append((density - is_log * np.log(values)).sum(0))
    gain, truth = scores[1] - scores[0], expected[1] - expected[0]
    assert gain == pytest.approx(truth, abs=6)
    assert gain[0] > 40 and gain[1] < -10


@pytest.mark.parametrize("seed", range(3))
def test_rows_before_the_held_out_ones_are_evidence_for_logarithms(seed: int) -> None:
    """Quarters of sales: by the four rounds held out alone, each of these would stay as it is."""
    time = np.arange(67.0)
    noise = 0.08 * np.random.default_rng(seed).standard_normal(84)[:67]
    values = np.exp(0.015 * time + 0.3 * np.sin(np.pi * time / 2) + noise)
    assert amplitude_grows(values[:, None]).tolist() == [True]
    model = DeepLFMRegressor(model="sinusoids + broadband", n_steps=20, progress=False)
    assert model.fit(time, values).scaling_.is_log.tolist() == [True]


def test_untried_logarithms_are_reported() -> None:
    with pytest.warns(UserWarning, match="left no time to try logarithms"):
        fitted(SALES, time_limit=0.0)


def test_single_precision_will_do() -> None:
    assert fitted(SALES, dtype="float32").scaling_.is_log.tolist() == [True]


def test_only_the_target_that_asks_for_it() -> None:
    both = np.column_stack([EVEN, SALES])
    model = DeepLFMRegressor(**QUICK).fit(T, both)
    assert model.scaling_.is_log.tolist() == [False, True]
    mean, std = model.predict(T, return_std=True)
    assert np.abs(mean - both).mean(0) == pytest.approx([0, 0], abs=3)
    assert (std > 0).all()


def test_each_target_has_the_scale_that_foresees_it_better() -> None:
    """Both look like it; the one that logarithms do not help is not dragged along by the other."""
    both = np.column_stack([FALLS, SALES])
    assert amplitude_grows(both[:96]).tolist() == [True, True]
    assert fitted(both).scaling_.is_log.tolist() == [False, True]


def test_scores_count_rows_by_their_weight() -> None:
    weight = np.where(np.arange(96) >= 90, 50.0, 1.0)
    model = DeepLFMRegressor(**QUICK, log_targets=True).fit(T[:96], SALES[:96], weight)
    logs = np.log(SALES[:96])
    mean = np.average(logs, weights=weight)
    scale = np.sqrt(np.average((logs - mean) ** 2, weights=weight))
    expected = np.log(scale) + np.average(logs[72:], weights=weight[72:])
    assert model.fit_result_.log_jacobian == pytest.approx([expected])


@pytest.mark.parametrize("wish", ["no", [True], 1])
def test_a_wish_that_cannot_be_read_is_refused(wish: object) -> None:
    with pytest.raises(ConfigError, match=r"log_targets: .* found\. Give True for all"):
        fitted(SALES, log_targets=wish)


def test_logarithms_may_be_forced_and_values_without_one_are_refused() -> None:
    assert fitted(EVEN, log_targets=True).scaling_.is_log.all()
    with pytest.raises(InputError, match=r"-1 found, which has no logarithm.*log_targets=False"):
        fitted(np.where(T == 7, -1, EVEN), log_targets=True)
    assert fitted(SALES, model="paper", n_steps=1).scaling_.is_log.tolist() == [False]
    model = fitted(SALES, model="sinusoids + broadband", n_steps=5)
    with pytest.raises(InputError, match=r"-3 found, which has no logarithm"):
        model.update([100.0], [-3.0])
    before = model.predict([101.0])
    model.update([100.0], [SALES[100]])
    assert model.predict([101.0]) != before


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    model = fitted(SALES)
    model.save(tmp_path / "model")
    again = DeepLFMRegressor.load(tmp_path / "model")
    assert again.scaling_.is_log.tolist() == [True]
    assert (again.predict(T) == model.predict(T)).all()


def test_scores_of_a_forecaster_are_in_the_users_units(tmp_path: Path) -> None:
    from deeplfm.cli import summary

    frame = pd.DataFrame({"t": T, "sales": SALES})
    model = DeepLFMForecaster(**QUICK).fit(frame[:96], time="t")
    told = summary.of_model(model)["targets"]["sales"]
    assert told["is_log"]
    # the density of a value is that of its standardised logarithm, by the slope of the map
    slope = np.log(np.log(SALES[:96]).std()) + np.log(SALES[72:96]).mean()
    score = min(found[0] for found in model.regressor_.fit_result_.held_out_mnll.values())
    assert told["held_out_mnll"] == pytest.approx(score + slope)
    model.save(tmp_path / "m")
    assert deeplfm.load(tmp_path / "m").forecast(horizon=3)["sales_low"].gt(0).all()
