"""What a fitted forecaster and later observations have to say, gathered once for the whole page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64
from numpy import ndarray

from deeplfm.inspection.spectra import Spectrum
from deeplfm.report.clock import Clock
from deeplfm.report.facts import RecordFacts, read_record
from deeplfm.report.prediction import (
    RECORD_ROWS,
    Prediction,
    drawn_times,
    given,
    joined,
    posteriors,
    predict,
)
from deeplfm.selection.select import Selection
from deeplfm.selection.split import hold_out
from deeplfm.training import Rows

if TYPE_CHECKING:
    from deeplfm.estimators import DeepLFMForecaster

Vector = Float64[ndarray, " n"]

_FAINT = 0.002  # share of the power below which a wave belongs to no line


@dataclass(frozen=True)
class Line:
    """Neighbouring waves that a record of this length cannot tell apart.

    Attributes:
        period: in the clock's numbers.
        share: of the power of all waves.
    """

    period: float
    share: float


@dataclass(frozen=True)
class Score:
    """Forecasts beside what came true.

    Attributes:
        times: of the observations.
        values: observations; NaN where missing.
        position: predictive distribution function at each observation, NaN where missing.
        scores: of each target.
    """

    times: pd.Index
    values: Float64[ndarray, "N D"]
    position: Float64[ndarray, "N D"]
    scores: pd.DataFrame

    def positions(self, target: int) -> Vector:
        """Known positions of one target."""
        column = self.position[:, target]
        return column[~np.isnan(column)]

    def coverage(self, target: int, level: float) -> float:
        """Share of a target's observations inside the central interval of a level."""
        positions = self.positions(target)
        return float((np.abs(positions - 0.5) <= level / 2).mean()) if len(positions) else np.nan


@dataclass(frozen=True)
class Used:
    """The rows of the record that shaped the fit, in the clock's numbers.

    Attributes:
        n_rows: how many.
        first: time of the first of them.
        last: time of the last.
        tail: time from the end of the rows fitted first to the end: on these the starts were judged.
    """

    n_rows: int
    first: float
    last: float
    tail: float


@dataclass(frozen=True)
class Case:
    """All that a page is made of.

    Attributes:
        clock: of the record.
        training: the record itself.
        record: its facts.
        used: rows that shaped the fit.
        report: what the race found.
        spectra: learned, one for each target that has waves of time.
        lines: of those spectra, by target.
        model_unit: one unit of the model's time, in the clock's numbers.
        prediction: at the times that are drawn.
        horizon: last time of the forecast, in the clock's numbers; ``None`` without one.
        judgement: what later observations say; ``None`` without any.
    """

    clock: Clock
    training: pd.DataFrame
    record: RecordFacts
    used: Used
    report: Selection
    spectra: list[Spectrum]
    lines: dict[str, list[Line]]
    model_unit: float
    prediction: Prediction
    horizon: float | None
    judgement: Score | None


def gather(
    forecaster: DeepLFMForecaster, forecast: pd.DataFrame | None, later: pd.DataFrame | None
) -> Case:
    """Ask the forecaster everything that the page shows."""
    training = forecaster.training_
    scores = None if later is None else forecaster.evaluate(later)
    later = None if later is None else _indexed(forecaster, later)
    after = [frame.index for frame in (forecast, later) if frame is not None]
    everything = training.index.append(after)
    clock = Clock.of(everything.sort_values().rename(training.index.name))
    record = read_record(training, forecaster.targets_, clock, forecaster.timeline_.step.calendar)
    ends = training.index[[0, -1]]
    model_unit = float(np.ptp(clock.numbers(ends)) / np.ptp(forecaster.timeline_.numbers(ends)))
    spectra = forecaster.regressor_.spectrum()
    return Case(
        clock,
        training,
        record,
        used_rows(forecaster, clock),
        forecaster.regressor_.fit_result_,
        spectra,
        {item.label: lines_of(item, model_unit, record.span) for item in spectra},
        model_unit,
        _shown(forecaster, clock, record.step, forecast, later),
        None if forecast is None else float(clock.numbers(forecast.index).max()),
        None if later is None or scores is None else judge(forecaster, later, scores),
    )


def judge(forecaster: DeepLFMForecaster, later: pd.DataFrame, scores: pd.DataFrame) -> Score:
    """Where later observations, indexed by their times, lie within what the model said of them."""
    values = later[forecaster.targets_].to_numpy(np.float64, na_value=np.nan)
    positions = [
        posterior.cdf(torch.tensor(values[rows])).numpy()
        for rows, posterior in posteriors(forecaster, later.index, later)
    ]
    return Score(later.index, values, np.concatenate(positions), scores)


def lines_of(spectrum: Spectrum, unit: float, span: float) -> list[Line]:
    """Lines of a learned spectrum, the strongest first; what the record holds no cycle of is none.

    Args:
        spectrum: power of each wave.
        unit: one unit of the model's time, in the clock's numbers.
        span: length of the record, in the clock's numbers.
    """
    cycles = spectrum.frequency * span / unit
    share = spectrum.value / max(float(spectrum.value.sum()), np.finfo(np.float64).tiny)
    is_strong = (share >= _FAINT) & (cycles >= 1)
    cycles, share = cycles[is_strong], share[is_strong]
    lines = []
    for group in np.split(np.arange(len(cycles)), np.flatnonzero(np.diff(cycles) >= 1) + 1):
        if len(group):
            together = float(share[group].sum())
            lines.append(Line(span * together / float(share[group] @ cycles[group]), together))
    return sorted(lines, key=lambda line: -line.share)


def used_rows(forecaster: DeepLFMForecaster, clock: Clock) -> Used:
    """Which rows the fit has seen: the most recent of very many."""
    numbers = clock.numbers(forecaster.training_.index)
    model_time = forecaster.timeline_.numbers(forecaster.training_.index)
    scaling = forecaster.regressor_.scaling_
    since = (model_time - scaling.x_shift[0]) / scaling.x_scale[0]
    # rows that came by update() lie beyond 1: they did not shape the fit
    used = numbers[(since > -1e-9) & (since < 1 + 1e-9)]
    rows = Rows(torch.as_tensor(used)[:, None], torch.zeros(len(used), 1))
    fitted, _ = hold_out(rows, is_series=True, seed=0)
    fitted_until = float(fitted.everything().x.max()) if len(fitted) else float(used[0])
    return Used(len(used), float(used[0]), float(used[-1]), float(used[-1]) - fitted_until)


def _indexed(forecaster: DeepLFMForecaster, later: pd.DataFrame) -> pd.DataFrame:
    """Later observations by their times, in order, without those that the model has seen."""
    name, targets = forecaster.timeline_.name, forecaster.targets_
    times = later[name] if name in later.columns else later.index
    later = later.set_axis(forecaster.timeline_.read(times, "evaluation")).sort_index()
    later[targets] = later[targets].mask(forecaster.known_at(later.index))
    return later[later[targets].notna().any(axis=1)]


def _shown(
    forecaster: DeepLFMForecaster,
    clock: Clock,
    step: float,
    forecast: pd.DataFrame | None,
    later: pd.DataFrame | None,
) -> Prediction:
    """What the charts show of the model: wherever its inputs are known."""
    training = forecaster.training_
    if not forecaster.covariates_:
        after = [frame.index for frame in (forecast, later) if frame is not None]
        return predict(forecaster, drawn_times(training.index, after, clock, step))
    frames = [training.iloc[-RECORD_ROWS:]] + ([] if later is None else [later])
    parts = [predict(forecaster, frame.index, frame) for frame in frames]
    if forecast is not None:
        parts.append(given(forecast, forecaster.targets_))
    return joined(parts, clock, step)
