"""Numbers and names as text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

_MOST_NAMES = 4


def digits_for(values: Float64[ndarray, " n"], finest: float | None = None) -> int:
    """Significant digits that distinguish values a thousandth of their range apart."""
    known = values[np.isfinite(values)]
    if not len(known):
        return 4
    finest = finest or float(np.ptp(known)) / 1000
    largest = float(np.abs(known).max())
    if finest <= 0 or largest <= finest:
        return 4
    return int(np.clip(math.ceil(math.log10(largest / finest)), 4, 15))


def amount(value: float, digits: int = 4) -> str:
    """A number with few significant digits; a dash if it is not finite.

    >>> amount(15302.4, 3), amount(0.00012345, 3), amount(-2.0)
    ('15\u202f300', '0.000123', '−2')
    """
    if not math.isfinite(value):
        return "–"
    text = f"{value:.{digits}g}"
    if 1e-5 <= abs(value) < 1e9:
        whole, point, rest = format(Decimal(text), "f").partition(".")
        whole = f"{int(whole):,}".replace(",", "\u202f") if abs(value) >= 1e4 else whole
        text = f"{whole}{point}{rest}"
    return text.replace("-", "−")


def count(value: int) -> str:
    """A whole number with separated thousands."""
    return f"{value:,}".replace(",", "\u202f")


def aligned(values: Float64[ndarray, " n"]) -> list[str]:
    """Numbers of one column with equal decimals, which show a thousandth of their range."""
    known = values[np.isfinite(values)]
    spread = float(np.ptp(known)) if len(known) else 0.0
    decimals = max(0, math.ceil(-math.log10(spread / 1000))) if spread > 0 else 0
    if spread == 0 or np.abs(known).max() >= 1e9 or decimals > 8:
        return [amount(value, digits_for(values)) for value in values.tolist()]
    return [
        f"{value:.{decimals}f}".replace("-", "−") if math.isfinite(value) else "–"
        for value in values.tolist()
    ]


def percent(share: float) -> str:
    """A share of one as a percentage."""
    return f"{100 * share:.0f} %" if math.isfinite(share) else "–"


def listed(names: Sequence[str]) -> str:
    """Names as in a sentence; of many, the first and the number of the others."""
    if len(names) > _MOST_NAMES:
        names = [*names[: _MOST_NAMES - 1], f"{len(names) - _MOST_NAMES + 1} more"]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
