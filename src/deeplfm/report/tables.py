"""Tables of the report as text; the template formats them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from deeplfm.estimators.columns import Name
from deeplfm.report.clock import Clock
from deeplfm.report.content import Evaluation, Peak
from deeplfm.report.prediction import LEVELS
from deeplfm.report.record_statistics import Record
from deeplfm.report.wording import aligned, amount, count, percent
from deeplfm.selection.record import Selection
from deeplfm.terms import to_json

_SCORE_NAMES = {
    "rows": "rows",
    **{name: name.upper() for name in ("nmse", "mnll", "crps", "rmse", "mae")},
    "coverage95": "95 % coverage",
}
_MOST_FORECAST_ROWS = 100
_MOST_PEAKS, _LEAST_SHARE = 5, 0.02


@dataclass(frozen=True)
class Table:
    """A table; the first cell of each row is its header."""

    caption: str
    columns: list[str]
    rows: list[list[str]]
    words: set[int] = field(default_factory=set)
    is_narrow: bool = False


def target_table(record: Record, clock: Clock) -> Table:
    """Statistics of each target."""
    rows = []
    for target in record.targets:
        values = aligned(np.array([target.low, target.mean, target.high]))
        longest = clock.brief(target.longest_gap) if target.gaps else "–"
        counts = (count(n) for n in (target.known, target.missing, len(target.gaps)))
        rows.append([target.name, *counts, longest, *values])
    return Table(
        "Targets. A gap is a pause between known values of more than "
        f"{amount(record.usual_steps)} usual steps.",
        ["target", "known", "missing", "gaps", "longest gap", "lowest", "mean", "highest"],
        rows,
    )


def score_table(evaluation: Evaluation) -> Table:
    """Scores on later observations."""
    scores = evaluation.scores
    columns = [name for name in scores.columns if name in _SCORE_NAMES]
    rows = [
        [str(target), *(_score(name, row[name]) for name in columns)]
        for target, row in scores[columns].iterrows()
    ]
    return Table(
        "Scores on later observations. Lower is better; NMSE 1 is no better than their mean.",
        ["target", *(_SCORE_NAMES[name] for name in columns)],
        rows,
    )


def coverage_table(evaluation: Evaluation, targets: list[str]) -> Table:
    """Coverage of the intervals."""
    rows = [
        [name, *(percent(evaluation.coverage(index, level / 100)) for level in LEVELS)]
        for index, name in enumerate(targets)
    ]
    return Table(
        "Share of the later observations inside each interval.",
        ["target", *(f"{level} % interval" for level in LEVELS)],
        rows,
    )


def selection_table(selection: Selection, targets: list[str]) -> Table | None:
    """Held-out score and weight of each candidate."""
    if not selection.held_out_mnll:
        return None
    rows = []
    for name, scores in sorted(selection.held_out_mnll.items(), key=lambda item: sum(item[1])):
        weights = selection.weight.get(name, [0.0] * len(scores))
        shifts = selection.log_jacobian or [0.0] * len(scores)
        shifted = [score + shift for score, shift in zip(scores, shifts, strict=True)]
        cells = zip(shifted, weights, strict=True)
        rows.append([name, *(f"{amount(score, 3)} ({percent(weight)})" for score, weight in cells)])
    return Table(
        "Candidates: MNLL of known rows that were forecast (lower is better; for targets "
        "in their own units), and weight in the forecast.",
        ["candidate", *targets],
        rows,
    )


def peak_table(peaks: Mapping[str, list[Peak]], clock: Clock) -> Table | None:
    """The strongest periods of each target."""
    rows = []
    for name, found in peaks.items():
        strongest = [peak for peak in found[:_MOST_PEAKS] if peak.share >= _LEAST_SHARE]
        if strongest:
            periods = (f"{clock.brief(peak.period)} ({percent(peak.share)})" for peak in strongest)
            rows.append([name, ", ".join(periods)])
    caption = "Strongest periods, with their shares of the power."
    return Table(caption, ["target", "periods"], rows, words={1}) if rows else None


def forecast_table(forecast: pd.DataFrame, target: Name, clock: Clock) -> Table:
    """The forecast of one target in numbers: all rows, or at most 100 evenly chosen ones."""
    stride = max(1, math.ceil(len(forecast) / _MOST_FORECAST_ROWS))
    shown = forecast.iloc[::stride]
    parts = [target, f"{target}_low", f"{target}_high"]
    cells = aligned(shown[parts].to_numpy(np.float64).ravel())
    times = [clock.text(time) for time in shown.index]
    rows = [[time, *cells[3 * i : 3 * i + 3]] for i, time in enumerate(times)]
    which = "" if stride == 1 else f" One row in {stride} of {count(len(forecast))}."
    caption = f"Mean and interval of the forecast of {target}.{which}"
    return Table(caption, [clock.title, "mean", "low", "high"], rows, is_narrow=True)


def settings_table(settings: Mapping[str, Any]) -> Table:
    """Parameters of the estimator."""
    values = {**settings, "model": to_json(settings["model"])}
    rows = [[name, str(value)] for name, value in values.items()]
    return Table("Settings.", ["setting", "value"], rows, words={1})


def version_table(versions: Mapping[str, str]) -> Table:
    """Versions of the software."""
    return Table("Versions.", ["software", "version"], [[*item] for item in versions.items()])


def _score(name: str, value: float) -> str:
    if name == "rows":
        return count(int(value))
    return percent(value) if name == "coverage95" else amount(float(value), 3)
