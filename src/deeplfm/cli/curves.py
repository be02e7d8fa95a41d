"""``deeplfm components`` and ``deeplfm forces``: functions of time in a fitted model."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from deeplfm.cli import panels
from deeplfm.cli.inputs import load_forecaster, read_like
from deeplfm.cli.options import (
    Covariates,
    Coverage,
    FileOptions,
    Fitted,
    Plot,
    Points,
    RunOptions,
    Since,
    Table,
    Until,
    option,
)
from deeplfm.cli.outputs import Results, by_time, rounded
from deeplfm.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from deeplfm.estimators import DeepLFMForecaster

COMPONENTS_EXAMPLES = (
    "deeplfm components vitals-model --horizon 100 -o components.csv --plot components.png",
    "deeplfm components vitals-model --from 2 --until 4 --points 500 -o components.csv",
)
FORCES_EXAMPLES = (
    "deeplfm forces vitals-model -o forces.csv --plot forces.png",
    "deeplfm forces vitals-model --from 2 --until 4 --points 500 -o forces.csv",
)


def components(
    model: Fitted,
    *,
    horizon: Annotated[
        int | None, option(None, "STEPS", "Number of steps after the last row.", min=1)
    ] = None,
    covariates: Covariates = None,
    since: Since = None,
    until: Until = None,
    points: Points = None,
    coverage: Coverage = 0.95,
    out: Table = None,
    plot: Plot = None,
    file: FileOptions,
    run: RunOptions,
) -> None:
    """Split a forecast into its terms: trend, season, level, ...

    Three columns for each target and term: mean, low and high. The means of all terms add up to the
    forecast; terms of a target modelled by its logarithm are factors. At the times of the data, with
    --horizon also after them, or at evenly spaced times with --from, --until or --points.
    """
    import pandas as pd

    if horizon is not None and (until is not None or points is not None):
        raise InputError("--horizon: not possible with --until or --points. Leave one out.")
    results = Results(run, out, plot, has_table=True)
    forecaster = load_forecaster(model, may_be_panel=True)
    if forecaster.panel_ is not None:
        _write_panel(forecaster, results, model, horizon, until, coverage, plot)
        return
    future = None
    if covariates is not None:
        future = read_like(forecaster, covariates, file, forecaster.covariates_)
    if horizon is None:
        times = chosen_times(forecaster, since, until, points)
        found = forecaster.components(times=times, covariates=future, coverage=coverage)
    else:
        past = forecaster.training_.index
        if since is not None:
            past = past[past >= forecaster.timeline_.read(since, "--from")[0]]
        parts = [forecaster.components(horizon, covariates=future, coverage=coverage)]
        if len(past):
            parts.insert(0, forecaster.components(times=past, coverage=coverage))
        found = pd.concat(parts)
    names = list(found.columns.unique("component"))
    table = found.set_axis(
        [
            f"{target} {name}{'' if value == 'mean' else f'_{value}'}"
            for target, name, value in found
        ],
        axis=1,
    )

    def draw() -> Figure:
        from deeplfm.plots import components_figure

        return components_figure(
            found,
            end=forecaster.training_.index[-1],
            coverage=coverage,
            time_label=forecaster.timeline_.label,
        )

    for target in forecaster.targets_:
        own = [name for name in table.columns if name.startswith(f"{target} ")]
        table[own] = rounded(table[own], float(forecaster.training_[target].std()))
    table = by_time(forecaster, table)
    results.write(table, draw, with_index=False)
    results.terminal.print(f"Components at {len(table)} times: {', '.join(names)}")
    content = {"model": model, "rows": len(table), "coverage": coverage, "components": names}
    results.print(content, table)


def _write_panel(
    forecaster: DeepLFMForecaster,
    results: Results,
    model: Path,
    horizon: int | None,
    until: Any,
    coverage: float,
    plot: Path | None,
) -> None:
    """Components of the forecasts of many series, in long form."""
    panels.refuse_pages(plot, None)
    if [horizon, until].count(None) != 1:
        raise InputError("--horizon, --until: the model is a panel. Give one of them.")
    found = forecaster.components(horizon, until, coverage=coverage)
    names, n_series = ", ".join(found["component"].unique()), panels.n_series(forecaster, found)
    content = {"model": model, "coverage": coverage}
    panels.write_table(
        forecaster, results, found, content, f"Components of {n_series} series: {names}"
    )


def forces(
    model: Fitted,
    *,
    since: Since = None,
    until: Until = None,
    points: Points = None,
    out: Table = None,
    plot: Plot = None,
    run: RunOptions,
) -> None:
    """Recover the latent forces: the inputs of the differential equations of a model.

    One column for each force and one for its standard deviation, at the times of the data, or at
    evenly spaced times with --from, --until or --points.
    """
    results = Results(run, out, plot, has_table=True)
    forecaster = load_forecaster(model)
    times = chosen_times(forecaster, since, until, points)
    curves = forecaster.forces(times)
    found = _curve_table(times, curves)

    def draw() -> Figure:
        from deeplfm.plots import forces_figure

        return forces_figure(times, curves, time_label=forecaster.timeline_.label)

    table = by_time(forecaster, rounded(found, float(found.std().min())))
    results.write(table, draw, with_index=False)
    results.terminal.print(f"Forces at {len(times)} times: {'; '.join(found.columns[::2])}")
    results.print({"model": model, "rows": len(found)}, table)


def chosen_times(
    forecaster: DeepLFMForecaster, since: str | None, until: str | None, points: int | None
) -> pd.Index:
    """The times of the data, or evenly spaced ones between two times."""
    index = forecaster.training_.index
    if since is None and until is None and points is None:
        return index
    if forecaster.covariates_:
        raise InputError(
            "--from, --until, --points: the covariates of this model are known at the times of its "
            "data only. Leave these options out."
        )
    read = forecaster.timeline_.read
    first = index[0] if since is None else read(since, "--from")[0]
    last = index[-1] if until is None else read(until, "--until")[0]
    if first >= last:
        raise InputError(f"--from, --until: {first} is not before {last}. Give an earlier --from.")
    return _evenly(first, last, points or len(index), index.name)


def _evenly(first: Any, last: Any, count: int, name: Any) -> pd.Index:
    import numpy as np
    import pandas as pd

    if isinstance(first, pd.Timestamp):
        return pd.date_range(first, last, periods=count, name=name)
    if isinstance(first, pd.Timedelta):
        return pd.timedelta_range(first, last, periods=count, name=name)
    return pd.Index(np.linspace(first, last, count), name=name)


def _curve_table(times: pd.Index, curves: list[Any]) -> pd.DataFrame:
    """Mean and standard deviation of curves by time; a repeated label gets the name of its model."""
    import pandas as pd

    counts = Counter(curve.label for curve in curves)
    columns: dict[str, Any] = {}
    for curve in curves:
        name = curve.label if counts[curve.label] == 1 else f"{curve.label} ({curve.member})"
        columns |= {name: curve.mean, f"{name}_std": curve.std}
    return pd.DataFrame(columns, index=times)
