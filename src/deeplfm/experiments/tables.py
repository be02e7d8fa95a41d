"""Tables of results beside the published numbers, as Markdown and LaTeX."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deeplfm.experiments.outcome import Outcome, Summary

_NOTHING = "–"
_SAME = 1e-5  # of the mean: a smaller error is rounding
WORDS = (
    "Cells: median over the seeds (mean ± standard error), or one number where all seeds agree; paper: "
    "published mean (standard error). Lower is better; NMSE 1 is the error of predicting the mean of "
    "the tested rows. The best median of a column is bold."
)
MODELS = (
    "ensemble: several models, averaged with weights from held-out rows. Most have no hidden layer.",
    "DLFM: one model whose hidden layers carry the forecast. Series: the hidden layer has the phase of "
    "each cycle, whose rate may vary, and the output is a function of the phases, plus a level; without "
    "a cycle, the hidden layers are those of the paper. Tables: the weights of a mixture density are "
    "functions of 16 hidden values.",
    "(paper) follows the text of the paper, (reference) the authors' public code.",
    "LFM and mixture density: no hidden layer.",
    "sinusoids + deep: the paper's hidden layers and eight sinusoids, side by side. On the toy the "
    "sinusoids carry the whole forecast. smooth + deep: the same with smooth functions of the inputs.",
    "DGP-EQ, DGP-ARC without (paper): frequencies start from the spectrum; the output layer is exact.",
)


@dataclass(frozen=True)
class Cell:
    """A cell of a table."""

    text: str
    is_best: bool = False


def grid(outcome: Outcome) -> tuple[list[str], list[list[Cell]]]:
    """Headings, and a row for each model: scores, published numbers, seeds and time."""
    experiment = outcome.experiment
    headings = ["model"]
    rows = [[Cell(entry.label)] for entry in experiment.models]
    for column in experiment.columns:
        cells = [outcome.summary(entry, column) for entry in experiment.models]
        best = min((cell.median for cell in cells if cell is not None), default=math.nan)
        published = [experiment.published(entry, column) for entry in experiment.models]
        headings += [column.label, *[experiment.paper_heading] * any(published)]
        for row, cell, paper in zip(rows, cells, published, strict=True):
            is_best = cell is not None and cell.median == best
            row.append(Cell(cell_text(cell, column.decimals), is_best))
            if any(published):
                row.append(Cell(paper.text if paper else _NOTHING))
    for row, entry in zip(rows, experiment.models, strict=True):
        seconds = outcome.seconds(entry)
        row.append(Cell(outcome.seeds(entry)))
        row.append(Cell(_NOTHING if seconds is None else f"{seconds:.1f}"))
    return [*headings, "seeds", "seconds to fit"], rows


def markdown(outcome: Outcome) -> str:
    """The table as Markdown."""
    lines = [*markdown_heading(outcome), *markdown_table(outcome), "", WORDS, "", *items(MODELS)]
    return "\n".join([*lines, *markdown_remarks(outcome)]) + "\n"


def markdown_heading(outcome: Outcome) -> list[str]:
    """Title and remarks above the table."""
    lines = [f"## {outcome.experiment.title} ({outcome.experiment.source})", ""]
    return lines + [line for remark in outcome.remarks() for line in (f"**{remark}**", "")]


def markdown_table(outcome: Outcome) -> list[str]:
    """Lines of the table alone."""
    headings, rows = grid(outcome)
    return markdown_lines(
        [headings] + [[f"**{c.text}**" if c.is_best else c.text for c in row] for row in rows]
    )


def markdown_lines(texts: Sequence[Sequence[str]]) -> list[str]:
    """A table of headings and rows, in columns of one width."""
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    first, *others = (_line(cells, widths) for cells in texts)
    return [first, _line(rule, widths), *others]


def markdown_remarks(outcome: Outcome) -> list[str]:
    """Notes below the table, and models without numbers."""
    notes = [*outcome.experiment.notes, *outcome.made_of(), *outcome.mixture()]
    troubles = outcome.troubles()
    lines = ["", *items(notes)] if notes else []
    return lines + (["", "Without numbers:", "", *items(troubles)] if troubles else [])


def latex(outcome: Outcome) -> str:
    """The table as LaTeX, for the package booktabs."""
    experiment = outcome.experiment
    headings, rows = grid(outcome)
    caption = " ".join(
        [f"{experiment.title}.", *outcome.remarks(), WORDS, *MODELS, *experiment.notes]
    )
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
    lines += [f"% {line}" for line in (*outcome.mixture(), *outcome.troubles())]
    return "\n".join(lines) + "\n"


def cell_text(summary: Summary | None, decimals: int) -> str:
    """A cell: median, and mean ± standard error where the seeds differ."""
    if summary is None:
        return _NOTHING
    median = number(summary.median, decimals)
    if summary.error is None or summary.error <= _SAME * abs(summary.mean):
        return median
    return f"{median} ({number(summary.mean, decimals)} ± {number(summary.error, decimals)})"


def number(value: float, decimals: int) -> str:
    """A score with this number of decimals, or more to keep two digits."""
    if abs(value) >= 1000:
        return f"{value:.3g}"
    if 0 < abs(value) < 1e-4:
        return f"{value:.1e}"
    if 0 < abs(value) < 0.1:
        decimals = max(decimals, 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{decimals}f}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    padded = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
    return f"| {' | '.join(padded)} |"


def items(lines: Iterable[str]) -> list[str]:
    """A list in Markdown."""
    return [f"- {line}" for line in lines]


def _latex_row(cells: Iterable[str]) -> str:
    return f"    {' & '.join(cells)} \\\\"


def _escaped(text: str) -> str:
    escaped = re.sub(r"([&%$#_{}])", r"\\\1", text)
    return escaped.replace("±", r"$\pm$").replace("–", "--")
