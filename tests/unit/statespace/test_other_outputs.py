"""Gaps of one output in which others are known, through the estimators."""

import numpy as np
import pandas as pd
import pytest
import torch

from deeplfm import ConfigError, DeepLFMForecaster
from deeplfm.statespace import OtherOutputsLFM
from deeplfm.statespace.others import _before
from deeplfm.terms.candidates import IN_GAPS, STATE_SPACE

N_ROWS, GAP = 90, slice(40, 58)


def walk(rng: np.random.Generator) -> np.ndarray:
    """A stationary process of unit variance, which forgets in ten steps."""
    found = np.zeros(N_ROWS)
    for n in range(1, N_ROWS):
        found[n] = 0.9 * found[n - 1] + rng.normal()
    return found / found.std()


def late_and_early() -> pd.DataFrame:
    """An output, one that responds to it slowly, and one that has nothing to do with either."""
    rng = np.random.default_rng(3)
    force, other = walk(rng), walk(rng)
    slow = _before(np.arange(float(N_ROWS)), force[:, None], 4.0)[:, 0]
    slow = slow / slow.std()
    values = np.stack([slow, 20 - 5 * force, other], axis=1)
    return pd.DataFrame(
        values + 0.1 * rng.normal(size=values.shape) * [1, 5, 1], columns=list("abc")
    )


def with_gap(frame: pd.DataFrame, name: str = "a") -> pd.DataFrame:
    known = frame.copy()
    known.iloc[GAP, known.columns.get_loc(name)] = np.nan
    return known


def fitted(frame: pd.DataFrame, model: object = "auto") -> DeepLFMForecaster:
    if model == "auto":  # without a search for seasons, which takes most of the time
        others = {name: sum_ for name, sum_ in IN_GAPS.items() if "season" not in str(sum_)}
        model = {"reversion": "trend + reversion", **others}
    settings = {"effort": "fast", "log_targets": False, "random_state": 0, "progress": False}
    return DeepLFMForecaster(model, **settings).fit(frame)


@pytest.fixture(scope="module")
def model() -> DeepLFMForecaster:
    return fitted(with_gap(late_and_early()))


def error(filled: pd.DataFrame, name: str = "a") -> float:
    truth = late_and_early()[name].iloc[GAP]
    return float(((filled[name].iloc[GAP] - truth) ** 2).mean() / truth.var())


def test_a_gap_is_filled_by_an_output_that_it_responds_to_late(model: DeepLFMForecaster) -> None:
    filled = model.impute(intervals=True)
    alone = fitted(with_gap(late_and_early()), "trend + reversion").impute()
    assert error(filled) < 0.2 < 0.5 < error(alone)
    truth = late_and_early()["a"].iloc[GAP]
    inside = truth.between(filled["a_low"].iloc[GAP], filled["a_high"].iloc[GAP])
    assert inside.mean() >= 0.8
    assert model.selection_.loc["other outputs", "a_weight_in_gaps"] > 0.5


def test_forecasts_are_those_without_other_outputs(model: DeepLFMForecaster) -> None:
    alone = fitted(with_gap(late_and_early()), "trend + reversion")
    pd.testing.assert_frame_equal(model.forecast(5), alone.forecast(5))


def test_an_output_that_none_informs_is_filled_as_if_alone() -> None:
    frame = with_gap(late_and_early(), "c")
    alone = fitted(frame, "trend + reversion").impute()
    assert error(fitted(frame).impute(), "c") < 1.15 * error(alone, "c")


def test_gaps_in_new_rows_are_filled_too(tmp_path) -> None:
    frame = late_and_early()
    whole = fitted(frame.iloc[:75])
    whole.save(tmp_path / "model")
    loaded = DeepLFMForecaster.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.forecast(3), whole.forecast(3))
    later = frame.iloc[75:].copy()
    later.loc[later.index[2:], "a"] = np.nan
    filled = loaded.update(later).impute(intervals=True).iloc[77:]
    truth = frame["a"].iloc[77:]
    assert ((filled["a"] - truth) ** 2).mean() < 0.3 * truth.var()
    assert truth.between(filled["a_low"], filled["a_high"]).mean() >= 0.7


def test_what_is_not_known_of_other_outputs_widens_the_interval() -> None:
    one, two = with_gap(late_and_early()), with_gap(with_gap(late_and_early()), "b")
    members = [fitted(frame).regressor_.model_.members[1] for frame in (one, two)]
    assert all(isinstance(member, OtherOutputsLFM) for member in members)
    variance = [member.posterior(member.x[GAP]).variance()[:, 0].mean() for member in members]
    assert variance[1] > 1.5 * variance[0]
    drawn = members[1].draw(members[1].x[GAP], 300, seed=0)[..., 0]
    latent = members[1].posterior(members[1].x[GAP]).variance(latent=True)[:, 0]
    assert torch.allclose(drawn.var(0).mean(), latent.mean(), rtol=0.3)


def test_it_is_active_where_another_output_is_known() -> None:
    frame = with_gap(late_and_early())
    frame.iloc[45] = np.nan
    member = fitted(frame).regressor_.model_.members[1]
    time = torch.as_tensor(member.x[:, :1])
    expected = ~member.y.isnan().all(1)
    assert torch.equal(member.is_active(time), expected)
    assert not member.is_active(time[-1:] + 0.1).any()
    assert not bool(expected.all())


def test_it_makes_no_forecasts() -> None:
    with pytest.raises(ConfigError, match="makes no forecasts"):
        fitted(late_and_early(), "trend + others")
    assert all(sum_.is_markov and sum_.margin == float("inf") for sum_ in IN_GAPS.values())
    assert not set(IN_GAPS) & set(STATE_SPACE)


def test_a_single_output_has_no_others() -> None:
    alone = fitted(late_and_early()[["a"]])
    assert alone.regressor_.fit_result_.members == ["reversion"]


def test_values_before_are_forgotten_by_their_age() -> None:
    time = np.array([0.0, 1.0, 1.5, 4.0])
    values = np.array([[2.0], [-1.0], [3.0], [9.0]])
    ages = np.exp(-(4.0 - time[:3]) / 2.0)  # each value lasts until the next one
    weight = np.append(ages[1:], 1.0) - ages
    expected = weight @ values[:3, 0] + ages[0] * values[0, 0]
    np.testing.assert_allclose(_before(time, values, 2.0)[-1, 0], expected)
