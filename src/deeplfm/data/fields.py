"""Fields as a file has them, for results that change a few of them and leave the others alone."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool
from numpy import ndarray

FIELDS = "fields"  # in the attributes of a frame that was read from a text


@dataclass(frozen=True, eq=False)
class Fields:
    """A text that holds a table.

    Attributes:
        text: in UTF-8.
        delimiter: between fields.
        decimal: point or comma.
        names: of the columns.
        n_named: how many of them are part of the table.
    """

    text: bytes
    delimiter: str
    decimal: str
    names: tuple[str, ...]
    n_named: int

    def __deepcopy__(self, memo: Any) -> Fields:
        return self  # frames copy their attributes

    def filled(self, frame: pd.DataFrame, gaps: Mapping[str, Bool[ndarray, " N"]]) -> pd.DataFrame:
        """All fields as they are written, but for gaps, which get the numbers of a frame.

        Args:
            frame: the same rows; its columns that the text does not have come as well, and those that
                it lacks, as its index does, come first.
            gaps: which rows to fill, by column.
        """
        written = pd.read_csv(
            io.BytesIO(self.text),
            sep=self.delimiter,
            header=0,
            names=list(self.names),
            index_col=False,
            skipinitialspace=True,
            dtype=str,
            na_filter=False,
        ).iloc[: len(frame), : self.n_named]
        columns = {name: written[name].to_numpy(object) for name in written.columns}
        for name in frame.columns:
            if name in gaps:
                columns[name] = np.where(gaps[name], self._numbers(frame[name]), columns[name])
            elif name not in columns:
                columns[name] = self._numbers(frame[name])
        index = [name for name in written.columns if name not in frame.columns]
        return pd.DataFrame(columns)[[*index, *frame.columns]]

    def _numbers(self, column: pd.Series) -> ndarray:
        """Numbers with all their digits, missing ones empty."""
        told = ["" if pd.isna(x) else repr(float(x)).replace(".", self.decimal) for x in column]
        return np.array(told, dtype=object)
