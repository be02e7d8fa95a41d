"""What belongs into which panel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pandas as pd

T = TypeVar("T")


def grouped(items: Iterable[T], key: Callable[[T], str]) -> dict[str, list[T]]:
    """Items that belong together, in the order in which they first come."""
    groups: dict[str, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def layer_and_part(label: str) -> tuple[str, str]:
    """The two halves of "layer 1, unit 2": which layer, and which part of it."""
    layer, _, part = label.partition(", ")
    return layer, part or "whole layer"


def column(frame: pd.DataFrame | None, name: str) -> pd.Series | None:
    """A column of numbers, if there is a table and it has it; NaN where missing."""
    if frame is None or name not in frame:
        return None
    return pd.to_numeric(frame[name]).astype("float64")
