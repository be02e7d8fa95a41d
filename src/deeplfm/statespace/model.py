"""A fitted state-space model: predictions, components and draws at any times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from deeplfm.errors import ConfigError, InputError
from deeplfm.likelihoods import Gaussian
from deeplfm.predictive.mixture import Predictive
from deeplfm.randomness import numpy_for
from deeplfm.statespace.chain import Array
from deeplfm.statespace.config import StateSpaceConfig
from deeplfm.statespace.fit import fit_output
from deeplfm.statespace.origins import Calibration, Locate, calibrate, log_std_of_scale
from deeplfm.statespace.parameters import Layout, columns_of, inputs_of
from deeplfm.statespace.solved import Known, Solved
from deeplfm.training.interruption import time_left, within
from deeplfm.training.progress import on_part

Moments = tuple[Float[Tensor, "S N D"], Float[Tensor, "S N D"]]


@contextmanager
def solving() -> Iterator[None]:
    """Turn a covariance of rows that is no covariance in floating point into an error for people."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise InputError(
            f"state space: the covariance of the rows is not positive definite ({error}). Look for "
            "values of a very different size among times, targets or measurement errors."
        ) from error


class KeptRows(nn.Module):
    """A model in state-space form as a member: it keeps its rows, and no sums over them.

    Forecasts from earlier origins give its forecasts their width and their weight in an average.
    """

    x: Tensor
    y: Tensor
    row_weight: Tensor
    forecast_scale: Tensor
    forecast_density: Tensor
    n_origins: Tensor

    def _register_calibration(self, n_outputs: int) -> None:
        self.register_buffer("forecast_scale", torch.ones(n_outputs, dtype=torch.float64))
        self.register_buffer("forecast_density", torch.zeros(n_outputs, dtype=torch.float64))
        self.register_buffer("n_origins", torch.zeros(n_outputs, dtype=torch.int64))

    @property
    def temperature(self) -> None:
        """None: rows count in full."""
        return None

    @property
    def has_exact_output(self) -> bool:
        """False: the rows are kept, not sums over them."""
        return False

    def statistics(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
    ) -> tuple[Float[Tensor, "G U K K"], Float[Tensor, "G K U"]]:
        """Refused: there are no sums over rows."""
        raise ConfigError("statistics: a state-space model keeps its rows. Use condition_on.")

    def solve(self, gram: Float[Tensor, "G U K K"], moment: Float[Tensor, "G K U"]) -> None:
        """Refused: there are no sums over rows."""
        raise ConfigError("solve: a state-space model keeps its rows. Use set_train_data.")

    def is_active(self, x: Float[Tensor, "N P"]) -> Bool[Tensor, " N"]:
        """At every row."""
        return torch.ones(len(x), dtype=torch.bool, device=x.device)

    def _scale(self, x: Float[Tensor, "N P"]) -> Float[Tensor, "#S N D"]:
        """Factor of standard deviations: that of forecasts after the last known row of an output."""
        time = torch.where(self.y.isnan(), -torch.inf, self.x[:, :1])
        last = torch.cat([time, time.new_full((1, time.shape[1]), -torch.inf)]).amax(0)
        scale = torch.where(x[:, :1].to(last) > last, self._factors()[:, None], 1.0)
        return scale.to(x)

    def _factors(self) -> Float[Tensor, "#S D"]:
        """Factors of the standard deviations of forecasts: one for all draws, or one for each."""
        return self.forecast_scale[None]


class StateSpaceLFM(KeptRows):
    r"""Latent force model y = trend + season + covariates + level + noise in state-space form.

    Its forces are white noise. So the model is a Markov process, which is solved exactly in a time that
    is linear in the number of rows. Predictions average over draws of the parameters. New rows are taken
    in without a fit.

    Args:
        config: what the model of each output is made of.
        n_rows: rows that it keeps; :meth:`set_train_data` fills them.
        n_errors: rows whose measurement error it keeps: all, or none.
    """

    row_error: Tensor
    draws: Tensor
    log_evidence: Tensor

    def __init__(
        self, config: Sequence[StateSpaceConfig], n_rows: int = 0, n_errors: int = 0
    ) -> None:
        super().__init__()
        self.config = tuple(config)
        n_inputs = 1 + inputs_of(config[0]).get("covariate", 0)
        n_outputs = len(config)
        double = torch.float64
        self.register_buffer("x", torch.zeros(n_rows, n_inputs, dtype=double))
        self.register_buffer("y", torch.zeros(n_rows, n_outputs, dtype=double))
        self.register_buffer("row_weight", torch.ones(n_rows, dtype=double))
        self.register_buffer("row_error", torch.zeros(n_errors, n_outputs, dtype=double))
        n_parameters = max(len(Layout(item).names) for item in config)
        shape = (n_outputs, config[0].n_draws, n_parameters)
        self.register_buffer("draws", torch.zeros(shape, dtype=double))
        self.register_buffer("log_evidence", torch.zeros(n_outputs, dtype=double))
        self._register_calibration(n_outputs)
        self.likelihood = Gaussian(n_inputs, n_outputs).double()
        self.asked: Sequence[int] | None = None  # outputs that are solved; by default all

    @property
    def constructor_arguments(self) -> dict[str, Any]:
        """Arguments that make the same model, before its tensors are loaded."""
        return {"config": self.config, "n_rows": len(self.x), "n_errors": len(self.row_error)}

    def is_active(self, x: Float[Tensor, "N P"]) -> Bool[Tensor, " N"]:
        """At every row, or from the first one of a model of recent rows on."""
        config = self.config[0]
        return x[:, 0] >= config.begin if config.is_recent else super().is_active(x)

    @torch.no_grad()
    def fit(
        self,
        seed: int = 0,
        near: StateSpaceLFM | None = None,
        locate: Locate | None = None,
        by_prior: bool = False,
    ) -> None:
        """Fit the parameters of each output to the rows that are kept.

        Outputs have equal shares of the time. Those that none is left for take the parameters of
        the last output with the same parts.

        Args:
            seed: of the draws.
            near: a fitted model of the same outputs, from whose parameters the search starts.
            locate: frequencies by the rows before an origin, where they were found in all rows.
            by_prior: draw the parameters from their prior, whatever the rows.
        """
        latest: dict[tuple[str, ...], np.ndarray] = {}
        for d, config in enumerate(self.config):
            names = tuple(Layout(config).names)
            start = {} if near is None else near.parameters_of(d)
            with within(time_left() / (len(self.config) - d)):
                found = fit_output(config, self._known(d), seed, start, latest.get(names), by_prior)
            latest[names] = found.mode
            self.draws[d, :, : found.draws.shape[1]] = torch.as_tensor(found.draws)
            self.log_evidence[d] = found.log_evidence
            ahead = self._calibration(d, found.draws, locate)
            self.forecast_scale[d], self.forecast_density[d], self.n_origins[d] = ahead
            if part_done := on_part.get():
                part_done()

    def _calibration(self, output: int, draws: Array, locate: Locate | None) -> Calibration:
        """Of the forecasts of one output."""
        return calibrate(self.config[output], self._known(output), draws, locate)

    def parameters_of(self, output: int) -> dict[str, float]:
        """Logarithms of the parameters of one output, by name: their mean over the draws."""
        names = Layout(self.config[output]).names
        return dict(zip(names, self._draws_of(output).mean(0).tolist(), strict=True))

    @torch.no_grad()
    def set_train_data(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
        reach: float | None = None,
        error: Float[Tensor, "N D"] | None = None,
    ) -> None:
        """Keep rows, on which predictions are conditioned; ``reach`` as in :class:`Likelihood`.

        ``error`` is the variance of the measurement error of each target.
        """
        if reach is not None:
            self.likelihood.set_support(x, y, reach)
        order = x[:, 0].argsort(stable=True)
        if self.config[0].is_recent:
            order = order[x[order, 0] >= self.config[0].begin]
        self.x, self.y = x[order].to(self.x), y[order].to(self.y)
        weight = x.new_ones(len(x)) if row_weight is None else row_weight
        self.row_weight = weight[order].to(self.row_weight)
        self.row_error = (y[:0] if error is None else error[order]).to(self.row_error)

    @torch.no_grad()
    def condition_on(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
        error: Float[Tensor, "N D"] | None = None,
    ) -> None:
        """Take in further rows; the parameters stay as they are."""
        has_errors = len(self.row_error) > 0 or error is not None
        old_error = self.row_error if len(self.row_error) else torch.zeros_like(self.y)
        new_error = torch.zeros_like(y) if error is None else error
        both = torch.cat([old_error, new_error.to(old_error)]) if has_errors else None
        weight = x.new_ones(len(x)) if row_weight is None else row_weight
        pairs = ((self.x, x), (self.y, y), (self.row_weight, weight))
        rows = [torch.cat([old, new.to(old)]) for old, new in pairs]
        self.set_train_data(rows[0], rows[1], rows[2], error=both)
        self.likelihood.extend_support(x, y)

    @torch.no_grad()
    def posterior(self, x: Float[Tensor, "N P"]) -> Predictive:
        """Predictive distribution: one component for each draw of the parameters."""
        mean, variance = self._moments(x)
        noise = torch.exp(2 * self.draws[:, :, 0]).mT[:, None]  # S 1 D
        noise = (
            noise * self._scale(x) ** 2 * self.likelihood.inflation ** self.likelihood.remoteness(x)
        )
        weight = mean.new_full((len(mean), 1, mean.shape[-1]), 1 / len(mean))
        return Predictive(
            mean, variance, noise.to(mean), weight, lambda n, seed: self.draw(x, n, seed)
        )

    def _factors(self) -> Float[Tensor, "S D"]:
        """Few origins leave the factor uncertain: draws have values across its posterior."""
        log_std = torch.as_tensor(log_std_of_scale(self.n_origins.numpy(force=True)))
        size = self.draws.shape[1]
        normal = torch.special.ndtri((torch.arange(size, dtype=torch.float64) + 0.5) / size)
        normal /= normal.std(correction=0).clamp_min(1e-9)  # 0 of one draw
        factor = torch.exp(normal[:, None] * log_std).to(self.forecast_scale)
        return self.forecast_scale * factor / factor.square().mean(0).sqrt()

    @property
    def components(self) -> list[str]:
        """Names of the components."""
        return list(dict.fromkeys(name for item in self.config for name in columns_of(item)))

    @torch.no_grad()
    def component_moments(
        self, x: Float[Tensor, "N P"], component: str
    ) -> tuple[Float[Tensor, "N D"], Float[Tensor, "N D"]]:
        """Mean and variance of one component, averaged over draws of the parameters."""
        mean, variance = self._moments(x, component)
        return mean.mean(0), variance.mean(0) + mean.var(0, correction=0)

    @torch.no_grad()
    def draw(self, x: Float[Tensor, "N P"], n_draws: int, seed: int) -> Float[Tensor, "S N D"]:
        """Whole functions, with the draws of the parameters in turn."""
        generator = numpy_for(seed, "draw")
        drawn = np.zeros((n_draws, len(x), len(self.config)))
        for s, outputs, solved in self._solved(x):
            some = slice(s, None, self.draws.shape[1])
            if len(drawn[some]):
                drawn[some, :, outputs] = solved.draw(len(drawn[some]), generator)
        found = torch.as_tensor(drawn).to(x)
        scale = self._scale(x)
        if bool((scale != 1).any()):
            of_draw = torch.arange(n_draws) % self.draws.shape[1]
            mean = self._moments(x)[0]
            found = mean[of_draw] + scale.expand_as(mean)[of_draw] * (found - mean[of_draw])
        return found

    def _moments(self, x: Float[Tensor, "N P"], component: str | None = None) -> Moments:
        """Mean and variance of the function, or of one component, for each draw of the parameters."""
        found = np.zeros((2, self.draws.shape[1], len(x), len(self.config)))
        for s, outputs, solved in self._solved(x, component):
            for i, d in enumerate(range(len(self.config))[outputs]):
                found[:, s, :, d] = solved.moments(i, component)
        mean, variance = torch.as_tensor(found).to(x)
        # Components have the factor of forecasts at all times: their bands have no step at the last row.
        scale = self._scale(x) if component is None else self.forecast_scale.to(x)
        return mean, variance * scale**2

    def _solved(
        self, x: Tensor, component: str | None = None
    ) -> Iterator[tuple[int, slice, Solved]]:
        """Outputs with a component at some rows, solved: one by one, for each draw of the parameters."""
        rows = x.double().cpu().numpy()
        for d, config in enumerate(self.config):
            is_asked = self.asked is None or d in self.asked
            if is_asked and (component is None or component in columns_of(config)):
                known, inputs = self._known(d), self._inputs(rows, d)
                for s, parameters in enumerate(self._draws_of(d)):
                    with solving():
                        solved = Solved.of([config], [known], [parameters], inputs)
                    yield s, slice(d, d + 1), solved

    def _draws_of(self, output: int) -> Array:
        """Draws of the parameters of an output, ``S K``."""
        n_parameters = len(Layout(self.config[output]).names)
        return np.asarray(self.draws[output, :, :n_parameters].cpu().numpy())

    def _known(self, output: int) -> Known:
        known = ~self.y[:, output].isnan() & (self.row_weight > 0)
        error = self.row_error if len(self.row_error) else torch.zeros_like(self.y)
        parts = (self.x[known], self.y[known, output], self.row_weight[known], error[known, output])
        rows, *rest = (part.cpu().numpy() for part in parts)
        return Known(self._inputs(rows, output), *rest)

    def _inputs(self, x: Array, output: int) -> Array:
        """Rows as the model of one output sees them."""
        return x
