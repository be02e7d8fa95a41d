"""What to distrust: each caution is a fact of this fit, with its number; none where none applies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np

from deeplfm.report.evidence import Case, Score
from deeplfm.report.facts import TargetFacts
from deeplfm.report.wording import amount, count, percent

_MOST_PERIODS_AHEAD = 10
_FEWEST_PERIODS_SEEN = 2
_STRONG = 0.05  # share of the power from which a line counts
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


def cautions(case: Case) -> list[str]:
    """Everything about this fit that a reader should doubt, in whole sentences."""
    found = [*_of_the_fit(case)]
    for index, target in enumerate(case.record.targets):
        found += _of_the_target(case, target)
        if case.horizon is not None:
            found += _of_the_forecast(case, case.horizon - case.record.last, index, target)
        if case.judgement is not None:
            found += _of_the_scores(case.judgement, index, target)
    return found


def looks_clinical(names: Iterable[str], title: str) -> list[str]:
    """Names that seem to measure a person, by whole words; the title where only that says so."""
    found = [name for name in names if _words(name) & _OF_A_PERSON]
    if not found and _CLINICAL_TITLE.search(title):
        return [title]
    return found


def _words(name: str) -> set[str]:
    parts = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return set(re.findall(r"[a-z]+\d*", parts.lower()))


def _of_the_fit(case: Case) -> Iterator[str]:
    clock, used, report = case.clock, case.used, case.report
    if used.first > case.record.first:
        since = clock.text(clock.times(np.array([used.first]))[0])
        yield (
            f"The model saw only the {count(used.n_rows)} most recent of {count(case.record.n_rows)} "
            f"rows, from {since} on: what happened before did not shape it."
        )
    if report.failed:
        reasons = "; ".join(f"{name}: {why}" for name, why in report.failed.items())
        n_all = len(report.failed.keys() | report.held_out_mnll.keys())
        yield f"{len(report.failed)} of {n_all} starts could not be fitted ({reasons})."
    if report.interrupted:
        yield (
            "The fit was interrupted. What was found by then is kept: not every start was tried, or some "
            "were trained without the held-out rows."
        )
    elif report.untried:
        yield f"There was no time to try these starts: {', '.join(report.untried)}."
    stopped = [name for name, history in report.histories.items() if history.stopped == "time"]
    if stopped:
        yield (
            f"The time limit ended the training of {', '.join(stopped)} early, or before it had heard "
            "all rows; the same seed need not give the same numbers again."
        )
    if not report.held_out_mnll:
        yield "No rows were held out inside the fit: 0 observations have calibrated the intervals."
    elif case.horizon is not None and case.horizon - case.record.last > used.tail * (1 + 1e-9):
        yield (
            f"The forecast reaches {clock.length(case.horizon - case.record.last)} beyond the record, "
            f"further than the {clock.length(used.tail)} on which its intervals were calibrated."
        )


def _of_the_target(case: Case, target: TargetFacts) -> Iterator[str]:
    clock, name = case.clock, target.name
    if target.is_constant:
        yield (
            f"{name}: all {count(target.known)} known values are {amount(target.low, 6)}; nothing can "
            "be learned about when that would change."
        )
        return
    share = target.missing / (target.known + target.missing)
    if share >= _MANY_MISSING:
        gaps = f"{count(len(target.gaps))} gap{'s' * (len(target.gaps) != 1)}"
        yield f"{name}: {percent(share)} of its values are missing, in {gaps}."
    if not (lines := case.lines.get(name)):
        return
    period = lines[0].period
    if target.longest_gap > period:
        yield (
            f"{name}: its longest gap ({clock.length(target.longest_gap)}) is "
            f"{amount(target.longest_gap / period, 2)} times its strongest period "
            f"({clock.length(period)}); cycles may have been lost in it."
        )
    if (seen := (case.used.last - case.used.first) / period) < _FEWEST_PERIODS_SEEN:
        yield (
            f"{name}: the record holds {amount(seen, 2)} cycles of its strongest period "
            f"({clock.length(period)}): whether it repeats is not known."
        )


def _of_the_forecast(case: Case, ahead: float, index: int, target: TargetFacts) -> Iterator[str]:
    clock, name = case.clock, target.name
    strong = [line.period for line in case.lines.get(name, []) if line.share >= _STRONG]
    if strong and not target.is_constant and ahead > _MOST_PERIODS_AHEAD * max(strong):
        yield (
            f"{name}: the forecast runs over {ahead / max(strong):.0f} of the longest period found "
            f"({clock.length(max(strong))}); small errors of a period add up over so many."
        )
    numbers = clock.numbers(case.prediction.times)
    is_ahead = (numbers > case.record.last) & (numbers <= case.horizon)
    width = (case.prediction.high[95] - case.prediction.low[95])[is_ahead, index]
    is_wide = width > _WIDE * target.middle
    if target.middle > 0 and is_wide.any():
        yield (
            f"{name}: in {percent(is_wide.mean())} of the forecast the 95 % interval is more than twice "
            f"as wide as the range of the middle 95 % of the record ({amount(target.middle)}), at most "
            f"{amount(width.max() / target.middle, 2)} times: there the forecast says little."
        )


def _of_the_scores(judgement: Score, index: int, target: TargetFacts) -> Iterator[str]:
    name, rows = target.name, len(judgement.positions(index))
    if not rows:
        yield f"{name}: 0 of the later observations are known; it could not be scored."
        return
    wide, middle = judgement.coverage(index, 0.95), judgement.coverage(index, 0.5)
    if wide < _LEAST_COVERAGE:
        yield (
            f"{name}: the 95 % interval held {percent(wide)} of {count(rows)} later observations; the "
            "intervals are too narrow."
        )
    elif middle > _MOST_COVERAGE_50 and not target.is_constant:
        yield (
            f"{name}: the 50 % interval held {percent(middle)} of {count(rows)} later observations; the "
            "intervals are wider than they need to be."
        )
    error = float(judgement.scores["nmse"].iloc[index])
    if error > 1:
        yield (
            f"{name}: the squared error is {amount(error, 3)} times that of the mean of the later "
            "observations: a constant would have been nearer."
        )
