"""Charts as plain data, which ``chart.js`` draws; their colours are variables of the style sheet."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64
from numpy import ndarray

from deeplfm.report.clock import Clock
from deeplfm.report.prediction import LEVELS, Prediction
from deeplfm.report.record_statistics import Record
from deeplfm.report.wording import digits_for

Vector = Float64[ndarray, " n"]
Points = tuple[pd.Index, Vector]
Chart = dict[str, Any]

MOST_POINTS = 20_000  # observations of one kind in one chart
_MOST_MARKERS = 1500  # more are drawn as a line, which a browser draws faster
_MOST_GAPS = 200
_LEAST_POWER = 0.1  # per cent of the power of a frequency that is drawn
_FEW = 50  # numbers that are written as they are
_COARSE = 65534  # steps between the least and the largest of many numbers; one more marks NaN


@dataclass(frozen=True)
class Window:
    """Initial and full range of the charts over time, in the clock's numbers."""

    clock: Clock
    first: tuple[float, float]
    whole: tuple[float, float]

    def range(self, ends: tuple[float, float]) -> list[float]:
        """A range of the axis."""
        return self.clock.drawn(self.clock.times(np.array(ends))).tolist()


def forecast_chart(
    window: Window,
    record: Record,
    target: int,
    prediction: Prediction,
    observed: Points,
    held_out: Points | None,
) -> Chart:
    """Mean, intervals and observations of one target, its gaps and the end of training."""
    clock, facts = window.clock, record.targets[target]
    mean, x = prediction.mean[:, target], clock.drawn(prediction.times)
    layers = [
        _band(
            x,
            prediction.low[level][:, target],
            prediction.high[level][:, target],
            f"--band-{level}",
            f"{level} %",
        )
        for level in reversed(LEVELS)
    ]
    layers.append(_points(clock, observed, "observed", "circle", 4.5, facts.pause))
    if held_out is not None:
        layers.append(_points(clock, held_out, "held out", "square", 5, facts.pause))
    layers.append(_line(x, mean, "--mean", "prediction"))
    longest = sorted(facts.gaps, key=lambda gap: gap[0] - gap[1])[:_MOST_GAPS]
    shapes = [{"x": window.range(gap), "fill": "--gap"} for gap in longest]
    if window.whole[1] > record.last:
        ahead = window.range((record.last, window.whole[1]))
        shapes.append({"x": ahead, "fill": "--future"})
    shapes.append(_end_of_training(window, record.last))
    return _over_time(window, layers, shapes, digits_for(np.r_[observed[1], mean]))


def curve_chart(
    window: Window, times: pd.Index, mean: Vector, low: Vector, high: Vector, end: float
) -> Chart:
    """A curve over time with its band; ``end`` is the end of training."""
    x = window.clock.drawn(times)
    layers = [_band(x, low, high, "--force-band", "95 %"), _line(x, mean, "--force", "mean")]
    chart = _over_time(window, layers, [_end_of_training(window, end)], digits_for(mean))
    return chart | {"y": chart["y"] | {"hasWholeBands": True}}


def pit_chart(pit: Vector) -> Chart:
    """Histogram of the predictive distribution function at the observations."""
    n_bins = 20 if len(pit) >= 400 else 10
    counts, edges = np.histogram(pit, bins=n_bins, range=(0, 1))
    chance = 1.96 * np.sqrt((n_bins - 1) / len(pit))
    bars = {
        "kind": "bars",
        "x": ((edges[:-1] + edges[1:]) / 2).tolist(),
        "y": (counts * n_bins / len(pit)).tolist(),
        "size": 0.92 / n_bins,
        "colour": "--mean",
        "name": "PIT",
        "labels": [
            f"{low:.2f} to {high:.2f}: {n} observations"
            for low, high, n in zip(edges[:-1], edges[1:], counts, strict=True)
        ],
    }
    shapes = [
        {"x": [0, 1], "y": [max(0.0, 1 - chance), 1 + chance], "fill": "--chance"},
        {"x": [0, 1], "y": [1, 1], "stroke": "--quiet"},
    ]
    y = {"title": "density", "kind": "number", "isFromZero": True}
    return _chart({"title": "PIT", "kind": "number", "range": [0, 1]}, y, [bars], shapes)


def coverage_chart(pit: Vector) -> Chart:
    """Share of the observations inside the central interval of every level."""
    levels = np.linspace(0, 1, 101)
    inside = (2 * np.abs(pit - 0.5)[:, None] <= levels).mean(0)
    curve = _line(levels, inside, "--mean", "coverage", width=2.0) | {
        "labels": [
            f"{100 * share:.0f} % inside the {100 * level:.0f} % interval"
            for level, share in zip(levels, inside, strict=True)
        ]
    }
    diagonal = {"x": [0, 1], "y": [0, 1], "stroke": "--quiet"}
    x = {"title": "level of the interval", "kind": "share", "range": [0, 1]}
    y = {"title": "observations inside", "kind": "share", "range": [0, 1.01]}
    return _chart(x, y, [curve], [diagonal])


def spectrum_chart(frequency: Vector, power: Vector, unit: str, periods: Sequence[str]) -> Chart:
    """Share of the power at every frequency, one stem each.

    Args:
        frequency: in cycles per unit.
        power: share of the total, in per cent.
        unit: of time.
        periods: with their units, for the labels.
    """
    is_seen = power >= _LEAST_POWER
    order = np.argsort(frequency[is_seen], kind="stable")
    frequency, power = frequency[is_seen][order], power[is_seen][order]
    words = [period for period, shown in zip(periods, is_seen, strict=True) if shown]
    stems = {
        "kind": "stems",
        "isStem": True,
        "x": _numbers(frequency),
        "y": _numbers(power),
        "colour": "--mean",
        "size": 1.5,
        "name": "power",
        "labels": [
            f"{power[i]:.2g} % of the power\nperiod {words[j]}" for i, j in enumerate(order)
        ],
    }
    end = 1.1 * float(frequency.max()) if (frequency > 0).any() else 1.0
    x = {"title": f"cycles per {unit}", "kind": "number", "range": [0.0, end]}
    y = {"title": "share of the power, %", "kind": "number", "isFromZero": True}
    return _chart(x, y, [stems], [])


def thin(points: Points, most: int = MOST_POINTS) -> Points:
    """The lowest and highest point of each of many segments, which look the same when drawn."""
    times, values = points
    known = np.flatnonzero(~np.isnan(values))
    if len(known) <= most:
        return times[known], values[known]
    kept = [
        part[[values[part].argmin(), values[part].argmax()]]
        for part in np.array_split(known, most // 2)
    ]
    chosen = np.unique(np.concatenate(kept))
    return times[chosen], values[chosen]


def _over_time(window: Window, layers: list[Any], shapes: list[Any], digits: int) -> Chart:
    clock = window.clock
    x = {
        "title": clock.title,
        "kind": "time" if clock.kind == "timestamp" else "number",
        "level": clock.resolution if clock.resolution in ("day", "minute") else "second",
        "digits": clock.digits,
        "range": window.range(window.first),
        "canZoom": True,
    }
    if clock.resolution == "hour":
        x["level"] = "minute"
    return _chart(x, {"title": "", "kind": "number", "digits": digits}, layers, shapes)


def _chart(x: Chart, y: Chart, layers: list[Any], shapes: list[Any]) -> Chart:
    has_labels = any("labels" in layer for layer in layers)
    return {"x": x, "y": y, "layers": layers, "shapes": shapes, "hasLabels": has_labels}


def _band(x: Vector, low: Vector, high: Vector, colour: str, name: str) -> Chart:
    ends = {"x": _times(x), "low": _numbers(low), "high": _numbers(high)}
    return {"kind": "band", **ends, "colour": colour, "name": name}


def _line(x: Vector, y: Vector, colour: str, name: str, width: float = 1.8) -> Chart:
    place = {"x": _times(x), "y": _numbers(y)}
    return {"kind": "line", **place, "colour": colour, "name": name, "width": width}


def _points(
    clock: Clock, points: Points, name: str, symbol: str, size: float, pause: float
) -> Chart:
    times, values = thin(points)
    is_line = len(values) > _MOST_MARKERS
    if is_line:  # broken at gaps; thinning leaves out a few rows at most
        numbers = clock.numbers(times)
        steps = np.diff(numbers)
        breaks = np.flatnonzero(steps > max(pause, 4 * float(np.median(steps)))) + 1
        times = clock.times(np.insert(numbers, breaks, numbers[breaks]))
        values = np.insert(values, breaks, np.nan)
    place = {"x": _times(clock.drawn(times)), "y": _numbers(values)}
    look = {"kind": "line", "width": 1} if is_line else {"kind": "points", "size": size}
    colour = f"--{name.replace(' ', '-')}"
    return {**place, **look, "symbol": symbol, "colour": colour, "opacity": 0.8, "name": name}


def _end_of_training(window: Window, end: float) -> Chart:
    return {"x": window.range((end, end)), "stroke": "--quiet"}


def _times(values: Vector) -> Any:
    """Positions on an axis: an even grid, or all their bits."""
    if len(values) <= _FEW:
        return values.tolist()
    step = (values[-1] - values[0]) / (len(values) - 1)
    grid = values[0] + step * np.arange(len(values))
    if step > 0 and np.abs(grid - values).max() < 1e-3 * step:
        return {"start": float(values[0]), "step": float(step), "n": len(values)}
    return {"exact": base64.b64encode(values.astype("<f8").tobytes()).decode()}


def _numbers(values: Vector) -> Any:
    """Values, if they are many in 16 bits, which no screen can distinguish; ``None`` is NaN."""
    known = values[np.isfinite(values)]
    if len(values) <= _FEW or not len(known):
        return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values.tolist()]
    low, high = float(known.min()), float(known.max())
    steps = np.full(len(values), _COARSE + 1)
    share = (values - low) / ((high - low) or 1.0)
    steps[np.isfinite(values)] = np.rint(_COARSE * share[np.isfinite(values)])
    coarse = base64.b64encode(steps.astype("<u2").tobytes()).decode()
    return {"coarse": coarse, "min": low, "max": high}
