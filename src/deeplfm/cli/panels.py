"""Commands on a panel: tables in long form, and outcomes of the series."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deeplfm.cli.options import FileOptions
from deeplfm.cli.outputs import Results
from deeplfm.cli.summary import SCORES_EXPLAINED, score_table
from deeplfm.cli.terminal import Terminal, table
from deeplfm.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from deeplfm.estimators import DeepLFMForecaster

_MOST_SHOWN = 10


def refuse_pages(plot: Path | None, report: Path | None) -> None:
    """Refuse figures and reports, which show one series."""
    if plot is not None or report is not None:
        raise InputError(
            "--plot, --report: the data are many series, and these show one. Fit without them, and name "
            "a series afterwards: deeplfm forecast MODEL --only NAME --plot forecast.png."
        )


def one_of(forecaster: DeepLFMForecaster, name: str) -> DeepLFMForecaster:
    """The forecaster of one series of many, by its name as it is printed."""
    if forecaster.panel_ is None:
        raise InputError(f"--only: {name!r} found, and the model has one series. Leave it out.")
    names = {str(item): item for item in forecaster.series_.index}
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        advice = f"Did you mean {near[0]!r}?" if near else f"It has {', '.join([*names][:10])}, ..."
        raise InputError(f"--only: the model has no series {name!r}. {advice}")
    return forecaster[names[name]]


def with_numbers(frame: pd.DataFrame, names: list[str], source: str) -> pd.DataFrame:
    """The table with those columns as numbers that hold nothing else; the others keep their fields."""
    from deeplfm.data.numbers import with_columns
    from deeplfm.data.tables import numeric_column

    numbers = {}
    for name in names:
        with suppress(InputError):
            numbers[name] = numeric_column(frame, name, source)
    return with_columns(frame, numbers)


def read_long(forecaster: DeepLFMForecaster, source: str, file: FileOptions) -> pd.DataFrame:
    """Read a table in long form with the columns of a panel."""
    from deeplfm.cli.inputs import read_frame

    frame, roles = read_frame(source, file), forecaster._panel.columns
    wanted = [*roles.targets, *roles.covariates]
    return with_numbers(frame, [str(name) for name in wanted if name in frame.columns], source)


def read_static(source: str | None, file: FileOptions, series: str) -> pd.DataFrame | None:
    """Read features of whole series."""
    from deeplfm.cli.inputs import read_frame

    if source is None:
        return None
    frame = read_frame(source, file)
    return with_numbers(frame, [name for name in frame.columns if name != series], source)


def print_fit(
    forecaster: DeepLFMForecaster, terminal: Terminal, seconds: float | None = None
) -> None:
    """How many series were fitted, and why others were not."""
    status = forecaster.series_["status"]
    n_fitted = int((status == "fitted").sum())
    took = f" in {seconds:.0f} s" if seconds is not None else ""
    prior = forecaster.prior_ or {}
    pooled = "".join(
        f", forecasts {item.widening:.2g} times as wide as alone" for item in [*prior.values()][:1]
    )
    terminal.print(f"Fitted {n_fitted} of {len(status)} series{took}{pooled}")
    others = forecaster.series_[status != "fitted"]
    if len(others):
        shown = others.head(_MOST_SHOWN)
        rows = list(zip(map(str, shown.index), shown["status"], shown["reason"], strict=True))
        terminal.print(table(["series", "status", "reason"], rows, words=3))
        if len(others) > len(shown):
            terminal.print(f"and {len(others) - len(shown)} more")


def n_series(forecaster: DeepLFMForecaster, found: pd.DataFrame) -> int:
    """Number of series in a table in long form."""
    return int(found[forecaster._panel.columns.series].nunique())


def of_panel(forecaster: DeepLFMForecaster) -> dict[str, Any]:
    """A fitted panel as plain data."""
    found = forecaster.series_
    others = found[found["status"] != "fitted"]
    return {
        "series": len(found),
        "rows": int(found["rows"].sum()),
        "fitted": int((found["status"] == "fitted").sum()),
        "not_fitted": {str(name): reason for name, reason in others["reason"].items()},
        "pooled": forecaster.prior_ is not None,
    }


def write_forecast(
    forecaster: DeepLFMForecaster,
    results: Results,
    model: Path,
    options: Mapping[str, Any],
    new: pd.DataFrame | None = None,
) -> None:
    """Forecast all series, or new ones, into one table."""
    found = (forecaster.forecast if new is None else partial(forecaster.forecast_new, new))(
        **options
    )
    columns = forecaster._panel.columns
    shown = _rounded(found, columns.series, columns.targets)
    shown = _written(forecaster, shown)
    results.write(shown, with_index=False)
    n_found = n_series(forecaster, found)
    results.terminal.print(f"Forecast of {n_found} series: {len(found)} rows")
    results.print({"model": model, "series": n_found, "rows": len(found)}, shown)


def write_scores(
    forecaster: DeepLFMForecaster, results: Results, found: pd.DataFrame, content: dict[str, Any]
) -> None:
    """Write scores of each series, and print their means."""
    found = _written(forecaster, found)
    results.write(found, with_index=False)
    own = [forecaster._panel.columns.series, "fold", "train_rows", "start", "end"]
    scores = found.drop(columns=own, errors="ignore").rename(columns={"test_rows": "rows"})
    mean = scores.groupby("target", sort=False).mean()
    mean["rows"] = scores.groupby("target", sort=False)["rows"].sum()
    n_found = n_series(forecaster, found)
    results.terminal.print(score_table(mean), f"Means over {n_found} series. {SCORES_EXPLAINED}")
    results.print({**content, "series": n_found, "scores": mean.to_dict("index")}, found)


def write_table(
    forecaster: DeepLFMForecaster,
    results: Results,
    found: pd.DataFrame,
    content: dict[str, Any],
    text: str,
) -> None:
    """Write a table in long form."""
    found = _written(forecaster, found)
    results.write(found, with_index=False)
    results.terminal.print(text)
    results.print({**content, "rows": len(found)}, found)


def _written(forecaster: DeepLFMForecaster, found: pd.DataFrame) -> pd.DataFrame:
    """The table with its times as the user wrote them."""
    import pandas as pd

    fitted = forecaster.series_.query("status == 'fitted'").index[0]
    timeline = forecaster[fitted].timeline_
    result = found.copy()
    for name in (timeline.name or "ds", "start", "end"):
        if name in found.columns and pd.api.types.is_datetime64_any_dtype(found[name]):
            result[name] = timeline.texts(pd.DatetimeIndex(found[name]))
    return result


def _rounded(found: pd.DataFrame, series: str, targets: list[Any]) -> pd.DataFrame:
    """A forecast without digits that the uncertainty of its series makes meaningless."""
    import numpy as np

    result = found.copy()
    for name in targets:
        least = found.groupby(series, sort=False)[f"{name}_std"].transform("min").to_numpy()
        with np.errstate(divide="ignore", invalid="ignore"):
            digits = np.clip(4 - np.floor(np.log10(least)), 0, 15)
        unit = 10.0 ** np.where(np.isfinite(digits), digits, 15)
        own = [
            c
            for c in found.columns
            if c == name or str(c).startswith((f"{name}_low", f"{name}_high"))
        ]
        for column in [*own, f"{name}_std"]:
            result[column] = np.rint(found[column].to_numpy() * unit) / unit
    return result
