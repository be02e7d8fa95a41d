"""A model of cycles on clocks whose rate varies: predictions, components and draws at any times."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.errors import InputError
from deeplfm.likelihoods import Gaussian
from deeplfm.predictive.mixture import Predictive
from deeplfm.randomness import numpy_for
from deeplfm.statespace.clock_paths import beyond, extended, jumps_ahead, noise_at, series_of
from deeplfm.statespace.clocks_config import ClocksConfig
from deeplfm.statespace.model import KeptRows, solving
from deeplfm.statespace.origins import origins, scale_of
from deeplfm.statespace.phase_fit import Fitted, track, with_jumps
from deeplfm.statespace.phase_solve import (
    SKIP,
    Grid,
    Posterior,
    Priors,
    Sample,
    State,
    linearise,
    solve,
)
from deeplfm.statespace.phases import Array, design
from deeplfm.training.interruption import stop_requested

SEASON, LEVEL = "warped season", "level"
_N_PATHS = 256  # drawn for a prediction
_AT_ONCE = 16  # paths
MOST_TO_SAMPLE = 5000  # rows, beyond which they determine the clocks
_MOST_AHEAD = 2**15  # knots after the last row
_APART = 4  # steps between skips that are not one
_FUNCTION = 1e-12  # variance of one path


class ClocksLFM(KeptRows):
    r"""Deep latent force model whose hidden layer is the phases of clocks that do not keep time.

    The rates of the clocks are responses of first-order systems to white noise, and the levels of the
    outputs those of damped oscillators. Phases, shapes and levels have a joint Gaussian posterior
    (Laplace), from which predictions draw whole paths.

    Args:
        config: what the evidence chose.
        n_rows, n_knots: rows that it keeps, and knots of the phases.
    """

    knots: Tensor
    border: Tensor
    jumps: Tensor

    def __init__(self, config: ClocksConfig, n_rows: int = 0, n_knots: int = 0) -> None:
        super().__init__()
        self.config, n_outputs, double = config, len(config.shapes), torch.float64
        size = 2 * (len(config.clocks) + 2 * n_outputs)
        n_border = sum(len(shape.prior) for shape in config.shapes) + len(config.clocks)
        sizes = {
            "x": (n_rows, 1),
            "y": (n_rows, n_outputs),
            "row_weight": (n_rows,),
            "knots": (n_knots * size,),
            "border": (n_border,),
            "jumps": (max(n_knots - 1, 0), len(config.clocks)),
        }
        for name, shape in sizes.items():
            self.register_buffer(name, torch.zeros(shape, dtype=double))
        self._register_calibration(n_outputs)
        self.likelihood = Gaussian(1, n_outputs).double()
        self._known: Fitted | None = None

    @classmethod
    def of(
        cls,
        fitted: Fitted,
        x: Tensor,
        y: Tensor,
        weight: Tensor,
        samples: tuple[Sample, ...] = (),
    ) -> Self:
        """The model of a fit to some rows."""
        grid, priors = fitted.grid, fitted.priors
        model = cls(ClocksConfig(priors.clocks, priors.shapes, grid.begin, grid.width, samples))
        model._keep(x, y, weight)
        model._write(fitted)
        return model

    @property
    def constructor_arguments(self) -> dict[str, Any]:
        """Arguments that make the same model, before its tensors are loaded."""
        n_knots = len(self.jumps) + 1 if len(self.knots) else 0
        return {"config": self.config, "n_rows": len(self.x), "n_knots": n_knots}

    @torch.no_grad()
    def set_train_data(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
        reach: float | None = None,
    ) -> None:
        """Keep rows from the first knot on, and follow the phases.

        ``reach`` is that of :class:`Likelihood`.
        """
        is_late = x[:, 0] >= self.config.begin - 1e-9
        row_weight = x.new_ones(len(x)) if row_weight is None else row_weight
        x, y, row_weight = x[is_late], y[is_late], row_weight[is_late]
        if reach is not None:
            self.likelihood.set_support(x, y, reach)
        old = (self.x, self.y, self.row_weight)
        self._keep(x, y, row_weight)
        new = (self.x, self.y, self.row_weight)
        if all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(old, new, strict=True)):
            return
        count = len(self.jumps) + 1 + self._n_more(float(self.x[-1, 0]))
        grid, state = self._grid(count), self._state()
        with solving():
            state = extended(grid, self.config.priors, state)
            fitted = track(grid, self.config.priors, state, learn=False)
            fitted = track(grid, fitted.priors, with_jumps(fitted), learn=False)
        self._write(fitted)

    def condition_on(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
    ) -> None:
        """Take in further rows; the parameters stay as they are."""
        weight = x.new_ones(len(x)) if row_weight is None else row_weight
        pairs = ((self.x, x), (self.y, y), (self.row_weight, weight))
        rows = [torch.cat([old, new.to(old)]) for old, new in pairs]
        self.set_train_data(rows[0], rows[1], rows[2])
        self.likelihood.extend_support(x, y)

    @torch.no_grad()
    def calibrate(self) -> None:
        """Set width and density of forecasts by those of known rows from earlier origins."""
        found: list[tuple[Predictive, Tensor]] = []
        for first, last in origins(len(self.x)):
            if stop_requested():
                return
            found.append((self._as_of(first).posterior(self.x[first:last]), self.y[first:last]))
        if not found:
            return
        square = [((y - ahead.mean) ** 2 / ahead.variance()).nanmean(0) for ahead, y in found]
        known = [item[~item.isnan()].numpy() for item in torch.stack(square, dim=1)]
        # The clocks know all rows, so that errors at the origins are too small: they never narrow.
        scales = [max(1.0, scale_of(item)) if len(item) else 1.0 for item in known]
        self.forecast_scale = torch.tensor(scales, dtype=torch.float64)
        density = [ahead.widened(self.forecast_scale).log_prob(y).nanmean(0) for ahead, y in found]
        self.forecast_density = torch.stack(density).nanmean(0)
        self.n_origins = torch.stack(density).isfinite().sum(0)

    def _as_of(self, n_rows: int) -> Self:
        """The model by its first rows; its parameters are those of all rows."""
        x, y, weight = self.x[:n_rows], self.y[:n_rows], self.row_weight[:n_rows]
        size = len(self.knots) // (len(self.jumps) + 1)
        count = int(np.ceil((float(x[-1, 0]) - self.config.begin) / self.config.width)) + 1
        model = type(self)(self.config)
        model.knots, model.border = self.knots[: count * size], self.border
        model.jumps = self.jumps[: count - 1]
        model.set_train_data(x, y, weight)
        return model

    @torch.no_grad()
    def posterior(self, x: Float[Tensor, "N P"]) -> Predictive:
        """Predictive distribution: one component for each path of the phases."""
        season, level = self._paths(x, _N_PATHS, 0)
        moved, share = self._noise_at(x)
        mean = season + level + moved
        noise = torch.tensor([shape.noise for shape in self.config.shapes], dtype=torch.float64)
        inflated = self.likelihood.inflation ** self.likelihood.remoteness(x)
        weight = mean.new_full((_N_PATHS, 1, mean.shape[-1]), 1 / _N_PATHS)
        found = Predictive(
            mean.to(x),
            mean.new_full((), _FUNCTION).expand_as(mean).to(x),
            (noise * share * inflated).expand_as(mean).to(x),
            weight.to(x),
            lambda n, seed: self._draw(x, n, seed),
        )
        return found.widened(self._scale(x))

    @torch.no_grad()
    def draw(self, x: Float[Tensor, "N P"], n_draws: int, seed: int) -> Float[Tensor, "S N D"]:
        """Whole functions, each on a path of the phases."""
        return self.posterior(x).sample(n_draws, seed, latent=True)

    def _draw(self, x: Float[Tensor, "N P"], n_draws: int, seed: int) -> Float[Tensor, "S N D"]:
        season, level = self._paths(x, n_draws, seed)
        return (season + level + self._noise_at(x)[0]).to(x)

    @property
    def components(self) -> list[str]:
        """Names of the components."""
        return [SEASON, LEVEL]

    @torch.no_grad()
    def component_moments(
        self, x: Float[Tensor, "N P"], component: str
    ) -> tuple[Float[Tensor, "N D"], Float[Tensor, "N D"]]:
        """Mean and variance of one component over paths."""
        part = self._paths(x, _N_PATHS, 0)[self.components.index(component)].to(x)
        return part.mean(0), part.var(0, correction=0) * self.forecast_scale.to(x) ** 2

    @property
    def log_evidence(self) -> float:
        """Log density of the known values (Laplace)."""
        return self.fitted.evidence

    @property
    def fitted(self) -> Fitted:
        """The posterior of the rows that are kept."""
        if self._known is None:
            grid, state = self._grid(), self._state()
            priors = self.config.priors
            with solving():
                local = linearise(grid, priors, state)
                posterior = solve(grid, priors, local, state.jumps)
            self._known = Fitted(grid, priors, state, local, posterior)
        return self._known

    def _keep(self, x: Tensor, y: Tensor, weight: Tensor) -> None:
        order = x[:, 0].argsort(stable=True)
        self.x, self.y = x[order].to(self.x), y[order].to(self.y)
        self.row_weight = weight[order].to(self.row_weight)
        self._known = None

    def _write(self, fitted: Fitted) -> None:
        state = fitted.state
        self.knots = torch.as_tensor(state.knots.copy())
        self.border = torch.as_tensor(np.concatenate([*state.weights, state.frequency]))
        self.jumps = torch.as_tensor(state.jumps.copy())
        self._known = fitted

    def _grid(self, count: int | None = None) -> Grid:
        """The knots of the rows, or some number of them."""
        config, series = self.config, series_of(self.x, self.y, self.row_weight)
        return Grid(series, config.begin, config.width, count or len(self.jumps) + 1)

    def _n_more(self, until: float) -> int:
        """Knots that are missing to reach a time."""
        ahead = (until - self.config.begin) / self.config.width - len(self.jumps)
        if not ahead <= _MOST_AHEAD:
            raise InputError(
                f"clocks: a time is {ahead:.3g} quarters of a cycle after the last row, and at most "
                f"{_MOST_AHEAD} can be followed. Give earlier times, or fit the model to later rows."
            )
        return max(0, int(np.ceil(ahead)))

    def _state(self) -> State:
        ends = np.cumsum([len(shape.prior) for shape in self.config.shapes])
        parts = np.split(self.border.cpu().numpy(), ends)
        knots, jumps = self.knots.cpu().numpy(), self.jumps.cpu().numpy()
        return State(knots, tuple(parts[:-1]), parts[-1], jumps)

    def _paths(self, x: Tensor, n_paths: int, seed: int) -> tuple[Tensor, Tensor]:
        """Season and level on paths drawn from the posterior, ``S N D`` each."""
        time = np.maximum(x[:, 0].double().cpu().numpy(), self.config.begin)
        generator = numpy_for(seed, "draw")
        samples = self.config.samples if len(self.x) <= MOST_TO_SAMPLE else ()
        priors = [sample.within(self.config.priors) for sample in samples] or [self.config.priors]
        found = []
        for index, some in enumerate(priors):
            own = len(range(index, n_paths, len(priors)))
            if own:
                found.append(self._paths_of(some, time, own, generator))
        season, level = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return torch.as_tensor(season), torch.as_tensor(level)

    def _posterior(self, priors: Priors) -> tuple[Grid, Posterior]:
        """Of the phases under some priors, at the knots of the rows."""
        grid, state = self._grid(), self.fitted.state
        if priors is self.config.priors:
            return grid, self.fitted.posterior
        with solving():
            return grid, solve(grid, priors, linearise(grid, priors, state), state.jumps)

    def _paths_of(
        self, priors: Priors, time: Array, n_paths: int, generator: np.random.Generator
    ) -> tuple[Array, Array]:
        """A prediction is a function of its row alone: what is asked for besides changes no path."""
        grid, posterior = self._posterior(priors)
        end = grid.begin + grid.width * (grid.count - 1)
        n_more = self._n_more(float(time.max()))
        longer = Grid(grid.series, grid.begin, grid.width, grid.count + n_more)
        laws = longer.knots(priors)
        columns = [laws.columns(time, index) for index in range(len(laws.processes))]
        n_clocks, n_outputs = len(priors.clocks), len(priors.shapes)
        season = np.empty((n_paths, len(time), n_outputs))
        level = np.empty_like(season)
        center = np.concatenate([*posterior.state.weights, posterior.state.frequency])
        ends = np.cumsum([len(shape.prior) for shape in priors.shapes])
        ahead = np.maximum(time - end, 0.0)
        hazard = self._hazard()
        for first in range(0, n_paths, _AT_ONCE):
            border, knots = posterior.draw(generator, min(_AT_ONCE, n_paths - first))
            border, knots = border + center[:, None], knots + posterior.state.knots[:, None]
            later = generator.spawn(1)[0]
            knots = beyond(laws, knots, n_more, later)
            moved = [column @ knots for column in columns]  # N S
            for s in range(border.shape[1]):
                weights = np.split(border[:, s], ends)
                phase = np.multiply.outer(time - grid.begin, weights[-1])
                for c in range(n_clocks):
                    phase[:, c] += moved[c][:, s] + jumps_ahead(ahead, hazard[c], later.spawn(1)[0])
                for d, shape in enumerate(priors.shapes):
                    basis = design(phase, shape.orders)[0]
                    own, amplitude = (moved[laws.level(d) + k][:, s] for k in (0, 1))
                    season[first + s, :, d] = np.exp(amplitude) * (basis[:, :-1] @ weights[d][:-1])
                    level[first + s, :, d] = weights[d][-1] + own
        return season, level

    def _hazard(self) -> Array:
        """Skips of each clock in a unit of time, as many as were seen."""
        is_skip = torch.nn.functional.pad((self.jumps > SKIP**2).T.double(), (_APART, 0))
        before = is_skip.unfold(1, _APART, 1)[:, :-1].amax(-1) if len(self.jumps) else is_skip
        n_skips = ((is_skip[:, _APART:] > 0) & (before == 0)).sum(1).numpy()
        return np.asarray(n_skips / (self.config.width * max(1, len(self.jumps))))

    def _noise_at(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Noise near known rows: its mean, and the share of its variance that is left."""
        mean, share = noise_at(self.fitted, x[:, 0].double().cpu().numpy())
        return torch.as_tensor(mean), torch.as_tensor(share)
