r"""The objectives: the only place where a bound is computed.

- :func:`elbo`: the paper's evidence lower bound (eq. 8), output weights integrated in closed form.
- :func:`predictive`: log-mean-exp over samples in place of the mean: what the public code maximises.
- :func:`collapsed`: the ELBO at the best output weights for this batch. The maximum over q of a
  sample average is optimistic, so it trains and is never reported as an ELBO.
- :func:`density`: for observations that are not Gaussian.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.errors import ConfigError
from deeplfm.features.columns import LayerColumns
from deeplfm.likelihoods import mask_missing
from deeplfm.model import DeepLFM


@dataclass(frozen=True)
class Batch:
    """Rows of one step.

    Attributes:
        x: inputs.
        y: targets; NaN marks a missing one.
        n_rows: number N of rows of the whole training set, by which the batch is scaled up.
        row_weight: weight of each row's likelihood.
    """

    x: Float[Tensor, "M P"]
    y: Float[Tensor, "M D"]
    n_rows: int
    row_weight: Float[Tensor, " M"] | None = None

    @property
    def scale(self) -> float:
        """N/M: with missing entries too, since N_d/M_d is undefined at M_d = 0 and biased."""
        return self.n_rows / len(self.x)

    def total(self, log_density: Float[Tensor, "*S M D"]) -> Float[Tensor, "*S"]:
        """Sum over the observed entries, scaled up to all rows."""
        _, observed = mask_missing(self.y)
        weight = observed.to(log_density.dtype)
        if self.row_weight is not None:
            weight = weight * self.row_weight[:, None]
        return self.scale * (log_density * weight).sum((-2, -1))


def elbo(
    model: DeepLFM,
    batch: Batch,
    n_samples: int,
    generator: torch.Generator | None = None,
    rate: float = 1.0,
) -> Float[Tensor, ""]:
    """Evidence lower bound: E_q[log p(y | f)] − KL, less the penalty of a noise head."""
    return _bound(model, batch, model.features(batch.x, n_samples, generator))


def collapsed(
    model: DeepLFM,
    batch: Batch,
    n_samples: int,
    generator: torch.Generator | None = None,
    rate: float = 1.0,
) -> Float[Tensor, ""]:
    """The bound after a natural-gradient step of the exact output weights.

    With a full batch and rate 1 the weights are optimal, and by the envelope theorem the gradient
    with the weights held fixed is the gradient of the collapsed bound.
    """
    layer = model.output_layer
    features = model.features(batch.x, n_samples, generator)
    with torch.no_grad():
        target, precision = model.gaussian.precision(batch.x, batch.y, batch.row_weight)
        layer.solve(*layer.statistics(features, target, batch.scale * precision), rate)
    return _bound(model, batch, features)


def predictive(
    model: DeepLFM,
    batch: Batch,
    n_samples: int,
    generator: torch.Generator | None = None,
    rate: float = 1.0,
) -> Float[Tensor, ""]:
    """Σ_n log (1/S) Σ_s p(y_n | sample s) − KL."""
    mean, variance = model(batch.x, n_samples, generator)
    target, _ = mask_missing(batch.y)
    noise = model.gaussian.variance(batch.x).to(mean.dtype)
    log_density = model.gaussian.log_marginal(target.to(mean.dtype), mean, variance, noise)
    if log_density.dim() == 3:
        log_density = torch.logsumexp(log_density, dim=0) - math.log(len(log_density))
    return batch.total(log_density) - model.kl() - model.likelihood.penalty()


def density(
    model: DeepLFM,
    batch: Batch,
    n_samples: int,
    generator: torch.Generator | None = None,
    rate: float = 1.0,
) -> Float[Tensor, ""]:
    """E_q[log p(y | f)] − KL for a likelihood of any shape, by samples of f for each row."""
    features = model.features(batch.x, n_samples, generator)
    function = model.output_layer.sample(features, generator)
    target, _ = mask_missing(batch.y)
    log_density = model.bells.log_prob(target.to(function.dtype), function).mean(0)
    return batch.total(log_density) - model.kl() - model.likelihood.penalty()


def _bound(model: DeepLFM, batch: Batch, features: LayerColumns) -> Float[Tensor, ""]:
    """The density of a perfect fit, less what the mean squares of the residuals take from it."""
    target, precision = model.gaussian.precision(batch.x, batch.y, batch.row_weight)
    noise = model.gaussian.variance(batch.x)
    perfect = model.gaussian.expected_log_prob(target, target, torch.zeros_like(target), noise)
    squares = model.output_layer.squares(features, target, precision)
    fit = batch.total(perfect.to(squares.dtype)) - 0.5 * batch.scale * squares
    return fit - model.kl() - model.likelihood.penalty()


Objective = Callable[..., Float[Tensor, ""]]
OBJECTIVES: dict[str, Objective] = {
    "elbo": elbo,
    "predictive": predictive,
    "collapsed": collapsed,
    "density": density,
}


def objective(name: str) -> Objective:
    """The objective registered under a name."""
    try:
        return OBJECTIVES[name]
    except KeyError:
        raise ConfigError(
            f"objective: {name!r} is not known. Choose one of {', '.join(OBJECTIVES)}."
        ) from None
