"""A fitted regressor as a model of BoTorch, for Bayesian optimisation.

Needs the extra ``botorch``: ``pip install "deeplfm[botorch]"``.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from deeplfm.errors import ConfigError
from deeplfm.estimators.regressor import DeepLFMRegressor

with warnings.catch_warnings():  # linear_operator still scripts its solvers with torch.jit
    warnings.simplefilter("ignore", DeprecationWarning)
    from botorch.models.model import Model
    from botorch.posteriors import GPyTorchPosterior
    from gpytorch.distributions import MultitaskMultivariateNormal, MultivariateNormal
    from linear_operator.operators import DiagLinearOperator


class BotorchModel(Model):
    """Predictions of a fitted regressor, which acquisition functions optimise.

    The posterior is Gaussian with the mean and variance of each prediction, and independent between
    points: use acquisition functions of single points (``q=1``). Gradients reach the points. For joint
    posteriors of several points, use :class:`~deeplfm.features.ResponseKernel` in a GP of BoTorch.

    Args:
        regressor: a fitted :class:`~deeplfm.DeepLFMRegressor` whose targets are no logarithms.
    """

    def __init__(self, regressor: DeepLFMRegressor) -> None:
        super().__init__()
        check_is_fitted(regressor)
        if regressor.scaling_.is_log.any():
            raise ConfigError(
                "BotorchModel: the targets are modelled by their logarithm, whose prediction is no "
                "Gaussian. Fit with log_targets=False."
            )
        self.regressor = regressor

    @property
    def num_outputs(self) -> int:
        """Number of targets."""
        return self.regressor.labels_.n_outputs

    @property
    def batch_shape(self) -> torch.Size:
        """There is one model."""
        return torch.Size()

    def posterior(
        self,
        X: Float[Tensor, "*B Q P"],
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: Any = None,
    ) -> Any:
        """Posterior of the function, or of observations, at some points.

        Args:
            X: points in the units of the user.
            output_indices: which targets; all by default.
            observation_noise: whether to include the noise.
            posterior_transform: of BoTorch.
        """
        scaling = self.regressor.scaling_
        shift = torch.as_tensor(scaling.x_shift, dtype=X.dtype)
        scale = torch.as_tensor(scaling.x_scale, dtype=X.dtype)
        flat = ((X.reshape(-1, X.shape[-1]) - shift) / scale).to(self.regressor.dtype_)
        found = scaling.predictive(self.regressor.model_.posterior(flat))
        mean, variance = found.mean, found.variance(latent=not bool(observation_noise))
        if output_indices is not None:
            mean, variance = mean[:, output_indices], variance[:, output_indices]
        shape = (*X.shape[:-1], mean.shape[-1])
        mean, variance = mean.reshape(shape).to(X.dtype), variance.reshape(shape).to(X.dtype)
        parts = [
            MultivariateNormal(mean[..., d], DiagLinearOperator(variance[..., d]))
            for d in range(shape[-1])
        ]
        joint = (
            parts[0]
            if len(parts) == 1
            else MultitaskMultivariateNormal.from_independent_mvns(parts)
        )
        posterior = GPyTorchPosterior(joint)
        return posterior if posterior_transform is None else posterior_transform(posterior)
