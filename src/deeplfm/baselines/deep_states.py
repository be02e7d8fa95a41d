r"""Deep Gaussian process of the states of an equation, together with its derivative."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from deeplfm.baselines.evidence import fit_from
from deeplfm.features.projections import ExponentiatedQuadratic
from deeplfm.randomness import generator_for
from deeplfm.variational import Frequencies

_LENGTHSCALES = (0.02, 0.1, 0.4)  # of states over a record of length 1, to start from
_MAX_LENGTHSCALE = 0.5  # along time: hidden values that return must not make two times the same
_HIDDEN_LENGTHSCALE = 0.3  # of hidden values over time, to start from
_WEIGHT_STD = 0.3  # of hidden weights to start from; 0 is a saddle
_NOISE_VARIANCE, LEAST_NOISE = 0.1, 1e-6


class DeepStates(nn.Module):
    r"""States x_d(t) = g_d(t, h(t)): a layer h = Φ(t) W of random features, and one process g_d each.

    Features are those of an exponentiated-quadratic kernel with learned lengthscale, the weights W are
    standard normal, and g_d is a Matérn-5/2 process of time and hidden values, with a learned
    lengthscale along time and one of 1 along h. Given h, a state and its derivative
    dx_d/dt = ∇g_d · (1, dh/dt) are jointly Gaussian.
    """

    seen: tuple[Tensor, Tensor, Tensor]

    def __init__(
        self, n_states: int, n_hidden: int, n_features: int, lengthscale: float, seed: int = 0
    ) -> None:
        super().__init__()
        generator = generator_for(seed, "model")
        self.features = ExponentiatedQuadratic(1, 1, n_features)
        self.features.requires_grad_(False).log_lengthscale.fill_(math.log(_HIDDEN_LENGTHSCALE))
        self.features.log_lengthscale.requires_grad_(True)
        self.frequencies = Frequencies(self.features, "prior-fixed", generator=generator)
        weight = torch.randn(self.features.n_columns, n_hidden, generator=generator)
        self.weight = nn.Parameter(_WEIGHT_STD * weight)
        self.log_lengthscale = nn.Parameter(torch.full((n_states,), math.log(lengthscale)))
        self.log_variance = nn.Parameter(torch.zeros(n_states))
        self.log_noise = nn.Parameter(torch.full((n_states,), math.log(_NOISE_VARIANCE)))
        self.double()

    @classmethod
    def fitted(
        cls,
        time: Float[Tensor, " N"],
        values: Float[Tensor, "N D"],
        n_hidden: int,
        n_features: int,
        n_steps: int = 60,
        time_limit: float | None = None,
        seed: int = 0,
    ) -> DeepStates:
        """Hidden weights and hyper-parameters that are most likely, given the known values."""
        known = ~values.isnan()
        filled = values.nan_to_num(0.0)
        states = fit_from(
            [cls(values.shape[1], n_hidden, n_features, size, seed) for size in _LENGTHSCALES],
            lambda states: states._loss(time, filled, known),
            n_steps,
            "ConstrainedGP",
            time_limit,
        )
        states.seen = time, filled, known
        return states.requires_grad_(False)

    @property
    def noise(self) -> Float[Tensor, " D"]:
        """Variance of the observation noise of each state."""
        return self.log_noise.exp() + LEAST_NOISE

    def hidden(
        self, time: Float[Tensor, " N"]
    ) -> tuple[Float[Tensor, "N H"], Float[Tensor, "N H"]]:
        """Hidden values and their derivatives."""
        frequency = self.frequencies(self.features, 1)
        columns = self.features(time[:, None], frequency, self.frequencies.feature_weight)[0]
        cosine, sine = columns.chunk(2, -1)
        turned = torch.cat([-sine, cosine], 1) * frequency.flatten().repeat(2)
        return columns @ self.weight, turned @ self.weight

    def covariances(
        self, first: Float[Tensor, " A"], second: Float[Tensor, " B"]
    ) -> tuple[Float[Tensor, "D A B"], Float[Tensor, "D A B"], Float[Tensor, "D A B"]]:
        """Of values with values, derivatives with values, and derivatives with derivatives."""
        (here, velocity), (there, other_velocity) = self._paths(first), self._paths(second)
        values, fall, far = self._matern(here, there)
        along = (here * velocity).sum(-1, keepdim=True) - velocity @ there.mT  # lags by velocities
        other_along = here @ other_velocity.mT - (there * other_velocity).sum(-1).unsqueeze(-2)
        slope = fall * (1 + far)
        both = slope * (velocity @ other_velocity.mT) - fall * along * other_along
        return values, -slope * along, both

    def smoothed(self, time: Float[Tensor, " N"]) -> Float[Tensor, "N D"]:
        """Posterior mean of the states."""
        seen, values, known = self.seen
        weight = torch.cholesky_solve(values.mT.unsqueeze(-1), self._factor(seen, known))
        cross, *_ = self._matern(self._paths(time)[0], self._paths(seen)[0])
        return (cross @ weight)[..., 0].mT

    def _paths(self, time: Float[Tensor, " N"]) -> tuple[Tensor, Tensor]:
        """Scaled inputs (t, h) of each state, and their derivative."""
        hidden, slope = self.hidden(time)
        along_time = torch.exp(-self.log_lengthscale) + 1 / _MAX_LENGTHSCALE
        rate = nn.functional.pad(along_time[:, None], (0, hidden.shape[1]), value=1.0)
        path = torch.cat([time[:, None], hidden], 1)
        velocity = torch.cat([torch.ones_like(time)[:, None], slope], 1)
        rate = math.sqrt(5) * rate.unsqueeze(-2)  # D 1 1+H
        return rate * path, rate * velocity

    def _matern(
        self, here: Float[Tensor, "D A F"], there: Float[Tensor, "D B F"]
    ) -> tuple[Float[Tensor, "D A B"], Float[Tensor, "D A B"], Float[Tensor, "D A B"]]:
        """Covariance of values, the common factor of its derivatives, and the distances."""
        far = torch.cdist(here, there, compute_mode="donot_use_mm_for_euclid_dist")
        fall = self.log_variance.exp()[:, None, None] * torch.exp(-far) / 3
        return fall * (3 + 3 * far + far.square()), fall, far

    def _factor(self, time: Tensor, known: Bool[Tensor, "N D"]) -> Float[Tensor, "D N N"]:
        """Cholesky factor of the covariance of the observations; the identity where there are none."""
        path, _ = self._paths(time)
        gram, *_ = self._matern(path, path)
        mask = known.mT.to(gram)
        diagonal = torch.where(known.mT, self.noise[:, None], 1.0)
        return torch.linalg.cholesky(gram * mask[:, None] * mask[..., None] + diagonal.diag_embed())

    def _loss(self, time: Tensor, values: Tensor, known: Tensor) -> Tensor:
        factor = self._factor(time, known)
        white = torch.linalg.solve_triangular(factor, values.mT.unsqueeze(-1), upper=False)
        logdet = factor.diagonal(dim1=-2, dim2=-1).log().sum()
        total = 0.5 * white.square().sum() + logdet + 0.5 * self.weight.square().sum()
        return total / known.sum()
