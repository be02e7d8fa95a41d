"""Runs the tasks of an experiment in parallel, and resumes a run that was stopped.

Every finished task is a file, so that only the tasks under way are lost when the process ends. Each
process computes with one thread.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import FrameType

from deeplfm.experiments.declaration import Experiment
from deeplfm.experiments.tasks import FAILED, Record, Task, is_settled, keep, kept, run_task
from deeplfm.selection.backends import LostWorkerError, as_finished, is_cluster, n_workers

TASKS = "tasks"
_ENDED = "its process was ended from outside, most likely for lack of memory; try again with fewer --jobs"

Report = Callable[[Record, int, int], None]


def plan(
    experiment: Experiment,
    n_seeds: int | None = None,
    is_quick: bool = False,
    budget: float | None = None,
) -> list[Task]:
    """All tasks, seed by seed, so that the table is complete as soon as the first seed is done."""
    return [
        Task(case, entry, seed, is_quick, budget, seed == 0 and entry.label in experiment.drawn)
        for seed in range(experiment.n_seeds if n_seeds is None else n_seeds)
        for case in experiment.cases
        for entry in experiment.models
    ]


def run(
    tasks: list[Task],
    folder: Path,
    n_jobs: int | None = None,
    retry: bool = False,
    report: Report | None = None,
    fresh: bool = False,
) -> None:
    """Run the tasks that are not done yet.

    Args:
        tasks: of :func:`plan`.
        folder: of the results.
        n_jobs: processes; by default one for each core. With :func:`on_backend`, workers of a cluster,
            which must see the folder.
        retry: run failed tasks again.
        report: called after each task with its record, the number of tasks done, and of all tasks.
        fresh: run tasks again that another version of the code computed.
    """
    place = folder / TASKS
    place.mkdir(parents=True, exist_ok=True)
    left = [task for task in tasks if not is_settled(task, place, retry, fresh)]
    for case in {task.case.name: task.case for task in left}.values():
        case.load(0)  # an error of the data comes before anything is computed
    n_done = len(tasks) - len(left)
    n_jobs = min(n_workers(n_jobs or -1), max(1, len(left)))
    for record in _finished(left, place, n_jobs):
        n_done += 1
        if report is not None:
            report(record, n_done, len(tasks))


def records(tasks: list[Task], folder: Path) -> list[Record]:
    """Records of those tasks that have one."""
    found = (kept(task, folder / TASKS) for task in tasks)
    return [record for record in found if record is not None]


def seeds_in(folder: Path) -> int:
    """Number of seeds in a folder of results: one more than the highest."""
    names = (path.stem.rpartition("--seed-")[2] for path in (folder / TASKS).glob("*.json"))
    return 1 + max((int(seed) for seed in names if seed.isdigit()), default=-1)


def left_aside(tasks: list[Task], folder: Path) -> list[str]:
    """Names of results in a folder that are of other settings or data than these tasks."""
    known = {task.name for task in tasks if kept(task, folder / TASKS) is not None}
    return sorted({path.stem for path in (folder / TASKS).glob("[!.]*.json")} - known)


def _finished(tasks: list[Task], place: Path, n_jobs: int) -> Iterator[Record]:
    alone = n_jobs == 1 and not is_cluster()
    with _whole_interrupts() if alone else nullcontext():
        for number, record in as_finished(partial(_by_one_thread, place=place), tasks, n_jobs):
            if isinstance(record, LostWorkerError):
                nothing: Record = {"rows": [], "seconds": {}, "warnings": []}
                failed = {"status": FAILED, "reason": _ENDED} | nothing
                record = keep(tasks[number].identity() | failed, tasks[number], place)
            yield record


def _by_one_thread(task: Task, place: Path) -> Record:
    """Run a task with one thread, in this process too."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), _one_torch_thread():
        return run_task(task, place)


@contextmanager
def _one_torch_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _whole_interrupts() -> Iterator[None]:
    """Let Ctrl-C end the fit at once; an estimator would stop early and keep an unfinished fit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
