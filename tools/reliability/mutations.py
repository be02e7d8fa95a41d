"""Mutated model and checkpoint files: refused, or the same predictions before and after an update.

::

    python tools/reliability/mutations.py --count 2000
    python tools/reliability/mutations.py --count 500 --only "warped clock" --runs 1  # checkpoints

Bits are flipped, bytes deleted, inserted, repeated or zeroed, files cut, swapped with those of another
model or replaced by folders, pipes and links; parts and units of runs are exchanged whole. Models are a
selection, a panel, forces that outputs share and a warped clock, and what a killed fit of each of these
has left. In some cases a value of a description or a tensor is changed and given the right checksum, as
by somebody who means it; such a file may describe another model, but must not raise anything but an error
of deeplfm.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from common import LATER, TIMES, Report, arguments, frame_of, series_of, values
from safetensors.torch import load, save

import deeplfm
from deeplfm import DeepLFMForecaster, DeepLFMRegressor
from deeplfm.errors import DeepLFMError
from deeplfm.io import storage
from deeplfm.io.parts import pack, unpack, write_parts
from deeplfm.training import checkpoint, loop

NUMBERS = (np.inf, -np.inf, np.nan, 0.0, -1.0, 1e300, 1e30, -1e300, 1e-300)
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
    way = int(random.integers(len(CONTENT) + 7))
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
    if way == len(CONTENT) + 2 and _pieces(folder):
        exchange(folder, other, random)
        return "exchange"
    (reseal if random.random() < 0.7 else reseal_tensor)(folder, random)
    return "resealed"


def exchange(folder: Path, other: Path, random: np.random.Generator) -> None:
    """Put whole parts or finished units, each with the right checksum, in places of others."""
    own, foreign = _pieces(folder), _pieces(other)
    first, second = (own[i] for i in random.integers(len(own), size=2))
    if foreign and random.random() < 0.5:
        second = foreign[random.integers(len(foreign))]
    if first.is_dir() and second.is_dir():
        content = folder.with_name("content")
        shutil.copytree(second, content)
        shutil.rmtree(first)
        content.rename(first)
    elif first.is_file() and second.is_file():  # a part keeps its checksum and gets the number
        content_of_second = second.read_bytes()
        first.unlink()
        number, rest = first.name.split("-")[1], second.name.split("-", 2)[-1]
        (first.parent / f"part-{number}-{rest}").write_bytes(content_of_second)


def _pieces(folder: Path) -> list[Path]:
    """Parts of a panel, finished units and states."""
    found = [path for path in folder.rglob("*") if path.name in ("done", "state-0", "state-1")]
    return sorted([*found, *folder.rglob("part-*.safetensors")])


def reseal(folder: Path, random: np.random.Generator) -> None:
    """Change a value of a description, and give it the right checksum."""
    paths = sorted([*folder.rglob(storage.DESCRIPTION), *folder.rglob("part-*.safetensors")])
    path = paths[random.integers(len(paths))]
    is_part = path.suffix == ".safetensors"
    content, tensors = unpack(path.read_bytes()) if is_part else (json.loads(path.read_text()), {})
    content.pop("sha256", None)
    leaves = list(_leaves(content))
    parent, key = leaves[random.integers(len(leaves))]
    parent[key] = STRANGE[random.integers(len(STRANGE))]
    if not is_part:
        path.write_text(storage.description_text(content))
        return
    number = int(path.name.split("-")[1])
    path.unlink()
    (name,) = write_parts(path.parent, [(number, pack(content, tensors))])
    whole = folder / storage.DESCRIPTION
    if whole.exists():  # it names its parts
        described = json.loads(whole.read_text().replace(path.name, name))
        del described["sha256"]
        whole.write_text(storage.description_text(described))


def reseal_tensor(folder: Path, random: np.random.Generator) -> None:
    """Change a number, or all numbers, of a tensor, and give it the right checksum."""
    paths = sorted(folder.rglob("tensors-*.safetensors"))
    path = paths[random.integers(len(paths))]
    tensors = load(path.read_bytes())
    known = [t for _, t in sorted(tensors.items()) if t.is_floating_point() and t.numel()]
    if known:
        values = known[random.integers(len(known))].view(-1)
        some = slice(None) if random.random() < 0.5 else int(random.integers(len(values)))
        values[some] = NUMBERS[random.integers(len(NUMBERS))]
    content = save(tensors)
    path.write_bytes(content)
    description = path.with_name(storage.DESCRIPTION)
    described = json.loads(description.read_text()) | {
        "tensors_sha256": hashlib.sha256(content).hexdigest(), "not_finite": sorted(tensors)
    }  # fmt: skip
    del described["sha256"]
    description.write_text(storage.description_text(described))


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


def regressor(seed: int, **more: Any) -> Any:
    """A selection of two, with a gap."""
    models = {"a": "trend + level", "b": "sinusoids(2)"}
    model = DeepLFMRegressor(models, n_steps=2, random_state=seed, progress=False, **more)
    return model.fit(TIMES, values(TIMES))


def regressor_use(model: Any) -> np.ndarray:
    """Predictions before and after an update."""
    before = model.predict(np.r_[TIMES, LATER], return_std=True)
    model.update(LATER, values(LATER))
    return np.stack([*before, *model.predict(np.r_[TIMES, LATER], return_std=True)])


def forecaster(models: Any, seed: int, **more: Any) -> Any:
    """A forecaster of a frame with a gap."""
    model = DeepLFMForecaster(models, n_steps=2, random_state=seed, progress=False, **more)
    return model.fit(frame_of(TIMES))


def panel(seed: int, **more: Any) -> Any:
    """Three series in long form."""
    model = DeepLFMForecaster("trend + level", random_state=seed, progress=False, **more)
    return model.fit(series_of(TIMES[: -1 - seed]))


def numbers_of(model: Any, later: pd.DataFrame) -> np.ndarray:
    """Forecasts before and after an update."""
    before = model.forecast(5).select_dtypes("number").to_numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # series that are left out
        model.update(later)
        return np.concatenate([before, model.forecast(5).select_dtypes("number").to_numpy()])


class Kind(NamedTuple):
    """A kind of model: how it is fitted, what it is used for, and the share of the cases."""

    fit: Callable[..., Any]
    use: Callable[[Any], np.ndarray]
    share: int


FORCES = {"a": "trend + level + shared_forces(1)", "b": "trend + level"}
CLOCK = "warped(season) + level"
KINDS = {
    "selection": Kind(regressor, regressor_use, 3),
    "panel": Kind(panel, lambda model: numbers_of(model, series_of(LATER)), 3),
    "shared forces": Kind(
        partial(forecaster, FORCES), lambda model: numbers_of(model, frame_of(LATER)), 2
    ),
    "warped clock": Kind(
        partial(forecaster, CLOCK), lambda model: numbers_of(model, frame_of(LATER)), 2
    ),
}


def killed_run(kind: str, folder: Path, seed: int = 0) -> None:
    """Leave the checkpoint of a run that was killed in the middle."""
    if kind in ("panel", "shared forces"):  # the last unit is not finished
        KINDS[kind].fit(seed, checkpoint=folder)
        last = sorted(path for path in folder.iterdir() if path.name != "run")[-1]
        shutil.rmtree(last) if last.is_dir() else last.unlink()
        return
    plain, n_steps = loop._Run._step, [0]

    def step(run: Any, *given: Any) -> None:
        plain(run, *given)
        n_steps[0] += 1
        if n_steps[0] == (6 if kind == "selection" else 2):
            raise InterruptedError

    loop._Run._step = step  # type: ignore[method-assign]
    try:
        KINDS[kind].fit(seed, checkpoint=folder)
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
    except UserWarning as warning:  # the other series go on
        return "refused one series", None if "left out" in str(warning) else f"{case}: {warning}"
    except DeepLFMError as error:
        return "refused", None if str(error).count("\n") == 0 else f"{case}: several lines: {error}"
    except BaseException as error:
        where = "".join(traceback.format_tb(error.__traceback__)[-3:])
        return "other error", f"{case}: {type(error).__name__}: {error}\n{where}"
    if np.array_equal(found, expected, equal_nan=True):
        return "identical", None
    return ("another model, resealed", None) if is_resealed else ("silent", f"{case}: differs")


def main() -> int:
    """Mutate, use, compare."""
    more = {"only": (str, "", "one kind of model"), "runs": (float, 0.25, "share of checkpoints")}
    options = arguments(__doc__, 2000, **more)
    warnings.simplefilter("ignore")
    checkpoint._LEAST_SECONDS, checkpoint._COST = 0.0, 1e9  # keep every step
    random = np.random.default_rng(options.seed)
    report = Report("mutated model and checkpoint files")
    kinds = {kind: KINDS[kind] for kind in ([options.only] if options.only else KINDS)}
    order = [kind for kind in kinds for _ in range(kinds[kind].share)]
    with tempfile.TemporaryDirectory() as name:
        folder, expected = Path(name), {}
        for kind, (fit, use, _) in kinds.items():
            for seed, place in enumerate(("whole", "other")):
                fit(seed).save(folder / kind / place)
                killed_run(kind, folder / kind / f"{place} run", seed)
            expected[kind] = use(deeplfm.load(folder / kind / "whole"))
        for case in range(options.count):
            kind, is_run = order[case % len(order)], random.random() < options.runs
            origin, place = folder / kind, folder / "case"
            shutil.rmtree(place, ignore_errors=True)
            what = " run" if is_run else ""
            shutil.copytree(origin / f"whole{what}", place)
            way = mutate(place, origin / f"other{what}", random)

            def use(place: Path = place, kind: str = kind, is_run: bool = is_run) -> np.ndarray:
                fit, use, _ = KINDS[kind]
                return use(fit(0, checkpoint=place) if is_run else deeplfm.load(place))

            name = f"case {case}, {kind}, {way}{', checkpoint' * is_run}"
            report.add(*outcome_of(name, way == "resealed", use, expected[kind]))
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
