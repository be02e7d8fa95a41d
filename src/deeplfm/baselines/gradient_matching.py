r"""States and parameters of an equation, from noisy values and a process of its derivative."""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.baselines.deep_states import LEAST_NOISE, DeepStates
from deeplfm.errors import TrainingDivergedError

_JITTER = 1e-7  # of a variance
_PARAMETER_STD = 10.0  # of the prior of each parameter, about 0
_FLAT = 1e-7  # relative fall of the objective that ends a search
_MOST_DAMPING = 1e10


@dataclass(frozen=True)
class System:
    """dx/dt = f(x, θ)."""

    n_states: int
    parameters: tuple[str, ...]
    start: Float[Tensor, " R"]
    rate: Callable[[Tensor, Tensor], Tensor]

    def scaled(self, shift: Float[Tensor, " D"], scale: Float[Tensor, " D"], time: float) -> System:
        """The same equation of (x − shift)/scale, in units of a time."""

        def rate(states: Tensor, parameters: Tensor) -> Tensor:
            return self.rate(states * scale + shift, parameters) * (time / scale)

        return replace(self, rate=rate)


def _fitzhugh_nagumo(states: Tensor, parameters: Tensor) -> Tensor:
    voltage, recovery = states.unbind(-1)
    a, b, c = parameters.unbind(-1)
    return torch.stack(
        [a * (voltage - voltage**3 / 3 + recovery), -(voltage - b + c * recovery) / a], -1
    )


def _lotka_volterra(states: Tensor, parameters: Tensor) -> Tensor:
    prey, predators = states.unbind(-1)
    alpha, beta, gamma, delta = parameters.unbind(-1)
    return torch.stack([prey * (alpha - beta * predators), -predators * (gamma - delta * prey)], -1)


SYSTEMS = {
    "fitzhugh-nagumo": System(2, ("a", "b", "c"), torch.ones(3).double(), _fitzhugh_nagumo),
    "lotka-volterra": System(
        2, ("alpha", "beta", "gamma", "delta"), torch.ones(4).double(), _lotka_volterra
    ),
}


def follow(
    system: System,
    states: Float[Tensor, "C D"],
    parameters: Float[Tensor, "C R"],
    start: Float[Tensor, ""],
    time: Float[Tensor, " N"],
    step: float,
) -> Float[Tensor, "C N D"]:
    """Solutions at times that lead away from the start, one after another, by Runge and Kutta."""
    path = []
    now = float(start)
    for then in time.tolist():
        n_steps = max(1, round(abs(then - now) / step + 0.5))
        for _ in range(n_steps):
            states = _runge_kutta(system, states, parameters, (then - now) / n_steps)
        now = then
        path.append(states)
    return torch.stack(path, 1) if path else states[:, None][:, :0]


def _runge_kutta(system: System, states: Tensor, parameters: Tensor, step: float) -> Tensor:
    first = system.rate(states, parameters)
    second = system.rate(states + step / 2 * first, parameters)
    third = system.rate(states + step / 2 * second, parameters)
    fourth = system.rate(states + step * third, parameters)
    return states + step / 6 * (first + 2 * second + 2 * third + fourth)


class Matching:
    r"""−log p(x, θ | y) up to a constant, as a sum of squares, and its minimum.

    The states have a flat prior. Their Gaussian process prior prefers the smoother solutions of the
    equation, which moves the parameters by many of their standard deviations; with none, they agree
    with least squares on the solutions themselves.
    """

    def __init__(
        self,
        system: System,
        time: Float[Tensor, " N"],
        values: Float[Tensor, "N D"],
        prior: DeepStates,
        deadline: float = math.inf,
    ) -> None:
        self.system, self.values, self.known = system, values.nan_to_num(0.0), ~values.isnan()
        self.deadline = deadline
        self.noise = prior.noise
        state, cross, slope = prior.covariances(time, time)
        self.map = torch.linalg.solve(state + _jitter(state), cross.mT).mT  # M of each state
        rest = slope - self.map @ cross.mT + _jitter(slope)
        self.precision = torch.linalg.inv((rest + rest.mT) / 2)  # and K⁻¹

    @property
    def is_late(self) -> bool:
        """Whether no time is left."""
        return clock.monotonic() > self.deadline

    def match(
        self, states: Float[Tensor, "N D"], parameters: Float[Tensor, " R"], n_steps: int
    ) -> Float[Tensor, " R"]:
        """Parameters that fit best to states that stay as they are."""
        return self._descend(states, parameters, n_steps, are_states_known=True)[1]

    def solve(
        self, states: Float[Tensor, "N D"], parameters: Float[Tensor, " R"], n_steps: int
    ) -> tuple[Tensor, Tensor, Float[Tensor, "U U"]]:
        """States, parameters, and the covariance of both: states one after another, then parameters."""
        states, parameters = self._descend(states, parameters, n_steps)
        matrix, _ = self._normal_equations(states, parameters)
        return states, parameters, torch.linalg.inv(matrix)

    def learn_noise(self, states: Float[Tensor, "N D"], covariance: Float[Tensor, "U U"]) -> None:
        """Variance of each state's noise: the expected square of what is left."""
        variance = covariance.diagonal()[: states.numel()].reshape(states.shape[1], -1).mT
        square = ((self.values - states).square() + variance) * self.known
        self.noise = (square.sum(0) / self.known.sum(0)).clamp_min(LEAST_NOISE)

    def _descend(
        self, states: Tensor, parameters: Tensor, n_steps: int, are_states_known: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Damped Gauss–Newton steps (Levenberg and Marquardt)."""
        n_fixed = states.numel() if are_states_known else 0
        value, damping = self._objective(states, parameters), 1e-3
        for _ in range(n_steps):
            matrix, gradient = self._normal_equations(states, parameters)
            matrix, gradient = matrix[n_fixed:, n_fixed:], gradient[n_fixed:]
            while damping < _MOST_DAMPING:
                damped = matrix + damping * matrix.diagonal().diag()
                step = torch.zeros(states.numel() + len(parameters), dtype=states.dtype)
                step[n_fixed:] = -torch.linalg.solve(damped, gradient)
                moved = states + step[: states.numel()].reshape(states.shape[1], -1).mT
                turned = parameters + step[states.numel() :]
                new_value = self._objective(moved, turned)
                if new_value < value:
                    break
                damping *= 4
            else:
                break
            fall = float((value - new_value) / value.abs())
            states, parameters, value, damping = moved, turned, new_value, damping / 8
            if fall < _FLAT or self.is_late:
                break
        if not value.isfinite():
            raise TrainingDivergedError(
                "ConstrainedGP.fit: the equation is not finite at its starting parameters "
                f"{self.system.start.tolist()}. Check the units of the targets."
            )
        return states, parameters

    def _objective(self, states: Tensor, parameters: Tensor) -> Tensor:
        gap = self.system.rate(states, parameters) - self._slopes(states)
        total = (parameters / _PARAMETER_STD).square().sum()
        total = total + ((self.values - states).square() * self.known / self.noise).sum()
        total = total + torch.einsum("md,dmn,nd->", gap, self.precision, gap)
        return 0.5 * total

    def _normal_equations(self, states: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Gauss–Newton matrix and gradient of the objective."""
        n_rows, n_states = states.shape
        n_unknown = states.numel() + len(parameters)
        gap = self.system.rate(states, parameters) - self._slopes(states)
        by_state, by_parameter = (
            torch.func.vmap(torch.func.jacrev(self.system.rate, argument), (0, None))(
                states, parameters
            )
            for argument in (0, 1)
        )  # N D D and N D R
        matrix = torch.zeros(n_unknown, n_unknown, dtype=states.dtype)
        gradient = torch.zeros(n_unknown, dtype=states.dtype)
        for d in range(n_states):
            own = slice(d * n_rows, (d + 1) * n_rows)
            weight = self.known[:, d] / self.noise[d]
            matrix[own, own] += weight.diag()
            gradient[own] -= weight * (self.values[:, d] - states[:, d])
            jacobian = torch.cat(
                [by_state[:, d, e].diag() for e in range(n_states)] + [by_parameter[:, d]], 1
            )
            jacobian[:, own] -= self.map[d]
            weighted = self.precision[d] @ jacobian
            matrix += jacobian.mT @ weighted
            gradient += weighted.mT @ gap[:, d]
        last = slice(states.numel(), None)
        matrix[last, last] += torch.eye(len(parameters), dtype=states.dtype) / _PARAMETER_STD**2
        gradient[last] += parameters / _PARAMETER_STD**2
        return (matrix + matrix.mT) / 2, gradient

    def _slopes(self, states: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        """Derivatives that the processes expect of the states."""
        return torch.einsum("dmn,nd->md", self.map, states)


def _jitter(covariance: Float[Tensor, "D N N"]) -> Float[Tensor, "D N N"]:
    return _JITTER * covariance.diagonal(dim1=-2, dim2=-1).diag_embed()
