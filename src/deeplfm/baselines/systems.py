"""Differential equations with parameters to be found, and their solutions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor


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
