"""Many series in long form: a forecaster for each, fitted and asked in parts."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from deeplfm.errors import InputError
from deeplfm.estimators.panel_columns import PanelColumns
from deeplfm.estimators.panel_parts import (
    LOST,
    Called,
    CallPart,
    FitPart,
    Row,
    Run,
    batched,
    call_part,
    described_in,
    restored,
)
from deeplfm.estimators.pooling import SharedPrior
from deeplfm.estimators.settings import is_whole
from deeplfm.estimators.static_features import static_rows
from deeplfm.io.archive import tensors_under
from deeplfm.io.files import versions
from deeplfm.io.parts import content_of, unpack
from deeplfm.io.typed import checked
from deeplfm.selection.backends import LostWorkerError, as_finished, is_cluster, n_workers
from deeplfm.statespace import PRIOR
from deeplfm.training.checkpoint import checkpointed, kept_in
from deeplfm.training.interruption import graceful_interrupts, stop_requested, within
from deeplfm.training.progress import progress_bar

if TYPE_CHECKING:
    from deeplfm.estimators.forecaster import DeepLFMForecaster

_MOST_IN_PART, _FEWEST_PARTS = 20, 50


@dataclass
class Panel:
    """Fitted series.

    Attributes:
        columns: roles of the columns of its frame.
        parts: some series each: their content, or the files that have it.
        table: outcome of each series: part, number in the part, rows, status, reason, seconds.
        shared: prior that was learned from the series, if any. New series have all of it, and those of
            the panel its width of forecasts.
    """

    columns: PanelColumns
    parts: list[bytes | Path]
    table: pd.DataFrame
    shared: SharedPrior | None = None

    @classmethod
    def fit(
        cls,
        forecaster: DeepLFMForecaster,
        frame: pd.DataFrame,
        columns: PanelColumns,
        options: dict[str, Any],
        is_pooled: bool = False,
        static: pd.DataFrame | None = None,
        like: Panel | None = None,
    ) -> Panel:
        """Fit each series of a frame; one that cannot be fitted stands in the table with the reason.

        Args:
            forecaster: has the settings.
            frame: rows in long form.
            columns: their roles.
            options: of the fit of each series.
            is_pooled: learn what the series share.
            static: features of the series.
            like: a panel whose prior they have.
        """
        frames = list(columns.split(frame))
        settings = forecaster.get_params() | {"checkpoint": None, "n_jobs": 1, "backend": None}
        settings |= {"progress": False, "time_limit": None}
        if static is not None:
            static = static_rows(static, columns.series, [name for name, _ in frames])
        size = max(1, min(_MOST_IN_PART, len(frames) // _FEWEST_PARTS))
        kept = {name: repr(value) for name, value in sorted(settings.items())}
        roles = {name: repr(value) for name, value in asdict(columns).items()}
        given = {"options": repr(options), "pooled": is_pooled, "versions": versions()}
        given |= {} if static is None else {"static": static.to_csv()}
        identity = kept | roles | given | {"data": _digest(frames)}
        run_name = hashlib.sha256(repr(identity).encode()).hexdigest()
        work = FitPart(type(forecaster), settings, columns, options, [], run_name)

        with (
            checkpointed(forecaster.checkpoint, lambda: identity),
            kept_in(None),  # whole parts are kept: candidates of two series may have the same name
            graceful_interrupts(),
            within(forecaster.time_limit),
        ):
            place = None if forecaster.checkpoint is None else Path(forecaster.checkpoint)
            run = Run(place, n_workers(forecaster.n_jobs), forecaster.progress)
            shared = run.prior(work, frames, size, static) if is_pooled else None
            if shared is not None:
                widened = {
                    name: replace(PRIOR, widening=shared.widening) for name in shared.effects
                }
                work = work._replace(parameters=settings | {"prior": widened})
            if like is not None and like.shared is not None:
                work = work._replace(
                    priors=like.shared.of_series([name for name, _ in frames], static)
                )
            tasks = [
                work._replace(frames=some, belongs_to=f"{run_name} {number}")
                for number, some in enumerate(batched(frames, size))
            ]
            parts, rows = run.fits(tasks)
        table = pd.DataFrame(rows, columns=["part", "number", *Row._fields]).set_index("series")
        return cls(columns, parts, table.rename_axis(columns.series), shared)

    def __len__(self) -> int:
        return len(self.table)

    def one(self, kind: type[DeepLFMForecaster], name: Any) -> DeepLFMForecaster:
        """The forecaster of one series."""
        if name not in self.table.index:
            some = ", ".join(map(repr, self.table.index[:5]))
            raise InputError(
                f"series: there is no {name!r} among the {len(self)} of the panel. Choose one of "
                f"series_.index, such as {some}."
            )
        row = self.table.loc[name]
        described, tensors = unpack(content_of(self.parts[row["part"]]))
        number = int(row["number"])
        own, reason = described_in(described, number, kind)
        if own["kind"] != "forecaster":
            raise InputError(f"series {name!r}: it was not fitted ({reason}).")
        return restored(kind, own, tensors_under(f"{number}.", tensors), reason)

    def call(
        self,
        forecaster: DeepLFMForecaster,
        method: str,
        arguments: Mapping[str, Any],
        fallback: bool = False,
    ) -> pd.DataFrame | None:
        """Tables of a method of each series as one in long form; ``None`` where it changed the series.

        Frames among the arguments are in long form too, and each series gets its own rows.
        """
        calls = self._calls(arguments)
        tasks = [
            CallPart(
                type(forecaster),
                content_of(part) if is_cluster() else part,
                method,
                calls[number],
                fallback,
                self.columns,
            )
            for number, part in enumerate(self.parts)
            if number in calls
        ]
        numbers = [number for number in range(len(self.parts)) if number in calls]
        found: dict[int, Called] = {}
        with progress_bar(method, forecaster.progress, unit="parts") as bar, graceful_interrupts():
            for task, called in as_finished(call_part, tasks, n_workers(forecaster.n_jobs)):
                if isinstance(called, LostWorkerError):
                    called = Called({}, {n: LOST for n, *_ in tasks[task].calls}, None)
                found[numbers[task]] = called
                bar.update(len(found), len(tasks), math.nan)
                if stop_requested():
                    raise KeyboardInterrupt
        for number, called in found.items():
            if called.content is not None:
                self.parts[number] = called.content
        self._warn(method, found, calls)
        tables = [found[n].tables[i] for n in sorted(found) for i in sorted(found[n].tables)]
        if not tables:
            return None
        return pd.concat(tables, ignore_index=True)

    def _calls(
        self, arguments: Mapping[str, Any]
    ) -> dict[int, list[tuple[int, Any, dict[str, Any]]]]:
        """Arguments of each series by part; a series without rows in a given frame is left out."""
        frames = {k: v for k, v in arguments.items() if isinstance(v, pd.DataFrame)}
        plain = {k: v for k, v in arguments.items() if k not in frames}
        columns = self.columns
        split: dict[str, dict[Any, pd.DataFrame]] = {}
        for key, frame in frames.items():
            if columns.series not in frame.columns:
                raise InputError(
                    f"{key}: no column {columns.series!r} found, which names the series of the panel. "
                    "Give a frame in long form."
                )
            split[key] = dict(columns.split(frame))
            unknown = [name for name in split[key] if name not in self.table.index]
            if unknown:
                more = f", nor are {len(unknown) - 1} others" if len(unknown) > 1 else ""
                text = f"{key}: series {unknown[0]!r} is not in the panel{more}."
                if len(unknown) == len(split[key]):
                    raise InputError(f"{text} Give rows of its series, or fit another panel.")
                warnings.warn(f"{text} Their rows are left out.", stacklevel=4)
        found: dict[int, list[tuple[int, Any, dict[str, Any]]]] = {}
        for name, part, number in zip(
            self.table.index, self.table["part"], self.table["number"], strict=True
        ):
            own = {key: parts[name] for key, parts in split.items() if name in parts}
            if len(own) == len(split):
                found.setdefault(int(part), []).append((int(number), name, plain | own))
        return found

    def _warn(self, label: str, found: dict[int, Called], calls: dict[int, Any]) -> None:
        reasons = [
            (name, called.reasons[number])
            for part, called in sorted(found.items())
            for number, name, _ in calls[part]
            if number in called.reasons
        ]
        if not reasons:
            return
        first, reason = reasons[0]
        asked = sum(map(len, calls.values()))
        text = f"{label}: {len(reasons)} of {asked} series left out (first: {first!r}: {reason})."
        if len(reasons) == asked:
            raise InputError(f"{text} None is left.")
        more = " fallback=True forecasts them by their last season." if label == "forecast" else ""
        warnings.warn(text + more, stacklevel=4)

    def described(self) -> dict[str, Any]:
        """The panel as plain data, without its parts."""
        return {
            "columns": asdict(self.columns),
            "shared": None if self.shared is None else asdict(self.shared),
            "table": {name: column.tolist() for name, column in self.table.reset_index().items()},
        }

    @classmethod
    def restored(cls, content: dict[str, Any], parts: list[bytes | Path]) -> Panel:
        """The panel that was described."""
        columns = checked(PanelColumns(**content["columns"]))
        table = pd.DataFrame(content["table"]).set_index(columns.series)
        missing = {"part", "number", *Row._fields[1:]} - {*table}
        places = [
            (part, number) for part, number in zip(table["part"], table["number"], strict=True)
        ]
        if missing or not all(map(is_whole, chain(*places))):
            raise ValueError("the table of its series is damaged")
        if not {part for part, _ in places} <= {*range(len(parts))} or not table.index.is_unique:
            raise ValueError("the table of its series has other parts than the folder")
        shared = content["shared"]
        return cls(columns, parts, table, shared and SharedPrior.from_dict(shared))


def _digest(frames: list[tuple[Any, pd.DataFrame]]) -> str:
    digest = hashlib.sha256()
    for name, frame in frames:
        digest.update(repr((name, list(frame.columns))).encode())
        digest.update(pd.util.hash_pandas_object(frame, index=True).to_numpy().tobytes())
    return digest.hexdigest()
