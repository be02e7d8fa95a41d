"""The benchmark as tables: ratios to each peer by frequency, coverage, CPU time, and where we lose."""

from __future__ import annotations

import numpy as np
import pandas as pd

from deeplfm.experiments.forecasting.models import OURS, PEERS

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
    return f"{value:.3g}" if isinstance(value, float) else str(value)
