"""The content of a report, gathered once from a fitted forecaster and later observations."""

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
from deeplfm.report.prediction import (
    RECORD_ROWS,
    Prediction,
    drawn_times,
    gaussian,
    joined,
    posteriors,
    predict,
)
from deeplfm.report.record_statistics import Record, read_record
from deeplfm.selection.record import Selection
from deeplfm.selection.split import hold_out
from deeplfm.training import Rows

if TYPE_CHECKING:
    from deeplfm.estimators import DeepLFMForecaster

Vector = Float64[ndarray, " n"]

_FAINT = 0.002  # share of the power below which a frequency belongs to no peak


@dataclass(frozen=True)
class Peak:
    """A peak of the spectrum: frequencies closer than one cycle over the record."""

    period: float
    share: float


@dataclass(frozen=True)
class Evaluation:
    """Predictions compared with later observations."""

    times: pd.Index
    values: Float64[ndarray, "N D"]
    pit: Float64[ndarray, "N D"]
    scores: pd.DataFrame

    def known_pit(self, target: int) -> Vector:
        """PIT of the known observations of one target."""
        column = self.pit[:, target]
        return column[~np.isnan(column)]

    def coverage(self, target: int, level: float) -> float:
        """Share of a target's observations inside the central interval of a level."""
        pit = self.known_pit(target)
        return float((np.abs(pit - 0.5) <= level / 2).mean()) if len(pit) else np.nan


@dataclass(frozen=True)
class FittedRows:
    """The rows used in the fit, in the clock's numbers."""

    n_rows: int
    first: float
    last: float
    held_out: float


@dataclass(frozen=True)
class Content:
    """Everything a report shows."""

    clock: Clock
    training: pd.DataFrame
    record: Record
    fitted: FittedRows
    selection: Selection
    spectra: list[Spectrum]
    peaks: dict[str, list[Peak]]
    model_unit: float
    prediction: Prediction
    horizon: float | None
    evaluation: Evaluation | None


def gather(
    forecaster: DeepLFMForecaster, forecast: pd.DataFrame | None, later: pd.DataFrame | None
) -> Content:
    """Gather the content of a report."""
    training = forecaster.training_
    scores = None if later is None else forecaster.evaluate(later)
    later = None if later is None else _by_time(forecaster, later)
    after = [frame.index for frame in (forecast, later) if frame is not None]
    clock = Clock.of(training.index.append(after).sort_values().rename(forecaster.timeline_.label))
    record = read_record(training, forecaster.targets_, clock, forecaster.timeline_.step.calendar)
    ends = training.index[[0, -1]]
    model_unit = float(np.ptp(clock.numbers(ends)) / np.ptp(forecaster.timeline_.numbers(ends)))
    spectra = forecaster.regressor_.spectrum()
    return Content(
        clock,
        training,
        record,
        fitted_rows(forecaster, clock),
        forecaster.regressor_.fit_result_,
        spectra,
        {item.label: peaks_of(item, model_unit, record.span) for item in spectra},
        model_unit,
        _drawn_prediction(forecaster, clock, record.step, forecast, later),
        None if forecast is None else float(clock.numbers(forecast.index).max()),
        None if later is None or scores is None else _evaluate(forecaster, later, scores),
    )


def peaks_of(spectrum: Spectrum, unit: float, span: float) -> list[Peak]:
    """Peaks of a learned spectrum with at least one cycle in the record, the strongest first."""
    cycles = spectrum.frequency * span / unit
    share = spectrum.value / max(float(spectrum.value.sum()), np.finfo(np.float64).tiny)
    is_strong = (share >= _FAINT) & (cycles >= 1)
    cycles, share = cycles[is_strong], share[is_strong]
    peaks = []
    for group in np.split(np.arange(len(cycles)), np.flatnonzero(np.diff(cycles) >= 1) + 1):
        if len(group):
            together = float(share[group].sum())
            peaks.append(Peak(span * together / float(share[group] @ cycles[group]), together))
    return sorted(peaks, key=lambda peak: -peak.share)


def fitted_rows(forecaster: DeepLFMForecaster, clock: Clock) -> FittedRows:
    """The rows used in the fit: all, or the most recent of very many."""
    numbers = clock.numbers(forecaster.training_.index)
    model_time = forecaster.timeline_.numbers(forecaster.training_.index)
    scaling = forecaster.regressor_.scaling_
    scaled = (model_time - scaling.x_shift[0]) / scaling.x_scale[0]
    # rows added by update() are beyond 1 and were not used in the fit
    used = numbers[(scaled > -1e-9) & (scaled < 1 + 1e-9)]
    rows = Rows(torch.as_tensor(used)[:, None], torch.zeros(len(used), 1))
    inner, _ = hold_out(rows, is_series=True, seed=0)
    inner_end = float(inner.everything().x.max()) if len(inner) else float(used[0])
    return FittedRows(len(used), float(used[0]), float(used[-1]), float(used[-1]) - inner_end)


def _evaluate(
    forecaster: DeepLFMForecaster, later: pd.DataFrame, scores: pd.DataFrame
) -> Evaluation:
    values = later[forecaster.targets_].to_numpy(np.float64, na_value=np.nan)
    pit = [
        posterior.cdf(torch.tensor(values[rows])).numpy()
        for rows, posterior in posteriors(forecaster, later.index, later)
    ]
    return Evaluation(later.index, values, np.concatenate(pit), scores)


def _by_time(forecaster: DeepLFMForecaster, later: pd.DataFrame) -> pd.DataFrame:
    """Later observations indexed by time, in order, without those known in training."""
    name, targets = forecaster.timeline_.name, forecaster.targets_
    times = later[name] if name in later.columns else later.index
    later = later.set_axis(forecaster.timeline_.read(times, "evaluation")).sort_index()
    later[targets] = later[targets].mask(forecaster.known_at(later.index))
    return later[later[targets].notna().any(axis=1)]


def _drawn_prediction(
    forecaster: DeepLFMForecaster,
    clock: Clock,
    step: float,
    forecast: pd.DataFrame | None,
    later: pd.DataFrame | None,
) -> Prediction:
    """The prediction wherever its inputs are known."""
    training = forecaster.training_
    if not forecaster.covariates_:
        after = [frame.index for frame in (forecast, later) if frame is not None]
        return predict(forecaster, drawn_times(training.index, after, clock, step))
    frames = [training.iloc[-RECORD_ROWS:]] + ([] if later is None else [later])
    parts = [predict(forecaster, frame.index, frame) for frame in frames]
    if forecast is not None:
        parts.append(gaussian(forecast, forecaster.targets_))
    return joined(parts, clock, step)
