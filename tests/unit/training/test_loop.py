"""The training loop: reproducible, honest about why it stopped, and clear when it fails."""

import copy
import math

import pytest
import torch

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.errors import ConfigError, TrainingDivergedError
from deeplfm.model import DeepLFM
from deeplfm.objective import Batch, collapsed, elbo
from deeplfm.predictive.mixture import mnll
from deeplfm.randomness import generator_for, numpy_for, seed_for
from deeplfm.training import ROLES, Phase, Rows, Schedule, loop, train
from deeplfm.training.divergence import diverged
from deeplfm.training.interruption import within
from deeplfm.training.schedule import role_of


def make(weights="mean-field", hidden=True, seed=0, dtype=torch.float64, **block):
    block = BlockConfig(n_features=5, **block)
    layers = [LayerConfig(2, (block,))] if hidden else []
    layers.append(LayerConfig(2, (block,), weights=weights, own_features=True))
    return DeepLFM(ModelConfig(1, tuple(layers), n_samples=3, n_paths=5), seed=seed).to(dtype)


def data(n=30, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.linspace(0, 3, n, dtype=torch.float64)[:, None]
    y = torch.cat([torch.sin(2 * x), torch.cos(x)], 1)
    y = y + 0.1 * torch.randn(y.shape, generator=generator, dtype=torch.float64)
    return Rows(x.to(dtype), y.to(dtype))


def snapshot(model):
    return {name: item.clone() for name, item in model.state_dict().items()}


def same(left, right):
    return all(torch.equal(left[name], right[name]) for name in left)


def steps(n, **kind):
    return Schedule(phases=(Phase(n),), **kind)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("weights", "objective"),
    [("mean-field", "elbo"), ("full", "predictive"), ("exact", "collapsed")],
)
def test_training_raises_the_objective(dtype, weights, objective):
    model = make(weights, dtype=dtype)
    history = train(model, data(dtype=dtype), steps(40, objective=objective, batch_size=None))
    assert len(history.loss) == 40
    assert sum(history.loss[-5:]) < sum(history.loss[:5])
    assert history.stopped == "steps"
    assert model.posterior(data(dtype=dtype).x).std().isfinite().all()


@pytest.mark.parametrize(
    ("weights", "objective"),
    [("mean-field", "elbo"), ("full", "predictive"), ("exact", "collapsed")],
)
@pytest.mark.parametrize("frequencies", ["var-fixed", "var-resampled"])
def test_same_seed_gives_the_same_bits(weights, objective, frequencies):
    schedule = steps(12, objective=objective, batch_size=7)
    states, losses = [], []
    for run in range(3):
        model = make(weights, frequencies=frequencies)
        torch.manual_seed(run)  # the global stream has no effect
        history = train(model, data(), schedule, seed=run // 2)
        states.append(snapshot(model))
        losses.append(history.loss)
    assert same(states[0], states[1])
    assert losses[0] == losses[1]
    assert not same(states[0], states[2])


def test_seed_of_the_model_decides_its_fixed_noise():
    assert same(snapshot(make(seed=1)), snapshot(make(seed=1)))
    assert not same(snapshot(make(seed=1)), snapshot(make(seed=2)))


def test_streams_of_noise_are_unrelated():
    seeds = {
        seed_for(seed, stream, index)
        for seed in range(3)
        for stream in ("model", "step", "epoch", "split", "start", "prediction")
        for index in range(10)
    }
    assert len(seeds) == 3 * 6 * 10
    assert torch.equal(
        torch.rand(3, generator=generator_for(1, "step", 2)),
        torch.rand(3, generator=generator_for(1, "step", 2)),
    )
    assert numpy_for(1, "split").random() == numpy_for(1, "split").random()


def test_every_row_is_visited_once_in_an_epoch(monkeypatch):
    seen = []

    def spy(model, batch, n_samples, generator):
        seen.append(batch.x[:, 0])
        assert batch.n_rows == 30
        return elbo(model, batch, n_samples, generator)

    def found(name, natural_rate, total):
        assert (name, natural_rate) == ("elbo", 0.1)
        return spy

    monkeypatch.setattr(loop, "objective", found)
    rows = data()
    train(make(), rows, steps(10, batch_size=7))
    assert [len(batch) for batch in seen] == [6] * 10
    epochs = [torch.cat(seen[:5]), torch.cat(seen[5:])]
    for epoch in epochs:
        assert torch.equal(epoch.sort().values, rows.x[:, 0])
    assert not torch.equal(*epochs)


def test_roles_follow_the_place_of_a_parameter():
    model = make(frequencies="var-fixed")
    roles = {role: set() for role in ROLES}
    for name, _ in model.named_parameters():
        roles[role_of(name)].add(name.rsplit(".", 1)[-1])
    assert roles["weights"] == {"mean", "log_std"}
    assert roles["frequencies"] == {"mean", "log_std"}
    assert {"log_decay", "log_lengthscale"} <= roles["hyperparameters"]
    assert roles["noise"] == {"log_variance"}


@pytest.mark.parametrize("role", ROLES)
def test_a_phase_moves_only_its_roles(role):
    model = make(frequencies="var-fixed")
    before = snapshot(model)
    train(model, data(), Schedule(phases=(Phase(3, (role,)),)))
    after = snapshot(model)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and parameter.numel():
            assert torch.equal(before[name], after[name]) == (role_of(name) != role), name
        else:
            assert torch.equal(before[name], after[name]), name


def test_phases_run_one_after_the_other():
    model = make(frequencies="var-fixed")
    before = snapshot(model)
    phases = (Phase(2, ("weights",)), Phase(0), Phase(3, ("weights", "frequencies")))
    history = train(model, data(), Schedule(phases=phases))
    assert len(history.loss) == Schedule(phases=phases).n_steps == 5
    moved = {
        role_of(name)
        for name, _ in model.named_parameters()
        if not torch.equal(before[name], model.state_dict()[name])
    }
    assert moved == {"weights", "frequencies"}


def test_a_phase_has_its_own_number_of_samples(monkeypatch):
    seen = []

    def spy(model, batch, n_samples, generator):
        seen.append(n_samples)
        return elbo(model, batch, n_samples, generator)

    monkeypatch.setattr(loop, "objective", lambda *_: spy)
    phases = (Phase(2, n_samples=1), Phase(1), Phase(1, n_samples=5))
    train(make(), data(), Schedule(phases=phases, n_samples=3))
    assert seen == [1, 1, 3, 5]


def test_phases_of_the_same_roles_are_one_run_of_the_optimiser():
    """A phase that changes only the number of samples must not lose the moments of AdamW."""
    kind = {"n_samples": 2, "batch_size": None}
    one, two, other = make(), make(), make()
    train(one, data(), Schedule(phases=(Phase(6),), **kind))
    train(two, data(), Schedule(phases=(Phase(3), Phase(0, ("weights",)), Phase(3)), **kind))
    train(other, data(), Schedule(phases=(Phase(3, ROLES[::-1]), Phase(3)), **kind))
    for name, value in snapshot(one).items():
        assert torch.equal(value, snapshot(two)[name]), name
        assert torch.equal(value, snapshot(other)[name]), name


def test_half_the_rate_of_log_std_takes_the_steps_of_log_variance():
    single = torch.nn.ParameterDict({"log_std": torch.tensor(0.7)})
    doubled = torch.nn.Parameter(torch.tensor(1.4))  # log variance
    schedule = Schedule(weight_decay=0.3, std_rate=0.5)
    run = loop._Run.__new__(loop._Run)
    run.model, run.schedule, run.roles = single, schedule, None
    ours = run._optimiser(("hyperparameters",))
    theirs = torch.optim.AdamW([doubled], lr=schedule.learning_rate, weight_decay=0.3)
    for _ in range(20):
        for optimiser, log_variance in ((ours, 2 * single["log_std"]), (theirs, doubled)):
            loss = log_variance.exp() + 1.5 * log_variance
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    torch.testing.assert_close(2 * single["log_std"], doubled)


@pytest.mark.parametrize(
    "bad",
    [
        {"phases": (Phase(1, ("biases",)),)},
        {"phases": (Phase(-1),)},
        {"batch_size": 0},
    ],
)
def test_bad_schedules_are_refused(bad):
    with pytest.raises(ConfigError):
        Schedule(**bad)


def test_unknown_objective_is_refused_with_the_choices():
    with pytest.raises(ConfigError, match="elbo, predictive, sampled-predictive, collapsed"):
        train(make(), data(), steps(1, objective="evidence"))


def test_collapsed_without_exact_weights_is_refused():
    with pytest.raises(ConfigError, match="weights='exact'"):
        train(make("full"), data(), steps(1, objective="collapsed"))


@pytest.mark.parametrize("validation", [None, data(10, seed=1)])
def test_patience_ends_on_a_plateau(validation):
    schedule = steps(200, learning_rate=0.0, patience=20, validate_every=5)
    history = train(make(hidden=False), data(), schedule, validation=validation)
    assert history.stopped == "plateau"
    assert 20 <= len(history.loss) < 60


def test_time_limit_is_recorded():
    with within(-1):
        history = train(make(), data(), steps(50))
    assert history.stopped == "time"
    assert len(history.loss) == 1
    assert history.seconds > 0


@pytest.mark.parametrize(("weights", "objective"), [("mean-field", "elbo"), ("exact", "collapsed")])
def test_validation_ends_at_the_best_parameters(weights, objective):
    model, rows = make(weights), data()
    with torch.no_grad():
        model.likelihood.log_variance.zero_()
    validation = Rows(rows.x, -rows.y)  # the surer the model of its rows, the worse it is here
    schedule = steps(23, objective=objective, learning_rate=0.1, validate_every=5)
    history = train(model, rows, schedule, validation=validation)
    scores = [item["mnll"] for item in history.validation]
    assert [item["step"] for item in history.validation] == [5, 10, 15, 20, 23]
    assert scores[-1] > min(scores)
    score = mnll(model.posterior(validation.x), validation.y).mean().item()
    assert score == pytest.approx(min(scores), rel=1e-12)


@pytest.mark.parametrize(("weights", "objective"), [("mean-field", "elbo"), ("exact", "collapsed")])
@pytest.mark.parametrize("batch_size", [None, 7])
def test_looking_at_validation_rows_does_not_disturb_training(weights, objective, batch_size):
    schedule = steps(12, objective=objective, batch_size=batch_size, validate_every=4)
    losses = [
        train(make(weights), data(), schedule, validation=validation).loss
        for validation in (None, data(20, seed=1))
    ]
    assert losses[0] == losses[1]


def test_validation_scores_the_outputs_it_has():
    y = data(20, seed=1).y.clone()
    y[:, 1] = torch.nan
    validation = Rows(data(20).x, y)
    model = make()
    schedule = steps(20, validate_every=5, learning_rate=0.5)
    history = train(model, data(), schedule, validation=validation)
    scores = [item["mnll"] for item in history.validation]
    assert all(math.isfinite(score) for score in scores)
    score = mnll(model.posterior(validation.x), y)[0].item()
    assert score == pytest.approx(min(scores), rel=1e-12)


@pytest.mark.parametrize(
    ("weights", "objective"),
    [("mean-field", "elbo"), ("full", "predictive"), ("exact", "collapsed")],
)
def test_an_output_that_is_wholly_missing_does_no_harm(weights, objective):
    rows = data()
    y = rows.y.clone()
    y[:15, 0] = torch.nan
    y[:, 1] = torch.nan
    model = make(weights)
    history = train(model, Rows(rows.x, y), steps(8, objective=objective, batch_size=6))
    assert all(math.isfinite(value) for value in history.loss)
    assert all(p.isfinite().all() for p in model.parameters())
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    assert model.posterior(rows.x).std().isfinite().all()


def test_missing_targets_have_no_effect():
    """The value in place of a missing one does not change any gradient."""
    rows, gradients = data(), []
    y = rows.y.clone()
    y[::3, 0] = torch.nan
    for objective in (elbo, collapsed):
        model = make("exact" if objective is collapsed else "mean-field")
        value = objective(model, Batch(rows.x, y, 30), 3, torch.Generator().manual_seed(0))
        kept = Batch(rows.x, y.nan_to_num(1e6), 30)
        assert value.isfinite()
        assert value.item() > objective(copy.deepcopy(model), kept, 3).item()
        parameters = [p for p in model.parameters() if p.requires_grad]
        gradients += torch.autograd.grad(value, parameters, allow_unused=True)
    assert all(g.isfinite().all() for g in gradients if g is not None)


@pytest.mark.parametrize("objective", [elbo, collapsed])
def test_integer_row_weights_are_repeated_rows(objective):
    rows = data(12)
    y = rows.y.clone()
    y[2:5, 0] = torch.nan
    count = torch.arange(12) % 4  # some rows not at all
    repeated = rows.x.repeat_interleave(count, 0), y.repeat_interleave(count, 0)
    models = [make("exact", hidden=False) for _ in range(2)]
    models[0].condition(rows.x, y, count.double())
    models[1].condition(*repeated)
    left, right = (model.exact_weights for model in models)
    torch.testing.assert_close(left.mean, right.mean, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(left.root, right.root, rtol=1e-8, atol=1e-10)
    found = objective(models[0], Batch(rows.x, y, 12, count.double()), 1)
    expected = objective(models[1], Batch(*repeated, len(repeated[0])), 1)
    assert found.item() == pytest.approx(expected.item(), rel=1e-8)


def test_training_uses_row_weights():
    rows, count = data(12), torch.arange(12).double()
    models = [make("exact", hidden=False) for _ in range(2)]
    schedule = steps(5, objective="collapsed")
    train(models[0], Rows(rows.x, rows.y, count), schedule)
    assert not same(snapshot(models[0]), snapshot(models[1]))
    state = copy.deepcopy(models[0].state_dict())
    models[1].load_state_dict(state)
    models[1].condition(rows.x, rows.y, count)
    assert same(state, models[1].state_dict())


@pytest.mark.parametrize("layer", [0, 1])
def test_overflow_names_the_layer_and_the_number(layer):
    model = make(dtype=torch.float32, frequencies="prior-fixed")
    with torch.no_grad():
        model.layers[layer].blocks[0].features.log_decay.fill_(math.log(100.0))
        model.layers[0].weights.mean.zero_()
        model.layers[0].weights.log_std.fill_(-20.0)  # hidden values are 0
    x = torch.full((4, 1), -1.25)
    with pytest.raises(TrainingDivergedError) as caught:
        train(model, Rows(x, torch.zeros(4, 2)), steps(3))
    message = str(caught.value)
    assert "at step 1" in message
    assert f"layer {layer}: decay" in message
    assert "|input| = 125" in message
    assert "float32 overflows at 89" in message
    assert 'dtype="float64"' in message


def test_what_overflows_float32_may_be_fine_in_float64():
    model = make(hidden=False)
    with torch.no_grad():
        model.layers[0].blocks[0].features.log_decay.fill_(math.log(100.0))
    x = torch.full((4, 1), -1.25, dtype=torch.float64)
    history = train(model, Rows(x, torch.zeros(4, 2, dtype=torch.float64)), steps(1))
    assert math.isfinite(history.loss[0])


@pytest.mark.parametrize(
    ("lower_limit", "x", "overflows"),
    [
        (0.0, -1.25, True),
        (-2.0, -1.25, False),
        (-math.inf, -1.25, False),
        (2.0, 1.0, True),
    ],
)
def test_overflow_is_measured_from_the_lower_limit(lower_limit, x, overflows):
    model = make(hidden=False, dtype=torch.float32, options={"lower_limit": lower_limit})
    with torch.no_grad():
        model.layers[0].blocks[0].features.log_decay.fill_(math.log(100.0))
    x = torch.full((4, 1), x)
    finite = all(family.isfinite().all() for family in model.features(x, 1).whole())
    assert finite is not overflows
    assert ("overflows" in str(diverged(model, x, 1, math.nan))) is overflows


def test_parameter_that_is_not_finite_is_named():
    model = make(hidden=False)
    with torch.no_grad():
        model.likelihood.log_variance[1] = torch.nan
    with pytest.raises(TrainingDivergedError, match=r"NaN.*likelihood\.log_variance is not finite"):
        train(model, data(), steps(1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("frequencies", ["var-fixed", "var-resampled"])
def test_prediction_is_a_fixed_function_of_each_row(dtype, frequencies):
    model = make("exact", dtype=dtype, frequencies=frequencies)
    train(model, data(dtype=dtype), steps(5, objective="collapsed"))
    before = snapshot(model)
    x = torch.linspace(0, 4, 1100).to(dtype)[:, None]  # more rows than one block of rows
    posterior = model.posterior(x)
    size = 1e-10 if dtype == torch.float64 else 1e-3
    tolerance = {"rtol": size, "atol": size}
    for rows in (slice(7, 8), slice(500, 520), slice(1099, 1100)):
        part = model.posterior(x[rows])
        torch.testing.assert_close(part.mean, posterior.mean[rows], **tolerance)
        torch.testing.assert_close(part.std(), posterior.std()[rows], **tolerance)
        torch.testing.assert_close(
            part.sample(3, latent=True), posterior.sample(3, latent=True)[:, rows], **tolerance
        )
    torch.manual_seed(1)
    again = model.posterior(x)
    assert torch.equal(posterior.mean, again.mean)
    assert torch.equal(posterior.std(), again.std())
    assert torch.equal(posterior.sample(3), again.sample(3))
    assert same(before, model.state_dict())
    assert posterior.std().isfinite().all()


def test_prediction_leaves_the_global_stream_alone():
    state = torch.get_rng_state()
    make().posterior(data().x).sample(3)
    assert torch.equal(state, torch.get_rng_state())


def test_hyperparameters_of_exact_weights_learn_the_noise():
    rows = data(200)
    model = make("exact", hidden=False, frequencies="prior-fixed", extras=("constant", "trend"))
    train(model, rows, steps(150, objective="collapsed", batch_size=None, learning_rate=0.05))
    noise = model.likelihood.log_variance.detach().exp().sqrt()
    torch.testing.assert_close(noise, torch.full_like(noise, 0.1), rtol=0.25, atol=0)


def test_exact_weights_cannot_be_trained_by_another_objective():
    block = BlockConfig("eq", n_features=3)
    layer = LayerConfig(1, (block,), "exact")
    model = DeepLFM(ModelConfig(1, (layer,), n_samples=1, n_paths=1))
    rows = Rows(torch.linspace(0, 1, 5)[:, None], torch.zeros(5, 1))
    with pytest.raises(ConfigError, match="would leave exact weights at their prior"):
        train(model, rows, Schedule("elbo", (Phase(1),)))


def test_a_step_into_nowhere_is_named():
    block = BlockConfig("eq", n_features=3)
    model = DeepLFM(ModelConfig(1, (LayerConfig(1, (block,), "exact"),), n_samples=1, n_paths=1))
    rows = Rows(torch.linspace(0, 1, 5)[:, None], torch.randn(5, 1))
    with pytest.raises(TrainingDivergedError, match="at step"):
        train(model, rows, Schedule("collapsed", (Phase(9),), learning_rate=1e4))
