"""What every feature map promises, checked for each registered system."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from deeplfm.errors import ConfigError
from deeplfm.features import SYSTEMS, FeatureMap, FirstOrder, Response, feature_map, register
from deeplfm.variational import Frequencies

N_ROWS, N_SAMPLES = 5, 3
N_INPUTS, N_FORCES, N_FEATURES, N_GROUPS = 2, 3, 4, 2


class ThirdOrder(Response):
    """A system from outside the package, of nothing but its polynomial: (D + γ)(D² + 0.02γD + γ²)."""

    n_states = 3

    def __init__(self, *sizes: int, **options: Any) -> None:
        super().__init__(*sizes, **options)
        self.log_decay = torch.nn.Parameter(torch.zeros(self.n_groups, self.n_inputs))

    @property
    def polynomial(self) -> Tensor:
        decay = self.log_decay.exp()
        return torch.stack([1.02 * decay, 1.02 * decay**2, decay**3], -1)

    @torch.no_grad()
    def set_bandwidth(self, width: float | Tensor) -> None:
        self.log_decay.copy_(torch.as_tensor(width).log())


ALL: dict[str, type[FeatureMap]] = {**SYSTEMS, "of third order": ThirdOrder}
every_system = pytest.mark.parametrize("system", ALL)
RESPONSES = [name for name, system in ALL.items() if system.has_force]
PLAIN = [name for name in ALL if name not in RESPONSES]
SMOOTH = [name for name in ALL if name != "arc0"]  # a step tells nothing to ℓ, Ω and x


def make(
    system: str,
    n_inputs: int = N_INPUTS,
    n_forces: int = N_FORCES,
    n_features: int = N_FEATURES,
    n_groups: int = N_GROUPS,
    seed: int = 0,
    **options: Any,
) -> FeatureMap:
    """A map in float64 whose parameters are all different."""
    generator = torch.Generator().manual_seed(seed)
    features = ALL[system](n_inputs, n_forces, n_features, n_groups, **options)
    for parameter in features.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
    return features.double()


def normal(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def draw(features: FeatureMap, *samples: int) -> tuple[Tensor, Tensor]:
    """Frequencies from the prior and weights that tell the features apart."""
    mean, std = features.frequency_prior()
    frequency = mean + std * normal(*samples, *features.frequency_shape, seed=2)
    return frequency.detach(), torch.linspace(0.5, 1.5, features.n_features, dtype=torch.float64)


def frequencies_of(features: FeatureMap, strategy: str) -> Frequencies:
    generator = torch.Generator().manual_seed(3)
    return Frequencies(features, strategy, generator=generator).to(features.center.dtype)


def extras_of(system: str) -> tuple[str, ...]:
    """All extra columns that make sense for a system."""
    return ("constant", "trend", "initial_state") if system in RESPONSES else ("constant", "trend")


# --- shapes ---------------------------------------------------------------------------------------


@every_system
@pytest.mark.parametrize("shared_forces", [False, True], ids=["own forces", "shared forces"])
@pytest.mark.parametrize("frequency_samples", [(), (N_SAMPLES,)], ids=["one Ω", "sampled Ω"])
@pytest.mark.parametrize("input_samples", [(), (N_SAMPLES,)], ids=["one x", "sampled x"])
@pytest.mark.parametrize(
    ("n_inputs", "n_forces", "n_features", "n_groups"), [(1, 1, 1, 1), (2, 3, 4, 5), (4, 1, 2, 3)]
)
def test_shape(
    system: str,
    n_inputs: int,
    n_forces: int,
    n_features: int,
    n_groups: int,
    input_samples: tuple[int, ...],
    frequency_samples: tuple[int, ...],
    shared_forces: bool,
) -> None:
    extras = extras_of(system)
    features = make(
        system, n_inputs, n_forces, n_features, n_groups, extras=extras, shared_forces=shared_forces
    )
    x = normal(*input_samples, N_ROWS, n_inputs)
    columns = features(x, *draw(features, *frequency_samples))
    samples = input_samples or frequency_samples
    assert columns.shape == (*samples, n_groups, N_ROWS, features.n_columns)
    waves = features.columns_per_frequency * n_forces * n_features
    assert features.n_columns == waves + 1 + (1 + features.n_states) * n_inputs
    assert features.frequency_shape[1:] == (n_inputs, n_forces, n_features)


# --- independence ---------------------------------------------------------------------------------


@every_system
def test_rows_are_independent(system: str) -> None:
    features = make(system, extras=extras_of(system))
    drawn = draw(features)
    x = normal(N_ROWS, N_INPUTS)
    x[0] = 0.0
    together = features(x, *drawn)
    for row in range(N_ROWS):
        alone = features(x[row : row + 1], *drawn)
        torch.testing.assert_close(alone[:, 0], together[:, row], rtol=1e-13, atol=1e-14)


@every_system
def test_samples_are_independent(system: str) -> None:
    features = make(system, extras=extras_of(system))
    x = normal(N_SAMPLES, N_ROWS, N_INPUTS)
    frequency, weight = draw(features, N_SAMPLES)
    together = features(x, frequency, weight)
    for sample in range(N_SAMPLES):
        alone = features(x[sample], frequency[sample], weight)
        torch.testing.assert_close(alone, together[sample], rtol=1e-13, atol=1e-14)


@every_system
def test_groups_are_maps_of_their_own(system: str) -> None:
    together = make(system, extras=extras_of(system))
    x = normal(N_ROWS, N_INPUTS)
    frequency, weight = draw(together)
    expected = together(x, frequency, weight)
    for group in range(N_GROUPS):
        alone = make(system, n_groups=1, extras=extras_of(system))
        state = {name: value[group : group + 1] for name, value in together.state_dict().items()}
        alone.load_state_dict(state)
        columns = alone(x, frequency[group : group + 1], weight)
        torch.testing.assert_close(columns[0], expected[group], rtol=1e-13, atol=1e-14)


@every_system
def test_shared_forces_reach_all_groups(system: str) -> None:
    """One ℓ and one Ω, but a system and a sensitivity for each group."""
    shared = make(system, shared_forces=True)
    own = make(system)
    state = own.state_dict()
    for name, value in shared.state_dict().items():
        state[name].copy_(value.expand_as(state[name]))
    frequency, weight = draw(shared)
    assert shared.lengthscale.shape == (1, N_INPUTS, N_FORCES)
    assert frequency.shape[0] == 1
    x = normal(N_ROWS, N_INPUTS)
    torch.testing.assert_close(
        shared(x, frequency, weight), own(x, frequency.expand(own.frequency_shape), weight)
    )


# --- columns --------------------------------------------------------------------------------------


@every_system
def test_columns_are_ordered_as_family_force_feature(system: str) -> None:
    """A force of twice the sensitivity and a feature of no weight are found in their places."""
    features = make(system)
    x = normal(N_ROWS, N_INPUTS)
    frequency, weight = draw(features)
    layout = (features.columns_per_frequency, N_FORCES, N_FEATURES)
    before = features(x, frequency, weight).unflatten(-1, layout)

    sensitivity = features.sensitivity.detach().clone()
    sensitivity[..., 1] *= 2
    features.set_sensitivity(sensitivity)
    weight[2] = 0.0
    after = features(x, frequency, weight).unflatten(-1, layout)

    factor = torch.ones(N_FORCES, N_FEATURES, dtype=torch.float64)
    factor[1] = 2
    factor[:, 2] = 0
    torch.testing.assert_close(after, before * factor)
    torch.testing.assert_close(features.sensitivity.detach(), sensitivity)


@every_system
def test_extra_columns_come_last_in_the_order_asked_for(system: str) -> None:
    features = make(system, extras=("trend", "constant"))
    x = normal(N_SAMPLES, N_ROWS, N_INPUTS)
    extra = features(x, *draw(features))[..., -(N_INPUTS + 1) :]
    plain = torch.cat([x, torch.ones_like(x[..., :1])], -1).unsqueeze(-3)
    torch.testing.assert_close(extra, plain * features.log_extra_scale.exp()[:, None])
    bare = make(system, n_groups=1, extras=("trend", "constant"))
    bare.log_extra_scale.data.zero_()
    columns = bare(x[0], *draw(bare))[0]
    assert torch.equal(columns[:, -3:-1], x[0])
    assert torch.equal(columns[:, -1], torch.ones(N_ROWS, dtype=torch.float64))


@pytest.mark.parametrize("system", RESPONSES)
@pytest.mark.parametrize(("lower_limit", "origin"), [(0.0, 0.0), (-1.5, -1.5), (-math.inf, 0.0)])
def test_initial_state_is_one_for_each_derivative_at_the_lower_limit(
    system: str, lower_limit: float, origin: float
) -> None:
    """Column k of an input has f⁽ᵏ⁾ = 1 there and no other derivative below the order."""
    features = make(system, extras=("initial_state",), lower_limit=lower_limit)
    n_states = features.n_states
    x = torch.full((1, N_INPUTS), origin, dtype=torch.float64, requires_grad=True)
    states = features.initial_state(x.unsqueeze(-3))[:, 0].unflatten(-1, (N_INPUTS, n_states))
    for k in range(n_states):
        for group in range(N_GROUPS):
            value = states[group, :, k].sum()
            for derivative in range(n_states):
                expected = torch.full((), float(k == derivative), dtype=torch.float64)
                torch.testing.assert_close(value, N_INPUTS * expected, rtol=0, atol=1e-12)
                (slope,) = torch.autograd.grad(value, x, create_graph=True)
                value = slope.sum()


@pytest.mark.parametrize("system", RESPONSES)
def test_initial_state_solves_the_equation(system: str) -> None:
    """f⁽ⁿ⁾ + p₁f⁽ⁿ⁻¹⁾ + … + p_n f = 0."""
    features = make(system, n_inputs=1, n_groups=1, extras=("initial_state",), lower_limit=-1.5)
    x = normal(N_ROWS, 1).requires_grad_()
    for k in range(features.n_states):
        value = features.initial_state(x.unsqueeze(-3))[0, :, k : k + 1]
        derivatives = [value]
        for _ in range(features.n_states):
            (slope,) = torch.autograd.grad(derivatives[-1].sum(), x, create_graph=True)
            derivatives.append(slope)
        left = derivatives[-1]
        for factor, item in zip(features.polynomial[0, 0], reversed(derivatives[:-1]), strict=True):
            left = left + factor * item
        torch.testing.assert_close(left, torch.zeros_like(left), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("lower_limit", "origin"), [(0.0, 0.0), (-1.5, -1.5), (-math.inf, 0.0)])
def test_initial_state_of_the_first_order_decays(lower_limit: float, origin: float) -> None:
    """e^{−γ(t−a)}; a system begun at −∞ is described by its state at 0."""
    features = make("ode1", extras=("initial_state",), lower_limit=lower_limit)
    features.log_extra_scale.data.zero_()
    x = normal(N_ROWS, N_INPUTS)
    extra = features(x, *draw(features))[..., -N_INPUTS:]
    expected = torch.exp(-features.decay[:, None] * (x - origin))
    torch.testing.assert_close(extra, expected)
    at_origin = features(torch.full_like(x, origin), *draw(features))[..., -N_INPUTS:]
    assert torch.equal(at_origin, torch.ones_like(at_origin))


# --- numbers --------------------------------------------------------------------------------------


@every_system
def test_gradients_are_finite_at_zero(system: str) -> None:
    """Rows x = 0 and waves ω = 0, alone and among others."""
    features = make(system, extras=extras_of(system))
    frequency, weight = draw(features)
    x = normal(N_ROWS, N_INPUTS)
    x[0], x[1, 0], frequency[..., 0] = 0.0, 0.0, 0.0
    for rows in (x, x[:1]):
        inputs = [rows.clone().requires_grad_(), frequency.clone().requires_grad_()]
        columns = features(*inputs, weight)
        assert columns.isfinite().all()
        learned = [item for item in features.parameters() if item.requires_grad]
        gradients = torch.autograd.grad(
            columns.square().sum() + columns.sum(), inputs + learned, materialize_grads=True
        )
        assert all(gradient.isfinite().all() for gradient in gradients)


@every_system
def test_single_precision_agrees_with_double(system: str) -> None:
    double = make(system, extras=extras_of(system))
    single = make(system, extras=extras_of(system)).float()
    x = normal(N_ROWS, N_INPUTS).float()
    frequency, weight = (item.float() for item in draw(double))
    columns = single(x, frequency, weight)
    assert columns.dtype == torch.float32
    expected = double(x.double(), frequency.double(), weight.double())
    torch.testing.assert_close(columns.double(), expected, rtol=1e-5, atol=1e-5)


# --- frequencies ----------------------------------------------------------------------------------


@every_system
def test_prior_fixed_frequencies_have_the_moments_of_the_prior(system: str) -> None:
    """Within six standard errors of 20 000 draws: false alarm rate below 1e-6, twelve forces."""
    features = make(system, n_features=20_000)
    frequency = frequencies_of(features, "prior-fixed")(features, 1)
    mean, std = features.frequency_prior()
    torch.testing.assert_close(mean[..., 0], features.center)
    torch.testing.assert_close(
        std[..., 0] * features.lengthscale,
        torch.full_like(mean[..., 0], features.spectral_variance**0.5),
    )
    standard = ((frequency - mean) / std).detach()
    assert standard.mean(-1).abs().max() < 6 / math.sqrt(20_000)
    assert (standard.std(-1) - 1).abs().max() < 6 / math.sqrt(2 * 20_000)


@pytest.mark.parametrize("system", SMOOTH)
def test_lengthscale_learns_through_prior_fixed_frequencies(system: str) -> None:
    features = make(system)
    frequencies = frequencies_of(features, "prior-fixed")
    columns = features(
        normal(N_ROWS, N_INPUTS), frequencies(features, 1), frequencies.feature_weight
    )
    (gradient,) = torch.autograd.grad(
        columns.square().sum() + columns.sum(), features.log_lengthscale
    )
    assert gradient.isfinite().all()
    assert (gradient != 0).all()
    assert frequencies.kl(features).item() == 0.0


def test_a_step_has_no_gradient_in_the_lengthscale() -> None:
    features = make("arc0")
    frequencies = frequencies_of(features, "prior-fixed")
    x = normal(N_ROWS, N_INPUTS).requires_grad_()
    columns = features(x, frequencies(features, 1), frequencies.feature_weight)
    gradients = torch.autograd.grad(
        columns.sum(),
        [features.log_lengthscale, x, features.raw_sensitivity],
        materialize_grads=True,
    )
    assert [bool(gradient.any()) for gradient in gradients] == [False, False, True]


@every_system
@pytest.mark.parametrize("strategy", ["var-fixed", "var-resampled"])
def test_lengthscale_learns_through_the_divergence(system: str, strategy: str) -> None:
    """And not through Ω, which then has parameters of its own."""
    features = make(system)
    frequencies = frequencies_of(features, strategy)
    frequencies.mean.data += 0.3 * normal(*frequencies.mean.shape)
    frequencies.log_std.data += 0.3 * normal(*frequencies.mean.shape, seed=4)
    columns = features(
        normal(N_ROWS, N_INPUTS),
        frequencies(features, N_SAMPLES, torch.Generator().manual_seed(5)),
        frequencies.feature_weight,
    )
    (through_columns,) = torch.autograd.grad(
        columns.sum(), features.log_lengthscale, materialize_grads=True, allow_unused=True
    )
    assert not through_columns.any()

    learned = [features.log_lengthscale, frequencies.mean, frequencies.log_std]
    divergence = frequencies.kl(features)
    expected = kl_divergence(
        Normal(frequencies.mean, frequencies.log_std.exp()), Normal(*features.frequency_prior())
    ).sum()
    torch.testing.assert_close(divergence, expected)
    gradients = torch.autograd.grad(divergence, learned)
    assert (gradients[0] != 0).all()
    torch.testing.assert_close(gradients, torch.autograd.grad(expected, learned))


@every_system
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_divergence_is_exactly_zero_at_the_prior(system: str, dtype: torch.dtype) -> None:
    for seed in range(20):
        features = make(system, seed=seed).to(dtype)
        frequencies = frequencies_of(features, "var-fixed")
        frequencies.reset(features)
        assert frequencies.kl(features).item() == 0.0


# --- the system -----------------------------------------------------------------------------------


@every_system
def test_gain_is_the_size_of_the_transfer_function(system: str) -> None:
    features = make(system)
    frequency = torch.linspace(-5, 5, 7, dtype=torch.float64)
    transfer = features.transfer(frequency)
    assert transfer.shape == (N_GROUPS, N_INPUTS, 7)
    assert transfer.dtype == torch.complex128
    assert features.transfer(frequency.float()).dtype == torch.complex64
    torch.testing.assert_close(features.gain(frequency), transfer.abs())
    torch.testing.assert_close(features.transfer(-frequency), transfer.conj())  # a real system
    if system in PLAIN:
        assert torch.equal(transfer, torch.ones_like(transfer))


@pytest.mark.parametrize("system", RESPONSES)
def test_transfer_function_is_the_steady_response(system: str) -> None:
    """A system begun at −∞ turns e^{jωt} into H(jω) e^{jωt}."""
    features = make(system, n_inputs=1, n_forces=1, lower_limit=-math.inf)
    features.set_sensitivity(torch.ones(N_GROUPS, 1, 1))
    x, frequency = normal(N_ROWS, 1), 3 * normal(N_FEATURES, seed=6)
    columns = features(x, frequency.expand(N_GROUPS, 1, 1, -1), torch.ones(N_FEATURES))
    response = features.transfer(frequency) * torch.polar(torch.ones_like(x), frequency * x)
    torch.testing.assert_close(columns, torch.cat([response.real, response.imag], -1))


@pytest.mark.parametrize("system", RESPONSES)
def test_bandwidth_is_set_for_all_or_by_group_and_input(system: str) -> None:
    features = make(system)
    features.set_bandwidth(0.3)
    torch.testing.assert_close(features.bandwidth, torch.full_like(features.bandwidth, 0.3))
    width = torch.tensor([[0.2, 3.0], [1.0, 50.0]], dtype=torch.float64)
    features.set_bandwidth(width)
    torch.testing.assert_close(features.bandwidth, width)
    low, high = (features.gain(factor * width.flatten()) for factor in (1e-3, 1e3))
    picked = torch.arange(N_GROUPS * N_INPUTS).view(N_GROUPS, N_INPUTS, 1)
    assert (high.gather(-1, picked) < 0.01 * low.gather(-1, picked)).all()


@pytest.mark.parametrize("system", PLAIN)
def test_bandwidth_is_infinite_without_a_system(system: str) -> None:
    features = make(system)
    before = {name: value.clone() for name, value in features.state_dict().items()}
    features.set_bandwidth(0.3)
    assert features.bandwidth.isinf().all()
    assert all(torch.equal(value, before[name]) for name, value in features.state_dict().items())
    assert features.growth(torch.ones(N_INPUTS)) == 0.0


@pytest.mark.parametrize("system", RESPONSES)
def test_growth_bounds_the_transient_before_the_lower_limit(system: str) -> None:
    features = make(system, extras=("initial_state",), lower_limit=-1.0)
    features.log_extra_scale.data.zero_()
    extent = torch.tensor([40.0, 70.0], dtype=torch.float64)
    free = features.initial_state((-1 - extent)[None, None]).abs().amax().item()
    growth = features.growth(extent)
    assert growth - 8 < math.log(free) < growth + 8  # polynomials in the extent are left out
    assert make(system, lower_limit=-math.inf).growth(extent) == 0.0


# --- settings -------------------------------------------------------------------------------------


@every_system
def test_unknown_extras_are_refused(system: str) -> None:
    with pytest.raises(ConfigError, match=r"unknown extra columns.*seasonal.*Choose from"):
        make(system, extras=("constant", "seasonal"))


@pytest.mark.parametrize("system", PLAIN)
def test_initial_state_needs_a_differential_equation(system: str) -> None:
    with pytest.raises(ConfigError, match="no initial state"):
        features = make(system, extras=("initial_state",))
        features(normal(N_ROWS, N_INPUTS), *draw(features))


@pytest.mark.parametrize("system", SYSTEMS)
def test_registry_finds_the_system(system: str) -> None:
    assert feature_map(system) is SYSTEMS[system]


def test_star_import_gives_all_public_names() -> None:
    names: dict[str, Any] = {}
    exec("from deeplfm.features import *", names)
    assert names["FirstOrder"] is FirstOrder
    assert names["SYSTEMS"] is SYSTEMS


def test_a_registered_name_is_not_given_away() -> None:
    with pytest.raises(ConfigError, match=r"'ode1' is already registered, for FirstOrder\. Choose"):
        register("ode1", FirstOrder)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"'ode7' is not known\. Choose one of ode1"):
        feature_map("ode7")
    with pytest.raises(ConfigError, match=r"'grid' is not known\. Choose one of prior-fixed"):
        Frequencies(make("eq"), "grid")


# --- several inputs of a response -----------------------------------------------------------------


@pytest.mark.parametrize("lower_limit", [0.0, -1.5, -math.inf])
def test_inputs_of_a_first_order_system_add_up(lower_limit: float) -> None:
    """Φ of P inputs is the sum of the features of each input alone."""
    features = make("ode1", lower_limit=lower_limit)
    x = normal(N_ROWS, N_INPUTS)
    frequency, weight = draw(features)
    total = torch.zeros(())
    for p in range(N_INPUTS):
        alone = FirstOrder(1, N_FORCES, N_FEATURES, N_GROUPS, lower_limit=lower_limit).double()
        alone.load_state_dict(
            {
                name: value if name == "log_extra_scale" else value[:, p : p + 1]
                for name, value in features.state_dict().items()
            }
        )
        total = total + alone(x[:, p : p + 1], frequency[:, p : p + 1], weight)
    torch.testing.assert_close(features(x, frequency, weight), total)


@every_system
def test_parameters_are_in_line(system: str) -> None:
    """A fused optimiser walks through their memory."""
    assert all(parameter.is_contiguous() for parameter in make(system).parameters())


@every_system
@pytest.mark.parametrize("drawn", [(), (4,)], ids=["one Ω", "drawn Ω"])
@pytest.mark.parametrize("sampled", [(), (4,)], ids=["one x", "sampled x"])
def test_extents_are_the_largest_distances_from_the_origin(
    system: str, drawn: tuple[int, ...], sampled: tuple[int, ...]
) -> None:
    features = make(system)
    features.origin = -0.7
    x = normal(*sampled, 5, N_INPUTS)
    distance = (x + 0.7).abs().amax(-2)
    expected = distance.amax(0) if sampled and not drawn else distance
    assert torch.equal(features.extent(x, draw(features, *drawn)[0]), expected)


@every_system
def test_gradients_are_right_for_negative_sensitivities(system: str) -> None:
    """S ~ N(0, 1) in the paper's start: half of the sensitivities are negative."""
    features = make(system)
    frequency = normal(*features.frequency_shape, seed=3)
    weight = torch.full((features.n_features,), features.n_features**-0.5, dtype=torch.float64)
    x = normal(N_ROWS, N_INPUTS, seed=4)

    def columns(raw_sensitivity: Tensor) -> Tensor:
        changed = {"raw_sensitivity": raw_sensitivity}
        return torch.func.functional_call(features, changed, (x, frequency, weight))

    start = -features.raw_sensitivity.detach().abs() - 0.1
    raw = start.requires_grad_()
    cotangent = normal(*columns(raw).shape, seed=5)
    (gradient,) = torch.autograd.grad((columns(raw) * cotangent).sum(), raw)
    step = 1e-6
    for index in range(raw.numel()):
        with torch.no_grad():
            change = torch.zeros_like(raw).flatten()
            change[index] = step
            change = change.view_as(raw)
            difference = (columns(raw + change) - columns(raw - change)) * cotangent
        expected = float(difference.sum()) / (2 * step)
        assert float(gradient.flatten()[index]) == pytest.approx(expected, rel=1e-5, abs=1e-6)
