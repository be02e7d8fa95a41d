"""Mutated model and checkpoint files: refused, or the same predictions before and after an update.

::

    python tools/reliability/mutations.py --count 2000

Bits are flipped, bytes deleted, inserted, repeated or zeroed, files cut, swapped with those of another
model or replaced by folders, pipes and links. A third of the cases changes a value of the description
and gives it the right checksum, as somebody who means it can; such a file may describe another
model, but must not raise anything but an error of deeplfm.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from common import LATER, TIMES, Report, arguments, values

import deeplfm
from deeplfm import DeepLFMRegressor
from deeplfm.errors import DeepLFMError
from deeplfm.io import storage
from deeplfm.training import checkpoint, loop

HANGS_AFTER = 60  # seconds
STRANGE = (None, True, -1, 0, 10**30, 1e308, "", "cuda:0", "x" * 5000, [], {}, [[]], float("nan"))


def flip(content: bytes, random: np.random.Generator) -> bytes:
    """Flip up to three bits."""
    changed = bytearray(content)
    for place in random.integers(len(content), size=random.integers(1, 4)):
        changed[place] ^= 1 << int(random.integers(8))
    return bytes(changed)


def cut(content: bytes, random: np.random.Generator) -> bytes:
    """Cut the end off."""
    return content[: random.integers(len(content))]


def zero(content: bytes, random: np.random.Generator) -> bytes:
    """Zero a page, as a disk may."""
    first = int(random.integers(len(content)))
    return content[:first] + bytes(len(content[first : first + 512])) + content[first + 512 :]


def delete(content: bytes, random: np.random.Generator) -> bytes:
    """Delete a few bytes."""
    first = int(random.integers(len(content)))
    return content[:first] + content[first + int(random.integers(1, 20)) :]


def insert(content: bytes, random: np.random.Generator) -> bytes:
    """Insert a few bytes."""
    first = int(random.integers(len(content)))
    return content[:first] + random.bytes(int(random.integers(1, 20))) + content[first:]


def repeat(content: bytes, random: np.random.Generator) -> bytes:
    """Repeat a part."""
    first = int(random.integers(len(content)))
    return content[:first] + content[max(0, first - 100) : first] + content[first:]


CONTENT: tuple[Callable[[bytes, np.random.Generator], bytes], ...] = (
    flip, cut, zero, delete, insert, repeat,
)  # fmt: skip


def mutate(folder: Path, other: Path, random: np.random.Generator) -> str:
    """Change a folder in one of many ways; the name of the way."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    path = paths[random.integers(len(paths))]
    way = int(random.integers(len(CONTENT) + 6))
    if way < len(CONTENT):
        path.write_bytes(CONTENT[way](path.read_bytes(), random))
        return CONTENT[way].__name__
    if way == len(CONTENT):
        same_kind = sorted(other.rglob(f"*{path.suffix}"))
        shutil.copyfile(same_kind[random.integers(len(same_kind))], path)
        return "swap"
    if way == len(CONTENT) + 1:
        path.unlink()
        make = (path.mkdir, lambda: os.mkfifo(path), lambda: path.symlink_to("/dev/zero"))
        make[random.integers(3)]()
        return "no file"
    reseal(folder, random)
    return "resealed"


def reseal(folder: Path, random: np.random.Generator) -> None:
    """Change a value of a description, and give it the right checksum."""
    paths = sorted(folder.rglob(storage.DESCRIPTION))
    path = paths[random.integers(len(paths))]
    content = json.loads(path.read_text())
    del content["sha256"]
    leaves = list(_leaves(content))
    parent, key = leaves[random.integers(len(leaves))]
    parent[key] = STRANGE[random.integers(len(STRANGE))]
    path.write_text(storage.description_text(content))


def _leaves(content: Any) -> Iterator[tuple[Any, Any]]:
    for key, value in list(content.items() if isinstance(content, dict) else enumerate(content)):
        yield content, key
        if isinstance(value, dict | list):
            yield from _leaves(value)


@contextmanager
def limited() -> Iterator[None]:
    """Raise an error after some time, since a hang is a failure."""

    def late(*_: object) -> None:
        raise TimeoutError(f"no result after {HANGS_AFTER} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(HANGS_AFTER)
    try:
        yield
    finally:
        signal.alarm(0)


def predictions(model: DeepLFMRegressor) -> np.ndarray:
    """Predictions before and after an update."""
    before = model.predict(np.r_[TIMES, LATER], return_std=True)
    model.update(LATER, values(LATER))
    return np.stack([*before, *model.predict(np.r_[TIMES, LATER], return_std=True)])


def small_model(seed: int, **more: Any) -> DeepLFMRegressor:
    """A selection of two, with a gap."""
    models = {"a": "trend + level", "b": "sinusoids(2)"}
    return DeepLFMRegressor(models, n_steps=2, random_state=seed, progress=False, **more)


def killed_run(folder: Path) -> None:
    """Leave the checkpoint of a run that was killed in the middle."""
    plain, n_steps = loop._Run._step, [0]

    def step(run: Any, *given: Any) -> None:
        plain(run, *given)
        n_steps[0] += 1
        if n_steps[0] == 6:
            raise InterruptedError

    loop._Run._step = step  # type: ignore[method-assign]
    try:
        small_model(0, checkpoint=folder).fit(TIMES, values(TIMES))
    except InterruptedError:
        pass
    finally:
        loop._Run._step = plain  # type: ignore[method-assign]


def outcome_of(
    case: str, is_resealed: bool, use: Callable[[], np.ndarray], expected: np.ndarray
) -> tuple[str, str | None]:
    """What became of one case, and why that must not be."""
    try:
        with limited():
            found = use()
    except DeepLFMError as error:
        return "refused", None if str(error).count("\n") == 0 else f"{case}: several lines: {error}"
    except BaseException as error:
        return "other error", f"{case}: {type(error).__name__}: {error}"
    if np.array_equal(found, expected, equal_nan=True):
        return "identical", None
    return ("another model, resealed", None) if is_resealed else ("silent", f"{case}: differs")


def main() -> int:
    """Mutate, use, compare."""
    options = arguments(__doc__, 2000)
    warnings.simplefilter("ignore")
    checkpoint._LEAST_SECONDS, checkpoint._COST = 0.0, 1e9  # keep every step
    random = np.random.default_rng(options.seed)
    report = Report("mutated model and checkpoint files")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for seed, place in enumerate(("whole", "other")):
            small_model(seed).fit(TIMES, values(TIMES)).save(folder / place)
        expected = predictions(deeplfm.load(folder / "whole"))  # type: ignore[arg-type]
        killed_run(folder / "run")
        for case in range(options.count):
            is_run = case % 4 == 3
            place = folder / "case"
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(folder / ("run" if is_run else "whole"), place)
            way = mutate(place, folder / "other", random)

            def use(place: Path = place, is_run: bool = is_run) -> np.ndarray:
                if is_run:
                    model = small_model(0, checkpoint=place).fit(TIMES, values(TIMES))
                    return predictions(model)
                return predictions(deeplfm.load(place))  # type: ignore[arg-type]

            name = f"case {case}, {way}{', checkpoint' * is_run}"
            report.add(*outcome_of(name, way == "resealed", use, expected))
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
