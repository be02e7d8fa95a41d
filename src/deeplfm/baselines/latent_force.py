r"""The classical latent force model, with its exact kernel."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from deeplfm.baselines.base import Baseline, paths
from deeplfm.baselines.evidence import fit_from
from deeplfm.errors import InputError
from deeplfm.estimators.arrays import check_inputs
from deeplfm.inspection.forces import Curve
from deeplfm.predictive.mixture import Predictive
from deeplfm.randomness import generator_for

with warnings.catch_warnings():  # linear_operator still scripts its solvers with torch.jit
    warnings.simplefilter("ignore", DeprecationWarning)
    import gpytorch

_LENGTHSCALES = (0.03, 0.1, 0.3)  # of forces, over a record of length 1; to start from
_DECAY = 5.0
_NOISE_VARIANCE = 0.1
_SPREAD = 0.3  # of the initial sensitivities
_LEAST_NOISE, _JITTER = 1e-6, 1e-8
_MOST_VALUES = 6000


class LatentForceKernel(gpytorch.kernels.Kernel):
    r"""Covariance of f_d(t) where f_d' + γ_d f_d = Σ_q S_dq u_q, u_q ~ GP(0, exp(−(t−t')²/ℓ_q²)).

    Inputs have two columns: time, and the number d of the output. With ν = ℓγ/2 and

        P(γ, Δ) = e^{ν² − γΔ} erfc(ν − Δ/ℓ),

    through erfcx, so that a large ν costs no accuracy, all covariances are sums of P: of outputs

        k_dd' = Σ_q S_dq S_d'q (√π ℓ/2) [H(γ_d', γ_d, t', t) + H(γ_d, γ_d', t, t')],
        H(α, β, s, t) = [G(α, s−t, t) − e^{−βt} G(α, s, 0)]/(α+β),
        G(α, Δ, t) = P(α, Δ) − e^{−α(Δ+t)} P(α, −t),

    and of an output with a force S (√π ℓ/2) G(γ, t−t', t').

    Args:
        n_outputs: number D of outputs.
        n_forces: number Q of forces.
        is_running: the system is stationary: H = P/(α+β) and G = P; otherwise it is at rest at time 0.
    """

    def __init__(self, n_outputs: int, n_forces: int, is_running: bool = True) -> None:
        super().__init__()
        self.is_running = is_running
        self.log_lengthscale = nn.Parameter(torch.zeros(n_forces, dtype=torch.float64))
        self.log_decay = nn.Parameter(torch.zeros(n_outputs, dtype=torch.float64))
        self.sensitivity = nn.Parameter(torch.ones(n_outputs, n_forces, dtype=torch.float64))

    @property
    def decay(self) -> Float[Tensor, " D"]:
        """Decay γ of each output."""
        return self.log_decay.exp()

    def forward(
        self, x1: Float[Tensor, "A 2"], x2: Float[Tensor, "B 2"], diag: bool = False, **_: Any
    ) -> Tensor:
        """Covariance of two sets of (time, output)."""
        first, second = (x1, x2) if diag else (x1[..., :, None, :], x2[..., None, :, :])
        t1, d1, t2, d2 = first[..., 0], first[..., 1].long(), second[..., 0], second[..., 1].long()
        decay1, decay2 = self.decay[d1], self.decay[d2]
        is_gram = not diag and torch.equal(x1, x2)
        total = torch.zeros_like(decay1 + decay2)
        for q, lengthscale in enumerate(self.log_lengthscale.exp()):
            forward = self._half(decay2, decay1, t2, t1, lengthscale)
            if is_gram:
                backward = forward.mT
            else:
                backward = self._half(decay1, decay2, t1, t2, lengthscale)
            strength = self.sensitivity[d1, q] * self.sensitivity[d2, q]
            total = total + strength * lengthscale * (forward + backward)
        return 0.5 * math.sqrt(math.pi) * total

    def with_force(
        self, x: Float[Tensor, "A 2"], time: Float[Tensor, " B"], force: int
    ) -> Float[Tensor, "A B"]:
        """Covariance of outputs with a force."""
        output = x[:, 1].long()
        lengthscale = self.log_lengthscale[force].exp()
        response = self._response(self.decay[output, None], x[:, :1] - time, time, lengthscale)
        strength = self.sensitivity[output, force, None]
        return 0.5 * math.sqrt(math.pi) * lengthscale * strength * response

    def _half(self, a: Tensor, b: Tensor, s: Tensor, t: Tensor, lengthscale: Tensor) -> Tensor:
        value = self._response(a, s - t, t, lengthscale)
        if not self.is_running:
            at_rest = self._response(a, s, torch.zeros_like(t), lengthscale)
            value = value - torch.exp(-b * t) * at_rest
        return value / (a + b)

    def _response(self, decay: Tensor, lag: Tensor, t: Tensor, lengthscale: Tensor) -> Tensor:
        value = _scaled_erfc(decay, lag, lengthscale)
        if self.is_running:
            return value
        return value - torch.exp(-decay * (lag + t)) * _scaled_erfc(decay, -t, lengthscale)


def _scaled_erfc(decay: Tensor, lag: Tensor, lengthscale: Tensor) -> Tensor:
    r"""P(γ, Δ) = e^{ν² − γΔ} erfc(ν − Δ/ℓ): for z = ν − Δ/ℓ ≥ 0 it is e^{−Δ²/ℓ²} erfcx(z)."""
    half = 0.5 * lengthscale * decay
    z = half - lag / lengthscale
    near = torch.exp(-(lag / lengthscale).square()) * torch.special.erfcx(z.abs())
    # erfc(z) = 2 − erfc(−z); the exponent is negative there, and must not overflow elsewhere
    far = 2 * torch.exp((half.square() - decay * lag).clamp(max=0.0)) - near
    return torch.where(z >= 0, near, far)


@dataclass(eq=False, repr=False)
class LatentForceModel(Baseline):
    r"""y_d = c_d + f_d + ε_d with f_d' + γ_d f_d = Σ_q S_dq u_q, and all outputs sharing the forces.

    Hyper-parameters maximise the marginal likelihood: a few steps of L-BFGS from each of several
    lengthscales, then on from the best. The cost is the cube of all known values.

    Args:
        n_forces: number Q of latent forces.
        is_running: the record was cut out of a system that was running before; otherwise it is at rest
            at the first row, as in the paper.
        n_steps: steps of L-BFGS from the best start.
        time_limit: seconds of training; ``None`` for no limit.
        random_state: seed of the starting sensitivities.

    Attributes:
        decay_: decay γ of each output, per unit of time.
    """

    is_series: ClassVar[bool] = True
    counts: ClassVar[tuple[str, ...]] = ("n_forces", "n_steps")

    n_forces: int = 2
    is_running: bool = True
    n_steps: int = 100
    time_limit: float | None = None
    random_state: int = 0

    def _fit(self, x: Float[Tensor, "N P"], y: Float[Tensor, "N D"]) -> None:
        row, output = (~y.isnan()).nonzero(as_tuple=True)
        if len(row) > _MOST_VALUES:
            raise InputError(
                f"LatentForceModel.fit: {len(row)} known values, but its cost is their cube and "
                f"{_MOST_VALUES} the most it takes. Thin the rows out, or fit "
                "DeepLFMRegressor(model='lfm')."
            )
        starts = [self._start(y.shape[1], size) for size in _LENGTHSCALES]
        places, values = _places(x[row, 0], output), y[row, output]
        self.process_ = fit_from(
            starts,
            lambda process: process.loss(places, values),
            self.n_steps,
            "LatentForceModel",
            self.time_limit,
        )
        with torch.no_grad():
            self.process_.condition(places, values)
            self.decay_ = self.process_.kernel.decay.numpy() / self.scaling_.x_scale[0]

    def _start(self, n_outputs: int, lengthscale: float) -> _Process:
        kernel = LatentForceKernel(n_outputs, self.n_forces, self.is_running)
        generator = generator_for(self.random_state, "start")
        shape = kernel.sensitivity.shape
        noise = torch.randn(shape, generator=generator, dtype=torch.float64)
        with torch.no_grad():
            kernel.log_lengthscale.fill_(math.log(lengthscale))
            spread = torch.linspace(0, 1, self.n_forces, dtype=torch.float64)
            kernel.log_lengthscale.add_(spread)  # forces that are alike would stay alike
            kernel.log_decay.fill_(math.log(_DECAY))
            kernel.sensitivity.copy_(1 + _SPREAD * noise)
            kernel.sensitivity[:, 1:].mul_(noise[:, 1:].sign())
            variance = _diagonal(kernel, torch.ones(n_outputs), torch.arange(n_outputs))
            kernel.sensitivity.div_(variance.sqrt()[:, None])
        return _Process(kernel, n_outputs)

    def _predict(self, x: Float[Tensor, "N P"]) -> Predictive:
        n_outputs = len(self.process_.constant)
        columns = [_places(x[:, 0], torch.full((len(x),), d)) for d in range(n_outputs)]
        marginals = [self.process_.marginals(places) for places in columns]
        mean, variance = (torch.stack(part, 1) for part in zip(*marginals, strict=True))

        def draw(n_draws: int, seed: int) -> Tensor:
            joint = self.process_.joint(torch.cat(columns))
            drawn = paths(*joint, n_draws, generator_for(seed, "draw"))
            return drawn.reshape(n_draws, n_outputs, len(x)).mT

        weight = torch.ones(1, n_outputs, dtype=mean.dtype)
        noise = self.process_.noise_variance.expand_as(mean)
        return Predictive(mean[None], variance[None], noise, weight, draw)

    @torch.no_grad()
    def forces(self, X: Any) -> list[Curve]:
        """Posterior of each latent force at some times, in units of its own standard deviation.

        A constant force only shifts the outputs, as their levels c_d do: the data determine the shape
        of a force and not its level.
        """
        check_is_fitted(self)
        inputs = check_inputs(X, 1, type(self).__name__)
        time = torch.as_tensor(self.scaling_.inputs(inputs)[:, 0])
        curves = []
        for force in range(self.n_forces):
            mean, variance = self.process_.force(time, force)
            label = "force" if self.n_forces == 1 else f"force {force + 1}"
            curves.append(Curve(label, "lfm", mean.numpy(), np.sqrt(variance.numpy())))
        return curves


class _Process(nn.Module):
    """A latent force model, and its posterior once it is conditioned on data."""

    def __init__(self, kernel: LatentForceKernel, n_outputs: int) -> None:
        super().__init__()
        self.kernel = kernel
        self.constant = nn.Parameter(torch.zeros(n_outputs, dtype=torch.float64))
        self.log_noise = nn.Parameter(torch.full_like(self.constant, math.log(_NOISE_VARIANCE)))

    @property
    def noise_variance(self) -> Float[Tensor, " D"]:
        """Of each output."""
        return self.log_noise.exp() + _LEAST_NOISE

    def loss(self, places: Float[Tensor, "N 2"], values: Float[Tensor, " N"]) -> Tensor:
        """Minus the log marginal likelihood per value."""
        factor, residual = self._factor(places, values)
        white = torch.linalg.solve_triangular(factor, residual[:, None], upper=False)
        log_determinant = 2 * factor.diagonal().log().sum()
        constant = len(values) * math.log(2 * math.pi)
        return 0.5 * (white.square().sum() + log_determinant + constant) / len(values)

    def condition(self, places: Tensor, values: Tensor) -> None:
        """Condition on data."""
        self.places = places
        self.factor, residual = self._factor(places, values)
        self.coefficient = torch.cholesky_solve(residual[:, None], self.factor)[:, 0]

    def marginals(self, places: Float[Tensor, "N 2"]) -> tuple[Tensor, Tensor]:
        """Mean and variance of the functions at some places."""
        cross = self.kernel(places, self.places).to_dense()
        prior = self.kernel(places, places, diag=True)
        mean, explained = self._update(cross)
        return mean + self.constant[places[:, 1].long()], (prior - explained).clamp_min(0.0)

    def joint(self, places: Float[Tensor, "N 2"]) -> tuple[Tensor, Tensor]:
        """Mean and covariance of the functions at some places."""
        cross = self.kernel(places, self.places).to_dense()
        white = torch.linalg.solve_triangular(self.factor, cross.mT, upper=False)
        covariance = self.kernel(places, places).to_dense() - white.mT @ white
        return cross @ self.coefficient + self.constant[places[:, 1].long()], covariance

    def force(self, time: Float[Tensor, " N"], force: int) -> tuple[Tensor, Tensor]:
        """Mean and variance of a force, whose prior variance is 1."""
        mean, explained = self._update(self.kernel.with_force(self.places, time, force).mT)
        return mean, (1 - explained).clamp_min(0.0)

    def _update(self, cross: Float[Tensor, "A N"]) -> tuple[Tensor, Tensor]:
        """Mean and explained variance of values with this covariance to the data."""
        white = torch.linalg.solve_triangular(self.factor, cross.mT, upper=False)
        return cross @ self.coefficient, white.square().sum(0)

    def _factor(self, places: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        output = places[:, 1].long()
        gram = self.kernel(places, places).to_dense()
        noise = self.noise_variance[output] + _JITTER
        return torch.linalg.cholesky(gram + noise.diag()), values - self.constant[output]


def _places(time: Float[Tensor, " N"], output: Int[Tensor, " N"]) -> Float[Tensor, "N 2"]:
    return torch.stack([time, output.to(time)], 1)


def _diagonal(kernel: LatentForceKernel, time: Tensor, output: Tensor) -> Tensor:
    places = _places(time.double(), output)
    return kernel(places, places, diag=True)
