"""Estimators as plain data and tensors: saving, loading, and checks of what was loaded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from deeplfm.errors import MISUSES, ConfigError, DeepLFMError, ModelFileError
from deeplfm.io.storage import Contents, read_folder, write_folder


class Saved(ABC):
    """An estimator that plain data and tensors describe completely."""

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a folder; that of a forecaster holds its training rows as well.

        Of several processes that have fitted it together, the first one writes.
        """
        described = self._described()
        if self.is_written_here:
            write_folder(path, *described)

    @property
    def is_written_here(self) -> bool:
        """Whether this process is to write it."""
        return getattr(self, "writes_", True)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The estimator that :meth:`save` wrote; it predicts the same bits."""
        return cls._restored(*read_folder(path), path)

    @abstractmethod
    def _described(self) -> Contents:
        """Description and tensors of the fitted estimator."""

    @classmethod
    @abstractmethod
    def _restored(
        cls, description: dict[str, Any], tensors: dict[str, Tensor], path: str | Path
    ) -> Self:
        """The estimator of a description; ``path`` is for the message of an error."""


@contextmanager
def reading(path: str | Path, kind: type) -> Iterator[None]:
    """Turn what goes wrong while a description is read into an error that names the folder."""
    try:
        yield
    except ModelFileError:
        raise
    except ConfigError as error:
        raise ModelFileError(
            f"load: {path} needs a part that is not available here ({error}). Call "
            "deeplfm.features.register for a system of your own before loading."
        ) from error
    except (DeepLFMError, *MISUSES) as error:
        reason = " ".join(repr(error).split())[:300]
        raise ModelFileError(
            f"load: {path} does not describe a {kind.__name__} ({reason}). Save the model again, or "
            "load another kind of model with deeplfm.load."
        ) from error


def tensors_under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with a prefix, by the rest of their names."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def restore(module: torch.nn.Module, tensors: dict[str, Tensor]) -> None:
    """Put tensors into a module: all of them and no others, of its shapes and dtypes."""
    expected = module.state_dict()
    wrong = [
        f"{name} is {tensors[name].dtype}, expected {tensor.dtype}"
        for name, tensor in expected.items()
        if name in tensors and tensors[name].dtype != tensor.dtype
    ]
    try:
        if wrong:
            raise RuntimeError(wrong[0])
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise ModelFileError(
            f"load: the tensors do not fit the described model ({str(error).splitlines()[-1].strip()}). "
            "The two files are not of one model; save it again."
        ) from error
