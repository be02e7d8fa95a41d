r"""A system that hears itself: the next row as a function of the last ones, rolled into the future.

A function of time cannot foretell a chaotic series, and need not know a clock to foretell a regular one.
Here y_{n+1} = y_n + g(y_n, y_{n−1}, …) + e, where g is features × Gaussian weights as everywhere: a
force that the state of the system itself makes.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from deeplfm.config import ModelConfig
from deeplfm.ensemble.even_grid import completed, in_long_gaps, interpolate, steps_of
from deeplfm.ensemble.rollout import draw_weights, follow, rule_of
from deeplfm.model import DeepLFM
from deeplfm.predictive.mixture import Predictive
from deeplfm.randomness import generator_for

_MARGIN = 0.1  # of the range of the record, which paths may leave by as much
_LONGEST = 2000  # steps ahead that are simulated; beyond, the record's own mean and variance
_LEAST_NOISE = 1e-8  # variance, in standardised units
_STRAY = 0.1  # steps that a row may be off the grid to be heard
_SHORT = 3  # steps of a gap across which interpolation is as good as an observation


class Autoregression(DeepLFM):
    r"""A model whose inputs are lags of its own outputs, asked for by time.

    Ahead of its record it follows paths. Each has weights of its own, and at every step the ``share`` of
    the noise that the system itself feels; the rest is the observer's. The prediction is a mixture over
    paths, each a bell as wide as their number leaves gaps between them (Silverman's rule), drawn to
    their mean so that the variance is theirs. Within the record it is one step ahead of known values,
    before it the record's mean and variance.

    Args:
        config: of the model of one step, with lags × outputs as inputs, the latest row first.
        seed: as for any model.
        n_lags: number L of rows that it looks back.
        n_rows: length of the record; :meth:`set_train_data` fills it.
    """

    kind: ClassVar[str] = "feedback"
    is_function_of_time: ClassVar[bool] = False
    keeps_rows: ClassVar[bool] = True
    weighs_rows: ClassVar[bool] = False
    record: Tensor
    doubt: Tensor
    first: Tensor
    step: Tensor
    share: Tensor
    _kept: Tensor | None
    _one_step: tuple[Tensor, Tensor] | None

    def __init__(self, config: ModelConfig, seed: int, n_lags: int, n_rows: int = 0) -> None:
        super().__init__(config, seed)
        self.n_lags = n_lags
        shape = (n_rows, config.n_outputs)
        self.register_buffer("record", torch.zeros(shape))
        self.register_buffer("doubt", torch.zeros(shape))  # variance of what was not observed
        self.register_buffer("first", torch.zeros(()))
        self.register_buffer("step", torch.ones(()))
        self.register_buffer("share", torch.ones(()))
        self._forget()

    @property
    def sizes(self) -> dict[str, int]:
        """Number of lags, and length of the record."""
        return {"n_lags": self.n_lags, "n_rows": len(self.record)}

    @torch.no_grad()
    def set_train_data(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
        reach: float | None = None,
    ) -> None:
        """Take rows in order of time as the record, on an even grid.

        What is missing is filled: in short gaps as if it were known, in others with the doubt of a value
        of which nothing is known.
        """
        if reach is not None:
            super().set_train_data(x, y, row_weight, reach)
        step = steps_of(x[:, 0])
        self.first = x[0, 0].clone()
        self.step = (x[-1, 0] - x[0, 0]) / step[-1].clamp_min(1)
        self.record = completed(step, y)
        is_guess = in_long_gaps(step, y, _SHORT)
        self.doubt = torch.where(is_guess, self.record.var(0).clamp_min(_LEAST_NOISE), 0)
        self._forget()

    @property
    def is_sure(self) -> Bool[Tensor, " R+1"]:
        """Whether all that a step begins from is known: to each row, and to the one after the last."""
        n_known = (self.doubt == 0).all(1).cumsum(0)
        n_known = torch.cat([n_known.new_zeros(1), n_known])
        sure = torch.zeros_like(n_known, dtype=torch.bool)
        sure[self.n_lags :] = n_known[self.n_lags :] - n_known[: -self.n_lags] == self.n_lags
        return sure

    @torch.no_grad()
    def statistics(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
    ) -> tuple[Float[Tensor, "G U K K"], Float[Tensor, "G K U"]]:
        """Of the steps to some rows from those before them; where these are not known, nothing."""
        index, is_heard = self._on_grid(x)
        is_heard &= (index >= self.n_lags) & (index <= len(self.record))
        index = torch.where(is_heard, index, self.n_lags)
        lags = self.lags(index)
        is_heard &= self.is_sure[index]
        target = torch.where(is_heard[:, None], y - lags[:, : y.shape[1]], torch.nan)
        return super().statistics(lags, target, row_weight)

    def solve(self, gram: Float[Tensor, "G U K K"], moment: Float[Tensor, "G K U"]) -> None:
        """Set the weights of the step from statistics."""
        super().solve(gram, moment)
        self._forget()

    @torch.no_grad()
    def condition_on(
        self,
        x: Float[Tensor, "N P"],
        y: Float[Tensor, "N D"],
        row_weight: Float[Tensor, " N"] | None = None,
    ) -> None:
        """Continue the record; what is missing in between is bridged step by step, with doubt."""
        index, is_new = self._on_grid(x)
        n_rows = len(self.record)
        is_new &= (index >= n_rows) & (index < n_rows + _LONGEST) & ~y.isnan().all(1)
        if bool(is_new.any()):
            more = y.new_full((int(index[is_new].max()) + 1 - n_rows, y.shape[1]), torch.nan)
            more[index[is_new] - n_rows] = y[is_new]
            self.doubt = torch.cat([self.doubt, torch.zeros_like(more)])
            self.record = torch.cat([self.record, more])
            limit = self._limit(self.record[:n_rows])
            for row in more.isnan().any(1).nonzero()[:, 0] + n_rows:
                self._bridge(row, limit)
        super().condition_on(x, y, row_weight)
        self._forget()

    def _bridge(self, row: Int64[Tensor, ""], limit: tuple[Tensor, Tensor]) -> None:
        """Put what is expected in place of what is missing."""
        lags = self.lags(row[None])
        value = self.record[row]
        is_missing = value.isnan()
        (increment,) = rule_of(self.output_layer, draw_weights(self.output_layer, 1))(lags)
        expected = (lags[0, : len(value)] + increment).clamp(*limit)
        doubt = self.doubt[row - 1] + self.gaussian.log_variance.exp()
        most = self.record[: int(row)].var(0)
        self.doubt[row] = torch.where(is_missing, doubt.minimum(most), 0)
        self.record[row] = torch.where(is_missing, expected, value)

    @torch.no_grad()
    def posterior(self, x: Float[Tensor, "N P"]) -> Predictive:
        """Mixture over paths: the same for a row, but for rounding, whatever the batch."""
        n_paths = self.config.n_paths
        ahead = self._paths_to(x, n_paths, self.seed, "prediction")
        center = ahead.mean(0)
        spread = (ahead - center).square().mean(0)
        width = (4 / (3 * n_paths)) ** 0.4  # of a bell: its variance over that of all
        ahead = center + math.sqrt(1 - width) * (ahead - center)
        fitted, doubt = self.fitted()
        mean = self._interpolated(x, fitted.expand(n_paths, -1, -1), ahead)
        variance = self._interpolated(x, doubt[None], width * spread[None]).clamp_min(0)
        variance = torch.where(self._is_beyond(x)[:, None], self.record.var(0), variance)
        noise = self.gaussian.predictive_variance(x[:, :1]).clamp_min(_LEAST_NOISE)
        weight = mean.new_full((n_paths, mean.shape[-1]), 1 / n_paths)
        return Predictive(
            mean,
            variance.expand_as(mean),
            noise.to(mean.dtype),
            weight,
            lambda n_draws, seed: self._draw(x, n_draws, seed),
        )

    @torch.no_grad()
    def hidden_values(self, x: Float[Tensor, "N P"]) -> list[Float[Tensor, "S N H"]]:
        """None: hidden layers, if it had any, would be functions of lags."""
        return []

    def is_active(self, x: Float[Tensor, "N P"]) -> Bool[Tensor, " N"]:
        """Ahead of the record: among its rows a function of time knows what comes on both sides."""
        return self.place(x) > len(self.record) - 1 + _STRAY

    def place(self, x: Float[Tensor, "N P"]) -> Float[Tensor, " N"]:
        """Steps since the first row of the record."""
        return (x[:, 0] - self.first) / self.step

    def lags(self, index: Int64[Tensor, " N"]) -> Float[Tensor, "N L*D"]:
        """The rows of the record before given ones, the latest first."""
        back = torch.arange(1, self.n_lags + 1, device=index.device)
        return self.record[index[:, None] - back].flatten(1)

    def _on_grid(self, x: Float[Tensor, "N P"]) -> tuple[Int64[Tensor, " N"], Bool[Tensor, " N"]]:
        """The nearest step of each row, and whether the row is there."""
        place = self.place(x)
        index = place.round().long()
        return index, (place - index).abs() <= _STRAY

    @torch.no_grad()
    def roll(
        self,
        lags: Float[Tensor, "S L*D"],
        n_steps: int,
        weights: Float[Tensor, "S D K"],
        generator: torch.Generator | None = None,
        share: float | None = None,
    ) -> Float[Tensor, "H S D"]:
        """Follow the rule from given lags; without a generator, without noise.

        Args:
            lags: where each path begins.
            n_steps: number H of steps.
            weights: of each path.
            generator: source of noise.
            share: of the noise that the system feels; ``None`` takes its own.
        """
        felt = self.share if share is None else torch.as_tensor(share).to(lags)
        scale = (felt * self.gaussian.log_variance.exp()).sqrt()
        rule, limit = rule_of(self.output_layer, weights), self._limit(self.record)
        return follow(rule, lags, n_steps, limit, scale, generator)

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
        # cubic interpolation looks one step further
        n_steps = max(0, int(place.max().ceil()) + 2 - len(self.record))
        if stream == "prediction" and self._kept is not None and self._kept.shape[1] >= n_steps:
            return self._kept
        generator = generator_for(seed, stream, device=x.device)
        weights = draw_weights(self.output_layer, n_paths, generator)
        end = torch.tensor([len(self.record)], device=x.device)
        lags = self.lags(end).expand(n_paths, -1)
        paths = self.roll(lags, n_steps, weights, generator).movedim(0, 1)
        if stream == "prediction":
            self._kept = paths
        return paths

    @torch.no_grad()
    def fitted(self) -> tuple[Float[Tensor, "R D"], Float[Tensor, "R D"]]:
        """Mean and variance of the record: of the first rows itself, then one step ahead."""
        if self._one_step is None:
            index = torch.arange(self.n_lags, len(self.record), device=self.record.device)
            mean, variance = self.record.clone(), self.doubt.clone()
            for part in index.split(self._rows_at_once):
                lags = self.lags(part)
                increment, spread = self.output_layer.moments(self.output_layer.features(lags, 1))
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
        """Values at any time; the record's mean beyond both ends."""
        values = interpolate(self.place(x), fitted, ahead)
        return torch.where(self._is_beyond(x)[:, None], self.record.mean(0), values)

    def _is_beyond(self, x: Float[Tensor, "N P"]) -> Tensor:
        place = self.place(x)
        return (place < -0.5) | (place > len(self.record) - 1 + _LONGEST)

    @torch.no_grad()
    def _draw(self, x: Tensor, n_draws: int, seed: int) -> Float[Tensor, "S N D"]:
        """Whole functions: fresh paths ahead, and one level of doubt within the record."""
        ahead = self._paths_to(x, n_draws, seed, "draw")
        fitted, variance = self.fitted()
        generator = generator_for(seed, "draw", index=1, device=x.device)
        shape = (n_draws, 1, fitted.shape[-1])
        level = torch.randn(shape, generator=generator, dtype=fitted.dtype, device=x.device)
        draws = self._interpolated(x, fitted + variance.sqrt() * level, ahead)
        beyond = self.record.std(0) * level * self._is_beyond(x)[:, None]
        return draws + beyond

    def _forget(self) -> None:
        """Drop what was computed from another record or other weights."""
        self._kept, self._one_step = None, None
