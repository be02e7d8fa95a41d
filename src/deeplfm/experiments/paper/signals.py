"""Three signals of one patient, and how the experiments divide their 1000 rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from deeplfm.errors import ConfigError, DeepLFMError, InputError
from deeplfm.experiments.declaration import Split, rows_between, series_split

_N_ROWS = 1000


@dataclass(frozen=True)
class Signals:
    """Where the three signals come from."""

    title: str
    dataset: Literal["charis", "mimic-037"]
    outputs: tuple[str, str, str]
    note: str
    warning: str = ""

    @property
    def paper_heading(self) -> str:
        """Of the paper's numbers, which are those of CHARIS."""
        return "paper (CHARIS)" if self.warning else "paper"

    def load(self) -> tuple[Float64[ndarray, " N"], Float64[ndarray, "N 3"]]:
        """Times and values of the first 1000 rows."""
        from deeplfm.data.catalogue import load

        try:
            frame = load(self.dataset)[:_N_ROWS]
        except DeepLFMError as error:
            if self is not CHARIS:
                raise
            raise InputError(
                f"{error} Or add --substitute mimic: the same on other data."
            ) from error
        names = [self._column(list(frame.columns), output) for output in self.outputs]
        if len(frame) < _N_ROWS:
            raise InputError(
                f"data set {self.dataset}: {len(frame)} rows, but the experiment takes {_N_ROWS}. "
                "Remove the file, so that the rows are fetched again."
            )
        return frame.iloc[:, 0].to_numpy(np.float64), frame[names].to_numpy(np.float64)

    def _column(self, columns: list[str], output: str) -> str:
        for name in columns:
            if name.upper().startswith(output):
                return name
        raise InputError(
            f"data set {self.dataset}: no column is named {output}, found {', '.join(columns)}. "
            "Choose a record that has it."
        )


CHARIS = Signals(
    "CHARIS",
    "charis",
    ("ABP", "ECG", "ICP"),
    "The paper does not name its patient; record charis6, rows 0 to 999, is what public work on its "
    "code reads.",
)
_SUBSTITUTES = {
    "mimic": Signals(
        "MIMIC 037",
        "mimic-037",
        ("ABP", "ECG", "RESP"),
        "MIMIC record 037, rows 0 to 999, with respiration in place of intracranial pressure; the "
        "published numbers are of CHARIS and cannot be compared.",
        "MIMIC 037, not CHARIS",
    )
}


def signals_of(substitute: str | None) -> Signals:
    """The paper's signals, or others in their place."""
    if substitute is None:
        return CHARIS
    if substitute not in _SUBSTITUTES:
        raise ConfigError(
            f"--substitute: {substitute!r} is not known. Choose {', '.join(_SUBSTITUTES)}."
        )
    return _SUBSTITUTES[substitute]


def extrapolated(signals: Signals, n_train: int, seed: int, only: str | None = None) -> Split:
    """The first rows are known, the others are asked for."""
    time, value = signals.load()
    outputs: tuple[str, ...] = signals.outputs
    if only is not None:
        value, outputs = value[:, [outputs.index(only)]], (only,)
    train = rows_between(0, n_train, value.shape)
    return series_split(time, value, outputs, train, {"extrapolation": ~train})


def imputed(signals: Signals, seed: int) -> Split:
    """Each signal lacks a block of 150 rows: from 200, 400 and 600."""
    time, value = signals.load()
    missing = np.zeros(value.shape, dtype=bool)
    for column, first in enumerate((200, 400, 600)):
        missing |= rows_between(first, first + 150, value.shape, column)
    return series_split(time, value, signals.outputs, ~missing, {"imputation": missing})
