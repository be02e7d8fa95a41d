"""A predictive mixture against scipy, numerical integration and Monte Carlo."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.errors import InputError
from deeplfm.model import DeepLFM
from deeplfm.predictive.mixture import Predictive, coverage, mix, mnll, nmse

C, N, D = 4, 3, 2


def mixture(seed=0, n_components=C, shift=0.0, noise=None):
    generator = torch.Generator().manual_seed(seed)

    def draw(n, seed):
        """One component for each draw of each output, the same for all rows."""
        source = torch.Generator().manual_seed(1000 + seed)
        pick = torch.multinomial(weight.T, n, replacement=True, generator=source).T  # S D
        index = pick[:, None].expand(-1, N, -1)
        normal = torch.randn(n, N, D, generator=source, dtype=torch.float64)
        return mean.gather(0, index) + variance.sqrt().gather(0, index) * normal

    def uniform(*shape):
        return 0.1 + torch.rand(*shape, generator=generator, dtype=torch.float64)

    mean = shift + 2 * torch.randn(n_components, N, D, generator=generator, dtype=torch.float64)
    variance = uniform(n_components, N, D)
    noise = uniform(N, D) if noise is None else torch.full((N, D), noise, dtype=torch.float64)
    weight = uniform(n_components, D)
    weight = weight / weight.sum(0)
    return Predictive(mean, variance, noise, weight, draw)


TARGET = torch.tensor([[0.3, -1.0], [2.0, 0.1], [-4.0, 7.0]], dtype=torch.float64)


def parts(posterior, n, d, latent):
    """Weights and scipy components of one row and output."""
    variance = posterior.component_variance[:, n, d]
    if not latent:
        variance = variance + posterior.component_noise[:, n, d]
    mean, std = posterior.component_mean[:, n, d].numpy(), variance.sqrt().numpy()
    weight = posterior.weight.expand_as(posterior.component_mean)
    return weight[:, n, d].numpy(), stats.norm(mean, std)


def each(latent_too=True):
    for latent in (False, True) if latent_too else (False,):
        for n in range(N):
            for d in range(D):
                yield n, d, latent


def test_moments():
    posterior = mixture()
    for n, d, latent in each():
        weight, components = parts(posterior, n, d, latent)
        mean = weight @ components.mean()
        variance = weight @ (components.var() + components.mean() ** 2) - mean**2
        assert posterior.mean[n, d].item() == pytest.approx(mean)
        assert posterior.variance(latent)[n, d].item() == pytest.approx(variance)
        assert posterior.std(latent)[n, d].item() == pytest.approx(math.sqrt(variance))


def test_density_and_distribution_function():
    posterior = mixture()
    for n, d, latent in each():
        weight, components = parts(posterior, n, d, latent)
        y = TARGET[n, d].item()
        log_density = math.log(weight @ components.pdf(y))
        assert posterior.log_prob(TARGET, latent)[n, d].item() == pytest.approx(log_density)
        assert posterior.cdf(TARGET, latent)[n, d].item() == pytest.approx(
            weight @ components.cdf(y)
        )


def test_log_density_far_away_is_finite():
    far = torch.full((N, D), 1e4, dtype=torch.float64)
    assert mixture().log_prob(far).isfinite().all()


def test_quantiles_invert_the_distribution_function():
    posterior, levels = mixture(), [1e-6, 0.025, 0.5, 0.9, 1 - 1e-6]
    for latent in (False, True):
        quantiles = posterior.quantile(levels, latent)
        assert quantiles.shape == (len(levels), N, D)
        for n, d, _ in each(latent_too=False):
            weight, components = parts(posterior, n, d, latent)
            for level, quantile in zip(levels, quantiles[:, n, d].tolist(), strict=True):
                assert weight @ components.cdf(quantile) == pytest.approx(level, rel=1e-9)


def test_shape_of_quantiles_follows_the_levels():
    posterior = mixture()
    assert posterior.quantile(0.5).shape == (N, D)
    assert posterior.quantile([0.5]).shape == (1, N, D)
    assert posterior.quantile(torch.full((2, 3), 0.5)).shape == (2, 3, N, D)


def test_quantiles_of_one_gaussian_in_float32():
    one = torch.ones(1, 1, 1)
    posterior = Predictive(3 * one, 2 * one, 2 * one[0], one[0], lambda n, seed: one)
    expected = torch.tensor(stats.norm(3, 2).ppf([0.1, 0.9]), dtype=torch.float32)
    torch.testing.assert_close(posterior.quantile([0.1, 0.9]).flatten(), expected)


def test_interval_is_central():
    posterior = mixture()
    for latent in (False, True):
        low, high = posterior.interval(0.8, latent)
        torch.testing.assert_close(posterior.cdf(low, latent), torch.full_like(low, 0.1))
        torch.testing.assert_close(posterior.cdf(high, latent), torch.full_like(low, 0.9))


def test_crps_is_the_integral_of_the_squared_distribution_error():
    posterior = mixture()
    for n, d, latent in each():
        weight, components = parts(posterior, n, d, latent)
        y = TARGET[n, d].item()
        below = integrate.quad(lambda t: (weight @ components.cdf(t)) ** 2, -30, y)[0]  # noqa: B023
        above = integrate.quad(lambda t: (weight @ components.sf(t)) ** 2, y, 30)[0]  # noqa: B023
        found = posterior.crps(TARGET, latent)[n, d].item()
        assert found == pytest.approx(below + above, rel=1e-6)


def test_scores_of_a_function_that_is_known_exactly():
    """The paper's features pass through 0 at t = 0, where the function has no variance."""
    zero = torch.zeros(2, 1, 1, dtype=torch.float64)
    weight = torch.full((2, 1), 0.5, dtype=torch.float64)
    posterior = Predictive(zero, zero, zero + 1, weight, lambda n, seed: zero)
    target = torch.tensor([[-1.5]], dtype=torch.float64)
    assert posterior.crps(target, latent=True).item() == pytest.approx(1.5)
    assert posterior.cdf(target, latent=True).item() == 0
    assert posterior.quantile(0.3, latent=True).item() == pytest.approx(0.0)


@pytest.mark.parametrize("score", ["log_prob", "cdf", "crps"])
def test_missing_targets_score_nan_and_leave_the_others_alone(score):
    posterior, target = mixture(), TARGET.clone()
    target[1, 0] = torch.nan
    found, complete = getattr(posterior, score)(target), getattr(posterior, score)(TARGET)
    assert found[1, 0].isnan()
    observed = ~target.isnan()
    torch.testing.assert_close(found[observed], complete[observed])


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_bad_levels_are_refused(level):
    posterior = mixture()
    with pytest.raises(InputError, match="between 0 and 1"):
        posterior.quantile(level)
    with pytest.raises(InputError, match="between 0 and 1"):
        posterior.quantile([0.5, level])
    with pytest.raises(InputError, match="between 0 and 1"):
        posterior.interval(level)


def test_mix_weighs_each_output():
    left, right = mixture(0), mixture(1, n_components=2)
    share = torch.tensor([[0.2, 0.9], [0.8, 0.1]], dtype=torch.float64)
    both = mix([left, right], share)
    torch.testing.assert_close(both.mean, share[0] * left.mean + share[1] * right.mean)
    torch.testing.assert_close(
        both.cdf(TARGET), share[0] * left.cdf(TARGET) + share[1] * right.cdf(TARGET)
    )
    density = share[0] * left.log_prob(TARGET).exp() + share[1] * right.log_prob(TARGET).exp()
    torch.testing.assert_close(both.log_prob(TARGET), density.log())
    torch.testing.assert_close(both.weight.sum(0), torch.ones(1, D, dtype=torch.float64))


def test_mix_with_a_weight_of_zero_is_the_other_part():
    left, right = mixture(0), mixture(1)
    share = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    both = mix([left, right], share)
    for d, part in enumerate((left, right)):
        torch.testing.assert_close(both.log_prob(TARGET)[:, d], part.log_prob(TARGET)[:, d])
        drawn, own = (item.sample(5, seed=3, latent=True)[..., d] for item in (both, part))
        torch.testing.assert_close(drawn, own)


def z_of_frequencies(samples, posterior, latent):
    """How far the fraction of draws below three quantiles is from their levels."""
    levels = torch.tensor([0.05, 0.5, 0.95], dtype=torch.float64)
    below = samples[:, None] < posterior.quantile(levels, latent)  # S L N D
    expected = levels[:, None, None]
    error = below.double().mean(0) - expected
    return (error / (expected * (1 - expected) / len(samples)).sqrt()).abs().max()


@pytest.mark.parametrize("latent", [False, True])
def test_draws_follow_the_mixture(latent):
    posterior = mixture()
    assert z_of_frequencies(posterior.sample(20_000, latent=latent), posterior, latent) < 5


@pytest.mark.parametrize("latent", [False, True])
def test_draws_of_a_mix_follow_the_mixture(latent):
    """Members differ in noise: a draw carries that of the member it came from."""
    share = torch.tensor([[0.3, 0.6], [0.7, 0.4]], dtype=torch.float64)
    posterior = mix([mixture(0, noise=0.01), mixture(1, noise=9.0)], share)
    assert z_of_frequencies(posterior.sample(20_000, latent=latent), posterior, latent) < 5


def test_draws_of_a_mix_choose_the_member_independently_of_what_it_draws():
    def part(mean):
        def draw(n, seed):
            generator = torch.Generator().manual_seed(seed)
            return mean + torch.randn(n, 1, 1, generator=generator, dtype=torch.float64)

        one = torch.ones(1, 1, 1, dtype=torch.float64)
        return Predictive(mean * one, one, one, one[0], draw)

    posterior = mix([part(0.0), part(100.0)], torch.full((2, 1), 0.5, dtype=torch.float64))
    draws = posterior.sample(20_000, latent=True).flatten()
    near = draws[draws < 50]
    assert len(near) / 20_000 == pytest.approx(0.5, abs=0.02)
    assert near.std().item() == pytest.approx(1.0, abs=0.05)  # 5 standard errors


def test_draws_are_repeatable_and_depend_on_the_seed():
    posterior = mixture()
    assert torch.equal(posterior.sample(4, seed=2), posterior.sample(4, seed=2))
    assert not torch.equal(posterior.sample(4, seed=2), posterior.sample(4, seed=3))


def one_layer(**layer):
    block = BlockConfig(n_features=8, frequencies="prior-fixed", extras=("constant",))
    config = ModelConfig(1, (LayerConfig(2, (block,), **layer),))
    model = DeepLFM(config, seed=0).double()
    x = torch.linspace(0, 3, 10, dtype=torch.float64)[:, None]
    if model.has_exact_output:
        model.condition(x, torch.cat([torch.sin(3 * x), x], 1))
    return model


@pytest.mark.parametrize("kind", [{}, {"own_features": True}, {"shared_weights": True}])
@pytest.mark.parametrize("weights", ["exact", "full", "mean-field"])
def test_draws_are_whole_functions(weights, kind):
    """Their covariance between rows is ΦΣΦᵀ; rows drawn one by one would have none."""
    model, n = one_layer(weights=weights, **kind), 20_000
    x = torch.tensor([[0.5], [1.5], [4.0]], dtype=torch.float64)
    draws = model.posterior(x).sample(n, latent=True)
    phi = torch.cat(tuple(model.output_layer.features(x, 1).whole()), -1)  # G N K
    weights = model.output_layer.weights
    for d in range(2):
        group = phi[min(d, len(phi) - 1)].detach()
        if hasattr(weights, "root"):
            root = weights.root.detach().flatten(0, 1)
            root = root[min(d, len(root) - 1)]
        else:
            root = torch.diag(weights.log_std.detach().exp()[-1, :, -1])
        expected = (group @ root @ root.T @ group.T).numpy()
        found = np.cov(draws[..., d].numpy().T)
        diagonal = np.diag(expected)
        error = np.sqrt((np.outer(diagonal, diagonal) + expected**2) / n)
        assert np.abs((found - expected) / error).max() < 5


def test_draws_of_shared_weights_tie_the_outputs_together():
    model = one_layer(weights="full", shared_weights=True)
    with torch.no_grad():
        features = model.output_layer.blocks[0].features
        features.log_decay[1] += 0.3
    x = torch.tensor([[2.0]], dtype=torch.float64)
    draws = model.posterior(x).sample(2000, latent=True)[:, 0]
    assert torch.corrcoef(draws.T)[0, 1] > 0.5


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_output_weights_of_a_draw_are_independent_of_its_hidden_path(seed):
    """Given the path each draw is N(mean, variance) of its component, also where seeds coincide."""
    block, n = BlockConfig(system="eq", n_features=4, frequencies="prior-fixed"), 2000
    layers = (LayerConfig(1, (block,)), LayerConfig(1, (block,)))
    model = DeepLFM(ModelConfig(1, layers, n_paths=n), seed=1).double()
    x = torch.linspace(0, 1, 3, dtype=torch.float64)[:, None]
    posterior = model.posterior(x)
    draws = posterior.sample(n, seed=seed, latent=True)
    standard = (draws - posterior.component_mean) / posterior.component_variance.sqrt()
    assert (standard.mean(0) * math.sqrt(n)).abs().max() < 5
    assert ((standard.square().mean(0) - 1) / math.sqrt(2 / n)).abs().max() < 5


def test_frequencies_and_paths_are_drawn_from_different_streams():
    block = BlockConfig(system="eq", n_features=32, frequencies="prior-fixed")
    model = DeepLFM(ModelConfig(1, (LayerConfig(1, (block,)), LayerConfig(1, (block,)))), seed=4)
    seen = []
    layer = model.layers[0]
    draw = layer.path_noise
    layer.path_noise = lambda *args: seen.append(draw(*args)) or seen[-1]
    model.posterior(torch.zeros(1, 1))
    epsilon = layer.blocks[0].frequencies.noise.flatten()
    assert not torch.isin(epsilon, seen[0]).any()


def test_noise_is_added_once_and_by_output():
    model = one_layer(weights="exact")
    with torch.no_grad():
        model.likelihood.log_variance.copy_(torch.tensor([0.0, math.log(0.01)]))
    x = torch.tensor([[0.5], [1.5]], dtype=torch.float64)
    posterior = model.posterior(x)
    noise = (posterior.sample(20_000) - posterior.sample(20_000, latent=True)).var(0)
    expected = torch.tensor([1.0, 0.01], dtype=torch.float64)
    assert ((noise / expected - 1) / math.sqrt(2 / 20_000)).abs().max() < 5
    difference = posterior.variance() - posterior.variance(latent=True)
    torch.testing.assert_close(difference, expected.expand(2, -1), rtol=1e-7, atol=1e-9)


def test_scores_skip_missing_targets():
    posterior, target = mixture(), TARGET.clone()
    target[1, 0] = torch.nan
    kept = torch.tensor([0, 2])
    mean = posterior.mean
    found = nmse(mean, target)[0].item()
    y, m = TARGET[kept, 0].numpy(), mean[kept, 0].numpy()
    assert found == pytest.approx(((y - m) ** 2).mean() / y.var())
    assert mnll(posterior, target)[0].item() == pytest.approx(
        -posterior.log_prob(TARGET)[kept, 0].mean().item()
    )
    low, high = posterior.interval(0.9)
    inside = ((TARGET >= low) & (TARGET <= high)).double()
    assert coverage(posterior, target, 0.9)[0].item() == pytest.approx(
        inside[kept, 0].mean().item()
    )
    assert coverage(posterior, target, 0.9)[1].item() == pytest.approx(inside[:, 1].mean().item())


def by_row(noise=0.3, seed=5):
    """Weights of its own for each row, and no functions but those of the mixture."""
    generator = torch.Generator().manual_seed(seed)
    mean = 2 * torch.randn(4, N, D, generator=generator, dtype=torch.float64)
    weight = torch.rand(4, N, D, generator=generator, dtype=torch.float64)
    return Predictive(mean, 0.1 + 0 * mean, noise + 0 * mean, weight / weight.sum(0))


@pytest.mark.parametrize("latent", [False, True])
def test_weights_may_differ_by_row(latent):
    posterior = by_row()
    mixed = mix([posterior, mixture(1)], torch.full((2, D), 0.5, dtype=torch.float64))
    for each_of in (posterior, mixed):
        for n, d, _ in each(latent_too=False):
            weight, normal = parts(each_of, n, d, latent)
            target = float(TARGET[n, d])
            below = float((weight * normal.cdf(target)).sum())
            assert float(each_of.cdf(TARGET, latent)[n, d]) == pytest.approx(below, abs=1e-12)
            density = float((weight * normal.pdf(target)).sum())
            assert float(each_of.log_prob(TARGET, latent)[n, d].exp()) == pytest.approx(density)
        level = each_of.cdf(each_of.quantile(0.3, latent), latent)
        torch.testing.assert_close(level, torch.full((N, D), 0.3, dtype=torch.float64))


def test_draws_of_the_mixture_follow_it():
    """A Kolmogorov test of each row and output at level 1e-4: it fails 6 times in 10 000."""
    posterior = by_row()
    draws = posterior.sample(2000, seed=3)
    for n, d, _ in each(latent_too=False):
        weight, normal = parts(posterior, n, d, False)
        found = stats.kstest(
            draws[:, n, d].numpy(), lambda v, w=weight, m=normal: m.cdf(v[:, None]) @ w
        )
        assert found.pvalue > 1e-4
    assert abs(float(torch.corrcoef(draws[..., 0].T)[0, 1])) < 0.1  # each row by itself


def test_functions_of_the_mixture_keep_their_level():
    """Rows of the same mixture get the same value in each draw of a function."""
    row = by_row()
    same = Predictive(
        *(
            item[:, :1].expand(-1, 5, -1)
            for item in (
                row.component_mean,
                row.component_variance,
                row.component_noise,
                row.weight,
            )
        )
    )
    draws = same.sample(7, latent=True)
    torch.testing.assert_close(draws, draws[:, :1].expand_as(draws))
    assert draws[:, 0, 0].std() > 0
    assert torch.equal(draws, same.sample(7, latent=True))
