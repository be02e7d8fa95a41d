"""Checks that plain data which were read have the types that a declaration gives them."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from math import isfinite
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

Declared = TypeVar("Declared")


def checked(value: Declared) -> Declared:
    """A dataclass whose fields have their declared types; numbers must be finite.

    Raises:
        ValueError: names the first field that has another type.
    """
    hints = get_type_hints(type(value))
    for field in fields(value):  # type: ignore[arg-type]
        found = getattr(value, field.name)
        if not _is(found, hints[field.name]):
            raise ValueError(f"{field.name} of {type(value).__name__} is {found!r:.80}")
    return value


def _is(value: Any, kind: Any) -> bool:
    """Whether a value is of a type: a class, a union, a literal, or a container of such."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin in (Union, UnionType):
        return any(_is(value, item) for item in inner)
    if origin is Literal:
        return value in inner
    if origin is dict:
        return isinstance(value, dict) and all(
            _is(key, inner[0]) and _is(item, inner[1]) for key, item in value.items()
        )
    if origin is list or (origin is tuple and inner[-1] is ...):
        return isinstance(value, origin) and all(_is(item, inner[0]) for item in value)
    if origin is tuple:
        return isinstance(value, tuple) and len(value) == len(inner) and all(map(_is, value, inner))
    if origin is np.ndarray:
        return (
            isinstance(value, origin) and value.dtype.kind in "fi" and bool(isfinite(value.sum()))
        )
    if kind is float:
        return _is_number(value, int | float) and isfinite(value)
    if kind is int:
        return _is_number(value, int)
    return isinstance(value, kind) and (not is_dataclass(value) or checked(value) is value)


def _is_number(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
