"""Saving and loading: a folder of safetensors and JSON, never pickle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from deeplfm.errors import InputError, ModelFileError
from deeplfm.files import write_whole

FORMAT = "deeplfm"
FORMAT_VERSION = 1
_DESCRIPTION, _TENSORS = "model.json", "tensors.safetensors"


def write_folder(path: str | Path, description: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write a model folder; each file is complete or not there.

    Args:
        path: folder to make, or a deeplfm folder to replace.
        description: plain data.
        tensors: everything else.
    """
    folder = Path(path)
    if folder.is_file():
        raise InputError(f"save: {folder} is a file. Give the name of a folder.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / _DESCRIPTION).exists():
        raise InputError(
            f"save: folder {folder} holds other files and no deeplfm model. "
            "Give a new or empty folder."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"save: cannot make folder {folder}: {error.strerror}.") from error
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    header = {"format": FORMAT, "format_version": FORMAT_VERSION, **description}
    # Tensors first, and no description meanwhile: a folder that has one is a whole model.
    text = json.dumps(header, indent=2, default=_plain)
    (folder / _DESCRIPTION).unlink(missing_ok=True)
    write_whole(folder / _TENSORS, lambda temporary: save_file(contiguous, temporary))
    write_whole(folder / _DESCRIPTION, lambda temporary: temporary.write_text(text))


def read_folder(path: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read what :func:`write_folder` wrote, or say clearly why it cannot be read."""
    folder = Path(path)
    description_path, tensor_path = folder / _DESCRIPTION, folder / _TENSORS
    if not folder.is_dir():
        raise ModelFileError(f"load: {folder} is not a folder. Give the folder that save() made.")
    if not description_path.exists():
        raise ModelFileError(
            f"load: {folder} has no {_DESCRIPTION}, so it is not a deeplfm model or was not written "
            "to its end. Save the model again."
        )
    try:
        description = json.loads(description_path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ModelFileError(
            f"load: {description_path} is damaged ({error}). Restore it, or save the model again."
        ) from error
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise ModelFileError(f"load: {description_path} is not the description of a deeplfm model.")
    version = description.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ModelFileError(
            f"load: {folder} has format version {version}, this deeplfm reads up to "
            f"{FORMAT_VERSION}. Update deeplfm."
        )
    try:
        tensors = load_file(tensor_path)
    except (SafetensorError, OSError) as error:
        raise ModelFileError(
            f"load: {tensor_path} is missing or damaged ({error}). Restore it, or save the model "
            "again."
        ) from error
    return description, tensors


def restore(module: torch.nn.Module, tensors: dict[str, Tensor]) -> None:
    """Put tensors into a module, all of them and no others."""
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise ModelFileError(
            f"load: the tensors do not fit the described model ({str(error).splitlines()[-1].strip()}). "
            "The two files are not of one model; save it again."
        ) from error


def _plain(value: Any) -> Any:
    """Numbers of numpy as Python's; anything else by its name."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
