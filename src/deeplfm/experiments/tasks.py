"""A task: one model on one case with one seed, and the record of its result."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import deeplfm
from deeplfm.experiments.declaration import Case, Entry, Split
from deeplfm.experiments.models import NotAvailableError
from deeplfm.experiments.scores import plain, score, validation_curve, write_document
from deeplfm.io.files import versions, write_whole
from deeplfm.terms import to_json

DONE, FAILED, NOT_AVAILABLE = "done", "failed", "not available"
Record = dict[str, Any]
_SAME_DECIMALS = 8
# Records have the data and settings of an experiment themselves; the others only present results.
_ASIDE = ("cli", "plots", "report", "experiments")


@dataclass(frozen=True)
class Task:
    """One model on one case.

    Attributes:
        case: the data.
        entry: the model.
        seed: of both.
        is_quick: few training steps, to see that everything runs.
        budget: seconds for the fit, or for each candidate of an ensemble, where there is a limit.
        is_drawn: keep the data of a figure: the prediction of a whole series, or the scores of a
            table's validation rows during training.
    """

    case: Case
    entry: Entry
    seed: int
    is_quick: bool = False
    budget: float | None = None
    is_drawn: bool = False

    @property
    def name(self) -> str:
        """Name of its files."""
        return task_name(self.case.name, self.entry.label, self.seed)

    def build(self) -> Any:
        """The estimator, not fitted."""
        return self.entry.build(seed=self.seed, is_quick=self.is_quick, budget=self.budget)

    def identity(self) -> Record:
        """Data and settings; a record with the same ones is not computed again."""
        identity = {
            "case": self.case.name,
            "model": self.entry.label,
            "seed": self.seed,
            "quick": self.is_quick,
            "budget": self.budget,
            "data": _digest(self.case, self.seed),
        }
        try:
            model = self.build()
            settings = {"class": type(model).__name__, **model.get_params(deep=False)}
            settings.pop("time_limit", None)  # follows from the budget
            if "model" in settings:
                settings["model"] = to_json(settings["model"])
        except Exception:  # the error is in the record when it runs
            settings = {}
        return identity | {"settings": plain(settings)}

    def has(self, record: Record) -> bool:
        """Whether a record is of this very task; settings it lacks were at their defaults."""
        identity = self.identity()
        known = {key: record.get(key) for key in identity}
        if identity["settings"] and known["settings"]:
            accepted = inspect.signature(type(self.build())).parameters.values()
            defaults = {item.name: item.default for item in accepted}
            usual = {key: plain(defaults.get(key)) for key in identity["settings"]}
            known["settings"] = usual | known["settings"]
            known["settings"].pop("time_limit", None)  # of earlier records
        return known == identity

    @property
    def stamp(self) -> str:
        """Short form of its identity, for files beside its record."""
        text = json.dumps(self.identity(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def task_name(case: str, model: str, seed: int) -> str:
    """Name of the files of a task.

    >>> task_name("A: full data fit", "DLFM (Q=1)", 0)
    'a-full-data-fit--dlfm-q=1--seed-0'
    """
    return "--".join(map(_slug, (case, model, f"seed-{seed}")))


def run_task(task: Task, folder: Path) -> Record:
    """Fit, predict, score, and write the record, or the error of the model, to ``<name>.json``."""
    source_digest()  # of the code as it is before the fit
    record = task.identity() | {"status": DONE, "reason": None, "rows": [], "seconds": {}}
    record["threads"] = torch.get_num_threads()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            record |= _results(task, folder)
        except Exception as error:  # one model must not stop the others
            is_missing = isinstance(error, NotAvailableError | ImportError)
            record["status"] = NOT_AVAILABLE if is_missing else FAILED
            record["reason"] = f"{type(error).__name__}: {error}"
            record["traceback"] = traceback.format_exc().splitlines()
    record["warnings"] = sorted({f"{item.category.__name__}: {item.message}" for item in caught})
    return keep(record, task, folder)


def keep(record: Record, task: Task, folder: Path) -> Record:
    """Write a record; the task is then done."""
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    made_with = {"versions": versions(), "source": source_digest(), "finished": finished}
    whole = plain(record | made_with)
    write_document(folder / f"{task.name}.json", whole)
    return whole


def kept(task: Task, folder: Path) -> Record | None:
    """The record of this very task, if there is one."""
    try:
        record = json.loads((folder / f"{task.name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if task.has(record) else None


def is_settled(task: Task, folder: Path, retry: bool = False, fresh: bool = False) -> bool:
    """Whether there is nothing left to do; for ``retry`` and ``fresh`` see ``runner.run``."""
    record = kept(task, folder)
    if record is None or record["status"] == NOT_AVAILABLE:
        return False
    if fresh and record.get("source") != source_digest():
        return False
    if record["status"] == FAILED:
        return not retry
    return not task.is_drawn or "curve" in record or drawing(task, folder) is not None


@dataclass(frozen=True, eq=False)
class Drawing:
    """Prediction of all rows of a series: means, and ends of the intervals by their coverage."""

    mean: np.ndarray
    low: dict[float, np.ndarray]
    high: dict[float, np.ndarray]


def drawing(task: Task, folder: Path) -> Drawing | None:
    """The prediction that this very task has stored, if it has."""
    try:
        with np.load(folder / f"{task.name}.npz", allow_pickle=False) as arrays:
            if arrays["stamp"] != task.stamp:
                return None
            low, high = (
                dict(zip(arrays["coverage"].tolist(), arrays[end], strict=True))
                for end in ("low", "high")
            )
            return Drawing(arrays["mean"], low, high)
    except (OSError, ValueError, KeyError):
        return None


@lru_cache(maxsize=2)
def _split(case: Case, seed: int) -> Split:
    return case.load(seed)


@cache
def _digest(case: Case, seed: int) -> str:
    """Digest of the rows, rounded because their last bits differ from machine to machine."""
    split = _split(case, seed)
    arrays = [split.x_train, split.y_train, *split.x_test.values(), *split.y_test.values()]
    rounded = ((np.round(array, _SAME_DECIMALS) + 0.0).tobytes() for array in arrays)  # no −0
    return hashlib.sha256(b"".join(rounded)).hexdigest()[:16]


def _results(task: Task, folder: Path) -> Record:
    model = task.build()
    if (same := _of_first_seed(task, model, folder)) is not None:
        return same
    split = _split(task.case, task.seed)
    split = split.shortened() if task.is_quick else split
    seconds: dict[str, float] = {}
    with _clock(seconds, "fit"):
        model.fit(split.x_train, split.y_train)
    if getattr(getattr(model, "fit_result_", None), "interrupted", False):
        raise KeyboardInterrupt  # half a fit is no result
    with _clock(seconds, "predict"):
        posteriors = {part: model.posterior(x) for part, x in split.x_test.items()}
    rows = [row for part in posteriors for row in _scores(split, part, posteriors[part])]
    results: Record = {"rows": rows, "seconds": seconds}
    if (report := getattr(model, "fit_result_", None)) is not None:
        results["weight"] = report.weight
        shares = [model.hidden_share(x) for x in split.x_test.values()]
        results["hidden_share"] = float(np.mean(shares))
    if task.is_drawn and split.is_series:
        _draw(model.posterior(split.time[:, None]), task, folder)
    elif task.is_drawn:
        results["curve"] = validation_curve(model, split, task.seed)
    return results


def _of_first_seed(task: Task, model: Any, folder: Path) -> Record | None:
    """The result of the first seed, where neither model nor data depend on the seed."""
    if task.seed == 0 or getattr(model, "is_random", True):
        return None
    record = kept(replace(task, seed=0), folder)
    if record is None or record["status"] != DONE or record.get("source") != source_digest():
        return None
    if record["data"] != _digest(task.case, task.seed):
        return None
    return {"rows": record["rows"], "seconds": record["seconds"], "same_as_seed": 0}


def _scores(split: Split, part: str, posterior: Any) -> list[Record]:
    rows = score(posterior, torch.tensor(split.y_test[part]).double(), part, split.outputs)
    hidden = {"mnll": None, "coverage95": None} if split.is_noise_free else {}
    return [row | hidden for row in rows]


def _draw(posterior: Any, task: Task, folder: Path) -> None:
    from deeplfm.plots import COVERAGES

    ends = [posterior.interval(coverage) for coverage in COVERAGES]
    arrays: dict[str, Any] = {
        "stamp": np.array(task.stamp),
        "mean": posterior.mean.numpy(force=True),
        "coverage": np.array(COVERAGES),
        "low": np.stack([low.numpy(force=True) for low, _ in ends]),
        "high": np.stack([high.numpy(force=True) for _, high in ends]),
    }
    write_whole(folder / f"{task.name}.npz", partial(_save_arrays, arrays))


def _save_arrays(arrays: dict[str, Any], path: Path) -> None:
    with path.open("wb") as file:  # a name without .npz would get one
        np.savez_compressed(file, **arrays)


@contextmanager
def _clock(seconds: dict[str, float], name: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    seconds[name] = round(time.monotonic() - started, 3)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9=]+", "-", text.lower()).strip("-")


@cache
def source_digest() -> str:
    """Twelve letters that change with the code of the models, read once in each process."""
    root = Path(deeplfm.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        place = path.relative_to(root)
        if path.suffix in (".py", ".cpp") and place.parts[0] not in _ASIDE:
            digest.update(place.as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
