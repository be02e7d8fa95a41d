"""Conversion from the user's units to the model's and back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from deeplfm.errors import ConfigError, InputError
from deeplfm.predictive.mixture import Predictive
from deeplfm.predictive.transformed import Clipped, Exponential
from deeplfm.training.distributed import world

Array = NDArray[np.float64]
_SMALLEST = 1e-150
Chunk = tuple[Array, Array] | tuple[Array, Array, Array | None]


@dataclass(frozen=True)
class Scaling:
    """Affine maps of inputs and outputs, or of logarithms of outputs.

    Series have their time mapped to [0, 1] over the training rows, as in the paper; their covariates
    and the columns of a table are standardised. Outputs are standardised over their known values.
    ``bounds`` are the floor and the cap of each output in the user's units, if there are any.
    """

    x_shift: Array
    x_scale: Array
    y_shift: Array
    y_scale: Array
    is_log: NDArray[np.bool_]
    bounds: Array | None = None  # 2 D

    @classmethod
    def of(cls, x: Array, y: Array, is_series: bool) -> Scaling:
        """The scaling of training data."""
        return cls.of_chunks([(np.asarray(x, np.float64), np.asarray(y, np.float64))], is_series)

    @classmethod
    def of_chunks(
        cls,
        chunks: Iterable[Chunk],
        is_series: bool,
        is_log: NDArray[np.bool_] | None = None,
        is_shared: bool = False,
    ) -> Scaling:
        """The scaling of training data that are read once, some rows at a time.

        Args:
            chunks: inputs, targets and, where rows have any, weights.
            is_series: the first input is time.
            is_log: outputs that are modelled by their logarithm; by default none.
            is_shared: the chunks are those of this process, and others of the fit have the rest.
        """
        inputs, outputs = Moments(), Moments()
        for x, y, *weight in chunks:
            inputs.add(x, *weight)
            outputs.add(_logarithms(y, is_log), *weight)
        if is_shared:
            inputs, outputs = (Moments.of_all(world().gather(own)) for own in (inputs, outputs))
        for name, moments in (("X", inputs), ("y", outputs)):
            moments.check_range(name)
        is_time = is_series & (np.arange(len(inputs.mean)) == 0)
        shift = np.where(is_time, inputs.lowest, inputs.mean)
        scale = np.where(is_time, inputs.highest - inputs.lowest, inputs.scale)
        if is_log is None:
            is_log = np.zeros(len(outputs.mean), dtype=bool)
        return cls(shift, np.where(scale > 0, scale, 1.0), outputs.mean, outputs.scale, is_log)

    @property
    def digest(self) -> str:
        """A short text that differs for different scalings."""
        content = b"".join(
            np.asarray(value).tobytes() for value in vars(self).values() if value is not None
        )
        return hashlib.sha256(content).hexdigest()[:12]

    def inputs(self, x: Array) -> Array:
        """Inputs in the model's units."""
        return (x - self.x_shift) / self.x_scale

    def outputs(self, y: Array) -> Array:
        """Outputs in the model's units."""
        return (_logarithms(y, self.is_log) - self.y_shift) / self.y_scale

    def predictive(self, posterior: Predictive) -> Predictive:
        """A prediction in the user's units."""
        shift, scale = torch.as_tensor(self.y_shift), torch.as_tensor(self.y_scale)
        result: Predictive = Rescaled(posterior, shift, scale)
        if self.is_log.any():
            result = Exponential(result, torch.as_tensor(self.is_log))
        if self.bounds is None:
            return result
        floor, cap = torch.as_tensor(self.bounds)
        return Clipped(result, floor, cap)

    def bounded(self, bounds: Array | None) -> Scaling:
        """The same, whose predictions end at a floor and a cap of each output, if any are given."""
        return self if bounds is None else replace(self, bounds=bounds)

    def log_jacobian(self, y: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        """Log density in the model's units minus the log density in the user's, at these outputs."""
        shift, scale = torch.as_tensor(self.y_shift), torch.as_tensor(self.y_scale)
        slope = torch.where(torch.as_tensor(self.is_log), y.cpu() * scale + shift, 0.0)
        return slope + scale.log()


def bounds_of(observed: pd.DataFrame, floor: float | None, cap: float | None) -> Array | None:
    """Floor and cap of each target; ``None`` where there are none.

    Values beyond a bound are refused: either they or the bound are wrong.
    """
    if floor is None and cap is None:
        return None
    low = -np.inf if floor is None else float(floor)
    high = np.inf if cap is None else float(cap)
    if not low < high:
        raise ConfigError(f"floor, cap: {floor!r} and {cap!r} found. Give a floor below the cap.")
    for name, column in observed.items():
        for bound, is_beyond, word in ((low, column < low, "floor"), (high, column > high, "cap")):
            if is_beyond.any():
                raise InputError(
                    f"column {name!r}: {is_beyond.sum()} of {column.notna().sum()} values are beyond "
                    f"{word}={bound:g} (first: {column[is_beyond].iloc[0]:g} at time "
                    f"{column.index[is_beyond.argmax()]}). Correct them, or give another {word}."
                )
    return np.repeat([[low], [high]], observed.shape[1], axis=1)


def _logarithms(y: Array, is_log: NDArray[np.bool_] | None) -> Array:
    if is_log is None or not is_log.any():
        return y
    return np.where(is_log, np.log(np.where(is_log, y, 1.0)), y)


class Moments:
    """Mean and standard deviation of the known values of each column, from chunks of the rows.

    The moments of two sets of rows combine to those of both (Chan, Golub and LeVeque, 1979), without
    the cancellation of a sum of squares.
    """

    def __init__(self) -> None:
        self.count, self.mean, self.variance = np.zeros(1), np.zeros(1), np.zeros(1)
        self.lowest, self.highest = np.array(np.inf), np.array(-np.inf)

    @property
    def std(self) -> Array:
        """Standard deviation of each column."""
        return np.sqrt(self.variance)

    @property
    def scale(self) -> Array:
        """Unit of each column; 1 for a constant, whose rounding errors must not become one."""
        return np.where((self.highest > self.lowest) & (self.variance > 0), self.std, 1.0)

    def check_range(self, name: str) -> None:
        """Refuse a column whose values differ by so little that squares of the differences vanish."""
        spread = self.highest - self.lowest
        for column in np.flatnonzero((spread > 0) & (spread < _SMALLEST)):
            raise InputError(
                f"{name}: the values of column {column} differ by {np.atleast_1d(spread)[column]:.3g} at "
                f"most, and squares of differences below {_SMALLEST:g} vanish. Give them in a smaller "
                "unit."
            )

    @classmethod
    def of_all(cls, parts: Iterable[Moments]) -> Moments:
        """The moments of several sets of rows together."""
        found = cls()
        for part in parts:
            found._combine(part)
        return found

    def add(self, values: Array, weight: Array | None = None) -> None:
        """Take more rows into account; a row of weight 2 counts twice."""
        new = Moments()
        new.lowest = np.fmin.reduce(values, axis=0)
        new.highest = np.fmax.reduce(values, axis=0)
        known = ~np.isnan(values)
        count = known.sum(0) if weight is None else weight @ known
        if not count.all():  # a column with no known value has no mean; 0 will count for nothing
            values = np.where(count > 0, values, 0.0)
        mean, variance = np.nanmean(values, axis=0), np.nanvar(values, axis=0)
        if weight is not None:
            size = weight[:, None] * known / np.where(count > 0, count, 1)
            mean = mean + np.nansum(size * (values - mean), axis=0)
            variance = np.nansum(size * (values - mean) ** 2, axis=0)
        new.count, new.mean, new.variance = count, mean, variance
        self._combine(new)

    def _combine(self, new: Moments) -> None:
        self.lowest = np.fmin(self.lowest, new.lowest)
        self.highest = np.fmax(self.highest, new.highest)
        self.count = self.count + new.count
        share = new.count / np.where(self.count > 0, self.count, 1)
        gap, change = new.mean - self.mean, new.variance - self.variance
        self.mean = self.mean + share * gap
        self.variance = self.variance + share * change + (share * gap) * ((1 - share) * gap)


class Rescaled(Predictive):
    """A prediction after an affine map of each output."""

    def __init__(
        self, inner: Predictive, shift: Float[Tensor, " D"], scale: Float[Tensor, " D"]
    ) -> None:
        self._inner, self._shift, self._scale = inner, shift, scale
        mean, variance, noise, weight = (
            item.cpu().double()
            for item in (
                inner.component_mean,
                inner.component_variance,
                inner.component_noise,
                inner.weight,
            )
        )
        square = scale.square()
        super().__init__(
            mean * scale + shift,
            variance * square,
            noise * square,
            weight,
            draw=lambda n_draws, seed: self.sample(n_draws, seed, latent=True),
        )

    def sample(
        self, n_draws: int = 1, seed: int = 0, latent: bool = False
    ) -> Float[Tensor, "S N D"]:
        """Whole functions."""
        return self._inner.sample(n_draws, seed, latent).cpu().double() * self._scale + self._shift
