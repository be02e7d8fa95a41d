"""Parallel work on this machine and on clusters; each task has one result, also when a worker is lost."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from deeplfm.errors import ConfigError
from deeplfm.selection import backends
from deeplfm.selection.backends import LostWorkerError, as_finished, n_workers, on_backend

N_TASKS = 6


def square_or_die(task: tuple[int, str]) -> int:
    """The square of a number; the process ends at 3, the first time or (without a file) each time."""
    number, marker = task
    if number == 3 and not (marker and Path(marker).exists()):
        if marker:
            Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2


def square(number: int) -> int:
    return number**2


def squares(marker: str, n_jobs: int = 2) -> list[tuple[int, int | LostWorkerError]]:
    return list(as_finished(square_or_die, [(i, marker) for i in range(N_TASKS)], n_jobs))


def test_results_of_a_lost_worker_are_made_again_once(tmp_path):
    found = squares(str(tmp_path / "died"))
    assert sorted(found) == [(i, i**2) for i in range(N_TASKS)]


def test_a_task_that_ends_its_worker_each_time_has_the_error(monkeypatch):
    monkeypatch.setattr(backends, "_N_POOLS", 1)
    found = dict(squares(""))
    assert isinstance(found.pop(3), LostWorkerError)
    assert found == {i: i**2 for i in range(N_TASKS) if i != 3}


def test_an_unknown_backend_is_refused():
    with pytest.raises(ConfigError, match="backend: 'spark'"), on_backend("spark"):
        pass


def test_a_backend_that_is_not_installed_is_named(monkeypatch):
    import builtins

    original = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] in ("dask", "ray"):
            raise ImportError(name=name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match="dask is not installed"), on_backend("dask"):
        n_workers(None)


@pytest.fixture(scope="module")
def backend() -> Iterator[str]:
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            distributed.LocalCluster(processes=True, **options) as cluster,
            distributed.Client(cluster),
        ):
            yield "dask"


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_gives_the_same_results_and_survives_a_lost_worker(backend, tmp_path):
    with on_backend(backend):
        assert n_workers(None) == 2
        assert sorted(as_finished(square, range(4))) == [(i, i**2) for i in range(4)]
        found = squares(str(tmp_path / "died"), 2)
    assert sorted(found) == [(i, i**2) for i in range(N_TASKS)]


@pytest.mark.filterwarnings("ignore")
def test_a_panel_on_a_cluster_is_that_of_one_process(backend):
    from deeplfm import DeepLFMForecaster

    months = pd.date_range("2020-01-01", periods=24, freq="MS")
    rng = np.random.default_rng(0)
    frame = pd.concat(
        pd.DataFrame({"unique_id": name, "ds": months, "y": rng.standard_normal(24).cumsum()})
        for name in "abc"
    )
    settings = {"model": "trend + level", "progress": False}
    here = DeepLFMForecaster(**settings).fit(frame).forecast(2)
    there = DeepLFMForecaster(**settings, backend=backend).fit(frame).forecast(2)
    pd.testing.assert_frame_equal(here, there)
