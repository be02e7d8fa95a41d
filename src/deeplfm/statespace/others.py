r"""A fitted state-space model whose outputs respond to each other: for gaps in which others are known.

    y_d(t) = own terms + Σ_j Σ_k β_djk (h_k * y_j)(t) + noise,

where h_k are a unit impulse and the impulse responses of first-order systems, forward and backward in
time, so that another output counts now, before and after. The effects β have normal priors, one for
now and one for before and after, whose sizes the evidence finds: outputs that do not inform each other
have effects near zero, and the own terms are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from deeplfm.randomness import numpy_for
from deeplfm.statespace.chain import Array
from deeplfm.statespace.config import StateSpaceConfig
from deeplfm.statespace.model import Moments, StateSpaceLFM, solving
from deeplfm.statespace.origins import Calibration, Locate
from deeplfm.statespace.solved import Solved

_MOST_NOW, _MOST_MEMORY = 40, 8  # other outputs, those that correlate most
_LASTING = (2.0, 8.0)  # time constants of the systems, in steps
_N_PASSES = 2  # in which the gaps of all outputs are filled
_TICK = 1e-6  # of a step: times that are closer are the same
_N_COPIES = 2 * len(_LASTING)  # of an output, before and after


def with_others(config: StateSpaceConfig, n_outputs: int) -> StateSpaceConfig:
    """The model of one output, with columns for the other ones."""
    n_now = min(n_outputs - 1, _MOST_NOW)
    n_memory = min(n_outputs - 1, _MOST_MEMORY) * _N_COPIES
    n_inputs = config.n_inputs + n_now + n_memory
    return replace(config, n_inputs=n_inputs, n_others=n_now, n_memory=n_memory)


class OtherOutputsLFM(StateSpaceLFM):
    """Latent force model of outputs that respond to each other.

    It predicts at times at which an output is known. Missing values of other outputs are filled, all
    outputs in turn, and how uncertain they are adds to the variance.

    Args:
        config: what the model of each output is made of, as :func:`with_others` declares it.
        n_rows: rows that it keeps; :meth:`set_train_data` fills them.
        n_errors: rows whose measurement error it keeps: all, or none.
    """

    knows_other_outputs = True
    filled: Tensor
    filled_std: Tensor
    ranked: Tensor

    def __init__(
        self, config: Sequence[StateSpaceConfig], n_rows: int = 0, n_errors: int = 0
    ) -> None:
        super().__init__(config, n_rows, n_errors)
        n_outputs, double = len(config), torch.float64
        self.register_buffer("filled", torch.zeros(n_rows, n_outputs, dtype=double))
        self.register_buffer("filled_std", torch.zeros(n_rows, n_outputs, dtype=double))
        others = [[j for j in range(n_outputs) if j != d] for d in range(n_outputs)]
        self.register_buffer("ranked", torch.tensor(others))
        self._columns: tuple[Array, Array, Array] | None = None

    @torch.no_grad()
    def fit(
        self,
        seed: int = 0,
        near: StateSpaceLFM | None = None,
        locate: Locate | None = None,
        by_prior: bool = False,
    ) -> None:
        """Fit the parameters of each output, given the others."""
        values = self.filled.numpy(force=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            alike = np.nan_to_num(np.abs(np.corrcoef(values.T)))
        np.fill_diagonal(alike, -1.0)
        order = np.argsort(-alike, axis=1, kind="stable")[:, :-1]
        self.ranked.copy_(torch.as_tensor(order.copy()))
        super().fit(seed, near, locate, by_prior)
        self._fill()

    @torch.no_grad()
    def set_train_data(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
        reach: float | None = None,
        error: Float[Tensor, "N D"] | None = None,
    ) -> None:
        """Keep rows, and fill their gaps."""
        super().set_train_data(x, y, row_weight, reach, error)
        self._fill()

    def is_active(self, x: Float[Tensor, "N P"]) -> Bool[Tensor, " N"]:
        """At the times of rows in which an output is known."""
        known = self.x[~self.y.isnan().all(1), 0]
        if len(known) == 0:
            return torch.zeros(len(x), dtype=torch.bool, device=x.device)
        time, last = x[:, 0].contiguous().to(known), len(known) - 1
        after = torch.searchsorted(known.contiguous(), time).clamp(max=last)
        apart = torch.minimum(
            (known[after] - time).abs(), (known[(after - 1).clamp(min=0)] - time).abs()
        )
        return (apart <= _TICK * self.config[0].step).to(x.device)

    @torch.no_grad()
    def draw(self, x: Float[Tensor, "N P"], n_draws: int, seed: int) -> Float[Tensor, "S N D"]:
        """Whole functions; what is not known of other outputs shifts each as a whole."""
        drawn = super().draw(x, n_draws, seed)
        std = torch.as_tensor(self._others_variance(x).mean(0)).to(drawn).sqrt()
        noise = numpy_for(seed, "others").standard_normal((n_draws, 1, len(self.config)))
        return drawn + torch.as_tensor(noise).to(drawn) * std

    def _moments(self, x: Float[Tensor, "N P"], component: str | None = None) -> Moments:
        mean, variance = super()._moments(x, component)
        if component is None:
            variance = variance + torch.as_tensor(self._others_variance(x)).to(variance)
        return mean, variance

    def _others_variance(self, x: Tensor) -> Array:
        """Variance by values of other outputs that are not known, ``S N D``.

        Errors of one output are taken as the same at all times, and those of two as independent.
        """
        found = np.zeros((self.draws.shape[1], len(x), len(self.config)))
        if bool((self.filled_std > 0).any()):
            for s, outputs, solved in self._solved(x):
                for d in range(len(self.config))[outputs]:
                    found[s, :, d] = self._variance_of_others(d, solved, x[:, 0].numpy(force=True))
        return found * self.forecast_scale.numpy(force=True) ** 2

    def _variance_of_others(self, output: int, solved: Solved, time: Array) -> Array:
        std = self._at(time, output, of_std=True) * solved.mean[-self._n_columns(output) :]
        config = self.config[output]
        now, memory = std[:, : config.n_others], std[:, config.n_others :]
        total = now.copy()
        of_each = memory.reshape(len(time), _N_COPIES, -1).sum(1)
        total[:, : of_each.shape[1]] += of_each
        return np.asarray((total**2).sum(1))

    def _calibration(self, output: int, draws: Array, locate: Locate | None) -> Calibration:
        """None ahead: it makes no forecasts."""
        return Calibration()

    def _scale(self, x: Float[Tensor, "N P"]) -> Float[Tensor, "1 N D"]:
        """Factor of standard deviations: that of gaps."""
        return self.forecast_scale.to(x).expand(1, len(x), -1)

    def _inputs(self, x: Array, output: int) -> Array:
        """Rows with the columns of the other outputs."""
        return np.column_stack([x, self._at(x[:, 0], output)])

    def _n_columns(self, output: int) -> int:
        return self.config[output].n_others + self.config[output].n_memory

    def _at(self, time: Array, output: int, of_std: bool = False) -> Array:
        """Columns of the other outputs at some times: now, before and after."""
        if self._columns is None:
            times, first = np.unique(self.x[:, 0].numpy(force=True), return_index=True)
            tables = [item[first].numpy(force=True) for item in (self.filled, self.filled_std)]
            step = self.config[0].step
            values, std = (_copies(times / step, table) for table in tables)  # T C D
            self._columns = times, values, std
        times, values, std = self._columns
        table = std if of_std else values
        ranked = self.ranked[output].numpy(force=True)
        now, memory = table[:, 0, ranked[:_MOST_NOW]], table[:, 1:, ranked[:_MOST_MEMORY]]
        columns = np.concatenate([now, memory.reshape(len(times), -1)], axis=1)
        place = np.searchsorted(times, time).clip(max=len(times) - 1)
        if np.array_equal(times[place], time):
            return np.asarray(columns[place])
        return np.stack([np.interp(time, times, column) for column in columns.T], axis=1)

    def _fill(self) -> None:
        """Fill the gaps of all outputs, from each other once the parameters are known."""
        time, y = self.x[:, 0].numpy(force=True), self.y.numpy(force=True)
        filled = np.zeros_like(y)
        for d, known in enumerate(~np.isnan(y).T):
            if known.any():
                filled[:, d] = np.interp(time, time[known], y[known, d])
        self._set_filled(filled, np.zeros_like(y))
        for _ in range(_N_PASSES if bool((self.draws != 0).any()) else 0):
            std = np.zeros_like(y)
            for d, missing in enumerate(np.isnan(y).T):
                if missing.any():
                    mean, variance = self._predicted(d, missing)
                    filled[missing, d], std[missing, d] = mean, np.sqrt(variance)
            self._set_filled(filled, std)

    def _set_filled(self, filled: Array, std: Array) -> None:
        self.filled, self.filled_std = (torch.as_tensor(v.copy()).to(self.y) for v in (filled, std))
        self._columns = None

    def _predicted(self, output: int, rows: Array) -> tuple[Array, Array]:
        """Mean and variance of the values in some rows, at the mean of the parameters."""
        parameters = self._draws_of(output).mean(0)
        x = self.x.numpy(force=True)[rows]
        with solving():
            known, config = self._known(output), self.config[output]
            solved = Solved.of([config], [known], [parameters], self._inputs(x, output))
        mean, variance = solved.moments()
        variance = (
            variance + np.exp(2 * parameters[0]) + self._variance_of_others(output, solved, x[:, 0])
        )
        return mean, variance


def _copies(time: Array, values: Array) -> Array:
    """Values now, and their averages before and after, which forget them, ``T C D``."""
    found = [values]
    for lasting in _LASTING:
        found.append(_before(time, values, lasting))
        found.append(_before(-time[::-1], values[::-1], lasting)[::-1])
    return np.stack(found, axis=1)


def _before(time: Array, values: Array, lasting: float) -> Array:
    """Response of a first-order system to the values before each time."""
    kept = np.exp(-np.diff(time) / lasting)
    found = np.empty_like(values)
    found[:1] = values[:1]
    for n, part in enumerate(kept):
        found[n + 1] = part * found[n] + (1 - part) * values[n]
    return found
