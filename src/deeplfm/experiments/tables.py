"""Tables of results beside the paper's, for people (Markdown, LaTeX) and programs (JSON)."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from deeplfm.experiments.declaration import Column, Entry, Experiment
from deeplfm.experiments.tasks import DONE, Record

_NOTHING = "–"
_WORDS = (
    "Cells: median over the seeds (mean ± standard error); paper: its mean (standard error). "
    "Lower is better; NMSE 1 is the mean of the tested rows. The best median of a column is bold."
)

_LIMITED = ", or each start of a race, of models that take a limit."


@dataclass(frozen=True)
class Summary:
    """One score over the seeds.

    Attributes:
        values: one for each seed that has all it takes.
        median: of them.
        mean: of them.
        error: standard error of the mean; ``None`` for a single seed.
    """

    values: tuple[float, ...]
    median: float
    mean: float
    error: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Summary | None:
        """Summary of some seeds, if there are any."""
        if not values:
            return None
        error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
        return cls(tuple(values), statistics.median(values), statistics.fmean(values), error)


@dataclass(frozen=True, eq=False)
class Outcome:
    """An experiment and what is known of it.

    Attributes:
        experiment: what was asked.
        records: of its tasks.
        n_seeds: how many were asked for.
        is_quick: trained so little that it is only a look.
        budget: seconds for each fit.
    """

    experiment: Experiment
    records: Sequence[Record]
    n_seeds: int
    is_quick: bool = False
    budget: float | None = None

    def summary(self, entry: Entry, column: Column) -> Summary | None:
        """One cell: for each seed the mean over cases and outputs, where none is missing."""
        found = (self._value(entry, column, seed) for seed in range(self.n_seeds))
        return Summary.of([value for value in found if value is not None])

    def seconds(self, entry: Entry) -> float | None:
        """Median time to fit."""
        times = [record["seconds"].get("fit") for record in self._of(entry)]
        return statistics.median(known) if (known := [t for t in times if t is not None]) else None

    def done(self, entry: Entry) -> str:
        """How many of its tasks were done, and of how many."""
        n_tasks = self.n_seeds * len(self.experiment.cases)
        return f"{sum(record['status'] == DONE for record in self._of(entry))}/{n_tasks}"

    def troubles(self) -> list[str]:
        """Models that are not available, failed, or gave no number, and why."""
        found: dict[str, list[str]] = {}
        for record in self.records:
            where = f"{record['case']}, seed {record['seed']}"
            if record["status"] != DONE:
                line = f"{record['model']}: {record['status']}: {_one_line(record['reason'])}"
                found.setdefault(line, []).append(where)
            elif any(row["nmse"] is None for row in record["rows"]):
                line = f"{record['model']}: predicted something that is not a number"
                found.setdefault(line, []).append(where)
        return [
            f"{line} ({places[0]}{f', and {len(places) - 1} more' if places[1:] else ''})"
            for line, places in found.items()
        ]

    def remarks(self) -> list[str]:
        """What a reader of the table must know, most important first."""
        warning = self.experiment.warning
        quick = "Quick look: the models are not fully trained." if self.is_quick else ""
        limit = "" if self.budget is None else f"At most {self.budget:g} s for each fit{_LIMITED}"
        return [line for line in (warning, quick, limit) if line]

    def content(self) -> dict[str, Any]:
        """All of it for programs."""
        experiment = self.experiment
        rows = []
        for entry in experiment.models:
            cells = {
                column.label: {
                    "ours": asdict(ours) if (ours := self.summary(entry, column)) else None,
                    "paper": asdict(paper)
                    if (paper := experiment.published(entry, column))
                    else None,
                }
                for column in experiment.columns
            }
            rows.append(
                {
                    "model": entry.label,
                    "paper_row": entry.paper,
                    "done": self.done(entry),
                    "seconds_to_fit": self.seconds(entry),
                    "scores": cells,
                }
            )
        return {
            "experiment": experiment.name,
            "title": experiment.title,
            "source": experiment.source,
            "remarks": self.remarks(),
            "notes": list(experiment.notes),
            "troubles": self.troubles(),
            "models": rows,
            "tasks": list(self.records),
        }

    def _value(self, entry: Entry, column: Column, seed: int) -> float | None:
        values: list[float | None] = []
        for case in column.cases:
            record = self._record.get((case, entry.label, seed))
            if record is None or record["status"] != DONE:
                return None
            values += [
                row[column.metric]
                for row in record["rows"]
                if row["split"] == column.part
                and (not column.outputs or row["output"] in column.outputs)
            ]
        known = [value for value in values if value is not None]
        return statistics.fmean(known) if known and len(known) == len(values) else None

    def _of(self, entry: Entry) -> list[Record]:
        return [record for record in self.records if record["model"] == entry.label]

    @cached_property
    def _record(self) -> Mapping[tuple[str, str, int], Record]:
        return {(item["case"], item["model"], item["seed"]): item for item in self.records}


@dataclass(frozen=True)
class Cell:
    """A cell of a table."""

    text: str
    is_best: bool = False


def grid(outcome: Outcome) -> tuple[list[str], list[list[Cell]]]:
    """Headings, and a row for each model: its scores, the paper's beside them, tasks and time."""
    experiment = outcome.experiment
    headings = ["model"]
    for column in experiment.columns:
        headings += [column.label, experiment.paper_heading]
    rows = [[Cell(entry.label)] for entry in experiment.models]
    for column in experiment.columns:
        cells = [outcome.summary(entry, column) for entry in experiment.models]
        best = min((cell.median for cell in cells if cell is not None), default=math.nan)
        for row, entry, cell in zip(rows, experiment.models, cells, strict=True):
            is_best = cell is not None and cell.median == best
            published = experiment.published(entry, column)
            row.append(Cell(_told(cell, column.decimals), is_best))
            row.append(Cell(published.text if published else _NOTHING))
    for row, entry in zip(rows, experiment.models, strict=True):
        seconds = outcome.seconds(entry)
        row.append(Cell(outcome.done(entry)))
        row.append(Cell(_NOTHING if seconds is None else f"{seconds:.1f}"))
    return [*headings, "tasks done", "seconds to fit"], rows


def markdown(outcome: Outcome) -> str:
    """The table as Markdown."""
    experiment = outcome.experiment
    headings, rows = grid(outcome)
    texts = [headings] + [[f"**{c.text}**" if c.is_best else c.text for c in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [f"## {experiment.title} ({experiment.source})", ""]
    lines += [line for remark in outcome.remarks() for line in (f"**{remark}**", "")]
    for number, cells in enumerate(texts):
        lines.append(_line(cells, widths))
        if number == 0:
            lines.append(_line(rule, widths))
    troubles = outcome.troubles()
    lines += ["", _WORDS, *(["", *_items(experiment.notes)] if experiment.notes else [])]
    lines += ["", "Not in the table:", "", *_items(troubles)] if troubles else []
    return "\n".join(lines) + "\n"


def latex(outcome: Outcome) -> str:
    """The table as LaTeX, for the package booktabs."""
    experiment = outcome.experiment
    headings, rows = grid(outcome)
    caption = " ".join([f"{experiment.title}.", *outcome.remarks(), _WORDS, *experiment.notes])
    lines = [
        r"\begin{table}",
        rf"  \caption{{{_escaped(caption)}}}",
        rf"  \label{{tab:{experiment.name}}}",
        r"  \centering",
        rf"  \begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}",
        r"    \toprule",
        _latex_row(map(_escaped, headings)),
        r"    \midrule",
    ]
    for row in rows:
        texts = [_escaped(cell.text) for cell in row]
        bold = [cell.is_best for cell in row]
        lines.append(
            _latex_row(rf"\textbf{{{t}}}" if b else t for t, b in zip(texts, bold, strict=True))
        )
    lines += [r"    \bottomrule", r"  \end{tabular}", r"\end{table}"]
    lines += [f"% {trouble}" for trouble in outcome.troubles()]
    return "\n".join(lines) + "\n"


def _told(summary: Summary | None, decimals: int) -> str:
    if summary is None:
        return _NOTHING
    median = _number(summary.median, decimals)
    if summary.error is None:
        return median
    return f"{median} ({_number(summary.mean, decimals)} ± {_number(summary.error, decimals)})"


def _number(value: float, decimals: int) -> str:
    """With so many decimals, or more where there would be fewer than two digits left."""
    if abs(value) >= 1000:
        return f"{value:.3g}"
    if 1e-6 < abs(value) < 0.1:
        decimals = max(decimals, 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{decimals}f}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    padded = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
    return f"| {' | '.join(padded)} |"


def _items(lines: Iterable[str]) -> list[str]:
    return [f"- {line}" for line in lines]


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def _latex_row(cells: Iterable[str]) -> str:
    return f"    {' & '.join(cells)} \\\\"


def _escaped(text: str) -> str:
    escaped = re.sub(r"([&%$#_{}])", r"\\\1", text)
    return escaped.replace("±", r"$\pm$").replace("–", "--")
