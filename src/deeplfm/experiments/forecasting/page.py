"""The benchmark as tables: ratios to each peer by frequency, coverage, CPU time, and where we lose."""

from __future__ import annotations

import numpy as np
import pandas as pd

from deeplfm.experiments.forecasting.runner import OURS, PEERS

_ORDER = ["hourly", "daily", "weekly", "monthly", "quarterly", "yearly"]


def ratios(records: pd.DataFrame, model: str, score: str) -> pd.DataFrame:
    """Geometric mean over series of the ratio of a score to that of each peer, by frequency."""
    wide = records.pivot(index=["frequency", "series"], columns="model", values=score)
    peers = [peer for peer in PEERS if peer in wide]
    logs = np.log(wide[peers].rdiv(wide[model], axis=0))
    by_frequency = logs.groupby("frequency").mean()
    by_frequency = by_frequency.reindex([name for name in _ORDER if name in by_frequency.index])
    by_frequency.loc["all"] = logs.mean()
    return np.exp(by_frequency)


def overview(records: pd.DataFrame) -> pd.DataFrame:
    """Means of all scores for each model."""
    found = records.groupby("model").agg(
        series=("series", "nunique"),
        MASE=("mase", "mean"),
        median_MASE=("mase", "median"),
        sMAPE=("smape", "mean"),
        MSIS=("msis", "mean"),
        CRPS=("crps", "mean"),
        coverage_80=("coverage80", "mean"),
        coverage_95=("coverage95", "mean"),
        CPU_seconds=("cpu", "mean"),
    )
    return found.reindex([name for name in (*OURS, *PEERS) if name in found.index])


def losses(records: pd.DataFrame, model: str, n_rows: int = 10) -> pd.DataFrame:
    """Series on which a model has the largest MASE over that of the best peer."""
    wide = records.pivot(index=["frequency", "series"], columns="model", values="mase")
    peers = wide[[peer for peer in PEERS if peer in wide]]
    table = pd.DataFrame(
        {
            "MASE": wide[model],
            "best peer": peers.idxmin(axis=1),
            "its MASE": peers.min(axis=1),
            "ratio": wide[model] / peers.min(axis=1),
        }
    )
    return table.sort_values("ratio", ascending=False).head(n_rows).reset_index()


INTRODUCTION = """# Forecasts beside other libraries

Made by `deeplfm benchmark forecasting --set report --document docs/benchmark.md`; `--set public`
repeats it with series that install with a package (extra `benchmark`). 200 series of forecasting
competitions (M4 hourly and weekly, NN5 daily, M3 monthly and quarterly) are forecast at the
official horizons. All design was done on 200 others (`--set choose`).

- Peers are those of statsforecast with the season given (24, 7, 52, 12, 4). deeplfm has timestamps,
  from which it knows the calendar: weeks of hourly series too, which the peers are not given. Gaps
  of NN5 are filled for the peers by the same weekday of the weeks around them.
- MASE and MSIS are in units of the mean absolute seasonal difference of the known values; CRPS, in
  the same units, is estimated from five quantiles.
- Ratios are over the series that both models have. AutoARIMA was not run on weekly series, where a
  season of 52 takes minutes, nor on three hourly ones.
- CPU seconds are those of one thread for fit and forecast, on a machine with other work. Forecasts
  of `effort="default"` are those of `effort="fast"` on such series: with timestamps no other
  candidate is tried.
"""


def markdown(records: pd.DataFrame, title: str) -> str:
    """The tables of one set of series as Markdown."""
    present = set(records["model"])
    models = [name for name in OURS if name in present] if present & set(PEERS) else []
    parts = [
        f"## {title}",
        "",
        "Means over all series:",
        "",
        _table(overview(records).reset_index()),
    ]
    for model in models:
        for score in ("mase", "msis"):
            name = score.upper()
            parts += [
                "",
                f"{name} of **{model}** over that of each peer (geometric mean of the ratio):",
            ]
            parts += ["", _table(ratios(records, model, score).reset_index())]
    for model in models[-1:]:
        parts += ["", f"The ten series on which {model} loses most to the best peer:", ""]
        parts += [_table(losses(records, model))]
    return "\n".join(parts) + "\n"


def _table(frame: pd.DataFrame) -> str:
    rows = [[_cell(value) for value in row] for row in frame.itertuples(index=False)]
    header = [str(name).replace("_", " ") for name in frame.columns]
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "–" if np.isnan(value) else f"{value:.3g}"
    return str(value)
