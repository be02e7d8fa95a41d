"""What an experiment is: cases, models, columns of its table, and what the paper reports there."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from deeplfm.errors import ConfigError

_QUICK_ROWS = 400
_NUMBER = r"-?\d+(?:\.\d+)?"
_PUBLISHED = re.compile(rf"({_NUMBER})(?: \(({_NUMBER})\))?")


@dataclass(frozen=True, eq=False)
class Split:
    """What a model is given, and what it is asked.

    Attributes:
        x_train: inputs; one column is time.
        y_train: outputs, standardised by these very values, as densities are scored; NaN where
            missing.
        x_test: inputs of each tested part, by its name.
        y_test: what is true there, in the units of ``y_train``; NaN where it is not asked for.
        outputs: names of the outputs.
        is_noise_free: what is true there are values of the function, which have no noise: an
            observation's density and interval say nothing of them.
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
        """The first rows of a table, for a quick look; a series as it is."""
        if self.is_series:
            return self
        return replace(self, x_train=self.x_train[:_QUICK_ROWS], y_train=self.y_train[:_QUICK_ROWS])


@dataclass(frozen=True)
class Case:
    """One data set and how it is divided.

    Attributes:
        name: of the case.
        load: its split, from a seed.
    """

    name: str
    load: Callable[[int], Split]


class Build(Protocol):
    """Makes an estimator that is not fitted."""

    def __call__(self, *, seed: int, is_quick: bool, budget: float | None) -> Any:
        """The estimator.

        Args:
            seed: of the estimator.
            is_quick: train so little that it is only a look.
            budget: seconds for its fit, where it takes a limit.
        """


@dataclass(frozen=True)
class Entry:
    """A model in the table.

    Attributes:
        label: what the table calls it.
        build: makes it.
        paper: row of the paper's table that stands beside it.
    """

    label: str
    build: Build
    paper: str | None = None


@dataclass(frozen=True)
class Column:
    """One number of each model: the mean of a score over cases and outputs.

    Attributes:
        label: heading.
        metric: "nmse", "mnll" or "coverage95".
        cases: names of the cases.
        part: name of the tested part.
        outputs: names of the outputs; none for all.
        decimals: to print.
    """

    label: str
    metric: str
    cases: tuple[str, ...]
    part: str = "test"
    outputs: tuple[str, ...] = ()
    decimals: int = 2


@dataclass(frozen=True)
class Published:
    """A number as the paper prints it.

    Attributes:
        text: with its digits.
        value: the number.
        error: its standard error, where the paper gives one.
    """

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
    """A table of the paper, to be computed again.

    Attributes:
        name: for the command line.
        title: what is asked.
        source: where the paper has it.
        cases: what is predicted.
        models: by what.
        columns: of the table.
        paper: what the paper reports, by model and column.
        notes: what one must know to read the table.
        warning: what every table must say of its data, such as that they are a substitute.
        n_seeds: how many seeds it takes by default.
        drawn: labels of models that the paper's figure shows side by side; none for no figure.
        paper_heading: of the paper's numbers in the table.
    """

    name: str
    title: str
    source: str
    cases: tuple[Case, ...]
    models: tuple[Entry, ...]
    columns: tuple[Column, ...]
    paper: Paper = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    warning: str = ""
    n_seeds: int = 5
    drawn: tuple[str, ...] = ()
    paper_heading: str = "paper"

    def published(self, entry: Entry, column: Column) -> Published | None:
        """What the paper has in this cell."""
        return self.paper.get(entry.paper or "", {}).get(column.label)

    def only(self, labels: list[str]) -> Experiment:
        """The same with some of its models, in their order here; letter case does not matter."""
        known = {entry.label.lower(): entry for entry in self.models}
        unknown = [label for label in labels if label.lower() not in known]
        if unknown:
            raise ConfigError(
                f"--models: experiment {self.name} has no {', '.join(map(repr, unknown))}. Choose "
                f"from {', '.join(repr(entry.label) for entry in self.models)}."
            )
        wanted = {label.lower() for label in labels}
        chosen = tuple(entry for name, entry in known.items() if name in wanted)
        return replace(self, models=chosen)
