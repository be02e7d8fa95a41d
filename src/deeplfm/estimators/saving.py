"""Saving and loading, the same for every estimator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Self

from torch import Tensor

from deeplfm.io.storage import read_folder, write_folder

Contents = tuple[dict[str, Any], dict[str, Tensor]]


class Saved(ABC):
    """An estimator that can be described by plain data and tensors."""

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a folder; that of a forecaster holds its training rows as well."""
        write_folder(path, *self._described())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The estimator that :meth:`save` wrote; it predicts the same bits."""
        return cls._restored(*read_folder(path), path)

    @abstractmethod
    def _described(self) -> Contents:
        """All that the fitted estimator is."""

    @classmethod
    @abstractmethod
    def _restored(
        cls, description: dict[str, Any], tensors: dict[str, Tensor], path: str | Path
    ) -> Self:
        """The estimator of a description; ``path`` is for the message of an error."""
