"""A periodic force that all outputs answer, beside what each has of its own."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from deeplfm import ConfigError, DeepLFMRegressor
from deeplfm.estimators.candidates import candidates_of
from deeplfm.model import DeepLFM
from deeplfm.selection.fitting import fit_candidate
from deeplfm.terms import BroadBand, BuildContext, LocalLevel, Season, SharedSeason, Sum, Trend
from deeplfm.terms.initial import resolved_step
from deeplfm.training import Rows

TIME = np.linspace(0, 10, 300)
N_TRAIN = 220  # two rounds and a bit


def shape(time: np.ndarray) -> np.ndarray:
    phase = 2 * np.pi * time / 3.3
    return np.exp(2 * np.cos(phase)) - 2.28 + np.sin(2 * phase)


def system(noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A periodic output, and a second one driven by it, as an integrator of equations finds it."""
    solution = solve_ivp(
        lambda t, f: shape(t) - 0.5 * f, (-40, 10), [0.0], t_eval=TIME, rtol=1e-8, max_step=0.2
    )
    clean = np.stack([shape(TIME), solution.y[0]], axis=1)
    clean = clean / clean.std(0)
    return clean, clean + [0.1, noise] * np.random.default_rng(seed).normal(size=clean.shape)


def fitted(model: Sum, rows: Rows) -> DeepLFM:
    (candidate,) = candidates_of({"model": model}, BuildContext(), n_steps=None)
    return fit_candidate(candidate, rows, is_series=True, seed=0, progress=False)[0]


def rows_of(values: np.ndarray) -> Rows:
    time = torch.as_tensor(TIME[: len(values), None] / TIME[len(values) - 1])
    return Rows(time, torch.as_tensor((values - np.nanmean(values, 0)) / np.nanstd(values, 0)))


def test_a_noisy_output_has_the_shape_that_a_clear_one_drives() -> None:
    """Of one record: its output alone, with the same start, is foretold at least three times worse."""
    clean, values = system(1.0, 0)
    ahead = slice(N_TRAIN, None)
    together = DeepLFMRegressor(model="shared_season + broadband").fit(
        TIME[:N_TRAIN], values[:N_TRAIN]
    )
    single = DeepLFMRegressor(model="shared_season + broadband").fit(
        TIME[:N_TRAIN], values[:N_TRAIN, 1]
    )
    shared = np.square(together.predict(TIME[ahead])[:, 1] - clean[ahead, 1]).mean()
    alone = np.square(single.predict(TIME[ahead]).ravel() - clean[ahead, 1]).mean()
    assert shared < alone / 3


def test_the_force_is_recovered() -> None:
    _, values = system(0.1, 0)
    model = DeepLFMRegressor(model="shared_season + broadband", n_steps=20).fit(TIME, values)
    (curve,) = model.forces(TIME)  # lines and broad band of each output are no forces
    # what drives the first output is f' + γf, of the second f' + f/2: at γ = 1/2 the first itself
    first, second = model.model_.members[0].output_layer.blocks[0].features.decay[:, 0] / 10
    assert first > 10 * second
    assert abs(np.corrcoef(curve.mean, values[:, 0])[0, 1]) > 0.9


def test_each_output_depends_on_the_shared_force_and_on_its_own() -> None:
    rows = rows_of(system(0.3, 0)[1])
    model = (SharedSeason() + BroadBand()).build(rows, BuildContext())
    layer = model.output_layer
    force, lines, broad = map(layer.block, ("shared season", "season", "broadband"))
    assert model.output_layer.shared_weights
    frequency = force.frequencies(force.features, 1)[0, 0, 0].detach()
    assert frequency.numpy() == pytest.approx(
        2 * np.pi * 10 / 3.3 * np.arange(1, len(frequency) + 1), rel=0.01
    )
    assert not force.features.log_lengthscale.requires_grad
    assert (force.features.sensitivity != 0).all()
    for block in (lines, broad):
        assert (
            (block.features.sensitivity[:, 0] != 0).sum(0) == 1
        ).all()  # each line has one owner
        assert ((block.features.sensitivity[:, 0] != 0).sum(1) > 0).all()


def test_where_no_force_is_shared_outputs_have_harmonics_of_their_own() -> None:
    rows = rows_of(system(0.3, 0)[1][:, :1])
    model = (SharedSeason() + BroadBand()).build(rows, BuildContext())
    plain = (Season() + BroadBand()).build(rows, BuildContext())
    assert model.config == plain.config
    for name, tensor in plain.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor), name


def test_a_shared_season_of_another_order_is_refused() -> None:
    with pytest.raises(ConfigError, match="shared_season: system 'eq' is not of first order"):
        SharedSeason(system="eq")


def test_covariates_have_effects_of_their_own_on_each_output() -> None:
    _, values = system(0.3, 0)
    known = np.random.default_rng(1).normal(size=len(TIME))
    inputs = np.stack([TIME, known], axis=1)
    values = values + np.outer(known, [1.0, -2.0])
    model = DeepLFMRegressor(model="shared_season + broadband", is_series=True, n_steps=20).fit(
        inputs, values
    )
    (member,) = model.model_.members
    assert member.output_layer.shared_weights
    moved = inputs + np.array([0.0, 1.0])
    effect = model.predict(moved) - model.predict(inputs)
    assert effect[np.abs(known) < 0.5].mean(0) == pytest.approx([1.0, -2.0], rel=0.15)


def test_a_season_on_a_local_level() -> None:
    """Quarters of a year on a walk: the last level goes on, and the season with it."""
    ahead, errors = slice(130, None), []
    for seed in range(3, 5):
        rng = np.random.default_rng(seed)
        level = np.cumsum(0.3 * rng.normal(size=160))
        level[ahead] = level[129]  # what is to be expected
        values = level + np.tile([1.0, -0.5, -1.0, 0.5], 40) + 0.1 * rng.normal(size=160)
        values = (values - values[:130].mean()) / values[:130].std()
        time = torch.arange(160.0).double()[:, None] / 129
        rows = Rows(time[:130], torch.as_tensor(values[:130, None]))
        for rest in (LocalLevel(), BroadBand()):
            mean = fitted(Season() + rest, rows).posterior(time[ahead]).mean[:, 0].numpy()
            errors.append(np.square(mean - values[ahead]).mean())
    on_a_walk, without = np.reshape(errors, (2, 2)).mean(0)
    assert on_a_walk < min(0.3, without / 3)


def test_a_random_walk_with_drift_continues_to_drift() -> None:
    """A level that wanders and grows. Of seeds 0 to 11 nine show it by themselves, these two too."""
    ahead, errors = slice(130, None), []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        level = 0.25 * np.arange(160) + np.cumsum(0.3 * rng.normal(size=160))
        level[ahead] = level[129] + 0.25 * np.arange(1, 31)  # what is to be expected
        values = level + np.tile([1.0, -0.5, -1.0, 0.5], 40)
        values = (values - values[:130].mean()) / values[:130].std()
        time = torch.arange(160.0).double()[:, None] / 129
        rows = Rows(time[:130], torch.as_tensor(values[:130, None]))
        for model in (
            Trend() + Season() + LocalLevel(),
            Trend() + Season() + BroadBand(),
            Season() + LocalLevel(),
        ):
            mean = fitted(model, rows).posterior(time[ahead]).mean[:, 0].numpy()
            errors.append(np.square(mean - values[ahead]).mean())
    both, trend, walk = np.reshape(errors, (2, 3)).mean(0)
    assert both < min(0.03, trend / 2, walk / 2), (both, trend, walk)


def test_a_damped_local_trend_continues_for_a_while() -> None:
    """A mass pushed along by white noise, with friction: ahead of the rows it is expected to slow down.

    Of ten seeds seven show it, and their mean error is 0.21 against 0.80.
    """
    n_known, decay, errors = 130, 0.1, []
    for seed in range(3, 6):
        speed = np.zeros(160)
        push = np.random.default_rng(seed).normal(size=n_known)
        for n in range(1, 160):
            speed[n] = (1 - decay) * speed[n - 1] + (push[n] if n < n_known else 0.0)
        values = np.cumsum(speed)
        values = (values - values[:n_known].mean()) / values[:n_known].std()
        time = torch.arange(160.0).double()[:, None] / (n_known - 1)
        rows = Rows(time[:n_known], torch.as_tensor(values[:n_known, None]))
        for damped in (True, False):
            mean = (
                fitted(Trend() + Season() + LocalLevel(damped), rows)
                .posterior(time[n_known:])
                .mean[:, 0]
                .numpy()
            )
            errors.append(np.square(mean - values[n_known:]).mean())
    smooth, rough = np.reshape(errors, (3, 2)).mean(0)
    assert smooth < rough / 2, (smooth, rough)


def test_days_of_a_week_differ_a_week_ahead() -> None:
    """Working days and two others, for three weeks; the first 20 harmonics of a week err by 0.024."""
    steps = np.arange(4 * 7 * 24)
    is_work = steps // 24 % 7 < 5
    day = np.maximum(0, np.sin(2 * np.pi * (steps % 24 - 6) / 24)) ** 2
    values = np.where(is_work, day, 0.3 * day) + 0.02 * np.random.default_rng(0).normal(
        size=len(steps)
    )
    time, known = torch.as_tensor(steps[:, None] / 503.0), slice(0, 504)
    values = (values - values[known].mean()) / values[known].std()
    rows = Rows(time[known], torch.as_tensor(values[known, None]))
    error = (
        fitted(SharedSeason() + BroadBand(), rows).posterior(time[504:]).mean[:, 0].numpy()
        - values[504:]
    )
    assert np.square(error).mean() < 0.012


def test_uneven_times_resolve_harmonics_beyond_half_of_their_rate() -> None:
    """A variable star of 3.7 days seen on 180 nights: its second harmonic is beyond half a night."""
    rng = np.random.default_rng(1)
    time = np.sort(np.concatenate([rng.uniform(a, a + 90, 60) for a in (0, 365, 730)]))
    wave = 2 * np.pi * time / 3.7
    value = 0.25 * np.sin(wave) + 0.1 * np.sin(2 * wave + 0.7) + 0.02 * rng.normal(size=180)
    model = DeepLFMRegressor("season + reversion", random_state=0).fit(time[:140], value[:140])
    error = value[140:] - model.predict(time[140:])
    assert error.std() < 0.04
    assert resolved_step(np.arange(50.0)) == 1.0
