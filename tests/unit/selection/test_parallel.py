"""Fits in processes of their own come out as they do here, and nothing that ends one is lost."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from deeplfm import DeepLFMRegressor
from deeplfm.errors import ConfigError, TrainingDivergedError, UnsuitableError
from deeplfm.selection.parallel import attempt_all
from deeplfm.training.interruption import graceful_interrupts, stop_requested, time_left, within
from deeplfm.training.progress import Silent, progress_bar


def results(*arguments: object, **settings: object) -> list[tuple[object, object]]:
    """Items and what the function returned, without the seconds."""
    return [(attempt.item, attempt.result) for attempt in attempt_all(*arguments, **settings)]


def square(number: int, here: int = 0) -> tuple[int, bool]:
    if number == 1:
        raise UnsuitableError("two rows")
    if number == 2:
        raise TrainingDivergedError("it left")
    return number * number, os.getpid() == here


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_items_come_in_their_order_with_what_went_wrong(n_jobs: int) -> None:
    found = results(partial(square, here=os.getpid()), [3, 2, 1, 0], n_jobs)
    assert [item for item, _ in found] == [3, 2, 1, 0]
    assert found[0][1] == (9, n_jobs == 1) and found[3][1] == (0, n_jobs == 1)
    assert isinstance(found[1][1], TrainingDivergedError) and str(found[1][1]) == "it left"
    assert isinstance(found[2][1], UnsuitableError) and str(found[2][1]) == "two rows"


def test_other_errors_are_not_swallowed() -> None:
    for n_jobs in (1, 2):
        with pytest.raises(ZeroDivisionError):
            results(partial(divmod, 1), [1, 0], n_jobs)


def deadly(number: int, here: int) -> int:
    if number == 1 and os.getpid() != here:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_what_a_killed_process_leaves_is_done_here() -> None:
    found = results(partial(deadly, here=os.getpid()), list(range(4)), n_jobs=2)
    assert found == [(i, i) for i in range(4)]


def surroundings(_: int) -> tuple[int, bool]:
    with progress_bar("fit", enabled=True) as bar:
        return torch.get_num_threads(), isinstance(bar, Silent)


def test_processes_share_the_threads_and_show_no_bars() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        found = results(surroundings, [0, 1], n_jobs=2)
    finally:
        torch.set_num_threads(before)
    assert found == [(0, (2, True)), (1, (2, True))]


def asks_to_stop(number: int) -> int:
    if number == 1:
        signal.raise_signal(signal.SIGINT)
    return number


@pytest.mark.parametrize(("is_optional", "expected"), [(True, [0, 1]), (False, [0, 1, 2])])
def test_after_an_interrupt_only_what_must_be_is_begun(
    is_optional: bool, expected: list[int]
) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with graceful_interrupts():
            found = results(asks_to_stop, [0, 1, 2], is_optional=is_optional)
            assert stop_requested()
    finally:
        signal.signal(signal.SIGINT, before)
    assert [item for item, _ in found] == expected


def test_an_interrupted_selection_has_at_least_one_candidate() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with graceful_interrupts():
            signal.raise_signal(signal.SIGINT)
            found = results(square, [1, 2, 3, 0], n_jobs=2, is_optional=True)
    finally:
        signal.signal(signal.SIGINT, before)
    assert [item for item, _ in found] == [1, 2, 3]


def share(seconds: float) -> float:
    """Work for some of the time that there is, and tell how much that was."""
    had = time_left()
    time.sleep(seconds)
    return had


def test_each_has_an_equal_part_of_the_time_and_what_others_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.append(now.pop() + seconds))
    with within(90):
        assert results(share, [10, 40, 5]) == [(10, 30), (40, 40), (5, 40)]
    assert results(share, [0, 1]) == [(0, np.inf), (1, np.inf)]


def test_processes_at_work_together_have_the_same_part() -> None:
    with within(400):
        parts = [part for _, part in results(share, [0.5] * 4, n_jobs=2)]
    assert (
        max(parts[:2]) <= 200 < min(parts[2:])
    )  # while they are started, no time of theirs passes


def test_nothing_is_begun_in_a_process_once_time_is_over() -> None:
    with within(0.1):
        found = results(share, [0.5] * 6, n_jobs=2, is_optional=True)
    assert 1 <= len(found) < 6


@pytest.mark.parametrize(("is_optional", "expected"), [(True, [3]), (False, [3, 4, 5])])
def test_when_time_is_over_only_what_must_be_is_begun(
    is_optional: bool, expected: list[int]
) -> None:
    with within(-1):
        found = results(abs, [3, 4, 5], is_optional=is_optional)
    assert [item for item, _ in found] == expected


INTERRUPTED = """
import json, os, sys, time
from functools import partial
from pathlib import Path
from deeplfm.training.interruption import graceful_interrupts, stop_requested
from deeplfm.selection.parallel import attempt_all

def work(number, folder):
    Path(folder, f"{number}-{os.getpid()}").touch()
    while not stop_requested():
        time.sleep(0.01)
    return number

with graceful_interrupts():
    work = partial(work, folder=sys.argv[1])
    found = attempt_all(work, [0, 1, 2, 3], n_jobs=2, is_optional=True)
    print(json.dumps([(attempt.item, attempt.result) for attempt in found]))
"""


@pytest.fixture
def interruptible(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has work in two others, in a group of their own."""
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    with process:
        try:
            deadline = time.monotonic() + 120
            while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < deadline:
                time.sleep(0.05)
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_processes_return_what_they_have(
    interruptible: subprocess.Popen[str], number: signal.Signals
) -> None:
    os.killpg(interruptible.pid, number)  # to all of them, as a terminal or a service manager does
    output, _ = interruptible.communicate(timeout=120)
    assert json.loads(output) == [[0, 0], [1, 1]]


def test_a_process_interrupted_before_its_work_arrives_begins_nothing_more(
    interruptible: subprocess.Popen[str], tmp_path: Path
) -> None:
    """What it hands over is answered with more work, as long as the signal has not reached the other."""
    helpers = {int(path.name.split("-")[1]) for path in tmp_path.iterdir()}
    for helper in helpers:
        os.kill(helper, signal.SIGINT)
    deadline = time.monotonic() + 120
    while len(list(tmp_path.iterdir())) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)  # none of them takes it, and it is done where nobody has heard anything
    os.kill(interruptible.pid, signal.SIGINT)
    output, _ = interruptible.communicate(timeout=120)
    assert json.loads(output) == [[0, 0], [1, 1], [2, 2]]
    assert (tmp_path / f"2-{interruptible.pid}").exists()


@pytest.mark.parametrize("n_jobs", [0, True, 1.5, "all"])
def test_a_number_of_jobs_that_cannot_be_is_refused(n_jobs: object) -> None:
    with pytest.raises(ConfigError, match=r"n_jobs: .* found\. Give a number of processes"):
        DeepLFMRegressor(n_jobs=n_jobs, progress=False).fit(range(30), range(30))


def test_rows_on_disk_are_fitted_one_candidate_after_the_other(tmp_path: Path) -> None:
    times = np.memmap(tmp_path / "t", mode="w+", shape=(40, 1), dtype=float)
    times[:, 0] = np.arange(40)
    settings = {
        "model": "sinusoids + broadband",
        "n_steps": 2,
        "n_jobs": 2,
        "progress": False,
    }
    model = DeepLFMRegressor(**settings)
    asked = []
    model._n_jobs = lambda rows: asked.append(DeepLFMRegressor._n_jobs(model, rows)) or 1
    model.fit(times, np.sin(times[:, 0]))
    model.fit(np.asarray(times), np.sin(np.asarray(times)[:, 0]))
    assert asked == [1, 2]
