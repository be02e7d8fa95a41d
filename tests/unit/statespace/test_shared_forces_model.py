"""Outputs that share forces, through the estimators."""

from copy import deepcopy

import numpy as np
import pandas as pd
import pytest

from deeplfm import DeepLFMForecaster, InputError
from deeplfm.statespace import SharedForcesLFM

N_ROWS, GAP = 80, slice(30, 45)
SUM = "trend + reversion"


def walks(n_outputs: int = 3, share: float = 1.0) -> pd.DataFrame:
    """One process that all outputs respond to, each in its own way, with noise of 10 %."""
    rng = np.random.default_rng(4)

    def process() -> np.ndarray:
        found = np.zeros(N_ROWS)
        for n in range(1, N_ROWS):
            found[n] = 0.9 * found[n - 1] + rng.normal()
        return found / found.std()

    common, size = process(), np.array([1.0, -2.0, 0.5])[:n_outputs]
    own = np.stack([process() for _ in range(n_outputs)], axis=1)
    values = share * common[:, None] * size + (1 - share) * own
    return pd.DataFrame(
        values + 0.1 * rng.normal(size=values.shape), columns=list("abc")[:n_outputs]
    )


def fitted(frame: pd.DataFrame, model: str) -> DeepLFMForecaster:
    return DeepLFMForecaster(
        model, effort="fast", log_targets=False, random_state=0, progress=False
    ).fit(frame)


def with_gap(frame: pd.DataFrame) -> pd.DataFrame:
    known = frame.copy()
    known.iloc[GAP, 0] = np.nan
    return known


@pytest.fixture(scope="module")
def shared() -> DeepLFMForecaster:
    return fitted(with_gap(walks()), f"{SUM} + shared_forces(1)")


def member(forecaster: DeepLFMForecaster) -> SharedForcesLFM:
    (found,) = forecaster.regressor_.model_.members
    assert isinstance(found, SharedForcesLFM)
    return found


def test_a_gap_is_filled_by_the_other_outputs(shared: DeepLFMForecaster) -> None:
    truth, known = walks(), with_gap(walks())
    assert int(member(shared).n_shared) == 1
    filled = shared.impute(known, intervals=True).iloc[GAP]
    alone = fitted(known, SUM).impute(known).iloc[GAP]
    error = np.mean((filled["a"] - truth["a"].iloc[GAP]) ** 2)
    assert error < 0.05 * np.mean((alone["a"] - truth["a"].iloc[GAP]) ** 2)
    inside = truth["a"].iloc[GAP].between(filled["a_low"], filled["a_high"])
    assert inside.mean() >= 0.8


def test_components_add_up_to_the_forecast(shared: DeepLFMForecaster) -> None:
    parts = shared.components(4)
    assert "shared forces" in parts.columns.get_level_values(1)
    total = parts.xs("mean", axis=1, level=2).T.groupby(level=0).sum().T
    np.testing.assert_allclose(total["a"], shared.forecast(4)["a"], atol=1e-8)


def test_it_is_saved_and_loaded(shared: DeepLFMForecaster, tmp_path) -> None:
    shared.save(tmp_path / "model")
    loaded = DeepLFMForecaster.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.forecast(3), shared.forecast(3))


def test_new_rows_of_one_output_inform_the_others(shared: DeepLFMForecaster, tmp_path) -> None:
    shared.save(tmp_path / "model")
    updated = DeepLFMForecaster.load(tmp_path / "model")
    later = pd.DataFrame({"a": np.nan, "b": -6.0, "c": np.nan}, index=[N_ROWS])
    before = shared.forecast(1)
    updated.update(later)
    now = updated.predict(pd.Index([N_ROWS]))
    assert before["b"].iloc[0] > -5.0  # the new row is lower than was forecast,
    assert now["a"].iloc[0] > before["a"].iloc[0] + 1.0  # and a responds with the other sign


def test_draws_of_outputs_go_together(shared: DeepLFMForecaster) -> None:
    time = member(shared).x[GAP][:, :1]
    beyond = time[:1] + 2.0  # far after the last row, in the model's units
    drawn = member(shared).draw(beyond, 400, seed=0)[:, 0]
    correlation = np.corrcoef(drawn.T.numpy())
    assert correlation[0, 1] < -0.8
    assert correlation[0, 2] > 0.8


def test_independent_outputs_stay_so() -> None:
    frame = walks(2, share=0.0)
    apart = fitted(frame, f"{SUM} + shared_forces(1)")
    assert int(member(apart).n_shared) == 0
    assert "shared forces" not in member(apart).components
    expected = fitted(frame, SUM).forecast(3)
    pd.testing.assert_frame_equal(apart.forecast(3), expected)


@pytest.mark.parametrize("model", ["trend + shared_forces(1)", "shared_forces(1)"])
def test_forces_stand_alone(model: str) -> None:
    """Outputs without processes of their own, a sum that was an error of numpy."""
    forecast = fitted(with_gap(walks()), model).forecast(5)
    assert np.isfinite(forecast.to_numpy()).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numbers that overflow on the way
def test_a_covariance_that_cannot_be_solved_is_an_error_of_deeplfm(
    shared: DeepLFMForecaster,
) -> None:
    """It was numpy's LinAlgError."""
    broken = deepcopy(shared)
    member(broken).row_weight.fill_(1e300)
    with pytest.raises(InputError, match=r"state space: .* not positive definite"):
        broken.forecast(2)
