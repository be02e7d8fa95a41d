"""One sentence about a table: where our default is best, and to whom it loses elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from deeplfm.experiments.declaration import Column, Entry
from deeplfm.experiments.outcome import Outcome
from deeplfm.experiments.tables import number

_OURS, _PRESET = "DLFM", "DLFM (paper preset"


def verdict(outcome: Outcome) -> str:
    """Where the default model has the lowest median, and where another one has, by how much."""
    ours = next((entry for entry in outcome.experiment.models if entry.label == _OURS), None)
    if ours is None:
        return _winners(outcome)
    best: list[str] = []
    lost: list[str] = []
    for column in outcome.experiment.columns:
        mine, (rival, theirs) = outcome.summary(ours, column), _lowest(outcome, column)
        if mine is None or rival is None:
            continue
        if mine.median <= theirs:
            best.append(column.label)
        else:
            lost.append(
                f"in {column.label} to {rival.label} {_margin(mine.median, theirs, column)}"
            )
    n_columns = len(best) + len(lost)
    if not n_columns:
        return "The default DLFM has no scores here."
    if not lost:
        sentence = f"The default DLFM has the best median in {_all(n_columns)}."
    else:
        won = f"{len(best)} of {n_columns} columns ({', '.join(best)})" if best else "no column"
        sentence = f"The default DLFM has the best median in {won}; it loses {_listed(lost)}."
    return " ".join([sentence, *_against_paper(outcome, ours)])


def _against_paper(outcome: Outcome, ours: Entry) -> list[str]:
    """How it and the paper's preset compare with the paper's own model, where the data are the same."""
    if outcome.experiment.warning or not (mine := _below_paper(outcome, ours)):
        return []
    presets = [entry for entry in outcome.experiment.models if entry.label.startswith(_PRESET)]
    others = [
        f", {e.label} in {sum(below)}" for e in presets if (below := _below_paper(outcome, e))
    ]
    told = f"It is below the paper's own DLFM in {sum(mine)} of {len(mine)} published columns"
    return [f"{told}{''.join(others)}."]


def _below_paper(outcome: Outcome, entry: Entry) -> list[bool]:
    """Whether a model is below its row of the paper, for each column that both have."""
    return [
        mine.median < paper.value
        for column in outcome.experiment.columns
        if (mine := outcome.summary(entry, column)) is not None
        and (paper := outcome.experiment.published(entry, column)) is not None
    ]


def _winners(outcome: Outcome) -> str:
    """The best of each column, where the table compares settings of our model."""
    told = []
    for column in outcome.experiment.columns:
        entry, median = _lowest(outcome, column)
        if entry is not None:
            told.append(f"in {column.label} {entry.label} ({number(median, column.decimals)})")
    return f"The best median has {_listed(told)}." if told else "There are no scores here."


def _lowest(outcome: Outcome, column: Column) -> tuple[Entry | None, float]:
    cells = ((entry, outcome.summary(entry, column)) for entry in outcome.experiment.models)
    known = [(entry, cell.median) for entry, cell in cells if cell is not None]
    return min(known, key=lambda pair: pair[1]) if known else (None, float("nan"))


def _margin(mine: float, theirs: float, column: Column) -> str:
    """Both numbers and what lies between them: a share of an error, a difference of log densities."""
    if column.metric == "nmse" and theirs > 0:
        ratio = mine / theirs
        more = f"{ratio:.1f} times as much" if ratio >= 2 else f"{100 * (ratio - 1):.0f} % more"
    else:
        more = f"{number(mine - theirs, column.decimals)} more"
    mine_told, theirs_told = (number(value, column.decimals) for value in (mine, theirs))
    return f"({mine_told} against {theirs_told}, {more})"


def _all(n_columns: int) -> str:
    return "the only column" if n_columns == 1 else f"all {n_columns} columns"


def _listed(parts: Sequence[str]) -> str:
    *others, last = parts
    return f"{', '.join(others)} and {last}" if others else last
