"""Models that users name on the command line, and tables that go with them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from deeplfm.cli.options import Reading
from deeplfm.cli.series import by_time, first_if_time, read_frame
from deeplfm.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from jaxtyping import Float64
    from numpy import ndarray

    from deeplfm.estimators import DeepLFMForecaster

_INDEX = "index"  # what times without a name are called in files that forecast writes
_ROWS_TOGETHER = 4096  # with all their mixture components


def load_forecaster(path: Path) -> DeepLFMForecaster:
    """The forecaster in a folder."""
    import deeplfm
    from deeplfm.estimators import DeepLFMForecaster

    model = deeplfm.load(path)
    if not isinstance(model, DeepLFMForecaster):
        raise InputError(
            f"{path}: this is a {type(model).__name__}, and the command needs a model that knows the "
            "times of its data. Fit one with deeplfm fit, or use this one from Python."
        )
    return model


def read_like(
    forecaster: DeepLFMForecaster,
    source: str,
    reading: Reading,
    columns: Sequence[str | int] | None = None,
) -> pd.DataFrame:
    """A table with the times of a model, and other columns of it as numbers.

    Args:
        forecaster: the model.
        source: the file.
        reading: how it is written.
        columns: those that have to be there; by default all targets and covariates.
    """
    from deeplfm.cli.clocks import named_pair, pair_of

    frame = read_frame(source, reading, fewest_columns=2 if columns is None or columns else 1)
    time, known = forecaster.timeline_.name, frame.columns
    times: list[str | int]
    if time is None:  # it was the index of a frame, and is again
        index = _INDEX if _INDEX in known else first_if_time(frame, source)
        times = list(pair_of(frame, index) or [index])
    else:
        pair = None if time in known else named_pair(frame, str(time))
        times = list(pair or [time])
    if not set(times) <= set(known):
        raise InputError(
            f"{source}: no column {time!r} found, which holds the times of the model. Rename the "
            f"right one of {', '.join(map(str, known))}."
        )
    if columns is None:
        columns = [*forecaster.targets_, *forecaster.covariates_]
    frame = by_time(frame, times, [str(name) for name in columns], source)
    if time is not None:
        return frame
    return frame.rename_axis(None) if len(times) == 2 else frame.set_index(times[0])


def times_in(frame: pd.DataFrame, forecaster: DeepLFMForecaster) -> pd.Series | pd.Index:
    """The times of a table that :func:`read_like` has read."""
    name = forecaster.timeline_.name
    return frame[name] if name in frame.columns else frame.index


def unseen(forecaster: DeepLFMForecaster, frame: pd.DataFrame) -> pd.DataFrame:
    """Targets by time, without values that were known in training."""
    known = forecaster.known_at(times_in(frame, forecaster))
    return frame[forecaster.targets_].set_axis(known.index).mask(known)


def positions(
    forecaster: DeepLFMForecaster, values: pd.DataFrame, covariates: pd.DataFrame | None = None
) -> dict[str, Float64[ndarray, " N"]]:
    """Where values lie in their predictive distributions, from 0 to 1, by target.

    Args:
        forecaster: the model.
        values: targets by time.
        covariates: at these times, where the model needs some that it does not know.
    """
    import numpy as np
    import torch

    found = []
    for first in range(0, len(values), _ROWS_TOGETHER):
        rows = values.iloc[first : first + _ROWS_TOGETHER]
        truth = torch.from_numpy(rows.to_numpy(dtype=np.float64, copy=True))
        found.append(forecaster.posterior(rows.index, covariates).cdf(truth).numpy())
    return dict(zip(map(str, forecaster.targets_), np.concatenate(found).T, strict=True))
