"""Reasons for caution: facts of this fit that limit its forecast, each with its number."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np

from deeplfm.report.content import Content, Evaluation
from deeplfm.report.record_statistics import Target
from deeplfm.report.wording import amount, count, percent

_MOST_PERIODS_AHEAD = 10
_FEWEST_PERIODS_SEEN = 2
_STRONG = 0.05  # share of the power of a strong peak
_LEAST_COVERAGE, _MOST_COVERAGE_50 = 0.9, 0.75
_MANY_MISSING = 0.3
_WIDE = 2.0  # times the range of the middle 95 % of the record

_OF_A_PERSON = frozenset(
    "abp bp cvp dbp ecg eeg ekg emg eog etco2 glucose heart heartrate hr icp nibp patient pleth ppg "
    "pulse resp respiration sao2 sbp spo2".split()
)
_CLINICAL_TITLE = re.compile(
    r"\b(clinic\w*|patient\w*|medic\w*|hospital\w*|icu|physiolog\w*|health\w*|vital signs?|"
    r"electrocardio\w*|blood pressure|heart)\b",
    re.IGNORECASE,
)


def cautions(content: Content) -> list[str]:
    """All reasons for caution, in sentences."""
    found = [*_of_fit(content)]
    for index, target in enumerate(content.record.targets):
        found += _of_target(content, target)
        if content.horizon is not None:
            found += _of_forecast(content, content.horizon, index, target)
        if content.evaluation is not None:
            found += _of_scores(content.evaluation, index, target)
    return found


def looks_clinical(names: Iterable[str], title: str) -> list[str]:
    """Names that seem to measure a person, by whole words; else the title, if it is clinical."""
    found = [name for name in names if _words(name) & _OF_A_PERSON]
    if not found and _CLINICAL_TITLE.search(title):
        return [title]
    return found


def _words(name: str) -> set[str]:
    parts = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return set(re.findall(r"[a-z]+\d*", parts.lower()))


def _of_fit(content: Content) -> Iterator[str]:
    clock, fitted, selection = content.clock, content.fitted, content.selection
    if fitted.first > content.record.first:
        since = clock.text(clock.times(np.array([fitted.first]))[0])
        yield (
            f"The model was fitted to the {count(fitted.n_rows)} most recent of "
            f"{count(content.record.n_rows)} rows, from {since} on; earlier rows were not used."
        )
    if selection.failed:
        reasons = "; ".join(f"{name}: {why}" for name, why in selection.failed.items())
        n_all = len(selection.failed.keys() | selection.held_out_mnll.keys())
        yield f"{len(selection.failed)} of {n_all} candidates could not be fitted ({reasons})."
    if selection.interrupted:
        yield (
            "The fit was interrupted: some candidates were not tried, or were not refitted to the "
            "held-out rows."
        )
    elif selection.untried:
        yield f"The time limit left no time for these candidates: {', '.join(selection.untried)}."
    stopped = [name for name, history in selection.histories.items() if history.stopped == "time"]
    if stopped:
        yield (
            f"The time limit ended the training of {', '.join(stopped)} early, or before it was "
            "refitted to all rows; the same seed may give other numbers."
        )
    if not selection.held_out_mnll:
        yield "No rows were held out in the fit, so the model has no score; a backtest gives one."
    elif content.horizon is not None:
        ahead = content.horizon - content.record.last
        if ahead > fitted.held_out * (1 + 1e-9):
            yield (
                f"The forecast reaches {clock.length(ahead)} beyond the data, further than the "
                f"{clock.length(fitted.held_out)} on which its intervals were calibrated."
            )


def _of_target(content: Content, target: Target) -> Iterator[str]:
    clock, name = content.clock, target.name
    if target.is_constant:
        yield (
            f"{name}: all {count(target.known)} known values are {amount(target.low, 6)}; the model "
            "cannot predict a change."
        )
        return
    share = target.missing / (target.known + target.missing)
    if share >= _MANY_MISSING:
        gaps = f"{count(len(target.gaps))} gap{'s' * (len(target.gaps) != 1)}"
        yield f"{name}: {percent(share)} of the values are missing, in {gaps}."
    if not (peaks := content.peaks.get(name)):
        return
    period = peaks[0].period
    if target.longest_gap > period:
        yield (
            f"{name}: the longest gap ({clock.length(target.longest_gap)}) is "
            f"{amount(target.longest_gap / period, 2)} times the strongest period "
            f"({clock.length(period)}); the number of cycles in it is uncertain."
        )
    seen = (content.fitted.last - content.fitted.first) / period
    if seen < _FEWEST_PERIODS_SEEN:
        yield (
            f"{name}: the data hold {amount(seen, 2)} cycles of the strongest period "
            f"({clock.length(period)}), too few to show that it repeats."
        )


def _of_forecast(content: Content, horizon: float, index: int, target: Target) -> Iterator[str]:
    clock, name, prediction = content.clock, target.name, content.prediction
    ahead = horizon - content.record.last
    strong = [peak.period for peak in content.peaks.get(name, []) if peak.share >= _STRONG]
    if strong and not target.is_constant and ahead > _MOST_PERIODS_AHEAD * max(strong):
        yield (
            f"{name}: the forecast covers {ahead / max(strong):.0f} cycles of the longest period "
            f"({clock.length(max(strong))}), over which small errors of the period accumulate."
        )
    numbers = clock.numbers(prediction.times)
    is_ahead = (numbers > content.record.last) & (numbers <= horizon)
    width = (prediction.high[95] - prediction.low[95])[is_ahead, index]
    is_wide = width > _WIDE * target.middle
    if target.middle > 0 and is_wide.any():
        yield (
            f"{name}: in {percent(is_wide.mean())} of the forecast the 95 % interval is more than twice "
            f"as wide as the range of the middle 95 % of the data ({amount(target.middle)}), at most "
            f"{amount(width.max() / target.middle, 2)} times."
        )


def _of_scores(evaluation: Evaluation, index: int, target: Target) -> Iterator[str]:
    name, rows = target.name, len(evaluation.known_pit(index))
    if not rows:
        yield f"{name}: 0 of the later observations are known; it could not be scored."
        return
    wide, middle = evaluation.coverage(index, 0.95), evaluation.coverage(index, 0.5)
    if wide < _LEAST_COVERAGE:
        yield (
            f"{name}: the 95 % interval contains {percent(wide)} of {count(rows)} later observations; "
            "the intervals are too narrow."
        )
    elif middle > _MOST_COVERAGE_50 and not target.is_constant:
        yield (
            f"{name}: the 50 % interval contains {percent(middle)} of {count(rows)} later "
            "observations; the intervals are too wide."
        )
    error = float(evaluation.scores["nmse"].iloc[index])
    if error > 1:
        yield (
            f"{name}: the squared error is {amount(error, 3)} times that of the mean of the later "
            "observations."
        )
