"""Where parallel work runs: processes of this machine, or a cluster of Dask or Ray, all through joblib.

Every parallel loop of the package gets its pool here. A worker that is lost costs the tasks that it was
working on, which are given to others; each task has one result.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import islice
from typing import Any, TypeVar

from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from threadpoolctl import threadpool_limits

from deeplfm.errors import ConfigError

Task = TypeVar("Task")
Result = TypeVar("Result")
Work = Callable[[Any], Any]

BACKENDS = ("loky", "dask", "ray")
_WATCH_SECONDS = 0.5
_N_POOLS = 3  # that may lose a worker before each task that is left gets a pool of its own

_backend: ContextVar[str] = ContextVar("backend", default="loky")


class LostWorkerError(Exception):
    """A worker ended in the middle of its work."""


@contextmanager
def on_backend(name: str | None) -> Iterator[None]:
    """Run the parallel work inside on a backend; ``None`` leaves it where it is."""
    if name is not None and name not in BACKENDS:
        raise ConfigError(f"backend: {name!r} is not known. Choose one of {', '.join(BACKENDS)}.")
    before = _backend.set(name or _backend.get())
    try:
        yield
    finally:
        _backend.reset(before)


def is_cluster() -> bool:
    """Whether work goes to a cluster, whose workers may share neither files nor clocks with us."""
    return _backend.get() != "loky"


def n_workers(n_jobs: int | None) -> int:
    """Tasks that run at a time. A cluster decides for itself, unless the user gives a number."""
    if not is_cluster():
        return int(effective_n_jobs(n_jobs))
    _connect()
    with parallel_config(_backend.get()):
        return int(effective_n_jobs(-1 if n_jobs is None else n_jobs))


def calls_in_pool(work: Work, tasks: Iterator[Any], n_jobs: int) -> Iterator[Any]:
    """Results of the work in any order, by several workers.

    Args:
        work: called with each task, in a process that shares nothing with this one.
        tasks: taken as workers become free.
        n_jobs: workers.

    Raises:
        LostWorkerError: when a worker ended; results that were not given yet are lost.
    """
    import torch

    name = _backend.get()
    _connect()
    threads = max(1, torch.get_num_threads() // n_jobs) if name == "loky" else 1
    options = {"inner_max_num_threads": threads} if name == "loky" else {}
    try:
        with parallel_config(name, n_jobs=n_jobs, **options):
            if name == "ray":
                yield from _by_ray(work, tasks, n_jobs)
                return
            pool = Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch=n_jobs)
            yield from pool(delayed(work)(task) for task in tasks)
    except _losses(name) as error:
        raise LostWorkerError(str(error)) from error


def _by_ray(work: Work, tasks: Iterator[Any], n_jobs: int) -> Iterator[Any]:
    """Results by tasks of Ray, which are tried again where a worker is lost; a pool would wait for it."""
    import ray

    call = ray.remote(max_retries=_N_POOLS)(_called)
    running = [call.remote(work, task) for task in islice(tasks, n_jobs)]
    while running:
        done, running = ray.wait(running, num_returns=1)
        yield ray.get(done[0])
        running += [call.remote(work, task) for task in islice(tasks, 1)]


def _called(work: Work, task: Any) -> Any:
    return work(task)


def as_finished(
    function: Callable[[Task], Result], tasks: Sequence[Task], n_jobs: int = 1
) -> Iterator[tuple[int, Result | LostWorkerError]]:
    """Number and result of each task, in any order: here for one job, or by several workers.

    Tasks of a worker that is lost are given to others. One whose worker ends each time, for lack of
    memory for example, has the error in place of a result.
    """
    n_jobs = min(n_jobs, len(tasks))
    if n_jobs <= 1 and not is_cluster():
        for number, task in enumerate(tasks):
            yield number, function(task)
        return
    left = dict(enumerate(tasks))
    work = _Numbered(function)
    for _ in range(_N_POOLS):
        try:
            for number, result in calls_in_pool(work, iter(list(left.items())), n_jobs):
                if left.pop(number, None) is not None:
                    yield number, result
            return
        except LostWorkerError:
            continue
    for number, task in left.items():
        try:
            (pair,) = calls_in_pool(work, iter([(number, task)]), 2)
            yield pair
        except LostWorkerError as error:
            yield number, error


class _Numbered:
    """A function of a number and a task, which one thread computes."""

    def __init__(self, function: Work) -> None:
        self._function = function
        self._is_remote = is_cluster()
        self._parent = os.getpid()

    def __call__(self, pair: tuple[int, Any]) -> tuple[int, Any]:
        number, task = pair
        if not self._is_remote:  # loky limits the threads of its processes
            with ending_with(self._parent):
                return number, self._function(task)
        import torch

        torch.set_num_threads(1)
        with threadpool_limits(1):
            return number, self._function(task)


@contextmanager
def ending_with(parent: int) -> Iterator[None]:
    """Work of a process for its parent, which alone decides what Ctrl-C ends."""
    end_with(parent)
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@cache
def end_with(parent: int) -> None:
    """End this process soon after its parent, which may have been killed in the middle of its work."""
    if os.getppid() != parent:
        return

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="end-with-parent").start()


def _connect() -> None:
    """Find the cluster of the backend: the one that this process is connected to, or that is declared."""
    name = _backend.get()
    try:
        if name == "dask":
            _connect_dask()
        elif name == "ray":
            import ray
            from ray.util.joblib import register_ray

            if not ray.is_initialized():
                ray.init(address="auto", log_to_driver=False)
            register_ray()
    except ImportError as error:
        raise ConfigError(
            f"backend: {name} is not installed ({error.name}). Install it with pip install "
            f"'deeplfm[{name}]'."
        ) from error
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"backend: no cluster of {name} found ({str(error)[:200]}). Start one, and "
            + {
                "dask": "connect with dask.distributed.Client(address), or set DASK_SCHEDULER_ADDRESS.",
                "ray": "connect with ray.init(address), or set RAY_ADDRESS.",
            }[name]
        ) from error


_clients: list[Any] = []  # that were opened here, kept until this process ends


def _connect_dask() -> None:
    import dask
    from distributed import Client, get_client

    try:
        get_client()
    except ValueError:
        address = dask.config.get("scheduler-address", None)
        if address is None:
            raise ValueError("no client, and no address") from None
        _clients.append(Client(address))


def _losses(name: str) -> tuple[type[Exception], ...]:
    """Errors of a backend that mean a lost worker."""
    if name == "dask":
        from distributed import CancelledError, KilledWorker
        from distributed.comm import CommClosedError

        return (KilledWorker, CancelledError, CommClosedError)
    if name == "ray":
        from ray.exceptions import RayActorError, WorkerCrashedError

        return (RayActorError, WorkerCrashedError)
    return (BrokenProcessPool,)
