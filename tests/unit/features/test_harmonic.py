"""Sums of waves against complex exponentials, and the two strides of a map against the whole."""

import math

import pytest
import torch

from deeplfm.features import SYSTEMS
from deeplfm.features.harmonic import HarmonicMap, harmonic_sum, steady_coefficients
from deeplfm.kernels import plain as plain_kernels

N_SAMPLES, N_ROWS, N_COLUMNS = 3, 4, 5
HARMONIC = [name for name, system in SYSTEMS.items() if issubclass(system, HarmonicMap)]


def normal(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def complex_sum(x, frequency, amplitude, phase, base_real=None, base_imag=None):
    """Σ_j a_jk exp(j(ω_jk·x_j + α_jk)) as it is written, B S N K."""
    angle = torch.einsum("bjsni,bjik->bjsnk", x.expand(len(frequency), *x.shape[1:]), frequency)
    angle = angle + phase[:, :, None, None]
    total = (amplitude[:, :, None, None] * torch.exp(1j * angle)).sum(1)
    parts = [total.real, total.imag]
    bases = (base_real, base_imag)
    return [part if base is None else part + base for part, base in zip(parts, bases, strict=True)]


# batches of tables and of x, terms, dimensions of a term
SHAPES = {
    "one batch, one dimension": (1, 1, 1, 1),
    "one batch, one term of many dimensions": (1, 1, 1, 3),
    "one batch, many terms": (1, 1, 3, 1),
    "many batches hear the same x": (2, 1, 3, 1),
    "many batches with x of their own": (2, 2, 3, 1),
    "many terms of many dimensions": (2, 1, 2, 3),
    "all of it": (2, 2, 2, 3),
}
BASES = {
    "no base": None,
    "a base for all samples": lambda n: (n, 1, N_ROWS, N_COLUMNS),
    "a base for all batches and rows": lambda n: (1, N_SAMPLES, 1, N_COLUMNS),
    "a base for each": lambda n: (n, N_SAMPLES, N_ROWS, N_COLUMNS),
}


def arguments(shape, base, n_samples=N_SAMPLES, n_rows=N_ROWS, n_columns=N_COLUMNS):
    n_batches, n_own, n_terms, n_dimensions = shape
    tables = (n_batches, n_terms, n_columns)
    items = [
        normal(n_own, n_terms, n_samples, n_rows, n_dimensions),
        normal(n_batches, n_terms, n_dimensions, n_columns, seed=1),
        normal(*tables, seed=2),
        normal(*tables, seed=3),
    ]
    if base is not None:
        items += [normal(*base(n_batches), seed=seed) for seed in (4, 5)]
    return [item.requires_grad_() for item in items]


every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
every_base = pytest.mark.parametrize("base", BASES.values(), ids=BASES)


@every_shape
@every_base
def test_values_and_gradients_are_those_of_complex_exponentials(shape, base):
    items = arguments(shape, base)
    found, expected = harmonic_sum(*items), complex_sum(*items)
    cotangents = [normal(shape[0], N_SAMPLES, N_ROWS, N_COLUMNS, seed=seed) for seed in (6, 7)]
    for left, right in zip(found, expected, strict=True):
        assert left.shape == cotangents[0].shape
        torch.testing.assert_close(left, right, rtol=1e-13, atol=1e-13)
    gradients, references = (
        torch.autograd.grad(outputs, items, cotangents) for outputs in (found, expected)
    )
    for left, right in zip(gradients, references, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-12, atol=1e-12)


@every_shape
def test_gradients_are_those_of_finite_differences(shape):
    items = arguments(shape, lambda n: (n, 1, 2, 2), n_samples=2, n_rows=2, n_columns=2)
    assert torch.autograd.gradcheck(harmonic_sum, items)


@pytest.mark.parametrize("learned", range(6))
@every_shape
def test_each_argument_may_be_the_only_one_with_a_gradient(shape, learned):
    items = [item.detach() for item in arguments(shape, BASES["a base for all samples"])]
    items[learned].requires_grad_()
    gradients = [
        torch.autograd.grad(outputs[0].square().sum() + outputs[1].sum(), items[learned])[0]
        for outputs in (harmonic_sum(*items), complex_sum(*items))
    ]
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("part", [0, 1])
def test_one_part_alone_may_be_asked_for(part):
    items = arguments(SHAPES["all of it"], BASES["a base for each"])
    gradients = [
        torch.autograd.grad(outputs[part].sum(), items, materialize_grads=True)
        for outputs in (harmonic_sum(*items), complex_sum(*items))
    ]
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)


def test_arguments_are_left_as_they_are():
    items = arguments(SHAPES["all of it"], BASES["a base for each"])
    before = [item.detach().clone() for item in items]
    sum(part.sum() for part in harmonic_sum(*items)).backward()
    assert all(torch.equal(*pair) for pair in zip(items, before, strict=True))


@every_shape
def test_single_precision_agrees_with_double(shape):
    items = [item.detach().float() for item in arguments(shape, BASES["a base for all samples"])]
    for item in items:
        item.requires_grad_()
    doubles = [item.detach().double().requires_grad_() for item in items]
    found, expected = harmonic_sum(*items), complex_sum(*doubles)
    gradients = torch.autograd.grad(sum(part.square().sum() for part in found), items)
    references = torch.autograd.grad(sum(part.square().sum() for part in expected), doubles)
    pairs = zip([*found, *gradients], [*expected, *references], strict=True)
    for left, right in pairs:
        assert left.dtype == torch.float32
        torch.testing.assert_close(left.double(), right, rtol=1e-4, atol=1e-4)


def test_sum_of_no_terms_is_refused():
    with pytest.raises(ValueError, match="at least one term"):
        harmonic_sum(
            normal(1, 0, 2, 3, 1), normal(1, 0, 1, 4), normal(1, 0, 4), normal(1, 0, 4), None, None
        )


def test_second_derivatives_are_refused_rather_than_wrong():
    items = arguments(SHAPES["many terms of many dimensions"], None)
    loss = harmonic_sum(*items)[0].square().sum()
    (gradient,) = torch.autograd.grad(loss, items[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        gradient.sum().backward()


# --- the two strides of a map ---------------------------------------------------------------------


def make(system, n_inputs=3, **options):
    features = SYSTEMS[system](n_inputs, 2, 3, n_groups=2, **options).double()
    with torch.no_grad():
        for k, parameter in enumerate(features.parameters()):
            parameter.add_(0.3 * normal(*parameter.shape, seed=k))
    return features


WEIGHT = torch.linspace(0.5, 1.5, 3, dtype=torch.float64)


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("drawn", [(), (N_SAMPLES,)], ids=["one Ω", "drawn Ω"])
@pytest.mark.parametrize("sampled", [(), (N_SAMPLES,)], ids=["one x", "sampled x"])
@pytest.mark.parametrize("n_inputs", [1, 3])
def test_families_of_columns_have_the_shape_of_samples_groups_rows(
    system, drawn, sampled, n_inputs
):
    features = make(system, n_inputs)
    x, frequency = normal(*sampled, N_ROWS, n_inputs), normal(*drawn, *features.frequency_shape)
    tables = features.coefficients(frequency, WEIGHT, features.extent(x, frequency))
    assert all(table.shape[: len(drawn)] == drawn for table in tables)
    families = features.basis(x, tables)
    assert len(families) == features.columns_per_frequency
    for family in families:
        assert family.shape == (*(sampled or drawn), 2, N_ROWS, 6)
    whole = features(x, frequency, WEIGHT)
    torch.testing.assert_close(torch.cat(families, -1), whole, rtol=0, atol=0)


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("drawn", [(), (N_SAMPLES,)], ids=["one Ω", "drawn Ω"])
def test_tables_of_all_rows_serve_each_row(system, drawn):
    """Blocks of rows and samples see tables that were made for all of them."""
    features = make(system)
    x = normal(N_SAMPLES, N_ROWS, 3)
    frequency = normal(*drawn, *features.frequency_shape)
    tables = features.coefficients(frequency, WEIGHT, features.extent(x, frequency))
    together = torch.cat(features.basis(x, tables), -1)
    for s in range(N_SAMPLES):
        own = tuple(table[s : s + 1] for table in tables) if drawn else tables
        for n in range(N_ROWS):
            alone = torch.cat(features.basis(x[s : s + 1, n : n + 1], own), -1)
            torch.testing.assert_close(alone[0, :, 0], together[s, :, n], rtol=1e-13, atol=1e-14)


ADDITIVE = [name for name, system in SYSTEMS.items() if system.is_additive]
SCALES = {"waves": 1.0, "some columns polynomial": 0.1, "all columns polynomial": 1e-3, "zero": 0.0}


@pytest.mark.parametrize("system", ADDITIVE)
@pytest.mark.parametrize("lower_limit", [0.0, -0.7, -math.inf])
@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
def test_shares_of_inputs_add_up(system, lower_limit, scale):
    """The share of some inputs, made once, is the base of the others."""
    features = make(system, lower_limit=lower_limit)
    origin = features.origin
    hidden = (origin + scale * normal(N_SAMPLES, N_ROWS, 2)).requires_grad_()
    original = normal(N_ROWS, 1, seed=1).requires_grad_()
    frequency = normal(*features.frequency_shape, seed=2).requires_grad_()

    def share(x, inputs, base=None):
        tables = features.coefficients(frequency, WEIGHT, features.extent(x, frequency), inputs)
        return features.basis(x, tables, base)

    base = share(original, slice(2, None))
    assert all(part.shape == (2, N_ROWS, 6) for part in base)
    found = torch.cat(share(hidden, slice(0, 2), base), -1)
    joined = torch.cat([hidden, original.expand(N_SAMPLES, -1, -1)], -1)
    expected = features(joined, frequency, WEIGHT)
    assert found.shape == expected.shape == (N_SAMPLES, 2, N_ROWS, 12)
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-12)
    cotangent = normal(*expected.shape, seed=3)
    learned = [
        hidden,
        original,
        frequency,
        *(item for item in features.parameters() if item.requires_grad and item.numel()),
    ]
    gradients, references = (
        torch.autograd.grad(outputs, learned, cotangent, materialize_grads=True)
        for outputs in (found, expected)
    )
    for left, right in zip(gradients, references, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("system", HARMONIC)
@pytest.mark.parametrize("drawn", [(), (N_SAMPLES,)], ids=["one Ω", "drawn Ω"])
@pytest.mark.parametrize("sampled", [(), (N_SAMPLES,)], ids=["one x", "sampled x"])
@pytest.mark.parametrize("n_inputs", [1, 3])
@pytest.mark.parametrize("tile", [1, 40, 10**6])
def test_moments_without_columns_are_those_of_the_columns(
    system, drawn, sampled, n_inputs, tile, monkeypatch
):
    monkeypatch.setattr(plain_kernels, "_TILE_WAVES", tile)
    features = make(system, n_inputs)
    x = normal(*sampled, N_ROWS, n_inputs).requires_grad_()
    frequency = normal(*drawn, *features.frequency_shape, seed=1).requires_grad_()
    check_moments(features, x, frequency)


@pytest.mark.parametrize("system", ADDITIVE)
@pytest.mark.parametrize("lower_limit", [0.0, -0.7, -math.inf])
@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
@pytest.mark.parametrize("tile", [20, 10**6])
def test_moments_without_columns_of_a_share_of_the_inputs(
    system, lower_limit, scale, tile, monkeypatch
):
    monkeypatch.setattr(plain_kernels, "_TILE_WAVES", tile)
    features = make(system, lower_limit=lower_limit)
    x = (features.origin + scale * normal(N_SAMPLES, N_ROWS, 2)).requires_grad_()
    frequency = normal(*features.frequency_shape, seed=1).requires_grad_()
    base = [normal(2, N_ROWS, 6, seed=seed).requires_grad_() for seed in (2, 3)]
    check_moments(features, x, frequency, slice(0, 2), tuple(base))


def check_moments(features, x, frequency, inputs=slice(None), base=None):
    """ΦM and Φ²V and the gradients of all that enters, with weights by group and for all groups."""
    learned = [item for item in features.parameters() if item.requires_grad and item.numel()]
    for n_groups in (1, 2):
        mean = normal(n_groups, 12, 2, seed=4).requires_grad_()
        variance = normal(n_groups, 12, 2, seed=5).square().requires_grad_()
        tables = features.coefficients(frequency, WEIGHT, features.extent(x, frequency), inputs)
        found = features.harmonic_moments(x, tables, base, mean, variance)
        phi = torch.cat(features.basis(x, tables, base), -1)
        expected = phi @ mean, phi.square() @ variance
        arguments = [x, frequency, mean, variance, *(base or ()), *learned]
        cotangents = [normal(*expected[0].shape, seed=seed) for seed in (6, 7)]
        for left, right in zip(found, expected, strict=True):
            assert left.shape == right.shape == (*phi.shape[:-1], 2)
            torch.testing.assert_close(left, right, rtol=1e-12, atol=1e-12)
        for left, right in zip(
            *(
                torch.autograd.grad(
                    outputs, arguments, cotangents, retain_graph=True, materialize_grads=True
                )
                for outputs in (found, expected)
            ),
            strict=True,
        ):
            torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("system", HARMONIC)
def test_waves_of_a_map_are_complex_exponentials(system):
    """Whatever the system: what is left of Φ when transients are taken away is a sum of waves."""
    features = make(system, **({"lower_limit": -math.inf} if system in ADDITIVE else {}))
    x, frequency = normal(N_SAMPLES, N_ROWS, 3), normal(*features.frequency_shape, seed=1)
    omega = frequency.flatten(-2)  # G P K
    size = (features.sensitivity[..., None] * WEIGHT).flatten(-2)  # G P K
    if system in ADDITIVE:
        terms = size * features.transfer(omega)
        angle = x[:, None, :, :, None] * omega[:, None]  # S G N P K
        expected = (terms[:, None] * torch.exp(1j * angle)).sum(-2)
    else:
        expected = size[:, 0, None] * torch.exp(1j * (x[:, None] @ omega))
    found = features.basis(
        x, features.coefficients(frequency, WEIGHT, features.extent(x, frequency))
    )
    torch.testing.assert_close(found[0], expected.real, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(found[1], expected.imag, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("drawn", [(), (N_SAMPLES,)], ids=["one Ω", "drawn Ω"])
def test_tables_without_transients_have_none(drawn):
    frequency, amplitude = normal(*drawn, 2, 1, 3, 4), normal(*drawn, 2, 1, 4)
    tables = steady_coefficients(frequency, amplitude, amplitude)
    assert tables.gain_real.shape == tables.gain_imag.shape == (*drawn, 2, 0, 4)
    assert all(table.shape[: len(drawn)] == drawn for table in tables)
