"""Tables named on the command line, read with the roles of their columns; and saved models."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deeplfm.cli.options import ColumnOptions, FileOptions
from deeplfm.cli.panels import read_static, with_numbers
from deeplfm.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from jaxtyping import Float64
    from numpy import ndarray

    from deeplfm.estimators import DeepLFMForecaster

_INDEX = "index"  # name of times without one in files written by forecast
_CHUNK = 4096  # rows whose mixtures are held in memory at once


@dataclass(frozen=True)
class Series:
    """A table with one row per time."""

    frame: pd.DataFrame
    time: str | list[str]
    time_columns: list[str]
    targets: list[str]
    covariates: list[str]
    time_is_guessed: bool
    left_out: list[str]  # neither named nor numbers
    fit_options: dict[str, Any]
    n_series: int | None = None  # of a table in long form

    @property
    def missing_values(self) -> tuple[float, ...]:
        """Numbers that mark a missing target."""
        return tuple(self.fit_options["missing_values"])

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of a fit of these columns."""
        roles = {"time": self.time, "targets": self.targets, "covariates": self.covariates}
        copies = {
            key: [*value] if isinstance(value, list) else value for key, value in roles.items()
        }
        return copies | self.fit_options


def read_series(source: str, file: FileOptions, columns: ColumnOptions) -> Series:
    """Read a table and determine the roles of its columns."""
    from deeplfm.cli.clocks import time_columns_of, times_beside_row_numbers
    from deeplfm.estimators.known_inputs import is_category, mostly_numbers
    from deeplfm.estimators.over_series import series_column
    from deeplfm.estimators.year_columns import are_parts_of_a_year

    def is_number(column: pd.Series) -> bool:  # and neither truth value, duration nor timestamp
        return column.dtype.kind not in "bmM" and (column.isna().all() or mostly_numbers(column))

    frame = read_frame(source, file)
    series = series_column(frame, columns.series)
    if series is not None:
        static = read_static(columns.static, file, series)
        return _read_panel(source, frame, columns, series, static)
    if columns.static is not None:
        raise InputError(
            f"--static: {source} holds one series. Name the column of many with --series."
        )
    stamps = times_beside_row_numbers(frame)
    covariates = split_names(columns.covariate, frame)
    targets = split_names(columns.target, frame)
    errors = split_names(columns.measurement_error, frame)
    named = [*targets, *covariates, *errors]
    time_columns = time_columns_of(frame, columns.time, stamps, named, source)
    taken = [*time_columns, *covariates, *errors, *([] if stamps is None else frame.columns[:1])]
    others = [name for name in frame.columns if name not in taken]
    left_out = [] if targets else [name for name in others if not is_number(frame[name])]
    targets = targets or [name for name in others if name not in left_out]
    _check_roles(source, frame, time_columns, targets, covariates, errors)
    numbers = [*targets, *errors, *(name for name in covariates if not is_category(frame[name]))]
    parts = are_parts_of_a_year(time_columns)
    return Series(
        _by_time(frame, [] if parts else time_columns, numbers, source),
        time_columns if parts else " ".join(time_columns),
        time_columns,
        targets,
        covariates,
        columns.time is None,
        left_out,
        columns.fit_options() | ({"measurement_error": errors} if errors else {}),
    )


def _read_panel(
    source: str,
    frame: pd.DataFrame,
    columns: ColumnOptions,
    series: str,
    static: pd.DataFrame | None,
) -> Series:
    """A table in long form; a field that is no number is left to the fit of its series."""
    from deeplfm.cli.clocks import time_columns_of
    from deeplfm.estimators.known_inputs import is_category
    from deeplfm.estimators.panel_columns import PanelColumns
    from deeplfm.estimators.year_columns import are_parts_of_a_year

    if columns.measurement_error:
        raise InputError(
            f"--measurement-error: {source} holds several series, which have no errors of rows. Fit a "
            "table with one series."
        )
    covariates, targets = split_names(columns.covariate, frame), split_names(columns.target, frame)
    time: Any = columns.time
    if series in frame.columns and not (time is None and "ds" in frame.columns):
        first = frame[frame[series] == frame[series].iloc[0]].drop(columns=series)
        found = time_columns_of(first, time, None, [*targets, *covariates], source)
        if len(found) == 2 and not are_parts_of_a_year(found):
            raise InputError(
                f"--time: {source} has its times in two columns, {found[0]!r} and {found[1]!r}, which a "
                "table of several series cannot have. Join them to one."
            )
        time = found if len(found) > 1 else found[0]
    roles = PanelColumns.choose(frame, series, time, targets or None, covariates or None)
    is_shared = columns.pooled or static is not None
    shared = {"pooled": columns.pooled, "static": static} if is_shared else {}
    numbers = [*roles.targets, *(name for name in covariates if not is_category(frame[name]))]
    return Series(
        with_numbers(frame, [str(name) for name in numbers], source),
        roles.time,
        roles.time if isinstance(roles.time, list) else [roles.time],
        [str(name) for name in roles.targets],
        covariates,
        columns.time is None,
        [],
        columns.fit_options() | {"series": series} | shared,
        frame[series].nunique(),
    )


def load_forecaster(path: Path, may_be_panel: bool = False) -> DeepLFMForecaster:
    """Load the forecaster in a folder."""
    import deeplfm
    from deeplfm.estimators import DeepLFMForecaster

    model = deeplfm.load(path)
    if not isinstance(model, DeepLFMForecaster):
        raise InputError(
            f"{path}: this is a {type(model).__name__}, and the command needs a DeepLFMForecaster. "
            "Fit one with deeplfm fit, or use this model from Python."
        )
    if model.panel_ is not None and not may_be_panel:
        raise InputError(
            f"{path}: this is a panel of {len(model)} series, and the command shows one. Use forecast, "
            "evaluate, components, backtest, impute or update; or model[name] from Python."
        )
    return model


def read_like(
    forecaster: DeepLFMForecaster,
    source: str,
    file: FileOptions,
    columns: Sequence[str | int] | None = None,
) -> pd.DataFrame:
    """Read a table with the times and the columns of a model; by default all targets and covariates."""
    from deeplfm.cli.clocks import first_if_time, named_pair, pair_of

    frame = read_frame(source, file, fewest_columns=2 if columns is None or columns else 1)
    time, known = forecaster.timeline_.name, frame.columns
    times: list[str | int]
    if time is None:  # the model was fitted to a frame indexed by time
        index = _INDEX if _INDEX in known else first_if_time(frame, source)
        times = list(pair_of(frame, index) or [index])
    elif forecaster.timeline_.columns:
        times = list(forecaster.timeline_.columns)
    else:
        times = list((time not in known and named_pair(frame, str(time))) or [time])
    if not set(times) <= set(known):
        raise InputError(
            f"{source}: no column {time!r} found, which holds the times of the model. Rename the "
            f"right one of {', '.join(map(str, known))}."
        )
    if columns is None:
        errors = (name for name in forecaster.measurement_error_.values() if name in known)
        columns = list(dict.fromkeys([*forecaster.targets_, *forecaster.covariates_, *errors]))
    numbers = [str(name) for name in columns if name not in forecaster.inputs_.levels]
    frame = _by_time(frame, [] if forecaster.timeline_.columns else times, numbers, source)
    if time is not None:
        return frame
    return frame.rename_axis(None) if len(times) == 2 else frame.set_index(times[0])


def times_in(frame: pd.DataFrame, forecaster: DeepLFMForecaster) -> pd.Index:
    """The times of a table read by :func:`read_like`."""
    return forecaster._record.times_of(frame)


def pit_values(
    forecaster: DeepLFMForecaster, later: pd.DataFrame | None = None
) -> dict[str, Float64[ndarray, " N"]]:
    """Predictive distribution function at the observations (PIT), by target.

    By default those of the training data; of a table of later ones, those that training did not have.
    """
    import numpy as np
    import torch

    if later is None:
        values, covariates = forecaster.training_[forecaster.targets_], None
    else:
        known = forecaster.known_at(times_in(later, forecaster))
        values = later[forecaster.targets_].set_axis(known.index).mask(known)
        covariates = later if forecaster.covariates_ else None
    found = []
    for first in range(0, len(values), _CHUNK):
        rows = values.iloc[first : first + _CHUNK]
        truth = torch.from_numpy(rows.to_numpy(dtype=np.float64, copy=True))
        found.append(forecaster.posterior(rows.index, covariates).cdf(truth).numpy())
    return dict(zip(map(str, forecaster.targets_), np.concatenate(found).T, strict=True))


def split_names(given: Sequence[str] | None, frame: pd.DataFrame) -> list[str]:
    """Names of columns, given repeatedly or separated by commas, without repetitions."""
    known = set(frame.columns)
    names = (
        name.strip()
        for item in given or []
        for name in ([item] if item in known else item.split(","))
    )
    return list(dict.fromkeys(name for name in names if name))


def read_frame(source: str, file: FileOptions, fewest_columns: int = 2) -> pd.DataFrame:
    """The table of a file, with its fields as they are written."""
    from deeplfm.data.tables import read_table

    return read_table(
        source,
        delimiter=file.delimiter,
        decimal=file.decimal,
        fewest_columns=fewest_columns,
        keep_fields=True,
    )


def _by_time(
    frame: pd.DataFrame, times: Sequence[str | int], numbers: Sequence[str], source: str
) -> pd.DataFrame:
    """The table with numeric columns; date and time of day in two columns become its index."""
    from deeplfm.cli.clocks import joined_times
    from deeplfm.data.numbers import with_columns
    from deeplfm.data.tables import numeric_column

    result = with_columns(frame, {name: numeric_column(frame, name, source) for name in numbers})
    if len(times) == 2:
        result = result.set_axis(joined_times(frame, (str(times[0]), str(times[1])), source))
    return result


def _check_roles(
    source: str,
    frame: pd.DataFrame,
    times: list[str],
    targets: list[str],
    covariates: list[str],
    errors: list[str],
) -> None:
    roles = {"--time": times, "--target": targets, "--covariate": covariates}
    for option, names in (roles | {"--measurement-error": errors}).items():
        for name in names:
            if name not in frame.columns:
                known = [str(column) for column in frame.columns]
                near = difflib.get_close_matches(name, known, n=1)
                advice = f"Did you mean {near[0]!r}?" if near else f"It has {', '.join(known)}."
                raise InputError(f"{option}: {source} has no column {name!r}. {advice}")
            if name in times and option != "--time":
                raise InputError(f"{option}: {name!r} is a column of times. Name another one.")
    if both := [name for name in targets if name in covariates]:
        raise InputError(
            f"--covariate: {both[0]!r} is a target too. Name it either --target or --covariate."
        )
    if not targets:
        raise InputError(
            f"{source}: no column of numbers beside the times {' '.join(times)!r}. "
            "Give at least one target."
        )
