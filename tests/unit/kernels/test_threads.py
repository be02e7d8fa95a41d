"""Threads of the kernels share work without losing any, and leave PyTorch as it was."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch
from torch import Tensor

from deeplfm.kernels import plain, threads
from deeplfm.kernels.plain import PlainKernels
from deeplfm.kernels.threads import on_threads
from deeplfm.kernels.tiles import Moments


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_every_share_is_taken_once(n_threads: int) -> None:
    taken = on_threads(list, 100, n_threads)
    assert len(taken) == n_threads
    assert sorted(share for mine in taken for share in mine) == list(range(100))


def test_an_error_in_a_thread_reaches_the_caller() -> None:
    def work(shares: Iterator[int]) -> None:
        for share in shares:
            if share == 7:
                raise ValueError("share 7")

    with pytest.raises(ValueError, match="share 7"):
        on_threads(work, 10, 2)


def test_an_error_stops_the_other_threads() -> None:
    done, both = [], Barrier(2)

    def work(shares: Iterator[int]) -> None:
        for share in shares:
            if share < 2:
                both.wait()
            if share == 0:
                raise KeyboardInterrupt
            time.sleep(0.01)
            done.append(share)

    with pytest.raises(KeyboardInterrupt):
        on_threads(work, 1000, 2)
    assert len(done) < 100


def test_threads_that_are_there_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_pools", {})
    for n_threads in (3, 2, 5, 4, 3):
        on_threads(list, 8, n_threads)
    assert list(threads._pools) == [2, 4]  # beside the caller's


def test_the_number_of_threads_of_pytorch_stays_what_it_was(two_threads: None) -> None:
    of_workers = on_threads(lambda _: torch.get_num_threads(), 1, 3)
    assert of_workers == [1, 1, 1]
    assert torch.get_num_threads() == 2
    with ThreadPoolExecutor(1) as later:
        assert later.submit(torch.get_num_threads).result() == 2


def test_gradients_are_not_recorded_in_threads() -> None:
    parameter = torch.ones(1, requires_grad=True)
    for made in on_threads(lambda _: parameter * 2, 1, 2):
        assert not made.requires_grad


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_has_threads_of_its_own() -> None:
    script = """
import os
from deeplfm.kernels.threads import on_threads
on_threads(list, 4, 2)
child = os.fork()
if not child:
    os._exit(len(on_threads(list, 4, 2)))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.strip() == "2"


def moments() -> Moments:
    """Three batches of seven samples of eleven rows, so that tiles have rests."""
    shapes = {
        "x": (1, 7, 11, 2),
        "frequency": (3, 2, 1, 5),
        "amplitude": (3, 2, 5),
        "phase": (3, 2, 5),
        "transients": (3, 6, 7, 11),
        "gains": (3, 2, 6, 5),
        "base": (2, 3, 11, 5),
        "mean": (3, 10, 1),
        "variance": (3, 10, 1),
    }
    generator = torch.Generator().manual_seed(0)
    return Moments(
        **{
            name: torch.randn(shape, generator=generator, dtype=torch.float64)
            for name, shape in shapes.items()
        }
    )


def everything(given: Moments) -> list[Tensor]:
    """All that the plain kernels find."""
    kernels = PlainKernels()
    mean, variance = kernels.moments(given)
    target, weight = torch.zeros_like(mean[:, :1]), torch.ones_like(mean[:, 0])
    squares, by_target, gradients = kernels.squares(given, target, weight)
    pulled = kernels.pull_moments(given, 2 * mean, torch.ones_like(variance))
    return [mean, variance, squares, by_target, *gradients, *pulled]


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch, two_threads: None) -> None:
    monkeypatch.setattr(plain, "_LEAST_WAVES", 1)
    monkeypatch.setattr(plain, "_TILE_WAVES", 30)
    monkeypatch.setattr(plain, "_SHARE_TILES", 2)
    assert plain.Tiling(moments()).n_threads == 2


@pytest.mark.parametrize("n_own", [1, 3], ids=["one x", "own x"])
def test_plain_kernels_find_the_same_on_two_threads(
    request: pytest.FixtureRequest, n_own: int
) -> None:
    given = moments()
    given = given._replace(x=given.x * torch.arange(1.0, 1 + n_own)[:, None, None, None])
    expected = everything(given)
    request.getfixturevalue("small_tiles")
    found = everything(given)
    for left, right in zip(found, expected, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-12, atol=1e-12)


def test_plain_kernels_find_the_same_bits_each_time(small_tiles: None) -> None:
    given = Moments(*(item.float() for item in moments()))
    expected = everything(given)
    for _ in range(20):
        for left, right in zip(everything(given), expected, strict=True):
            assert torch.equal(left, right)


def test_threads_are_in_inference_mode_where_the_caller_is(small_tiles: None) -> None:
    expected = everything(moments())
    with torch.inference_mode():
        found = everything(moments())
    for left, right in zip(found, expected, strict=True):
        assert torch.equal(left, right)
