r"""The objectives: the only place where a bound is computed.

- :func:`elbo`: the paper's evidence lower bound (eq. 8), E_q[log p(y | f)] − KL.
- :func:`collapsed`: the ELBO at the best output weights for this batch. The maximum over q of a
  sample average is optimistic, so it trains and is never reported as an ELBO.
- :func:`predictive`: Σ_n log (1/S) Σ_s p(y_n | hidden sample s) − KL, output weights integrated.
- :func:`sampled_predictive`: the same with outputs that are sampled too, Σ_n log (1/S) Σ_s p(y_n | f_s)
  − KL. The authors' public code maximises this one.

By Jensen's inequality sampled_predictive ≤ predictive in expectation; both are at least the ELBO.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.errors import ConfigError
from deeplfm.features.columns import LayerColumns
from deeplfm.likelihoods import mask_missing
from deeplfm.model import DeepLFM

Total = Callable[..., Sequence[Tensor]]  # of sums over rows


@dataclass(frozen=True)
class Batch:
    """Rows of one step, or those that one of several processes has of it.

    Objectives of the parts of a batch add up to that of the batch.

    Attributes:
        x: inputs.
        y: targets; NaN marks a missing one.
        n_rows: number N of rows of the whole training set, to which the batch is scaled up.
        row_weight: weight of each row's likelihood.
        n_batch: number M of rows of the whole batch; ``None`` where these are all.
    """

    x: Float[Tensor, "M P"]
    y: Float[Tensor, "M D"]
    n_rows: int
    row_weight: Float[Tensor, " M"] | None = None
    n_batch: int | None = None

    @property
    def scale(self) -> float:
        """N/M, with missing entries too: N_d/M_d is biased, and undefined at M_d = 0."""
        return self.n_rows / (self.n_batch or len(self.x))

    @property
    def share(self) -> float:
        """Part of the whole batch: of what does not depend on rows, this much is counted here."""
        return len(self.x) / (self.n_batch or len(self.x))

    @property
    def target(self) -> Float[Tensor, "M D"]:
        """Targets, 0 where they are missing."""
        return mask_missing(self.y)[0]

    @property
    def weight(self) -> Float[Tensor, "M D"]:
        """Weight of each entry's likelihood, 0 where the target is missing."""
        observed = mask_missing(self.y)[1].to(self.y.dtype)
        return observed if self.row_weight is None else observed * self.row_weight[:, None]


def elbo(
    model: DeepLFM, batch: Batch, n_samples: int, generator: torch.Generator | None = None
) -> Float[Tensor, ""]:
    """Evidence lower bound, less the penalty of a noise head."""
    return _elbo(model, batch, model.features(batch.x, n_samples, generator), generator)


def collapsed(
    model: DeepLFM,
    batch: Batch,
    n_samples: int,
    generator: torch.Generator | None = None,
    rate: float = 1.0,
    total: Total = lambda *sums: sums,
) -> Float[Tensor, ""]:
    """The ELBO after a natural-gradient step of the exact output weights.

    With a full batch and rate 1 the weights are optimal. By the envelope theorem the gradient at
    fixed weights then is the gradient of the collapsed bound.
    """
    layer = model.output_layer
    features = model.features(batch.x, n_samples, generator)
    with torch.no_grad():
        target, precision = model.gaussian.precision(batch.x, batch.y, batch.row_weight)
        gram, moment = total(*layer.statistics(features, target, batch.scale * precision))
        layer.solve(gram, moment, rate)
    return _elbo(model, batch, features, generator)


def predictive(
    model: DeepLFM, batch: Batch, n_samples: int, generator: torch.Generator | None = None
) -> Float[Tensor, ""]:
    """Log-mean-exp over samples of the hidden layers, output weights integrated, − KL."""
    mean, variance = model(batch.x, n_samples, generator)
    target = batch.target.to(mean.dtype)
    log_density = model.likelihood.log_marginal(batch.x, target, mean, variance)
    return _log_mean_exp_bound(model, batch, log_density)


def sampled_predictive(
    model: DeepLFM, batch: Batch, n_samples: int, generator: torch.Generator | None = None
) -> Float[Tensor, ""]:
    """Log-mean-exp over samples of all layers, the output layer included, − KL."""
    features = model.features(batch.x, n_samples, generator)
    function = model.output_layer.sample(features, generator)
    log_density = model.likelihood.log_prob(batch.x, batch.target.to(function.dtype), function)
    return _log_mean_exp_bound(model, batch, log_density)


def _elbo(
    model: DeepLFM, batch: Batch, features: LayerColumns, generator: torch.Generator | None
) -> Float[Tensor, ""]:
    fit = model.likelihood.expected_log_prob(
        model.output_layer, features, batch.x, batch.target, batch.weight, generator
    )
    return batch.scale * fit - batch.share * model.kl() - batch.share * model.likelihood.penalty()


def _log_mean_exp_bound(
    model: DeepLFM, batch: Batch, log_density: Float[Tensor, "*S M D"]
) -> Float[Tensor, ""]:
    if log_density.dim() == 3:
        log_density = torch.logsumexp(log_density, dim=0) - math.log(len(log_density))
    fit = (batch.weight.to(log_density.dtype) * log_density).sum()
    return batch.scale * fit - batch.share * model.kl() - batch.share * model.likelihood.penalty()


Objective = Callable[[DeepLFM, Batch, int, torch.Generator | None], Float[Tensor, ""]]
OBJECTIVES: dict[str, Objective] = {
    "elbo": elbo,
    "predictive": predictive,
    "sampled-predictive": sampled_predictive,
    "collapsed": collapsed,
}


def objective(name: str, natural_rate: float = 1.0, total: Total = lambda *sums: sums) -> Objective:
    """The objective registered under a name."""
    if name == "collapsed":
        return partial(collapsed, rate=natural_rate, total=total)
    try:
        return OBJECTIVES[name]
    except KeyError:
        raise ConfigError(
            f"objective: {name!r} is not known. Choose one of {', '.join(OBJECTIVES)}."
        ) from None
