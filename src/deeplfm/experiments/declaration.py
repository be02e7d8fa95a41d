"""The declaration of an experiment: cases, models, columns of its table, and the published numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from jaxtyping import Bool, Float64
from numpy import ndarray

from deeplfm.errors import ConfigError

_QUICK_ROWS = 400
_NUMBER = r"-?\d+(?:\.\d+)?"
_PUBLISHED = re.compile(rf"({_NUMBER})(?: \(({_NUMBER})\))?")


@dataclass(frozen=True, eq=False)
class Split:
    """Training rows, and test rows of one or more parts.

    Attributes:
        x_train: inputs; a single column is time.
        y_train: outputs, standardised by these very values; NaN where missing.
        x_test: inputs of each tested part, by its name.
        y_test: targets of each part, in the units of ``y_train``; NaN where not tested.
        outputs: names of the outputs.
        is_noise_free: the targets are values of the function without noise, for which the density and
            the interval of an observation are not scored.
    """

    x_train: Float64[ndarray, "N P"]
    y_train: Float64[ndarray, "N D"]
    x_test: Mapping[str, Float64[ndarray, "_ P"]]
    y_test: Mapping[str, Float64[ndarray, "_ D"]]
    outputs: tuple[str, ...]
    is_noise_free: bool = False

    @property
    def is_series(self) -> bool:
        """Whether the only input is time."""
        return self.x_train.shape[1] == 1

    @property
    def time(self) -> Float64[ndarray, " T"]:
        """All times of a series, trained and tested, in order."""
        return np.unique(np.concatenate([self.x_train, *self.x_test.values()])[:, 0])

    def shortened(self) -> Split:
        """The first rows of a table, for a quick run; a series unchanged."""
        if self.is_series:
            return self
        return replace(self, x_train=self.x_train[:_QUICK_ROWS], y_train=self.y_train[:_QUICK_ROWS])


def series_split(
    time: Float64[ndarray, " N"],
    value: Float64[ndarray, "N D"],
    outputs: tuple[str, ...],
    train: Bool[ndarray, "N D"],
    tests: Mapping[str, Bool[ndarray, "N D"]],
    truth: Float64[ndarray, "N D"] | None = None,
    is_standardised: bool = True,
) -> Split:
    """A series, standardised by its training values as the paper scores it.

    Args:
        time: of each row.
        value: observations.
        outputs: names of the columns.
        train: mask of the training values.
        tests: mask of the tested values of each part.
        truth: targets; ``None`` for the observations.
        is_standardised: ``False`` keeps the units, for models that use the equation of the series.
            A normalised error is the same in both.
    """
    known = np.where(train, value, np.nan)
    mean, std = np.zeros(value.shape[1]), np.ones(value.shape[1])
    if is_standardised:
        mean, std = np.nanmean(known, axis=0), np.nanstd(known, axis=0)
    target = ((value if truth is None else truth) - mean) / std
    tested = {part: mask.any(axis=1) for part, mask in tests.items()}
    return Split(
        x_train=time[train.any(axis=1), None],
        y_train=((known - mean) / std)[train.any(axis=1)],
        x_test={part: time[rows, None] for part, rows in tested.items()},
        y_test={part: np.where(tests[part], target, np.nan)[rows] for part, rows in tested.items()},
        outputs=outputs,
        is_noise_free=truth is not None,
    )


def rows_between(
    first: int, last: int, shape: tuple[int, ...], column: int | None = None
) -> Bool[ndarray, "N D"]:
    """Mask of the rows from ``first`` to before ``last``, of one column or of all."""
    mask = np.zeros(shape, dtype=bool)
    mask[first:last, slice(None) if column is None else column] = True
    return mask


@dataclass(frozen=True)
class Case:
    """One data set with its split, which may depend on a seed."""

    name: str
    load: Callable[[int], Split]


class Build(Protocol):
    """Makes an estimator that is not fitted."""

    def __call__(self, *, seed: int, is_quick: bool, budget: float | None) -> Any:
        """The estimator; ``budget`` is the time limit of its fit in seconds."""


@dataclass(frozen=True)
class Entry:
    """A row of the table.

    Attributes:
        label: of the row.
        build: makes the model.
        paper: row of the paper's table beside it.
        has_hidden_layer: of a latent force model; None for other models, and for ensembles.
    """

    label: str
    build: Build
    paper: str | None = None
    has_hidden_layer: bool | None = None


@dataclass(frozen=True)
class Column:
    """A column of the table: the mean of a score over cases and outputs."""

    label: str
    metric: str
    cases: tuple[str, ...]
    part: str = "test"
    outputs: tuple[str, ...] = ()  # empty for all
    decimals: int = 2


@dataclass(frozen=True)
class Published:
    """A number as printed in the paper, with its standard error where there is one."""

    text: str
    value: float
    error: float | None

    @classmethod
    def of(cls, text: str) -> Published:
        """Read ``0.39 (0.05)`` or ``0.39``."""
        found = _PUBLISHED.fullmatch(text)
        if found is None:
            raise ConfigError(f"published number: {text!r} found. Write 0.39 or 0.39 (0.05).")
        value, error = found.groups()
        return cls(text, float(value), None if error is None else float(error))


Paper = Mapping[str, Mapping[str, Published]]


def paper_table(columns: tuple[str, ...], rows: Mapping[str, str]) -> Paper:
    """The paper's table from its rows, cells separated by bars; N/A is left out.

    >>> paper_table(("NMSE", "MNLL"), {"DNN": "1.04 (0.01) | N/A"})["DNN"]["NMSE"].error
    0.01
    """
    table = {}
    for label, row in rows.items():
        cells = [cell.strip() for cell in row.split("|")]
        if len(cells) != len(columns):
            raise ConfigError(f"row {label!r}: {len(cells)} cells for {len(columns)} columns.")
        known = [(name, cell) for name, cell in zip(columns, cells, strict=True) if cell != "N/A"]
        table[label] = {name: Published.of(cell) for name, cell in known}
    return table


@dataclass(frozen=True)
class Experiment:
    """A table of the paper, to be computed again."""

    name: str
    title: str
    source: str
    cases: tuple[Case, ...]
    models: tuple[Entry, ...]
    columns: tuple[Column, ...]
    paper: Paper = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # below the table
    warning: str = ""  # above every table, such as that the data are a substitute
    n_seeds: int = 5
    drawn: tuple[str, ...] = ()  # labels of the models in the figure, side by side
    paper_heading: str = "paper"

    def published(self, entry: Entry, column: Column) -> Published | None:
        """The published number of this cell."""
        return self.paper.get(entry.paper or "", {}).get(column.label)

    def only(self, labels: list[str]) -> Experiment:
        """The experiment with some of its models, in the order of the table; case does not matter."""
        known = {entry.label.lower(): entry for entry in self.models}
        unknown = [label for label in labels if label.lower() not in known]
        if unknown:
            raise ConfigError(
                f"--models: experiment {self.name} has no {', '.join(map(repr, unknown))}. Choose "
                f"from {', '.join(repr(entry.label) for entry in self.models)}."
            )
        wanted = {label.lower() for label in labels}
        return replace(self, models=tuple(e for name, e in known.items() if name in wanted))
