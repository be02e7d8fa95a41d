from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from deeplfm.inspection.spectra import Spectrum
from deeplfm.report.cautions import cautions, looks_clinical
from deeplfm.report.clock import Clock
from deeplfm.report.content import Content, Evaluation, FittedRows, Peak, peaks_of
from deeplfm.report.prediction import LEVELS, Prediction
from deeplfm.report.record_statistics import read_record
from deeplfm.selection.record import CandidateResult, Selection
from deeplfm.training import History


def case(values: np.ndarray | None = None, width: float = 1.0, **changes: object) -> Content:
    """A hundred rows of a wave, without a reason for caution; with some changes."""
    wave = np.sin(np.arange(100) * 2 * np.pi / 10) if values is None else values
    training = pd.DataFrame({"y": wave}, index=pd.Index(np.arange(100.0), name="t"))
    clock = Clock.of(training.index)
    times = pd.Index(np.arange(120.0))
    mean = np.zeros((120, 1))
    sound = Content(
        clock=clock,
        training=training,
        record=read_record(training, ["y"], clock),
        fitted=FittedRows(100, 0.0, 99.0, 25.0),
        selection=Selection(
            [
                CandidateResult("a", "fitted", mnll=[0.1], weight=[1.0], history=History()),
                CandidateResult("b", "fitted", mnll=[0.2]),
            ]
        ),
        spectra=[],
        peaks={"y": [Peak(10.0, 0.9)]},
        model_unit=1.0,
        prediction=Prediction(
            times,
            mean,
            dict.fromkeys(LEVELS, mean - width / 2),
            dict.fromkeys(LEVELS, mean + width / 2),
        ),
        horizon=119.0,
        evaluation=None,
    )
    return replace(sound, **changes)


def evaluated(pit: np.ndarray, nmse: float = 0.1) -> Evaluation:
    values = np.where(np.isnan(pit), np.nan, 0.0)[:, None]
    scores = pd.DataFrame({"nmse": [nmse]}, index=["y"])
    times = pd.Index(100.0 + np.arange(len(pit)))
    return Evaluation(times, values, pit[:, None], scores)


def only(found: list[str]) -> str:
    (text,) = found
    return text


def test_no_cautions_without_a_reason() -> None:
    assert cautions(case()) == []
    assert cautions(case(horizon=None)) == []
    assert cautions(case(evaluation=evaluated(np.linspace(0.01, 0.99, 50)))) == []


def test_a_forecast_longer_than_the_held_out_tail() -> None:
    text = only(cautions(case(fitted=FittedRows(100, 0.0, 99.0, 15.0))))
    assert "20 units of t" in text and "15 units of t" in text


def test_a_fit_without_held_out_rows() -> None:
    selection = Selection.of_one("paper", History())
    assert "No rows were held out" in only(cautions(case(selection=selection)))


def test_a_series_cut_to_its_most_recent_rows() -> None:
    text = only(cautions(case(fitted=FittedRows(60, 40.0, 99.0, 25.0))))
    assert "60 most recent of 100" in text and "from 40 on" in text


def test_candidates_that_failed_and_candidates_that_ran_out_of_time() -> None:
    history = History(stopped="time")
    selection = Selection(
        [
            CandidateResult("a", "fitted", mnll=[0.1], weight=[1.0], history=history),
            CandidateResult("deep", "failed", reason="loss became NaN"),
            CandidateResult("warped season"),
            CandidateResult("autoregression"),
        ]
    )
    failed, untried, stopped = cautions(case(selection=selection))
    assert "1 of 2 candidates" in failed and "deep: loss became NaN" in failed
    assert (
        untried
        == "The time limit left no time for these candidates: warped season, autoregression."
    )
    assert "training of a early" in stopped and "before it was refitted to all rows" in stopped


def test_a_forecast_over_many_periods() -> None:
    lines = {"y": [Peak(1.0, 0.9), Peak(1.6, 0.06), Peak(50.0, 0.01)]}
    text = only(cautions(case(peaks=lines)))
    assert "12 cycles of the longest period" in text and "1.6 units of t" in text


def test_a_period_of_which_too_little_was_seen() -> None:
    assert "1.2 cycles" in only(cautions(case(peaks={"y": [Peak(80.0, 0.9)]})))


def test_a_gap_longer_than_the_strongest_period_and_many_missing_values() -> None:
    values = np.sin(np.arange(100.0))
    values[30:70] = np.nan
    missing, gap = cautions(case(values))
    assert "40 % of the values are missing, in 1 gap." in missing
    assert "41 units of t" in gap and "4.1 times" in gap


def test_a_constant_target() -> None:
    text = only(cautions(case(np.full(100, 7.0), peaks={})))
    assert "all 100 known values are 7" in text


def test_intervals_wider_than_the_record() -> None:
    text = only(cautions(case(width=8.0)))
    assert "100 % of the forecast" in text and "4.2 times" in text


def test_coverage_off_its_level() -> None:
    narrow = np.r_[np.full(30, 0.5), np.full(20, 0.999)]
    text = only(cautions(case(evaluation=evaluated(narrow))))
    assert "contains 60 % of 50" in text and "too narrow" in text
    text = only(cautions(case(evaluation=evaluated(np.full(50, 0.5)))))
    assert "contains 100 % of 50" in text and "too wide" in text


def test_errors_larger_than_those_of_a_constant() -> None:
    honest = np.linspace(0.01, 0.99, 50)
    assert "2.5 times" in only(cautions(case(evaluation=evaluated(honest, nmse=2.5))))


def test_a_target_without_later_values() -> None:
    unknown = evaluated(np.full(5, np.nan), nmse=np.nan)
    assert "could not be scored" in only(cautions(case(evaluation=unknown)))


@pytest.mark.parametrize(
    ("names", "title", "found"),
    [
        (["abp", "load"], "x", ["abp"]),
        (["HeartRate"], "x", ["HeartRate"]),
        (["patient_3.SpO2"], "x", ["patient_3.SpO2"]),
        (["icp (mmHg)", "ECG-II"], "x", ["icp (mmHg)", "ECG-II"]),
        (["load", "shr", "response", "bpm_fan", "three"], "Power station", []),
        (["x1"], "ICU bed 7", ["ICU bed 7"]),
        (["x1"], "Clinical trial", ["Clinical trial"]),
    ],
)
def test_measurements_of_people_are_recognised_by_whole_words(
    names: list[str], title: str, found: list[str]
) -> None:
    assert looks_clinical(names, title) == found


def test_frequencies_closer_than_one_cycle_are_one_peak() -> None:
    spectrum = Spectrum(
        "y", "a", np.array([0.001, 0.099, 0.101, 0.3]), np.array([5.0, 3.0, 3.0, 1.0])
    )
    strong, weak = peaks_of(spectrum, unit=1.0, span=100.0)
    assert strong.period == pytest.approx(10)
    assert strong.share == pytest.approx(0.5)
    assert weak.period == pytest.approx(1 / 0.3)


def test_peaks_are_in_the_users_time_and_zero_power_has_none() -> None:
    spectrum = Spectrum("y", "a", np.array([2.0]), np.array([1.0]))
    assert peaks_of(spectrum, unit=3600.0, span=86400.0)[0].period == pytest.approx(1800)
    assert peaks_of(Spectrum("y", "a", np.array([2.0]), np.zeros(1)), 1.0, 10.0) == []
