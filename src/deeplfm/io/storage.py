"""Model folders: one safetensors file and one JSON file, each with a checksum; never pickle."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

import deeplfm
from deeplfm.errors import InputError, ModelFileError
from deeplfm.io.files import (
    check_size,
    flush_folder,
    is_unfinished,
    locked,
    read_regular,
    remove_unfinished,
    versions,
    write_whole,
)
from deeplfm.io.parts import write_parts

FORMAT = "deeplfm"
FORMAT_VERSION = 3
DESCRIPTION = "model.json"
OPTIONS = "run.toml"  # of the command line that fitted the model
PARTS = "parts"  # what a description calls the folder of the parts of a model
_TENSORS, _PARTS = "tensors-", "parts-"
_NAME = re.compile(_TENSORS + r"[0-9a-f]{8}\.safetensors")
MOST_DESCRIPTION_BYTES, MOST_TENSOR_BYTES = 2**26, 2**34
_N_TRIES = 20  # of a reader, while others replace the model

Contents = tuple[dict[str, Any], dict[str, Tensor]]


class _ReplacedError(Exception):
    """The tensors are gone, since the model was replaced while it was read."""


def write_folder(
    path: str | Path,
    description: dict[str, Any],
    tensors: dict[str, Tensor],
    parts: Iterable[bytes | Path] = (),
) -> None:
    """Write a model folder; at every moment it holds a complete model or none.

    Processes that save to one folder at a time wait for each other.

    Args:
        path: folder to create, or a deeplfm folder to replace.
        description: plain data.
        tensors: everything else.
        parts: of a model of many series, which are read one by one.
    """
    folder = Path(path)
    check_target(folder, "save")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        flush_folder(folder.parent)
    except (OSError, ValueError) as error:  # a zero byte in its name
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"save: cannot make folder {folder}: {reason}.") from error
    with locked(folder) as is_alone:
        before = _named_tensors(folder)
        place = _write_parts(folder, parts)
        named = {} if place is None else {PARTS: place}
        try:
            name = _write(folder, description | named, tensors)
        except BaseException:
            if place is not None:
                shutil.rmtree(folder / place["folder"], ignore_errors=True)
            raise
        # The description names its tensors and was written last: until it was renamed into place the
        # folder held the old model. Without a lock another process may be writing, or have written.
        for old in folder.glob(f"{_TENSORS}*") if is_alone else [folder / str(before)]:
            if old.name != name and not old.is_dir():
                old.unlink(missing_ok=True)
        for old in folder.glob(f"{_PARTS}*") if is_alone else ():
            if place is None or old.name != place["folder"]:
                shutil.rmtree(old, ignore_errors=True)
        if is_alone:
            remove_unfinished(folder, _is_ours, older_than=0.0)


def _write_parts(folder: Path, parts: Iterable[bytes | Path]) -> dict[str, Any] | None:
    """Write parts to a folder of their own; its name and those of its files."""
    numbered = list(enumerate(parts))
    if not numbered:
        return None
    place = folder / f"{_PARTS}{secrets.token_hex(4)}"
    try:
        place.mkdir()
        return {"folder": place.name, "files": write_parts(place, numbered)}
    except BaseException as error:
        shutil.rmtree(place, ignore_errors=True)
        if isinstance(error, ModelFileError) or not isinstance(error, OSError):
            raise
        raise InputError(
            f"save: {folder} cannot be written ({error.strerror or error}). Give a folder that you may "
            "write to and that has space."
        ) from error


def _write(folder: Path, description: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    """Write both files; the name of that of the tensors."""
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    name = f"{_TENSORS}{secrets.token_hex(4)}.safetensors"
    n_bytes = sum(value.nbytes for value in contiguous.values())
    check_size(folder / name, n_bytes, MOST_TENSOR_BYTES, InputError, "save")
    try:
        # safetensors' own writer leaves files of any name when it is killed
        content = save(contiguous)
        write_whole(folder / name, lambda temporary: temporary.write_bytes(content))
        header = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "tensors": name,
            "tensors_sha256": hashlib.sha256(content).hexdigest(),
            "not_finite": sorted(key for key, value in contiguous.items() if not _is_finite(value)),
            "versions": versions(),
            **description,
        }
        plain = json.loads(json.dumps(header, default=_plain))
        text = description_text(plain)
        check_size(folder / DESCRIPTION, len(text), MOST_DESCRIPTION_BYTES, InputError, "save")
        write_whole(folder / DESCRIPTION, lambda temporary: temporary.write_text(text))
    except BaseException as error:
        if name != _named_tensors(folder):
            (folder / name).unlink(missing_ok=True)
        if isinstance(error, OSError | SafetensorError):
            raise InputError(
                f"save: {folder} cannot be written ({getattr(error, 'strerror', None) or error}). Give a "
                "folder that you may write to and that has space."
            ) from error
        raise
    return name


def read_folder(path: str | Path) -> Contents:
    """Read the folder that :func:`write_folder` wrote; everything is verified against its checksum."""
    folder = Path(path)
    if not os.path.isdir(folder):  # pathlib raises an error where a name is too long, or forbidden
        raise ModelFileError(
            f"load: {folder} is not a folder that can be read. Give the one that save() or deeplfm fit "
            "made."
        )
    for attempt in range(_N_TRIES):
        description = _read_description(folder)
        try:
            return description, _read_tensors(folder, description, attempt + 1 < _N_TRIES)
        except _ReplacedError:
            continue
    raise ModelFileError(f"load: {folder} is being replaced all the time. Load it again.")


def _read_tensors(
    folder: Path, description: dict[str, Any], may_be_replaced: bool
) -> dict[str, Tensor]:
    path = folder / description["tensors"]
    try:
        content = read_regular(path, MOST_TENSOR_BYTES)
    except OSError as error:
        if may_be_replaced and _named_tensors(folder) != path.name:
            raise _ReplacedError from error
        raise _damaged(path, f"missing or damaged ({error.strerror or error})") from error
    found = hashlib.sha256(content).hexdigest()
    if found != description.get("tensors_sha256"):
        reason = (
            f"missing or damaged (its SHA-256 is {found[:12]}…, and not the one in {DESCRIPTION})"
        )
        raise _damaged(path, reason)
    try:
        tensors = load(content)
    except (SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise _damaged(path, f"damaged ({error})") from error
    not_finite = description.get("not_finite")
    if not isinstance(not_finite, list):
        raise _damaged(folder / DESCRIPTION, "damaged (not_finite is no list)")
    for name, tensor in tensors.items():
        if not _is_finite(tensor) and name not in not_finite:
            raise _damaged(path, f"damaged ({name} holds values that are not finite)")
    return tensors


def _read_description(folder: Path) -> dict[str, Any]:
    path = folder / DESCRIPTION
    if not os.path.isfile(path):
        raise ModelFileError(
            f"load: {folder} has no {DESCRIPTION} that can be read, so it is not a deeplfm model or was "
            "not written to its end. Save the model again."
        )
    try:
        text = read_regular(path, MOST_DESCRIPTION_BYTES).decode()
        description = json.loads(text)
    except (ValueError, RecursionError, OSError) as error:
        raise _damaged(path, f"damaged ({str(error)[:200]})") from error
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise ModelFileError(f"load: {path} is not the description of a deeplfm model.")
    _check_version(folder, description)
    description.pop("sha256", None)
    try:
        is_whole = text == description_text(description)
    except (ValueError, RecursionError) as error:  # half a surrogate pair, or deeply nested
        raise _damaged(path, f"damaged ({str(error)[:200]})") from error
    if not is_whole:
        raise _damaged(path, "damaged or was edited (its content does not match its SHA-256)")
    name = description.get("tensors")
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise ModelFileError(
            f"load: {path} does not describe where its tensors are. Save the model again."
        )
    return description


def _damaged(path: Path, how: str) -> ModelFileError:
    return ModelFileError(f"load: {path} is {how}. Restore it, or save the model again.")


def _named_tensors(folder: Path) -> str | None:
    """The tensors that a folder's description names; None where it has no description."""
    try:
        return str(
            json.loads(read_regular(folder / DESCRIPTION, MOST_DESCRIPTION_BYTES))["tensors"]
        )
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return None


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


def check_target(folder: Path, where: str) -> None:
    """Refuse a folder that holds anything but a model, or what a killed save has left."""
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise InputError(f"{where}: {folder} is a file. Give the name of a folder.")
    if not os.path.isdir(folder) or os.path.exists(folder / DESCRIPTION):
        return
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise InputError(
            f"{where}: folder {folder} cannot be read ({error.strerror}). Give a new or empty folder."
        ) from error
    if any(not _is_left(name) for name in names):
        raise InputError(
            f"{where}: folder {folder} holds other files and no deeplfm model. "
            "Give a new or empty folder."
        )


def _is_ours(name: str) -> bool:
    return name.startswith(_TENSORS) or name in (DESCRIPTION, OPTIONS)


def _is_left(name: str) -> bool:
    return name.startswith((_TENSORS, _PARTS)) or is_unfinished(name, _is_ours)


def description_text(content: dict[str, Any]) -> str:
    """The only text of a description: with its SHA-256, and each number and space as written here.

    A reader compares whole texts, since another last digit of a number may be read as the same number.
    """
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return json.dumps(content | {"sha256": digest}, indent=2)


def _is_finite(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() or bool(tensor.isfinite().all())


def _plain(value: Any) -> Any:
    """Numbers of numpy as Python's; anything else by its name."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
