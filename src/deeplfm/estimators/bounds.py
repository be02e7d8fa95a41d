"""Floor and cap of targets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from jaxtyping import Float64
from numpy import ndarray

from deeplfm.errors import ConfigError, InputError

if TYPE_CHECKING:
    from deeplfm.estimators.regressor import DeepLFMRegressor

Bounds = Float64[ndarray, "2 D"]


def bounds_of(observed: pd.DataFrame, floor: float | None, cap: float | None) -> Bounds | None:
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


def set_bounds(regressor: DeepLFMRegressor, bounds: Bounds | None) -> None:
    """Clip all predictions of a fitted regressor to the bounds of its targets."""
    if bounds is not None:
        regressor.scaling_ = replace(regressor.scaling_, bounds=bounds)
