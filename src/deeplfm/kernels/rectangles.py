"""Samples and rows in even parts."""

from __future__ import annotations

import itertools
import math

Lines = tuple[slice, slice]  # samples, and rows of each


def rectangles(lines: Lines, most: int, multiple: int = 1) -> list[Lines]:
    """Even parts of at most so many lines: whole rows of some samples, or some rows of one."""
    (samples, rows), (_, n_rows) = lines, shape_of(lines)
    row_parts = _parts(rows, most, 1 if n_rows <= most else multiple)
    sample_parts = _parts(
        samples, max(1, most // max(1, n_rows)), multiple if n_rows <= most else 1
    )
    return [(some, part) for some in sample_parts for part in row_parts]


def shape_of(lines: Lines) -> tuple[int, int]:
    """How many samples, and rows of each."""
    samples, rows = lines
    return samples.stop - samples.start, rows.stop - rows.start


def _parts(whole: slice, most: int, multiple: int) -> list[slice]:
    """Parts that differ by one at most; their number is a multiple, if there is enough to share."""
    size = whole.stop - whole.start
    n_parts = max(1, min(size, multiple * math.ceil(math.ceil(size / most) / multiple)))
    edges = [whole.start + size * part // n_parts for part in range(n_parts + 1)]
    return [slice(*pair) for pair in itertools.pairwise(edges)]
