"""Names of targets, and answers in the form of the question: frames for frames, arrays for arrays."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deeplfm.errors import InputError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Labels:
    """How the targets of a fit were called, and whether they were one vector.

    Attributes:
        names: of the targets; ``None`` where they came as an array.
        n_outputs: number D of targets.
        is_vector: they came without a second dimension.
    """

    names: tuple[Hashable, ...] | None
    n_outputs: int
    is_vector: bool

    @classmethod
    def of(cls, y: Any, n_outputs: int) -> Self:
        """Labels of the targets that a user gave."""
        names: tuple[Hashable, ...] | None = None
        if isinstance(y, pd.DataFrame):
            names = tuple(y.columns)
        elif isinstance(y, pd.Series):
            names = (y.name,)
        return cls(names, n_outputs, np.asarray(y).ndim == 1)

    def check(self, y: Any, n_outputs: int) -> None:
        """Refuse targets other than those of the fit."""
        names = tuple(y.columns) if isinstance(y, pd.DataFrame) else self.names
        if n_outputs == self.n_outputs and (self.names is None or names == self.names):
            return
        found, wanted = f"{n_outputs} columns", f"{self.n_outputs}"
        if n_outputs == self.n_outputs:
            found, wanted = (", ".join(map(repr, item or ())) for item in (names, self.names))
        raise InputError(
            f"y: {found}, but the model was fitted on {wanted}. Give the same targets in the same "
            "order."
        )

    @property
    def texts(self) -> list[str]:
        """What to call each output in words."""
        if self.names is not None and None not in self.names:
            return [str(name) for name in self.names]
        return ["y"] if self.n_outputs == 1 else [f"y{i}" for i in range(self.n_outputs)]

    def shaped(self, values: Array, like: Any, along: Sequence[Any] = ()) -> Any:
        """Values as the user expects them.

        Args:
            values: one for each row, output and, where ``along`` is given, item of it.
            like: the rows that were asked about; a frame lends its index.
            along: names of the last dimension: levels of quantiles, numbers of draws.
        """
        if self.names is None or not isinstance(like, pd.DataFrame | pd.Series):
            return values[:, 0] if self.is_vector else values
        if self.is_vector and not len(along):
            return pd.Series(values[:, 0], index=like.index, name=self.names[0])
        columns = pd.Index(self.names)
        if len(along):
            columns = pd.Index(along)
            if not self.is_vector:
                columns = pd.MultiIndex.from_product([self.names, along])
            values = values.reshape(len(values), -1)
        return pd.DataFrame(values, index=like.index, columns=columns)
