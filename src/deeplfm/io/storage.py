"""Model folders: one safetensors file and one JSON file, each with a checksum; never pickle."""

from __future__ import annotations

import hashlib
import json
import secrets
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

import deeplfm
from deeplfm.errors import InputError, ModelFileError
from deeplfm.io.files import versions, write_whole

FORMAT = "deeplfm"
FORMAT_VERSION = 3
_DESCRIPTION = "model.json"


def write_folder(path: str | Path, description: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write a model folder; at every moment it holds a complete model or none.

    Args:
        path: folder to create, or a deeplfm folder to replace.
        description: plain data.
        tensors: everything else.
    """
    folder = Path(path)
    _check_target(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"save: cannot make folder {folder}: {error.strerror}.") from error
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # The description names its tensors and is written last: until it is renamed into place the folder
    # holds the old model, and from then on the new one.
    tensor_name = f"tensors-{secrets.token_hex(4)}.safetensors"
    write_whole(folder / tensor_name, lambda temporary: save_file(contiguous, temporary))
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "tensors": tensor_name,
        "tensors_sha256": _file_digest(folder / tensor_name),
        "not_finite": sorted(name for name, value in contiguous.items() if not _is_finite(value)),
        "versions": versions(),
        **description,
    }
    plain = json.loads(json.dumps(header, default=_plain))
    text = json.dumps(plain | {"sha256": _digest(plain)}, indent=2)
    write_whole(folder / _DESCRIPTION, lambda temporary: temporary.write_text(text))
    for old in folder.iterdir():
        if old.name.lstrip(".").startswith("tensors-") and old.name != tensor_name:
            old.unlink()  # of the previous model, or of a save that was killed


def read_folder(path: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read the folder that :func:`write_folder` wrote; everything is verified against its checksum."""
    folder = Path(path)
    if not folder.is_dir():
        raise ModelFileError(f"load: {folder} is not a folder. Give the folder that save() made.")
    description = _read_description(folder)
    tensor_path = folder / Path(description["tensors"]).name
    try:
        found = _file_digest(tensor_path)
        tensors = load_file(tensor_path)
    except (SafetensorError, OSError) as error:
        raise ModelFileError(
            f"load: {tensor_path} is missing or damaged ({error}). Restore it, or save the model "
            "again."
        ) from error
    if found != description.get("tensors_sha256"):
        raise ModelFileError(
            f"load: {tensor_path} is damaged (its SHA-256 is {found[:12]}…, and not the one in "
            f"{_DESCRIPTION}). Restore it, or save the model again."
        )
    for name, tensor in tensors.items():
        if not _is_finite(tensor) and name not in description.get("not_finite", ()):
            raise ModelFileError(
                f"load: {tensor_path} is damaged ({name} holds values that are not finite). Restore "
                "it, or save the model again."
            )
    return description, tensors


def _read_description(folder: Path) -> dict[str, Any]:
    path = folder / _DESCRIPTION
    if not path.is_file():
        raise ModelFileError(
            f"load: {folder} has no {_DESCRIPTION}, so it is not a deeplfm model or was not written "
            "to its end. Save the model again."
        )
    try:
        description = json.loads(path.read_text())
    except (ValueError, RecursionError, OSError) as error:
        raise ModelFileError(
            f"load: {path} is damaged ({error}). Restore it, or save the model again."
        ) from error
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise ModelFileError(f"load: {path} is not the description of a deeplfm model.")
    _check_version(folder, description)
    kept = description.pop("sha256", None)
    if kept != _digest(description):
        raise ModelFileError(
            f"load: {path} is damaged or was edited (its content does not match its SHA-256). Restore "
            "it, or save the model again."
        )
    if not isinstance(description.get("tensors"), str):
        raise ModelFileError(
            f"load: {path} does not describe where its tensors are. Save the model again."
        )
    return description


def _check_version(folder: Path, description: dict[str, Any]) -> None:
    number, made_with = description.get("format_version"), description.get("versions")
    if not isinstance(number, int) or number > FORMAT_VERSION:
        raise ModelFileError(
            f"load: {folder} has format version {number}, this deeplfm reads {FORMAT_VERSION}. Update "
            "deeplfm."
        )
    if number < FORMAT_VERSION:
        writer = made_with.get("deeplfm") if isinstance(made_with, dict) else None
        writer = writer or "an earlier version"
        raise ModelFileError(
            f"load: {folder} was saved by deeplfm {writer} (format version {number}), and deeplfm "
            f"{deeplfm.__version__} reads format version {FORMAT_VERSION}. Load it with deeplfm "
            f"{writer}, or fit the model again."
        )


def _check_target(folder: Path) -> None:
    if folder.is_file():
        raise InputError(f"save: {folder} is a file. Give the name of a folder.")
    if not folder.is_dir() or (folder / _DESCRIPTION).exists():
        return
    ours = ("tensors-", _DESCRIPTION)  # also what a killed save leaves
    if any(not path.name.lstrip(".").startswith(ours) for path in folder.iterdir()):
        raise InputError(
            f"save: folder {folder} holds other files and no deeplfm model. "
            "Give a new or empty folder."
        )


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(content: dict[str, Any]) -> str:
    """SHA-256 of plain data, whatever the order of its keys and the spaces between them."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _is_finite(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() or bool(tensor.isfinite().all())


def _plain(value: Any) -> Any:
    """Numbers of numpy as Python's; anything else by its name."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
