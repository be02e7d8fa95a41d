r"""Autoregression: the next row as a function of the last ones, continued step by step.

A function of time cannot forecast a chaotic series, and a regular one can be forecast without a clock.
Here y_{n+1} = y_n + g(y_n, y_{n−1}, …) + e, where g is features × Gaussian weights: the model of one
step is a :class:`DeepLFM` whose inputs are lags.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from deeplfm.config import ModelConfig
from deeplfm.ensemble.autoregression_steps import (
    completed,
    draw_weights,
    in_long_gaps,
    interpolate,
    roll_out,
    step_function,
)
from deeplfm.likelihoods import Likelihood
from deeplfm.model import DeepLFM
from deeplfm.predictive.mixture import Predictive
from deeplfm.randomness import generator_for
from deeplfm.selection.finished import is_kept
from deeplfm.terms.spectrum import steps_of
from deeplfm.training.rows import Rows

_MARGIN = 0.1  # of the range of the training rows, which paths may leave by as much
_LONGEST = 2000  # steps ahead that are simulated; beyond, the rows' own mean and variance
_LEAST_NOISE = 1e-8  # variance, in standardised units
_OFF_GRID = 0.1  # steps that a row may be off the grid to be used
_SHORT = 3  # steps of a gap across which interpolation is as good as an observation
_ROWS_AT_ONCE = 512


@is_kept
class Autoregression(nn.Module):
    r"""A model of one step, from lags of the outputs, that predicts at any time.

    After the training rows it simulates paths. Each has weights of its own and, at every step, process
    noise: a share of the noise of the step; the rest is observation noise. The prediction is a mixture
    over paths, each a Gaussian as wide as their number leaves gaps between them (Silverman's rule),
    shrunk to their mean so that the variance is theirs. Within the rows it predicts one step ahead of
    known values, before them their mean and variance.
    """

    series: Tensor
    variance: Tensor
    first: Tensor
    width: Tensor
    process_share: Tensor
    _paths: Tensor | None
    _one_step: tuple[Tensor, Tensor] | None

    def __init__(self, config: ModelConfig, seed: int, n_lags: int, n_rows: int = 0) -> None:
        super().__init__()
        self.step_model, self.n_lags = DeepLFM(config, seed), n_lags
        shape = (n_rows, config.n_outputs)
        self.register_buffer("series", torch.zeros(shape))  # on an even grid, without gaps
        self.register_buffer("variance", torch.zeros(shape))  # of values that were not observed
        self.register_buffer("first", torch.zeros(()))  # time of the first row
        self.register_buffer("width", torch.ones(()))  # of a step of time
        self.register_buffer("process_share", torch.ones(()))  # of the noise
        self._reset()

    @property
    def constructor_arguments(self) -> dict[str, Any]:
        """Arguments that make the same model, before its tensors are loaded."""
        own = {"n_lags": self.n_lags, "n_rows": len(self.series)}
        return self.step_model.constructor_arguments | own

    @property
    def likelihood(self) -> Likelihood:
        """Noise of a step, and its calibration over time."""
        return self.step_model.likelihood

    @property
    def temperature(self) -> Tensor:
        """Temperature of the weights of the step."""
        return self.step_model.temperature

    @property
    def has_exact_output(self) -> bool:
        """The weights of the step are solved in closed form."""
        return True

    @torch.no_grad()
    def set_train_data(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
        reach: float | None = None,
    ) -> None:
        """Take rows in order of time as the series, on an even grid.

        Missing values are interpolated: in short gaps as if they were observed, in longer ones with the
        variance of the series. Targets of next to no weight are missing too.
        """
        y = Rows(x, y, row_weight).without_light_targets().y
        if reach is not None:
            self.likelihood.set_support(x, y, reach)
        step = steps_of(x[:, 0])
        self.first = x[0, 0].clone()
        self.width = (x[-1, 0] - x[0, 0]) / step[-1].clamp_min(1)
        self.series = completed(step, y)
        is_unknown = in_long_gaps(step, y, _SHORT)
        self.variance = torch.where(is_unknown, self.series.var(0).clamp_min(_LEAST_NOISE), 0)
        self._reset()

    @property
    def has_known_lags(self) -> Bool[Tensor, " R+1"]:
        """Whether all lags of a step are known: to each row, and to the one after the last."""
        is_known = (self.variance == 0).all(1)
        windows = is_known.unfold(0, self.n_lags, 1).all(1)  # the last is of the row to come
        return torch.cat([torch.zeros_like(is_known[: self.n_lags]), windows])

    @torch.no_grad()
    def statistics(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
    ) -> tuple[Float[Tensor, "G U K K"], Float[Tensor, "G K U"]]:
        """Statistics of the steps to some rows; rows whose lags are not known add nothing."""
        index, is_used = self._on_grid(x)
        is_used &= (index >= self.n_lags) & (index <= len(self.series))
        index = torch.where(is_used, index, self.n_lags)
        lags = self.lags(index)
        is_used &= self.has_known_lags[index]
        target = torch.where(is_used[:, None], y - lags[:, : y.shape[1]], torch.nan)
        return self.step_model.statistics(lags, target, row_weight)

    def solve(self, gram: Float[Tensor, "G U K K"], moment: Float[Tensor, "G K U"]) -> None:
        """Set the weights of the step from statistics."""
        self.step_model.solve(gram, moment)
        self._reset()

    @torch.no_grad()
    def condition_on(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
    ) -> None:
        """Continue the series; gaps before the new rows are filled with expected values."""
        index, is_new = self._on_grid(x)
        n_rows = len(self.series)
        is_new &= (index >= n_rows) & (index < n_rows + _LONGEST) & ~y.isnan().all(1)
        if bool(is_new.any()):
            more = y.new_full((int(index[is_new].max()) + 1 - n_rows, y.shape[1]), torch.nan)
            more[index[is_new] - n_rows] = y[is_new]
            self.variance = torch.cat([self.variance, torch.zeros_like(more)])
            self.series = torch.cat([self.series, more])
            limit = self._limit(self.series[:n_rows])
            for row in more.isnan().any(1).nonzero()[:, 0] + n_rows:
                self._fill(row, limit)
        self.step_model.add_statistics(*self.statistics(x, y, row_weight))
        self.likelihood.extend_support(x, y)
        self._reset()

    def _fill(self, row: Int64[Tensor, ""], limit: tuple[Tensor, Tensor]) -> None:
        """Put expected values in place of missing ones."""
        lags, layer = self.lags(row[None]), self.step_model.output_layer
        value = self.series[row]
        is_missing = value.isnan()
        (increment,) = step_function(layer, draw_weights(layer, 1))(lags)
        expected = (lags[0, : len(value)] + increment).clamp(*limit)
        variance = self.variance[row - 1] + self.step_model.gaussian.log_variance.exp()
        most = self.series[: int(row)].var(0)
        self.variance[row] = torch.where(is_missing, variance.minimum(most), 0)
        self.series[row] = torch.where(is_missing, expected, value)

    @torch.no_grad()
    def posterior(self, x: Float[Tensor, "N P"]) -> Predictive:
        """Mixture over paths: the same for a row, but for rounding, whatever the batch."""
        n_paths = self.step_model.config.n_paths
        ahead = self._paths_to(x, n_paths, self.step_model.seed, "prediction")
        center = ahead.mean(0)
        spread = (ahead - center).square().mean(0)
        width = (4 / (3 * n_paths)) ** 0.4  # variance of a component over that of all
        ahead = center + math.sqrt(1 - width) * (ahead - center)
        fitted, uncertainty = self.fitted()
        mean = self._interpolated(x, fitted.expand(n_paths, -1, -1), ahead)
        variance = self._interpolated(x, uncertainty[None], width * spread[None]).clamp_min(0)
        variance = torch.where(self._is_beyond(x)[:, None], self.series.var(0), variance)
        noise = self.step_model.gaussian.predictive_variance(x[:, :1]).clamp_min(_LEAST_NOISE)
        weight = mean.new_full((n_paths, mean.shape[-1]), 1 / n_paths)
        return Predictive(
            mean,
            variance.expand_as(mean),
            noise.to(mean.dtype),
            weight,
            lambda n_draws, seed: self._draw(x, n_draws, seed),
        )

    def is_active(self, x: Float[Tensor, "N P"]) -> Bool[Tensor, " N"]:
        """After the series: within it a function of time depends on both sides of a row."""
        return self.place(x) > len(self.series) - 1 + _OFF_GRID

    def place(self, x: Float[Tensor, "N P"]) -> Float[Tensor, " N"]:
        """Steps since the first row of the series."""
        return (x[:, 0] - self.first) / self.width

    def lags(self, index: Int64[Tensor, " N"]) -> Float[Tensor, "N L*D"]:
        """The rows of the series before given ones, the latest first."""
        back = torch.arange(1, self.n_lags + 1, device=index.device)
        return self.series[index[:, None] - back].flatten(1)

    def _on_grid(self, x: Float[Tensor, "N P"]) -> tuple[Int64[Tensor, " N"], Bool[Tensor, " N"]]:
        """The nearest step of each row, and whether the row is there."""
        place = self.place(x)
        index = place.round().long()
        return index, (place - index).abs() <= _OFF_GRID

    @torch.no_grad()
    def roll(
        self,
        lags: Float[Tensor, "S L*D"],
        n_steps: int,
        weights: Float[Tensor, "S D K"],
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, "H S D"]:
        """Paths from given lags; without a generator, without process noise."""
        scale = (self.process_share.to(lags) * self.step_model.gaussian.log_variance.exp()).sqrt()
        step = step_function(self.step_model.output_layer, weights)
        return roll_out(step, lags, n_steps, self._limit(self.series), scale, generator)

    def _limit(self, values: Float[Tensor, "R D"]) -> tuple[Tensor, Tensor]:
        """Lowest and highest values that a path may take."""
        low, high = values.amin(0), values.amax(0)
        margin = _MARGIN * (high - low)
        return low - margin, high + margin

    def _paths_to(
        self, x: Float[Tensor, "N P"], n_paths: int, seed: int, stream: str
    ) -> Float[Tensor, "S H D"]:
        """Paths at least as far as the last of some rows."""
        place = torch.where(self._is_beyond(x), 0, self.place(x))
        n_steps = max(0, int(place.max().ceil()) + 2 - len(self.series))  # 1 more for a cubic
        if stream == "prediction" and self._paths is not None and self._paths.shape[1] >= n_steps:
            return self._paths
        generator = generator_for(seed, stream, device=x.device)
        weights = draw_weights(self.step_model.output_layer, n_paths, generator)
        end = torch.tensor([len(self.series)], device=x.device)
        lags = self.lags(end).expand(n_paths, -1)
        paths = self.roll(lags, n_steps, weights, generator).movedim(0, 1)
        if stream == "prediction":
            self._paths = paths
        return paths

    @torch.no_grad()
    def fitted(self) -> tuple[Float[Tensor, "R D"], Float[Tensor, "R D"]]:
        """Mean and variance within the series: the first rows themselves, then one step ahead."""
        if self._one_step is None:
            index = torch.arange(self.n_lags, len(self.series), device=self.series.device)
            mean, variance = self.series.clone(), self.variance.clone()
            for part in index.split(_ROWS_AT_ONCE):
                lags = self.lags(part)
                layer = self.step_model.output_layer
                increment, spread = layer.moments(layer.features(lags, 1))
                mean[part] = lags[:, : mean.shape[1]] + increment.to(mean.dtype)
                variance[part] += spread.to(mean.dtype)
            self._one_step = mean, variance
        return self._one_step

    def _interpolated(
        self,
        x: Float[Tensor, "N P"],
        fitted: Float[Tensor, "S R D"],
        ahead: Float[Tensor, "S H D"],
    ) -> Float[Tensor, "S N D"]:
        """Values at any time; the mean of the series beyond both ends."""
        values = interpolate(self.place(x), fitted, ahead)
        return torch.where(self._is_beyond(x)[:, None], self.series.mean(0), values)

    def _is_beyond(self, x: Float[Tensor, "N P"]) -> Bool[Tensor, " N"]:
        place = self.place(x)
        return (place < -0.5) | (place > len(self.series) - 1 + _LONGEST)

    @torch.no_grad()
    def _draw(self, x: Tensor, n_draws: int, seed: int) -> Float[Tensor, "S N D"]:
        """Whole functions: fresh paths ahead, and one level of uncertainty within the series."""
        ahead = self._paths_to(x, n_draws, seed, "draw")
        fitted, variance = self.fitted()
        generator = generator_for(seed, "draw", index=1, device=x.device)
        shape = (n_draws, 1, fitted.shape[-1])
        level = torch.randn(shape, generator=generator, dtype=fitted.dtype, device=x.device)
        draws = self._interpolated(x, fitted + variance.sqrt() * level, ahead)
        return draws + self.series.std(0) * level * self._is_beyond(x)[:, None]

    def _reset(self) -> None:
        """Drop what was computed from another series or other weights."""
        self._paths, self._one_step = None, None
