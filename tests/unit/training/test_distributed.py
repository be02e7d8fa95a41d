"""Several processes fit what one fits, and go on after one of them was killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from fit_together import KILLED_AT, fitted, results

from deeplfm.errors import ConfigError
from deeplfm.estimators.scaling import Moments
from deeplfm.objective import OBJECTIVES, Batch
from deeplfm.randomness import generator_for, noise_of_rows, part_of_batch
from deeplfm.terms import BuildContext, Paper
from deeplfm.training import Rows
from deeplfm.training.distributed import World, alone, together, world

SCRIPT = Path(__file__).with_name("fit_together.py")


def run_together(folder: Path, n_processes: int) -> list[np.lib.npyio.NpzFile]:
    """Results of each process, of which one was killed."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    sizes = ["--nproc-per-node", str(n_processes), "--max-restarts", "1"]
    command = [*torchrun, *sizes, "--monitor-interval", "0.1", str(SCRIPT), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [np.load(folder / f"{rank}.npz") for rank in range(n_processes)]


@pytest.mark.skipif(not torch.distributed.is_available(), reason="PyTorch without distributed")
@pytest.mark.parametrize("n_processes", [2])
def test_processes_fit_what_one_fits_after_one_was_killed(tmp_path: Path, n_processes: int) -> None:
    expected = results(fitted())
    found = run_together(tmp_path, n_processes)
    for own in found:
        np.testing.assert_allclose(own["found"], expected, rtol=1e-10, atol=1e-10)
        np.testing.assert_array_equal(own["found"], found[0]["found"])
        assert 0 < own["begin"] <= KILLED_AT  # it went on, and did not begin anew
    assert (tmp_path / "model0").is_dir() and not (tmp_path / "model1").exists()


def test_parts_are_all_rows_once_and_of_nearly_equal_size() -> None:
    for n in (0, 1, 7, 10, 1000):
        parts = [range(n)[World(rank, 3).part(n)] for rank in range(3)]
        assert [i for part in parts for i in part] == list(range(n))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_too_few_rows_for_the_processes_are_refused() -> None:
    with pytest.raises(ConfigError, match="3 processes cannot share 2 rows of a batch"):
        World(0, 3).share(2, "rows of a batch")


def test_a_process_without_a_launcher_is_alone() -> None:
    with together() as found, alone():
        assert found == world() == World()
        assert found.writes and found.gather("a") == ["a"] and found.same(lambda: 3) == 3


def test_noise_of_a_part_is_that_of_the_whole_batch() -> None:
    like, generators = torch.zeros(0), [generator_for(0, "step") for _ in range(2)]
    whole = noise_of_rows(3, (10, 2), like, generators[0], is_antithetic=True)
    with part_of_batch(10, slice(4, 7)):
        part = noise_of_rows(3, (3, 2), like, generators[1], is_antithetic=True)
    assert torch.equal(part, whole[:, 4:7])
    assert torch.equal(*(torch.rand(2, generator=generator) for generator in generators))


@pytest.mark.parametrize("name", ["elbo", "predictive", "sampled-predictive"])
def test_objectives_and_gradients_of_parts_add_up(name: str) -> None:
    rng = torch.Generator().manual_seed(0)
    x, y = (torch.randn(9, k, generator=rng, dtype=torch.float64) for k in (3, 2))
    model = Paper(hidden=(2,), n_features=3).build(Rows(x, y), BuildContext(dtype=torch.float64))

    def value_and_gradient(rows: slice) -> torch.Tensor:
        model.zero_grad()
        batch = Batch(x[rows], y[rows], 90, None, len(x))
        with part_of_batch(len(x), rows):
            value = OBJECTIVES[name](model, batch, 4, generator_for(0, "step"))
        value.backward()
        gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        return torch.cat([value.detach()[None], *gradients])

    parts = [value_and_gradient(World(rank, 4).part(9)) for rank in range(4)]
    torch.testing.assert_close(sum(parts), value_and_gradient(slice(0, 9)), rtol=1e-11, atol=1e-11)


def test_moments_of_parts_are_those_of_all_rows() -> None:
    x = np.random.default_rng(0).normal(3, 2, size=(11, 2))
    x[::3, 1] = np.nan
    whole, parts = Moments(), [Moments() for _ in range(3)]
    whole.add(x)
    for part, rows in zip(parts[:2], (x[:4], x[4:]), strict=True):  # the third has no rows
        part.add(rows)
    together_ = Moments.of_all(parts)
    for key in ("count", "mean", "variance", "lowest", "highest"):
        np.testing.assert_allclose(getattr(together_, key), getattr(whole, key), rtol=1e-13)


def test_a_launch_that_fits_different_data_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "different.py"
    script.write_text(
        "import os, numpy as np\n"
        "from deeplfm import DeepLFMRegressor\n"
        "rank = int(os.environ['RANK'])\n"
        "x = np.random.default_rng(rank).normal(size=(30, 2))\n"
        "DeepLFMRegressor('paper', n_steps=1).fit(x, x[:, 0])\n"
    )
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = [*launch, "--nproc-per-node", "2", str(script)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"LC_ALL": "C"}
    )
    assert done.returncode != 0
    assert "processes 0 and 1 of torchrun differ in first rows" in done.stderr
