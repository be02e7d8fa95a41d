"""Features of whole series, such as the kind of a shop: a table with one row for each series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from deeplfm.errors import InputError
from deeplfm.estimators.panel_columns import plain_name

Array = NDArray[np.float64]


def static_rows(table: pd.DataFrame, series: str, names: list[Any]) -> pd.DataFrame:
    """The features of the named series, in their order; the table must have one row for each of them."""
    if not table.columns.is_unique:
        name = table.columns[table.columns.duplicated()][0]
        raise InputError(f"static: two columns are named {name!r}. Rename one.")
    if series not in table.columns:
        raise InputError(
            f"static: there is no column {series!r}, which names the series; columns: "
            f"{', '.join(map(repr, table.columns))}. Rename the one that does."
        )
    twice = table[series][table[series].duplicated()]
    if len(twice):
        raise InputError(
            f"static: series {twice.iloc[0]!r} has {int((table[series] == twice.iloc[0]).sum())} rows. "
            "Features of a series do not change: leave one row for each."
        )
    if table.shape[1] < 2:
        raise InputError(
            f"static: no column found beside {series!r}. Add one, or leave static out."
        )
    found = table.set_axis([plain_name(name) for name in table[series]]).drop(columns=series)
    missing = [name for name in names if name not in found.index]
    if missing:
        raise InputError(
            f"static: {len(missing)} of {len(names)} series have no row (first: {missing[0]!r}). Add "
            "their rows."
        )
    found = found.loc[names]
    for name, column in found.items():
        if column.isna().any():
            raise InputError(
                f"static: column {name!r} has {int(column.isna().sum())} missing values (first: series "
                f"{found.index[int(column.isna().to_numpy().argmax())]!r}). Fill them, or leave the "
                "column out."
            )
        if is_numeric_dtype(column) and not np.isfinite(column.to_numpy(np.float64)).all():
            raise InputError(f"static: column {name!r} has infinite values. Replace them.")
    return found


@dataclass(frozen=True)
class StaticFeatures:
    """How features become columns of numbers.

    Attributes:
        numbers: mean and standard deviation of each column of numbers.
        labels: of each other column, those that at least two series have.
    """

    numbers: dict[str, tuple[float, float]]
    labels: dict[str, list[str]]

    @classmethod
    def of(cls, rows: pd.DataFrame) -> StaticFeatures:
        """Numbers and labels in the features of a panel."""
        numbers, labels = {}, {}
        for name, column in rows.items():
            if is_numeric_dtype(column) and not is_bool_dtype(column):
                values = column.to_numpy(np.float64)
                numbers[str(name)] = (float(values.mean()), float(values.std()) or 1.0)
            else:
                counts = column.astype(str).value_counts()
                labels[str(name)] = sorted(counts.index[counts > 1])
        return cls(numbers, labels)

    @property
    def size(self) -> int:
        """Number of features."""
        return len(self.numbers) + len(self.labels)

    @property
    def owners(self) -> NDArray[np.int64]:
        """Number of the feature that each column of the design belongs to."""
        counts = [1] * len(self.numbers) + [len(found) for found in self.labels.values()]
        return np.repeat(np.arange(self.size), counts)

    def design(self, rows: pd.DataFrame) -> tuple[Array, Array]:
        """Columns of numbers, and which features of a series have a label that is not known."""
        rows = rows.rename(columns=str)
        absent = [name for name in (*self.numbers, *self.labels) if name not in rows.columns]
        if absent:
            raise InputError(
                f"static: there is no column {absent[0]!r}, which the panel has. Add it."
            )
        columns, is_unknown = [np.zeros((len(rows), 0))], [np.zeros((len(rows), 0))]
        for name, (mean, spread) in self.numbers.items():
            values = pd.to_numeric(rows[name], errors="coerce").to_numpy(np.float64)
            if not np.isfinite(values).all():
                raise InputError(
                    f"static: column {name!r} has a value that is no number. Replace it."
                )
            columns.append(((values - mean) / spread)[:, None])
            is_unknown.append(np.zeros((len(rows), 1)))
        for name, known in self.labels.items():
            found = rows[name].astype(str).to_numpy()[:, None] == np.array(known, dtype=object)
            columns.append(found.astype(np.float64))
            is_unknown.append(1.0 - columns[-1].sum(1, keepdims=True))
        return np.hstack(columns), np.hstack(is_unknown)
