"""Response features as a kernel: the covariance is that of the features, and inference is exact."""

import pytest
import torch

from deeplfm import ConfigError
from deeplfm.features import SYSTEMS, ResponseKernel

gpytorch = pytest.importorskip("gpytorch")  # after the kernel, which silences its import

X = torch.linspace(0, 1, 30, dtype=torch.float64)[:, None]


@pytest.mark.parametrize("system", ["ode1", "ode2", "eq"])
def test_the_covariance_is_the_product_of_the_features(system: str) -> None:
    kernel = ResponseKernel(system, n_features=20)
    columns = kernel.columns(X)
    assert columns.shape == (30, 40)
    whole = kernel(X, X).to_dense()
    assert torch.allclose(whole, columns @ columns.T)
    assert torch.allclose(kernel(X, X[:5]).to_dense(), whole[:, :5])
    assert torch.allclose(kernel(X, diag=True), whole.diagonal())
    assert torch.allclose(kernel(X.expand(2, -1, -1), X).to_dense()[1], whole)


def test_many_frequencies_approximate_the_exponentiated_quadratic_kernel() -> None:
    kernel = ResponseKernel("eq", n_features=4000)
    with torch.no_grad():
        kernel.features.log_lengthscale.fill_(torch.tensor(0.3).log())
    distance = X - X.T
    truth = torch.exp(-distance.square() / (2 * 0.3**2))  # ω ~ N(0, 1/ℓ²)
    assert torch.allclose(kernel(X, X).to_dense(), truth, atol=0.08)


class Process(gpytorch.models.ExactGP):
    def __init__(self, x: torch.Tensor, y: torch.Tensor, likelihood: torch.nn.Module) -> None:
        super().__init__(x, y, likelihood)
        self.mean_module, self.covar_module = gpytorch.means.ZeroMean(), ResponseKernel("ode1")

    def forward(self, x: torch.Tensor) -> object:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def test_low_rank_inference_is_that_of_the_dense_covariance() -> None:
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    likelihood.noise = 0.01
    y = torch.sin(6 * X[:, 0])
    model = Process(X, y, likelihood).double().eval()
    new = X + 0.01
    with torch.no_grad():
        mean = model(new).mean
        kernel = model.covar_module
        dense = kernel(X, X).to_dense() + 0.01 * torch.eye(30)
        expected = kernel(new, X).to_dense() @ torch.linalg.solve(dense, y)
    assert torch.allclose(mean, expected, atol=1e-6)


def test_an_unknown_system_is_refused() -> None:
    with pytest.raises(ConfigError, match="'ode9' is not known"):
        ResponseKernel("ode9")
    assert "ode9" not in SYSTEMS
