"""Parts of a model of many series: files of tensors and plain data, named by their content."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from deeplfm.errors import ModelFileError
from deeplfm.io.files import read_regular, write_whole

NAME = re.compile(r"part-(\d{6})-([0-9a-f]{64})\.safetensors")
_DESCRIPTION = "description"
MOST_BYTES = 2**34  # of a part


def pack(description: dict[str, Any], tensors: dict[str, Tensor]) -> bytes:
    """Plain data and tensors as one sequence of bytes."""
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(description, default=_plain)
    return save(contiguous, metadata={_DESCRIPTION: text})


def unpack(content: bytes) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The plain data and tensors of :func:`pack`."""
    try:
        size = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + size])
        return json.loads(header["__metadata__"][_DESCRIPTION]), load(content)
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise ModelFileError(
            f"load: a part of the model is damaged ({str(error)[:200]}). Save the model again."
        ) from error


def write_parts(folder: Path, parts: Iterable[tuple[int, bytes | Path]]) -> list[str]:
    """Write parts by their numbers; the names of their files, which hold their SHA-256."""
    names = []
    for number, part in parts:
        content = content_of(part)
        name = f"part-{number:06d}-{hashlib.sha256(content).hexdigest()}.safetensors"
        write_whole(folder / name, partial(Path.write_bytes, data=content))
        names.append(name)
    return names


def content_of(part: bytes | Path) -> bytes:
    """The content of a part, which a file must have unchanged."""
    if isinstance(part, bytes):
        return part
    try:
        content = read_regular(part, MOST_BYTES)
    except ModelFileError:
        raise
    except OSError as error:
        raise ModelFileError(
            f"load: {part} cannot be read ({error.strerror or error}). Load the model again, or save it "
            "again if its folder was changed."
        ) from error
    found = NAME.fullmatch(part.name)
    if found is None or hashlib.sha256(content).hexdigest() != found[2]:
        raise ModelFileError(
            f"load: {part} is damaged (its SHA-256 is not the one in its name). Restore it, or save the "
            "model again."
        )
    return content


def parts_in(folder: Path) -> dict[int, Path]:
    """Files of parts in a folder, by their numbers."""
    found = ((NAME.fullmatch(path.name), path) for path in folder.glob("part-*"))
    return {int(match[1]): path for match, path in found if match}


def _plain(value: Any) -> Any:
    """Numbers of numpy as Python's; anything else by its name."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
