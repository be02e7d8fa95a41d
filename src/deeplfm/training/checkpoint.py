"""Checkpoints: a run that was killed is continued from its last state, and ends with the same bits.

The state of a run is that of its units. A unit is the fit of one candidate: finished units are kept
whole, and the training runs of a unit that is under way keep their last two states. Noise and batches
are functions of a seed and a step, so that a state has parameters, moments of the optimiser and losses.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from deeplfm.errors import MISUSES, ConfigError, InputError, ModelFileError
from deeplfm.io.files import locked
from deeplfm.io.storage import DESCRIPTION, Contents, read_folder, write_folder
from deeplfm.training.distributed import world

_LEAST_SECONDS, _COST = 1.0, 0.02  # between two states; part of the time that may be spent on them
_RUN, _DONE, _STATES = "run", "done", ("state-0", "state-1")
_BELONGS = "belongs_to"  # what the description of a unit calls its run and its name in it
_RATES = ("lr", "initial_lr")
_COUNTS, _RATE_LISTS = ("last_epoch", "_step_count"), ("base_lrs", "_last_lr")
_MOST_SHOWN = 3  # differences of two runs


class Place(NamedTuple):
    """Where something of a run is kept.

    Attributes:
        folder: of its files.
        name: of the run and of what is kept, which its files hold: those of another run are not used.
    """

    folder: Path
    name: str

    def inside(self, name: str) -> Place:
        """The place of a part."""
        return Place(self.folder / _file_name(name), f"{self.name}/{name}")


@dataclass
class Unit:
    """A part of a run that is kept when it is finished.

    Attributes:
        place: of its files.
        n_runs: how many training runs it has begun.
    """

    place: Place
    n_runs: int = 0

    def result(self) -> Contents | None:
        """Description and tensors of its result, if it is finished."""
        return world().same(lambda: _read(self.place, _DONE))

    def finish(self, description: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Keep its result, and drop the states on the way to it."""
        if _write(self.place, _DONE, description, tensors):
            for path in self.place.folder.glob("training-*"):
                shutil.rmtree(path, ignore_errors=True)


_place: ContextVar[Place | None] = ContextVar("place", default=None)
_unit: ContextVar[Unit | None] = ContextVar("unit", default=None)


@contextmanager
def checkpointed(
    folder: str | Path | None, identity: Callable[[], Mapping[str, Any]]
) -> Iterator[None]:
    """Keep the state of the work inside in a folder, and continue from the one that is there.

    Args:
        folder: new, empty, or of the same run; ``None`` keeps nothing.
        identity: plain data that a run must share to be continued: its settings, and a digest of its
            data.
    """
    if folder is None:
        yield
        return
    own = dict(identity())
    digest = hashlib.sha256(json.dumps(own, sort_keys=True, default=repr).encode()).hexdigest()
    place = Place(Path(folder), digest)
    if not world().writes:  # what the first process keeps, it sends to the others
        with _set(_place, place):
            yield
        return
    try:
        place.folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # a zero byte in its name
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"checkpoint: cannot make folder {folder}: {reason}.") from error
    with locked(place.folder, blocking=False):
        _check_run(place.folder, own)
        with _set(_place, place):
            yield


def _check_run(folder: Path, identity: dict[str, Any]) -> None:
    """Write what a run is, or compare it with the run that the folder is of."""
    if not os.path.exists(folder / _RUN):
        if any(folder.iterdir()):
            raise InputError(
                f"checkpoint: folder {folder} holds other files. Give a new or empty folder."
            )
        write_folder(folder / _RUN, {"run": identity}, {})
    try:
        found = read_folder(folder / _RUN)[0].get("run")
        if not isinstance(found, dict):
            raise _misused(folder, f"its run is {found!r}")
    except ModelFileError:  # of a run that was killed when it began, or damaged: of unknown origin
        others = [path for path in folder.iterdir() if path.name != _RUN]
        if others:
            raise
        write_folder(folder / _RUN, {"run": identity}, {})
        return
    differences = [
        f"{key} {'differ' if key == 'data' else f'{found.get(key)!r} there, {identity.get(key)!r} here'}"
        for key in sorted({*found, *identity})
        if found.get(key) != identity.get(key)
    ]
    if differences:
        raise InputError(
            f"checkpoint: {folder} is of another run ({'; '.join(differences[:_MOST_SHOWN])}). Give "
            "another folder, or delete this one to begin anew."
        )


def current_place() -> Place | None:
    """Where the units of the current work are kept, to be given to another process."""
    return _place.get()


@contextmanager
def kept_in(place: Place | None) -> Iterator[None]:
    """Keep units in a place, in a process to which it was given."""
    with _set(_place, place):
        yield


@contextmanager
def part(name: str) -> Iterator[None]:
    """A part of a run whose units have names of their own."""
    place = _place.get()
    with _set(_place, place and place.inside(name)):
        yield


@contextmanager
def unit(name: str) -> Iterator[Unit | None]:
    """A unit of the current work; ``None`` where nothing is kept."""
    place = _place.get()
    found = None if place is None else Unit(place.inside(name))
    with _set(_unit, found):
        yield found


class States:
    """The last two states of a training run, written when the last one is old enough."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._due = time.monotonic() + _LEAST_SECONDS
        self._next = 0

    @classmethod
    def of_next_run(cls) -> States | None:
        """States of the next training run of the current unit; ``None`` where nothing is kept."""
        within = _unit.get()
        if within is None:
            return None
        within.n_runs += 1
        return cls(within.place.inside(f"training-{within.n_runs}"))

    def last(self) -> Contents | None:
        """The state of the largest step that can be read; the next one will replace the other."""
        return world().same(self._last)

    def _last(self) -> Contents | None:
        found = [(slot, _read(self.place, name)) for slot, name in enumerate(_STATES)]
        with restoring(self.place.folder):
            readable = [(int(kept[0]["step"]), slot, kept) for slot, kept in found if kept]
        if not readable:
            return None
        _, slot, content = max(readable, key=lambda item: item[0])
        self._next = 1 - slot
        return content

    @property
    def is_due(self) -> bool:
        """Whether it is time for another one, which the first of several processes writes."""
        return world().writes and time.monotonic() >= self._due

    def write(self, description: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Replace the older of both states."""
        began = time.monotonic()
        if _write(self.place, _STATES[self._next], description, tensors):
            self._next = 1 - self._next
        now = time.monotonic()
        self._due = now + max(_LEAST_SECONDS, (now - began) / _COST)


@contextmanager
def restoring(folder: Path) -> Iterator[None]:
    """Turn what goes wrong while a state is used into an error that names its folder."""
    try:
        yield
    except (ConfigError, *MISUSES) as error:
        if isinstance(error, ModelFileError):
            raise
        raise _misused(folder, repr(error)) from error


def _misused(folder: Path, reason: str) -> ModelFileError:
    return ModelFileError(
        f"checkpoint: {folder} does not describe a state of this run ({' '.join(reason.split())[:300]}). "
        "Delete the folder to begin anew."
    )


def optimiser_state(
    optimiser: torch.optim.Optimizer, decline: torch.optim.lr_scheduler.LambdaLR
) -> Contents:
    """Moments of each parameter and learning rates, as plain data and tensors."""
    state = optimiser.state_dict()
    rates = [{key: float(group[key]) for key in _RATES} for group in state["param_groups"]]
    known = decline.state_dict()
    schedule = {key: known[key] for key in (*_COUNTS, *_RATE_LISTS)}
    tensors = {
        f"optimiser.{number}.{name}": value
        for number, moments in state["state"].items()
        for name, value in moments.items()
    }
    return {"rates": rates, "schedule": schedule}, tensors


def restore_optimiser(
    optimiser: torch.optim.Optimizer,
    decline: torch.optim.lr_scheduler.LambdaLR,
    began: dict[str, Any],
) -> None:
    """Put back what :func:`optimiser_state` described."""
    state, known = optimiser.state_dict(), began["known"]
    moments: dict[int, dict[str, Tensor]] = defaultdict(dict)
    for name, tensor in began["tensors"].items():
        number, _, key = name.partition(".")
        moments[int(number)][key] = tensor
    groups = [
        group | {key: float(rates[key]) for key in _RATES}
        for group, rates in zip(state["param_groups"], known["rates"], strict=True)
    ]
    optimiser.load_state_dict({"state": dict(moments), "param_groups": groups})
    schedule: dict[str, Any] = {key: index(known["schedule"][key]) for key in _COUNTS}
    schedule |= {key: [float(v) for v in known["schedule"][key]] for key in _RATE_LISTS}
    decline.load_state_dict(decline.state_dict() | schedule)


def _write(
    place: Place, name: str, description: dict[str, Any], tensors: dict[str, Tensor]
) -> bool:
    """Write a folder, if it is for this process to do; a full disk must not end the work to be kept."""
    if not world().writes:
        return False
    try:
        write_folder(place.folder / name, description | {_BELONGS: place.name}, tensors)
    except InputError as error:
        going_on(error)
        return False
    return True


def _read(place: Place, name: str) -> Contents | None:
    """Contents of a folder; ``None`` where it holds nothing, nothing whole, or something else."""
    folder = place.folder / name
    if not folder.is_dir():
        return None
    try:
        description, tensors = read_folder(folder)
        if description.pop(_BELONGS, None) == place.name:
            return description, tensors
        going_on(f"{folder} is of another run, or of another part of this one.")
    except ModelFileError as error:
        if (folder / DESCRIPTION).exists():
            going_on(error)
    return None


def going_on(reason: object) -> None:
    """Warn that something is not kept, or cannot be used."""
    warnings.warn(f"checkpoint: {reason} Going on without it.", stacklevel=3)


@contextmanager
def _set(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)


def _file_name(name: str) -> str:
    """A name for a folder: readable, and different for different names."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{re.sub('[^a-z0-9]+', '-', name.lower())[:40].strip('-')}-{digest}"
