"""Work on a few series of a panel in one process: fits, and methods of fitted forecasters."""

from __future__ import annotations

import math
import random
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pandas as pd
from torch import Tensor

from deeplfm.errors import DeepLFMError, InputError
from deeplfm.estimators.panel_columns import PanelColumns
from deeplfm.estimators.pooling import SharedPrior, evidence_of_part, pooled_prior
from deeplfm.estimators.seasonal_naive import SeasonalNaive
from deeplfm.io.archive import reading, tensors_under
from deeplfm.io.parts import content_of, pack, parts_in, unpack, write_parts
from deeplfm.selection.backends import LostWorkerError, as_finished
from deeplfm.training.checkpoint import going_on, restoring
from deeplfm.training.interruption import stop_reason, stop_requested
from deeplfm.training.progress import no_bars, progress_bar

if TYPE_CHECKING:
    from deeplfm.estimators.forecaster import DeepLFMForecaster

_MOST_POOLED = 200  # series that the shared prior is learned from
_PRIOR_PART = 999_999  # number of the file of a checkpoint that holds the prior
_BELONGS = "belongs_to"
LOST = "its worker ended each time, most likely for lack of memory"
FITTED, FAILED, LEFT_OUT = "fitted", "failed", "left out"
_ENDED = {"interrupt": "the fit was interrupted", "time": "the time limit was reached"}


class Row(NamedTuple):
    """Outcome of one series.

    Attributes:
        series: its name.
        rows: of its frame.
        status: fitted, failed or left out.
        reason: why it failed, or what the fit warned of.
        seconds: of the fit, CPU time.
    """

    series: Any
    rows: int
    status: str
    reason: str
    seconds: float


class FitPart(NamedTuple):
    """Some series to be fitted."""

    kind: type[DeepLFMForecaster]
    parameters: dict[str, Any]
    columns: PanelColumns
    options: dict[str, Any]
    frames: list[tuple[Any, pd.DataFrame]]
    belongs_to: str  # the run and the number of the part, by which a checkpoint knows it again
    priors: Mapping[Any, Any] | None = None  # of each series, if they have their own

    def one(self, name: Any, frame: pd.DataFrame) -> DeepLFMForecaster:
        """A forecaster of one series."""
        roles = self.columns
        own = {} if self.priors is None else {"prior": self.priors[name]}
        return self.kind(**self.parameters | own).fit(
            frame, roles.time, roles.targets, roles.covariates or None, **self.options
        )


class FittedPart(NamedTuple):
    """Fitted series as bytes, and the outcome of each."""

    content: bytes
    table: list[Row]
    was_cut: bool = False


def fit_part(work: FitPart) -> FittedPart:
    """Fit each series; one that cannot be fitted is kept as its rows, as far as they can be read."""
    described: list[dict[str, Any]] = []
    tensors: dict[str, Tensor] = {}
    table = []
    for number, (name, frame) in enumerate(work.frames):
        content, parts, row = _fitted(work, name, frame)
        described.append(content)
        tensors |= {f"{number}.{key}": value for key, value in parts.items()}
        table.append(row)
    content = {"series": described, "table": [row._asdict() for row in table]}
    content[_BELONGS] = work.belongs_to
    return FittedPart(pack(content, tensors), table, any(row.status == LEFT_OUT for row in table))


def _fitted(
    work: FitPart, name: Any, frame: pd.DataFrame
) -> tuple[dict[str, Any], dict[str, Tensor], Row]:
    if reason := stop_reason():
        return {"kind": None}, {}, Row(name, len(frame), LEFT_OUT, _ENDED[reason], 0.0)
    began = time.process_time()
    error: Exception
    with no_bars(), warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        try:
            description, tensors = work.one(name, frame)._described()
            note = " ".join(str(notes[0].message).split())[:300] if notes else ""
            row = Row(name, len(frame), FITTED, note, time.process_time() - began)
            return {"kind": "forecaster", **description}, tensors, row
        except Exception as found:  # a bad series never stops the others
            error = found
        why = reason_of(error)
        why += " Rows are counted in the series." if " row" in why else ""
        row = Row(name, len(frame), FAILED, why, time.process_time() - began)
        try:
            naive = SeasonalNaive.of(frame, work.columns.time, work.columns.targets)
            description, tensors = naive.described()
            return {"kind": "rows", **description}, tensors, row
        except Exception:
            return {"kind": None}, {}, row


class CallPart(NamedTuple):
    """A method of some series of a part.

    Attributes:
        kind: of the forecasters.
        part: its content, or the file that has it.
        method: name of the method.
        calls: number of each series in the part, its name, and the arguments of the method.
        fallback: forecast series without a model by their last season.
        columns: roles of the columns of the panel.
    """

    kind: type[DeepLFMForecaster]
    part: bytes | Path
    method: str
    calls: list[tuple[int, Any, dict[str, Any]]]
    fallback: bool
    columns: PanelColumns


class Called(NamedTuple):
    """Tables of the series of a part by their numbers, reasons of those that have none, new content."""

    tables: dict[int, pd.DataFrame]
    reasons: dict[int, str]
    content: bytes | None


def call_part(work: CallPart) -> Called:
    """Call a method of each series; a table of one becomes long, and an updated one is kept."""
    described, tensors = unpack(content_of(work.part))
    tables: dict[int, pd.DataFrame] = {}
    reasons: dict[int, str] = {}
    is_changed = False
    for number, name, arguments in work.calls:
        parts = tensors_under(f"{number}.", tensors)
        try:
            own, reason = described_in(described, number, work.kind)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if own["kind"] == "rows" and work.fallback:
                    naive = SeasonalNaive.restored(own, parts)
                    found = naive.forecast(**arguments)
                    tables[number] = _long(found, work.columns, naive.timeline.name, name)
                    continue
                model = restored(work.kind, own, parts, reason)
                found = getattr(model, work.method)(**arguments)
            if found is model:
                content, parts = model._described()
                described["series"][number] = {"kind": "forecaster", **content}
                kept = {k: v for k, v in tensors.items() if not k.startswith(f"{number}.")}
                tensors = kept | {f"{number}.{key}": value for key, value in parts.items()}
                is_changed = True
            else:
                tables[number] = _long(found, work.columns, model.timeline_.name, name)
        except Exception as error:  # a bad series never stops the others
            reasons[number] = reason_of(error)
    return Called(tables, reasons, pack(described, tensors) if is_changed else None)


def described_in(
    described: dict[str, Any], number: int, kind: type[DeepLFMForecaster]
) -> tuple[dict[str, Any], str]:
    """The forecaster or the rows of one series of a part, and the reason of its outcome."""
    with reading("a part of the panel", kind):
        own, reason = described["series"][number], described["table"][number]["reason"]
        if own["kind"] not in ("forecaster", "rows", None):
            raise ValueError(f"its kind is {own['kind']!r}")
        return own, str(reason)


def restored(
    kind: type[DeepLFMForecaster], own: dict[str, Any], tensors: dict[str, Tensor], reason: str
) -> DeepLFMForecaster:
    """The forecaster of a series."""
    if own["kind"] != "forecaster":
        raise InputError(f"it was not fitted: {reason}")
    with reading("a part of the panel", kind):
        return kind._restored(own, tensors, "a part of the panel")


def reason_of(error: Exception) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, DeepLFMError) else f"{type(error).__name__}: {text}"


def _long(table: pd.DataFrame, columns: PanelColumns, time_name: Any, name: Any) -> pd.DataFrame:
    """A table of one series with its name and its index as columns."""
    if table.columns.nlevels > 1:  # target, component, value
        index = table.index.name
        table = table.stack(["target", "component"], future_stack=True)
        table = table.reset_index(["target", "component"])
        table = table.rename_axis(index=index, columns=None)
    if not isinstance(table.index, pd.RangeIndex):
        own = table.index.name or time_name or "ds"
        table = table.rename_axis(own).reset_index()
    if columns.series in table.columns:
        table = table.drop(columns=columns.series)
    table.insert(0, columns.series, name)
    return table


@dataclass
class Run:
    """Parts that are worked on, and kept in a folder."""

    place: Path | None
    n_jobs: int
    progress: bool | None

    def fits(self, tasks: list[FitPart]) -> tuple[list[bytes | Path], list[tuple[Any, ...]]]:
        """Content of all parts, and rows of the table: those that the folder has, and the others."""
        parts: dict[int, bytes | Path] = {}
        tables: dict[int, list[Row]] = {}
        for number, task in enumerate(tasks):
            if (kept := self._kept(number, task.belongs_to)) is not None:
                parts[number], described = kept
                with restoring(cast(Path, self.place)):
                    tables[number] = [Row(**row) for row in described["table"]]
        for number, done in self._each("series", fit_part, tasks, parts):
            parts[number], tables[number] = done.content, done.table
            if not done.was_cut:
                parts[number] = self._keep(number, done.content)
        rows = [
            (part, number, *row)
            for part in range(len(tasks))
            for number, row in enumerate(tables[part])
        ]
        return [parts[number] for number in range(len(tasks))], rows

    def prior(
        self,
        work: FitPart,
        frames: list[tuple[Any, pd.DataFrame]],
        size: int,
        static: pd.DataFrame | None,
    ) -> SharedPrior:
        """The prior that a sample of the series shares."""
        if (kept := self._kept(_PRIOR_PART, work.belongs_to)) is not None:
            with restoring(cast(Path, self.place)):
                return SharedPrior.from_dict(kept[1]["prior"])
        chosen = sorted(random.Random(0).sample(range(len(frames)), min(len(frames), _MOST_POOLED)))
        tasks = [
            work._replace(frames=[frames[i] for i in some])
            for some in batched(chosen, min(size, 4))
        ]
        found = dict(self._each("prior", evidence_of_part, tasks, {}))
        known = [found[number] for number in sorted(found) if isinstance(found[number], list)]
        prior = pooled_prior([item for items in known for item in items], static)
        if not stop_requested():
            content = {"prior": asdict(prior), _BELONGS: work.belongs_to}
            self._keep(_PRIOR_PART, pack(content, {}))
        return prior

    def _kept(self, number: int, belongs_to: str) -> tuple[Path, dict[str, Any]] | None:
        """The file of a part that an earlier run has kept, and its description."""
        path = None if self.place is None else parts_in(self.place).get(number)
        if path is None:
            return None
        described, _ = unpack(content_of(path))
        with restoring(path.parent):
            if described[_BELONGS] != belongs_to:
                raise ValueError(f"{path.name} is of another run, or another part of this one")
        return path, described

    def _keep(self, number: int, content: bytes) -> bytes | Path:
        """Write a part where this run is kept; a full disk must not end the run."""
        if self.place is None:
            return content
        try:
            (name,) = write_parts(self.place, [(number, content)])
        except OSError as error:
            going_on(f"{self.place} cannot be written ({error.strerror or error}).")
            return content
        return self.place / name

    def _each(
        self,
        label: str,
        function: Callable[[FitPart], Any],
        tasks: list[FitPart],
        done: Mapping[int, Any],
    ) -> Iterator[tuple[int, Any]]:
        """Number and result of each task that is not done; what is left when work ends is left out."""
        left = [number for number in range(len(tasks)) if number not in done]
        finished: set[int] = set()
        total = sum(len(task.frames) for task in tasks)
        n_series = total - sum(len(tasks[number].frames) for number in left)
        with progress_bar(label, self.progress, unit="series") as bar:
            bar.update(n_series, total, math.nan)
            for index, result in as_finished(function, [tasks[i] for i in left], self.n_jobs):
                number = left[index]
                finished.add(number)
                if isinstance(result, LostWorkerError):
                    result = _nothing(tasks[number], FAILED, LOST)
                yield number, result
                n_series += len(tasks[number].frames)
                bar.update(n_series, total, math.nan)
                if stop_requested() and self.n_jobs > 1:
                    break
        for number in left:
            if number not in finished:
                yield number, _nothing(tasks[number], LEFT_OUT, "the fit was ended before")


def _nothing(task: FitPart, status: str, reason: str) -> FittedPart:
    table = [Row(name, len(frame), status, reason, 0.0) for name, frame in task.frames]
    content = {"series": [{"kind": None}] * len(table), "table": [row._asdict() for row in table]}
    return FittedPart(pack(content, {}), table, was_cut=True)


def batched(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    """Items in lists of a size."""
    return (list(items[i : i + size]) for i in range(0, len(items), size))
