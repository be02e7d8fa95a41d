"""Hidden clocks: forecasts that know how long a cycle keeps time."""

import numpy as np
import pytest
import torch

from deeplfm import DeepLFMRegressor, load
from deeplfm.errors import InputError
from deeplfm.terms import BroadBand, BuildContext, WarpedTime
from deeplfm.training import Rows

N_ROWS, N_TRAIN, N_ROUNDS = 500, 400, 12


def beats(seed: int) -> np.ndarray:
    """Pulses that come up to a tenth of a round early or late, each from the last one."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(2 * np.pi * N_ROUNDS / N_ROWS, 0.3 * np.sqrt(N_ROUNDS / N_ROWS), N_ROWS)
    pulse = np.exp(2 * np.cos(np.cumsum(steps)))
    return pulse / pulse.std() + 0.1 * rng.normal(size=N_ROWS)


def fitted(declared: str, values: np.ndarray) -> DeepLFMRegressor:
    model = DeepLFMRegressor(declared, n_steps=20, progress=False)
    return model.fit(np.arange(N_TRAIN), values[:N_TRAIN])


def test_a_cycle_with_a_random_walk_phase_is_forecast_with_its_uncertainty() -> None:
    """Of five records; the lines of a steady rhythm are sure of a phase that is lost."""
    ahead, gain, inside = np.arange(N_TRAIN, N_ROWS), [], []
    for seed in range(5):
        values = beats(seed)
        truth = torch.as_tensor(values[ahead, None])
        phase, rhythm = (
            fitted(start, values).posterior(ahead)
            for start in ("warped + broadband", "shared_season + broadband")
        )
        gain.append(float((phase.log_prob(truth) - rhythm.log_prob(truth)).mean()))
        low, high = phase.interval(0.95)
        inside.append(float(((low <= truth) & (truth <= high)).double().mean()))
    assert np.mean(gain) > 0.5
    assert np.mean(inside) > 0.85


def test_uncertainty_grows_to_that_of_the_shape() -> None:
    model = fitted("warped + broadband", beats(0))
    std = model.posterior(np.arange(N_ROWS)).std().numpy()[:, 0]
    assert std[:N_TRAIN].mean() < 0.2
    assert std[N_TRAIN + 60 :].mean() > 3 * std[:N_TRAIN].mean()


def test_each_output_has_its_own_phase_or_none(tmp_path) -> None:
    """Gaps, an output without a cycle, and a second one at another pace; saved and loaded as they are."""
    rng = np.random.default_rng(0)
    values = np.stack([beats(0), np.sin(np.arange(N_ROWS) / 15), rng.normal(size=N_ROWS)], 1)
    values[50:70, 0] = np.nan
    model = DeepLFMRegressor(
        model="warped + broadband",
        n_steps=3,
        progress=False,
    )
    model.fit(np.arange(N_TRAIN), values[:N_TRAIN])
    (hidden, _) = model.model_.members[0].layers
    assert not any(parameter.requires_grad for parameter in hidden.parameters())
    rate = hidden.weights.mean[:, -1, 0].numpy() / (2 * np.pi)
    rounds = [N_ROUNDS * N_TRAIN / N_ROWS, N_TRAIN / 15 / (2 * np.pi), 1 / (2 * np.pi)]
    np.testing.assert_allclose(sorted(rate), sorted(rounds), rtol=0.1)  # the last is the drift
    model.save(tmp_path / "model")
    at = np.arange(N_TRAIN - 20, N_TRAIN + 20)
    np.testing.assert_array_equal(load(tmp_path / "model").predict(at), model.predict(at))


def test_what_has_no_cycle_is_refused() -> None:
    with pytest.raises(InputError, match="a cycle that repeats"):
        DeepLFMRegressor(model="warped + broadband").fit(np.arange(30), np.arange(30.0) ** 2)
    rows = Rows(torch.zeros(6000, 1), torch.zeros(6000, 1))
    with pytest.raises(Exception, match="at most 5000 rows where it stands beside other terms"):
        (WarpedTime() + BroadBand()).build(rows, BuildContext())
