r"""Deep Gaussian processes held to a differential equation whose parameters are not known."""

from __future__ import annotations

import math
import time as clock
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
import torch
from jaxtyping import Float, Int
from scipy.interpolate import CubicHermiteSpline
from torch import Tensor

from deeplfm.baselines.base import Baseline, of_functions
from deeplfm.baselines.deep_states import DeepStates
from deeplfm.baselines.gradient_matching import SYSTEMS, Matching, System, follow
from deeplfm.errors import ConfigError, InputError, TrainingDivergedError
from deeplfm.predictive.mixture import Predictive
from deeplfm.randomness import generator_for

_N_NOISE = 3  # updates of the noise variance
_PRIORS = 0.2  # of the time limit, for the hyper-parameters


@dataclass(eq=False, repr=False)
class ConstrainedGP(Baseline):
    r"""C-DGP: states of a deep Gaussian process, given that their derivatives are f_d(x, θ).

    States are processes of time and of a hidden layer (see :class:`DeepStates`). With the hidden layer
    known, a state and its derivative are jointly Gaussian: ẋ | x ~ N(M x, K). On a grid of times the
    constraint ẋ = f(x, θ) has that density, so that

        −log p(x, θ | y) = ½ Σ_d { |f_d(x, θ) − M x|²_{K⁻¹} + |y − x|²/σ_d² } + prior of θ,

    with a flat prior of x. Hidden weights and hyper-parameters are the most likely ones of the states
    as they are observed. States and parameters are found together by damped Gauss–Newton steps, and
    have the Gaussian posterior (Laplace) of its last matrix. A prediction is a set of draws: between
    grid times the cubic that state and derivative ask for, beyond them the solution of the equation.
    Lorenzi and Filippone (2018), whose model this is, have random features in the last layer too, and
    variational inference of all weights.

    Args:
        system: "fitzhugh-nagumo" or "lotka-volterra"; targets are its states, in this order.
        n_hidden: width of the hidden layer.
        n_features: random frequencies of the hidden layer.
        n_grid: the constraint holds at training times, and between them where a step is longer than
            one in so many of the record.
        n_draws: functions in a prediction.
        n_steps: most Gauss–Newton steps.
        time_limit: seconds, looked at between steps; ``None`` for no limit.
        random_state: seed of the hidden frequencies and of the draws.

    Attributes:
        parameters_: posterior mean and standard deviation of each parameter, by name.
    """

    is_series: ClassVar[bool] = True
    most_rows = 2000
    counts: ClassVar[tuple[str, ...]] = ("n_hidden", "n_features", "n_grid", "n_draws", "n_steps")

    system: str = "fitzhugh-nagumo"
    n_hidden: int = 3
    n_features: int = 50
    n_grid: int = 200
    n_draws: int = 100
    n_steps: int = 100
    time_limit: float | None = None
    random_state: int = 0

    def _fit(self, x: Float[Tensor, "N P"], y: Float[Tensor, "N D"]) -> None:
        system = self._scaled_system(y.shape[1])
        time, row = _grid(x[:, 0], self.n_grid)
        values = torch.full((len(time), y.shape[1]), torch.nan, dtype=y.dtype)
        values[row] = y
        limit = math.inf if self.time_limit is None else self.time_limit
        deadline = clock.monotonic() + limit
        prior = DeepStates.fitted(
            x[:, 0],
            y,
            self.n_hidden,
            self.n_features,
            time_limit=None if self.time_limit is None else _PRIORS * limit,
            seed=self.random_state,
        )
        problem = Matching(system, time, values, prior, deadline)
        states = prior.smoothed(time)
        parameters = problem.match(states, system.start, self.n_steps)
        for _ in range(_N_NOISE):
            states, parameters, covariance = problem.solve(states, parameters, self.n_steps)
            problem.learn_noise(states, covariance)
            if problem.is_late:
                break
        self._keep(system, time, problem.noise, states, parameters, covariance)

    def _scaled_system(self, n_outputs: int) -> System:
        if self.system not in SYSTEMS:
            raise ConfigError(
                f"system: {self.system!r} is not known. Choose one of {', '.join(SYSTEMS)}."
            )
        system = SYSTEMS[self.system]
        if n_outputs != system.n_states:
            raise InputError(
                f"y: {n_outputs} columns, but {self.system} has {system.n_states} states. Give one "
                "column for each; a state that is seen nowhere cannot be left out."
            )
        scaling = self.scaling_
        shift, scale = torch.as_tensor(scaling.y_shift), torch.as_tensor(scaling.y_scale)
        return system.scaled(shift, scale, float(scaling.x_scale[0]))

    def _keep(
        self,
        system: System,
        grid: Float[Tensor, " N"],
        noise: Float[Tensor, " D"],
        states: Float[Tensor, "N D"],
        parameters: Float[Tensor, " R"],
        covariance: Float[Tensor, "U U"],
    ) -> None:
        """Keep draws of the posterior for prediction, and mean and std of the parameters."""
        generator = generator_for(self.random_state, "draw")
        normal = torch.randn(self.n_draws, len(covariance), generator=generator, dtype=states.dtype)
        offset = normal @ torch.linalg.cholesky(covariance).mT
        n_parameters = len(parameters)
        drawn = offset[:, :-n_parameters].reshape(self.n_draws, -1, len(states)).mT  # C N D
        self.grid_, self.noise_variance_ = grid, noise
        self.states_ = states + drawn
        self.parameter_draws_ = parameters + offset[:, -n_parameters:]
        self.parameters_ = pd.DataFrame(
            {
                "mean": parameters.numpy(),
                "std": covariance.diagonal()[-n_parameters:].sqrt().numpy(),
            },
            index=pd.Index(system.parameters, name="parameter"),
        )

    def _predict(self, x: Float[Tensor, "N P"]) -> Predictive:
        system = self._scaled_system(self.states_.shape[-1])
        time, order = torch.unique(x[:, 0], return_inverse=True)
        rates = system.rate(self.states_, self.parameter_draws_[:, None])
        grid, states = self.grid_, self.states_
        between = CubicHermiteSpline(grid, states, rates, axis=1)
        step = float((grid[-1] - grid[0]) / (len(grid) - 1))
        before, after = time < grid[0], time > grid[-1]
        parts = [
            follow(
                system, states[:, 0], self.parameter_draws_, grid[0], time[before].flip(0), step
            ),
            torch.as_tensor(between(time[~before & ~after])),
            follow(system, states[:, -1], self.parameter_draws_, grid[-1], time[after], step),
        ]
        paths = torch.cat([parts[0].flip(1), *parts[1:]], 1)
        finite = paths.isfinite().all(-1).all(-1)  # unlikely parameters may diverge
        if not finite.any():
            raise TrainingDivergedError(
                f"ConstrainedGP.predict: all {self.n_draws} solutions of the equation diverge before "
                "the last row. Predict nearer to the training rows."
            )
        paths = paths[finite][:, order]
        return of_functions(paths, self.noise_variance_.expand(paths.shape[1:]))


def _grid(time: Float[Tensor, " N"], n_grid: int) -> tuple[Float[Tensor, " G"], Int[Tensor, " N"]]:
    """Training times, others between them where a step is too long, and indices of the former."""
    width = time.diff()
    if len(time) < 3 or bool((width <= 0).any()):
        raise InputError(
            f"X: {len(time)} rows with {int((width <= 0).sum())} times given twice, but a derivative "
            "needs distinct times, and three at least. Average rows of the same time."
        )
    parts = (width * n_grid * (1 - 1e-9)).ceil().long().clamp_min(1).tolist()
    pieces = [
        left + step * torch.arange(n, dtype=time.dtype) / n
        for left, step, n in zip(time[:-1], width, parts, strict=True)
    ]
    row = torch.tensor([0, *parts]).cumsum(0)
    return torch.cat([*pieces, time[-1:]]), row
