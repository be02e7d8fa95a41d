from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.metrics import r2_score

from deeplfm import ConfigError, DeepLFMRegressor, InputError
from deeplfm.terms import Deep, Paper, Sinusoids
from deeplfm.terms.candidates import SERIES

TIME = np.linspace(0, 10, 90)
WAVE = np.sin(3 * TIME)


def quick(**options: object) -> DeepLFMRegressor:
    return DeepLFMRegressor(
        **{"model": "sinusoids + broadband", "n_steps": 10, "random_state": 0} | options
    )


def test_a_wave_is_carried_on_beyond_its_data() -> None:
    later = np.linspace(10, 14, 50)
    model = quick().fit(TIME, WAVE)
    mean, std = model.predict(later, return_std=True)
    assert mean == pytest.approx(np.sin(3 * later), abs=0.1)
    assert (std > 0).all()
    assert (std >= model.predict(later, return_std=True, latent=True)[1]).all()


def test_intervals_widen_with_the_distance_from_the_data() -> None:
    noisy = WAVE + 0.1 * np.random.default_rng(0).normal(size=90)
    model = quick().fit(TIME, noisy)
    low, high = model.predict_interval(np.array([9.0, 15.0, 25.0]))
    widths = high - low
    assert widths[0] < widths[1] < widths[2]


def test_results_are_in_the_units_of_the_user() -> None:
    model, scaled = quick().fit(TIME, WAVE), quick().fit(1e6 + 100 * TIME, 500 + 20 * WAVE)
    mean, std = model.predict(TIME, return_std=True)
    other_mean, other_std = scaled.predict(1e6 + 100 * TIME, return_std=True)
    assert other_mean == pytest.approx(500 + 20 * mean, abs=1e-3)
    assert other_std == pytest.approx(20 * std, rel=1e-3)
    density = model.posterior(TIME).log_prob(torch.as_tensor(WAVE)[:, None])
    other = scaled.posterior(1e6 + 100 * TIME).log_prob(torch.as_tensor(500 + 20 * WAVE)[:, None])
    torch.testing.assert_close(other, density - np.log(20), rtol=1e-3, atol=1e-3)


def test_the_same_seed_gives_the_same_bits_and_another_does_not() -> None:
    first, again, other = (
        quick(model="dlfm", n_steps=2, random_state=seed).fit(TIME, WAVE).predict(TIME)
        for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_ensemble_compares_its_candidates_and_reports() -> None:
    model = DeepLFMRegressor("ensemble", n_steps=2).fit(TIME, WAVE)
    tried = model.fit_result_.held_out_mnll.keys() | model.fit_result_.failed.keys()
    assert tried == {*SERIES, "autoregression", "linear autoregression"}
    assert sum(weight[0] for weight in model.fit_result_.weight.values()) == pytest.approx(1)
    assert np.isfinite(model.predict(np.linspace(-5, 20, 11))).all()
    assert model.posterior(TIME).sample(3, seed=1).shape == (3, 90, 1)


@pytest.mark.parametrize("declared", ["ensemble", Paper(n_features=10)])
def test_tables_with_several_inputs_and_gaps(declared: object) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3))
    y = np.stack([x[:, 0] * x[:, 1], x.sum(1)], axis=1)
    y[::7, 1] = np.nan
    model = DeepLFMRegressor(declared, n_steps=3).fit(x, y)
    assert model.predict(x).shape == (120, 2)
    assert np.isfinite(model.predict(x)).all()


def test_a_table_is_learned() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    y = np.sin(x[:, 0]) + x[:, 1]
    model = DeepLFMRegressor(n_steps=100).fit(x[:200], y[:200])
    assert model.score(x[200:], y[200:]) > 0.9


def test_weights_of_rows_count() -> None:
    double = np.r_[TIME, TIME], np.r_[WAVE, WAVE + 1]
    weight = np.r_[np.ones(90), np.full(90, 1e-9)]
    model = quick(is_series=True).fit(*double, sample_weight=weight)
    assert model.predict(TIME) == pytest.approx(WAVE, abs=0.25)
    without = quick(is_series=True).fit(*double, sample_weight=np.r_[np.ones(90), np.zeros(90)])
    assert np.array_equal(without.predict(TIME), quick().fit(TIME, WAVE).predict(TIME))


def test_shapes_follow_the_targets_and_parameters_survive_cloning() -> None:
    assert quick().fit(TIME, WAVE).predict(TIME).shape == (90,)
    assert quick().fit(TIME, WAVE[:, None]).predict(TIME).shape == (90, 1)
    model = quick(model=Deep((4, 2)) + Sinusoids(), dtype="float32")
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_both_dtypes_fit(dtype: str) -> None:
    model = quick(dtype=dtype).fit(TIME, WAVE)
    assert next(model.model_.parameters()).dtype == getattr(torch, dtype)
    assert model.predict(TIME) == pytest.approx(WAVE, abs=0.1)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (TIME, WAVE[:-1], "89 rows, but X has 90"),
        (np.r_[np.nan, TIME[1:]], WAVE, "1 values are NaN or infinite.*row 0"),
        (TIME, np.r_[WAVE[:-1], np.inf], "1 values are infinite.*row 89"),
        (TIME, np.full(90, np.nan), "0 known values of 90"),
        (TIME[:0], WAVE[:0], "holds no values"),
        (TIME, ["a"] * 90, "not all values are numbers"),
        (TIME[:, None, None], WAVE, "3 dimensions"),
        (TIME, None, "requires y to be passed"),
        (TIME, WAVE + 1j, "Complex data not supported"),
        (TIME.astype("datetime64[s]"), WAVE, "timestamps or durations.*DeepLFMForecaster"),
        (np.zeros((90, 0)), WAVE, r"0 feature\(s\) \(shape=\(90, 0\)\)"),
        (csr_array(TIME[:, None]), WAVE, "a sparse matrix found"),
    ],
)
def test_bad_data_are_refused_by_name(x: object, y: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        quick().fit(x, y)


def test_wrong_columns_and_weights_are_refused() -> None:
    model = quick().fit(TIME, WAVE)
    with pytest.raises(InputError, match="X has 2 features, but DeepLFMRegressor is expecting 1"):
        model.predict(np.zeros((3, 2)))
    with pytest.raises(InputError, match="one number per row"):
        quick().fit(TIME, WAVE, sample_weight=np.ones(3))
    with pytest.raises(InputError, match="smallest of -1"):
        quick().fit(TIME, WAVE, sample_weight=-np.ones(90))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "luck"}, "model: 'luck' in 'luck' is no term"),
        ({"model": "ensembel"}, "Did you mean 'ensemble'"),
        ({"model": 3}, "model: 3 found. Give a sum of terms"),
        ({"model": "deep(system=ode9)"}, "system: 'ode9'"),
        ({"dtype": "int8"}, "dtype: 'int8'"),
    ],
)
def test_unknown_choices_are_refused_by_name(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        quick(**({"model": "dlfm"} | options)).fit(TIME, WAVE)


@pytest.mark.parametrize("n_rows", [3, 5, 8])
def test_very_short_series_fit(n_rows: int) -> None:
    model = DeepLFMRegressor(n_steps=2).fit(TIME[:n_rows], WAVE[:n_rows])
    assert np.isfinite(model.predict(TIME[: n_rows + 2])).all()


def test_a_constant_target_is_predicted_as_constant() -> None:
    model = quick().fit(TIME, np.full(90, 7.0))
    assert model.predict(np.array([11.0])) == pytest.approx([7.0], abs=0.05)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"random_state": None}, "random_state: None"),
        ({"model": "deep(n_features=0)"}, "deep: n_features is 0"),
        ({"model": "deep(n_forces=1.5)"}, "deep: n_forces is 1.5"),
        ({"model": "paper(hidden=wide)"}, "paper: hidden is 'wide'"),
        ({"model": "deep(0)"}, r"deep: hidden is \(0,\)"),
        ({"n_steps": -1}, "n_steps: -1"),
        ({"batch_size": 0}, "batch_size: 0"),
        ({"batch_size": 1e3}, "batch_size: 1000.0"),
        ({"device": "nowhere"}, "device: 'nowhere' is not available"),
    ],
)
def test_meaningless_settings_are_refused_by_name(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        quick(**options).fit(TIME, WAVE)


def test_the_order_of_the_rows_does_not_matter() -> None:
    order = np.random.default_rng(0).permutation(90)
    for model in ("sinusoids + broadband", "deep + broadband", "composition"):
        straight, mixed = quick(model=model, n_steps=2), quick(model=model, n_steps=2)
        straight.fit(TIME, WAVE)
        mixed.set_params(is_series=True).fit(TIME[order], WAVE[order])
        assert np.array_equal(straight.predict(TIME), mixed.predict(TIME))


@pytest.mark.parametrize(
    "declared", ["sinusoids + broadband", "deep + broadband", "dlfm", "composition"]
)
def test_an_output_known_only_at_the_end_does_not_stop_the_others(declared: str) -> None:
    values = np.stack([WAVE, WAVE], axis=1)
    values[:80, 1] = np.nan
    model = quick(model=declared, n_steps=2).fit(TIME, values)
    assert np.isfinite(model.predict(TIME)).all()


def test_a_trend_goes_on() -> None:
    later = np.linspace(10, 13, 20)
    trend = quick(model="trend + sinusoids + broadband", n_steps=40)
    model = trend.fit(TIME, 3 * TIME + WAVE)
    assert model.predict(later) == pytest.approx(3 * later + np.sin(3 * later), abs=1.0)


def test_tables_have_candidates_of_their_own() -> None:
    x = np.random.default_rng(0).normal(size=(80, 2))
    model = DeepLFMRegressor(model="ensemble", n_steps=3).fit(x, x.sum(1))
    assert set(model.fit_result_.held_out_mnll) == {
        "deep",
        "nearest-neighbour GP",
        "mixture density",
    }


def test_a_time_limit_is_recorded_and_saved(tmp_path: Path) -> None:
    model = quick(time_limit=0.0, n_steps=1000).fit(TIME, WAVE)
    assert len(model.fit_result_.histories["sinusoids + broadband"].loss) == 1
    assert model.fit_result_.histories["sinusoids + broadband"].stopped == "time"
    model.save(tmp_path / "model")
    assert DeepLFMRegressor.load(tmp_path / "model").fit_result_ == model.fit_result_


def test_a_selection_without_time_reports_the_untried_candidates(tmp_path: Path) -> None:
    model = DeepLFMRegressor("ensemble", time_limit=0.0, n_steps=1000, progress=False)
    with pytest.warns(
        UserWarning,
        match=r"time_limit=0.0 left no time to try .*, linear autoregression\. Give more",
    ):
        model.fit(TIME, WAVE)
    assert model.fit_result_.names == ["sinusoids"]
    assert {"season", "deep", "linear autoregression"} <= set(model.fit_result_.untried)
    assert not model.fit_result_.interrupted
    later = np.linspace(10, 14, 50)
    assert model.predict(later) == pytest.approx(np.sin(3 * later), abs=0.2)
    model.save(tmp_path / "model")
    assert DeepLFMRegressor.load(tmp_path / "model").fit_result_ == model.fit_result_


def test_with_time_enough_a_limit_changes_nothing() -> None:
    options = {"model": "ensemble", "n_steps": 2, "progress": False}
    free, limited = (quick(time_limit=t, **options).fit(TIME, WAVE) for t in (None, 1e4))
    assert limited.fit_result_.untried == [] and limited.fit_result_.names == free.fit_result_.names
    assert (limited.predict(TIME) == free.predict(TIME)).all()


def test_many_rows_are_predicted_some_at_a_time() -> None:
    model, many = quick(model="dlfm", n_steps=1).fit(TIME, WAVE), np.linspace(0, 20, 4500)
    posterior = model.posterior(many)
    mean, std = model.predict(many, return_std=True)
    low, high = model.predict_interval(many)
    assert mean == pytest.approx(posterior.mean[:, 0].numpy(), rel=1e-10, abs=1e-10)
    assert std == pytest.approx(posterior.std()[:, 0].numpy(), rel=1e-10)
    for end, expected in zip((low, high), posterior.interval(), strict=True):
        assert end == pytest.approx(expected[:, 0].numpy(), rel=1e-9, abs=1e-9)


def test_the_size_of_batches_can_be_chosen() -> None:
    x = np.random.default_rng(0).normal(size=(80, 2))
    small, own = (
        DeepLFMRegressor(n_steps=3, model="table", batch_size=size).fit(x, x.sum(1))
        for size in (10, None)
    )
    assert small.fit_result_.histories["table"].loss != own.fit_result_.histories["table"].loss


def test_targets_may_be_vectors_or_arrays_and_must_fit() -> None:
    posterior = quick().fit(TIME, WAVE).posterior(TIME)
    column = posterior.log_prob(torch.as_tensor(WAVE)[:, None])
    assert torch.equal(posterior.log_prob(WAVE), column)
    with pytest.raises(InputError, match=r"shape \(89, 1\)"):
        posterior.crps(WAVE[:-1])


def test_values_of_no_kind_of_number_are_a_type_error_too() -> None:
    with pytest.raises(TypeError, match="not all values are numbers"):
        quick().fit([{"a": 1}] * 90, WAVE)


@pytest.fixture(scope="module")
def pair() -> DeepLFMRegressor:
    return quick(n_steps=1).fit(TIME, np.stack([WAVE, np.cos(TIME)], axis=1))


def test_the_score_is_r2_over_the_known_targets(pair: DeepLFMRegressor) -> None:
    rng = np.random.default_rng(0)
    targets = np.stack([WAVE, np.cos(TIME)], axis=1) + rng.normal(size=(90, 2))
    mean, weight = pair.predict(TIME), rng.uniform(size=90)
    assert pair.score(TIME, targets) == pytest.approx(r2_score(targets, mean))
    weighted = r2_score(targets, mean, sample_weight=weight)
    assert pair.score(TIME, targets, weight) == pytest.approx(weighted)
    gaps = targets.copy()
    gaps[::3, 0] = gaps[50:, 1] = np.nan
    by_output = [
        r2_score(targets[known, d], mean[known, d]) for d, known in enumerate((~np.isnan(gaps)).T)
    ]
    assert by_output[0] != pytest.approx(by_output[1], abs=0.01)
    assert pair.score(TIME, gaps) == pytest.approx(np.mean(by_output))


def test_only_the_targets_of_the_fit_have_a_score(pair: DeepLFMRegressor) -> None:
    with pytest.raises(InputError, match="1 columns, but the model was fitted on 2"):
        pair.score(TIME, WAVE)
    with pytest.raises(InputError, match="column 1 has 0 known values"):
        pair.score(TIME, np.stack([WAVE, np.full(90, np.nan)], axis=1))


def test_missing_targets_are_filled_by_what_is_around_them() -> None:
    gaps = WAVE.copy()
    gaps[30:40] = np.nan
    model = quick().fit(TIME, gaps)
    assert model.predict(TIME[30:40]) == pytest.approx(WAVE[30:40], abs=0.1)
    without = quick().fit(np.delete(TIME, np.s_[30:40]), np.delete(WAVE, np.s_[30:40]))
    # rows without a target say nothing, but count among those that are held out
    assert model.predict(TIME) == pytest.approx(without.predict(TIME), abs=0.05)


def test_a_history_has_every_step_of_every_member() -> None:
    model = quick(n_steps=4).fit(TIME, WAVE)
    assert model.history_["step"].tolist() == [1, 2, 3, 4]
    assert set(model.history_["candidate"]) == {"sinusoids + broadband"}
    assert (
        model.history_["loss"].tolist() == model.fit_result_.histories["sinusoids + broadband"].loss
    )
