"""The layout in which a user wrote timestamps, to write results in the same."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype
from pandas.tseries.api import guess_datetime_format

_ISO = re.compile(
    r"\d{4}-\d\d(?P<day>-\d\d)?"
    r"(?:(?P<mark>[T ])\d\d:\d\d(?P<second>:\d\d)?)?(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
_LOCAL = re.compile(
    r"\d\d(?P<sign>[/.-])\d\d(?P=sign)(?P<year>\d{4}|\d\d)(?:(?P<mark>[T ])\d\d:\d\d(?P<second>:\d\d)?)?"
)
_QUARTER = re.compile(r"(?P<year>\d{4})(?P<mark>[- ]?)Q[1-4]")
_HELD_QUARTER, _HELD_COLON = "\ue000", "\ue001"  # private use: strftime may end at a null
_MOST_COMPARED = 1000  # texts, and the last one


def layout_of(values: Any, stamps: pd.DatetimeIndex) -> str | None:
    """The layout of all texts or numbers, as ``strftime`` takes it; ``None`` if there is none.

    Two directives are added: ``%q``, the quarter, and ``%:z``, the offset with a colon.

    >>> texts = pd.Series(["31.12.2024", "01.01.2025"])
    >>> layout_of(texts, pd.DatetimeIndex(["2024-12-31", "2025-01-01"]))
    '%d.%m.%Y'
    """
    series = pd.Series(np.asarray(values, dtype=object)).reset_index(drop=True)
    kind = infer_dtype(series, skipna=True)
    if kind not in ("string", "integer", "floating"):
        return None
    texts = series.astype(str) if kind == "string" else series.astype(np.int64).astype(str)
    texts = texts.str.strip()
    some = np.append(np.arange(min(len(texts), _MOST_COMPARED)), len(texts) - 1)
    for layout in _possible(texts.iloc[0]):
        if (write_layout(stamps[some], layout) == texts.to_numpy()[some]).all():
            return layout
    return None


def write_layout(stamps: pd.DatetimeIndex, layout: str) -> np.ndarray[Any, np.dtype[np.object_]]:
    """Timestamps as texts of a layout."""
    template = layout.replace("%q", _HELD_QUARTER).replace("%:z", f"{_HELD_COLON}%z")
    texts = pd.Series(stamps.strftime(template))
    if _HELD_QUARTER in template:
        quarters = np.asarray(stamps.quarter).astype(str)
        texts = pd.Series(
            [t.replace(_HELD_QUARTER, q) for t, q in zip(texts, quarters, strict=True)]
        )
    texts = texts.str.replace(_HELD_COLON + r"([+-]\d\d)(\d\d)", r"\1:\2", regex=True)
    return texts.to_numpy(dtype=object)


def _possible(first: str) -> list[str]:
    """Layouts that the first text may have."""
    if re.fullmatch(r"\d{8}", first):
        return ["%Y%m%d"]
    if found := _QUARTER.fullmatch(first):
        return [f"%Y{found['mark']}Q%q"]
    if found := _ISO.fullmatch(first):
        zone = found["zone"] or ""
        zone = "%:z" if ":" in zone else "%z" if zone not in ("", "Z") else zone
        return ["%Y-%m" + "-%d" * bool(found["day"]) + _clock(found) + zone]
    if found := _LOCAL.fullmatch(first):
        sign, year = found["sign"], "%Y" if len(found["year"]) == 4 else "%y"
        return [f"%{a}{sign}%{b}{sign}{year}{_clock(found)}" for a, b in ("dm", "md")]
    return guessed_layouts(first)


def guessed_layouts(text: str) -> list[str]:
    """Layouts of a date with the name of a month, or with slashes after the year."""
    if not re.search(r"^\d{4}/|[A-Za-z]{3}", text):
        return []
    found = guess_datetime_format(text) or "%B %Y"
    return [found, found.replace("%B", "%b"), "%B %Y", "%b %Y", "%b-%y"]  # May is %B and %b


def _clock(found: re.Match[str]) -> str:
    return f"{found['mark']}%H:%M" + ":%S" * bool(found["second"]) if found["mark"] else ""
