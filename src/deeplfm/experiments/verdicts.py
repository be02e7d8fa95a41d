"""Beside a table: one sentence about its best models, and a table of the worth of depth."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from deeplfm.experiments.declaration import Column, Entry
from deeplfm.experiments.outcome import Outcome
from deeplfm.experiments.tables import markdown_lines, number


def verdict(outcome: Outcome) -> str:
    """Columns in which the ensemble has the lowest median, and the better models of the others."""
    ours = next((entry for entry in outcome.experiment.models if entry.label == "ensemble"), None)
    if ours is None:
        return _winners(outcome)
    best: list[str] = []
    better: dict[str, list[str]] = {}
    for column in outcome.experiment.columns:
        mine, (rival, theirs) = outcome.summary(ours, column), _lowest(outcome, column)
        if mine is None or rival is None:
            continue
        if mine.median <= theirs:
            best.append(column.label)
        else:
            first, second = (number(value, column.decimals) for value in (theirs, mine.median))
            where = f"{column.label} ({first}, ensemble {second})"
            better.setdefault(rival.label, []).append(where)
    n_columns = len(best) + sum(map(len, better.values()))
    if not n_columns:
        sentence = "The ensemble has no scores here."
    elif not better:
        columns = "the only column" if n_columns == 1 else f"all {n_columns} columns"
        sentence = f"The ensemble has the best median in {columns}."
    else:
        won = f"{len(best)} of {n_columns} columns ({', '.join(best)})" if best else "no column"
        others = [f"{label} in {_listed(columns)}" for label, columns in better.items()]
        sentence = f"The ensemble has the best median in {won}. Better: {'; '.join(others)}."
    return " ".join([sentence, *_against_paper(outcome)])


def _against_paper(outcome: Outcome) -> list[str]:
    """How each DLFM compares with the paper's, where the data are the same."""
    if outcome.experiment.warning:
        return []
    parts = []
    for entry in outcome.experiment.models:
        is_below = [
            mine.median < paper.value
            for column in outcome.experiment.columns
            if entry.label.startswith("DLFM")
            and (mine := outcome.summary(entry, column)) is not None
            and (paper := outcome.experiment.published(entry, column)) is not None
        ]
        if is_below:
            parts.append(f"{entry.label} in {sum(is_below)} of {len(is_below)} columns")
    return [f"Better than the DLFM of the published table: {_listed(parts)}."] if parts else []


def _winners(outcome: Outcome) -> str:
    """The best model of each column, where the table compares settings of our models."""
    parts = []
    for column in outcome.experiment.columns:
        entry, median = _lowest(outcome, column)
        if entry is not None:
            parts.append(f"{column.label}: {entry.label} ({number(median, column.decimals)})")
    return f"Best medians: {'; '.join(parts)}." if parts else "There are no scores here."


def _lowest(outcome: Outcome, column: Column) -> tuple[Entry | None, float]:
    cells = ((entry, outcome.summary(entry, column)) for entry in outcome.experiment.models)
    known = [(entry, cell.median) for entry, cell in cells if cell is not None]
    return min(known, key=lambda pair: pair[1]) if known else (None, float("nan"))


def _listed(parts: Sequence[str]) -> str:
    *others, last = parts
    return f"{', '.join(others)} and {last}" if others else last


_NOTHING = "–"
WORDS = (
    "The best model of each kind, comparators without a hidden layer included, by the mean over the "
    "columns of MNLL, or of NMSE where there are none. Hidden share: variance of the forecast that "
    "passes through hidden layers, as a share of the sum of both parts (`hidden_share`)."
)


def depth_table(outcome: Outcome) -> list[str]:
    """Lines of the table; none where models of one of the kinds have no scores."""
    shallow, deep = (_best(outcome, has_hidden_layer=kind) for kind in (False, True))
    if shallow is None or deep is None:
        return []
    whole = [entry for entry in outcome.experiment.models if entry.label == "ensemble"]
    columns = outcome.experiment.columns
    texts = [
        ["what depth is worth", "model", *(column.label for column in columns), "hidden share"]
    ]
    kinds = {"without a hidden layer": shallow, "with hidden layers": deep}
    for name, entry in [*kinds.items(), *(("ensemble", entry) for entry in whole)]:
        cells = [_median(outcome, entry, column) for column in columns]
        texts.append([name, entry.label, *cells, _share(outcome, entry)])
    return [*markdown_lines(texts), "", WORDS]


def _best(outcome: Outcome, has_hidden_layer: bool) -> Entry | None:
    scores = {}
    for entry in outcome.experiment.models:
        if entry.has_hidden_layer is not has_hidden_layer:
            continue
        compared = [c for c in outcome.experiment.columns if c.metric == "mnll"]
        found = [outcome.summary(entry, c) for c in compared or outcome.experiment.columns]
        medians = [item.median for item in found if item is not None]
        if medians and len(medians) == len(found):
            scores[entry] = statistics.fmean(medians)
    return min(scores, key=scores.__getitem__, default=None)


def _median(outcome: Outcome, entry: Entry, column: Column) -> str:
    found = outcome.summary(entry, column)
    return _NOTHING if found is None else number(found.median, column.decimals)


def _share(outcome: Outcome, entry: Entry) -> str:
    if entry.has_hidden_layer is False:
        return "0 %"
    known = [r["hidden_share"] for r in outcome.of(entry) if r.get("hidden_share") is not None]
    return f"{100 * statistics.fmean(known):.0f} %" if known else _NOTHING
