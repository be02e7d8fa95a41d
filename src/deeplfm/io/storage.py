"""Saving and loading: a folder of safetensors and JSON, never pickle."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from deeplfm.errors import InputError, ModelFileError
from deeplfm.io.files import write_whole
from deeplfm.io.versions import versions

FORMAT = "deeplfm"
FORMAT_VERSION = 2
_DESCRIPTION = "model.json"


def write_folder(path: str | Path, description: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write a model folder; whatever happens meanwhile, it holds a whole model or none.

    Args:
        path: folder to make, or a deeplfm folder to replace.
        description: plain data.
        tensors: everything else.
    """
    folder = Path(path)
    if folder.is_file():
        raise InputError(f"save: {folder} is a file. Give the name of a folder.")
    if folder.is_dir() and not (folder / _DESCRIPTION).exists() and _foreign_files(folder):
        raise InputError(
            f"save: folder {folder} holds other files and no deeplfm model. "
            "Give a new or empty folder."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"save: cannot make folder {folder}: {error.strerror}.") from error
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # The description names its tensors and comes last: until it is renamed into place the folder holds
    # the old model, and from then on the new one.
    tensor_name = f"tensors-{secrets.token_hex(4)}.safetensors"
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "tensors": tensor_name,
        "versions": versions(),
        **description,
    }
    text = json.dumps(header, indent=2, default=_plain)
    write_whole(folder / tensor_name, lambda temporary: save_file(contiguous, temporary))
    write_whole(folder / _DESCRIPTION, lambda temporary: temporary.write_text(text))
    for old in folder.iterdir():
        if old.name.lstrip(".").startswith("tensors-") and old.name != tensor_name:
            old.unlink()  # of the model before, or of a save that was killed


def read_folder(path: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read what :func:`write_folder` wrote, or say clearly why it cannot be read."""
    folder = Path(path)
    description_path = folder / _DESCRIPTION
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
    if isinstance(version, int) and version < FORMAT_VERSION:
        raise ModelFileError(
            f"load: {folder} has format version {version} of an earlier deeplfm, this one reads "
            f"{FORMAT_VERSION}. Fit the model again."
        )
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ModelFileError(
            f"load: {folder} has format version {version}, this deeplfm reads up to "
            f"{FORMAT_VERSION}. Update deeplfm."
        )
    if not isinstance(description.get("tensors"), str):
        raise ModelFileError(
            f"load: {description_path} does not describe where its tensors are. Save the model again."
        )
    tensor_path = folder / Path(description["tensors"]).name
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


def _foreign_files(folder: Path) -> bool:
    """Whether a folder holds anything that a save, killed half-way, does not leave."""
    ours = ("tensors-", _DESCRIPTION)
    return any(not path.name.lstrip(".").startswith(ours) for path in folder.iterdir())


def _plain(value: Any) -> Any:
    """Numbers of numpy as Python's; anything else by its name."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
