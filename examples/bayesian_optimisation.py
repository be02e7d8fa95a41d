"""Bayesian optimisation with BoTorch: find the best settings of a process in few trials.

The surrogate is a Gaussian process of BoTorch whose kernel is made of response features; the
acquisition functions, the optimiser and the fit are BoTorch's own. Needs the extra ``botorch``.

Run it with ``python bayesian_optimisation.py [folder for the figure]``.
"""

import sys
from pathlib import Path

import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Standardize
from botorch.optim import optimize_acqf
from gpytorch.kernels import ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from matplotlib.figure import Figure

from deeplfm.features import ResponseKernel

TRIALS = 12
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")


def quality(settings: torch.Tensor) -> torch.Tensor:
    """The process: its best settings, 0.3 and 0.7, are unknown to the optimiser."""
    return 1 - 4 * (settings - torch.tensor([0.3, 0.7])).square().sum(-1, keepdim=True)


torch.manual_seed(0)
bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
x = torch.rand(8, 2, dtype=torch.float64)  # random settings to begin with
y = quality(x)
for _ in range(TRIALS):
    kernel = ScaleKernel(ResponseKernel("eq", n_inputs=2, n_features=60))
    model = SingleTaskGP(x, y, covar_module=kernel, outcome_transform=Standardize(1))
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    acquisition = LogExpectedImprovement(model, best_f=y.max())
    new, _ = optimize_acqf(acquisition, bounds, q=1, num_restarts=2, raw_samples=64)
    x, y = torch.cat([x, new]), torch.cat([y, quality(new)])

best = int(y.argmax())
first, second = x[best].tolist()
print(
    f"Best of {len(y)} trials: settings {first:.3f} and {second:.3f}, quality {y[best].item():.3f}"
)

figure = Figure(figsize=(7, 3), layout="constrained")
axes = figure.subplots()
axes.plot(range(1, len(y) + 1), y[:, 0], "o", label="trial")
axes.plot(range(1, len(y) + 1), y[:, 0].cummax(0).values, label="best so far")
axes.set(xlabel="trial", ylabel="quality")
axes.legend()
folder.mkdir(parents=True, exist_ok=True)
figure.savefig(folder / "bayesian_optimisation.png")
