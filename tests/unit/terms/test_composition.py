import torch

from deeplfm.terms.composition import _Trials, find_composition


def test_evidence_and_gradient_are_those_of_a_gaussian_with_the_feature_kernel() -> None:
    time = torch.linspace(0, 1, 40, dtype=torch.float64)
    value = torch.sin(20 * time)
    candidates = _Trials(time, 2, 3, torch.Generator().manual_seed(0))
    got = candidates.log_evidence(time, value)
    expected = []
    for r in range(3):
        frequency = candidates.noise / candidates.log_lengthscale[r].exp()
        phase = candidates.hidden(time)[r, :, None] * frequency
        scale = candidates.log_scale[r].exp() / len(frequency) ** 0.5
        columns = [scale * phase.cos(), scale * phase.sin(), torch.ones(40, 1).double()]
        features = torch.cat(columns, -1)
        covariance = features @ features.T + torch.eye(40) * (2 * candidates.log_noise[r]).exp()
        normal = torch.distributions.MultivariateNormal(torch.zeros(40).double(), covariance)
        expected.append(normal.log_prob(value))
    expected = torch.stack(expected)
    torch.testing.assert_close(got, expected, rtol=1e-8, atol=1e-6)
    for name, parameter in candidates.named_parameters():
        ours = torch.autograd.grad(got.sum(), parameter, retain_graph=True)[0]
        truth = torch.autograd.grad(expected.sum(), parameter, retain_graph=True)[0]
        torch.testing.assert_close(ours, truth, rtol=1e-5, atol=1e-6, msg=name)


def test_a_frequency_modulated_wave_is_explained_by_few_frequencies() -> None:
    """F(h(t)) with a steep F: many sidebands, two frequencies; noise alone would leave std 1."""
    time = torch.linspace(0, 1, 200, dtype=torch.float64)
    hidden = torch.sin(12 * time) + torch.sin(3 * time)
    noise = torch.randn(200, generator=torch.Generator().manual_seed(0)).double()
    value = torch.sin(4 * hidden) + 0.1 * noise
    value = (value - value.mean()) / value.std()
    found = find_composition(time, value, torch.Generator().manual_seed(0))
    assert found.noise_std < 0.4
    white = torch.distributions.Normal(0.0, 1.0).log_prob(value).sum()
    assert found.log_evidence > float(white) + 60
