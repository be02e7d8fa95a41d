"""Plain and compiled kernels do the same, and a machine without a compiler only hears of it."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

import deeplfm.kernels.plain as plain
from deeplfm import DeepLFMRegressor
from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.features.harmonic import harmonic_sum
from deeplfm.io.files import file_digest, private_folder, temporary_folder
from deeplfm.kernels import compiled_kernels, kernels_for, load_kernels
from deeplfm.kernels.build import CompilerError, build, find_compiler
from deeplfm.kernels.compiled import CompiledKernels
from deeplfm.kernels.tiles import Moments
from deeplfm.model import DeepLFM
from deeplfm.objective import Batch, collapsed, elbo
from deeplfm.randomness import generator_for
from deeplfm.terms import Paper

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler here")
precisions = pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)], ids=str
)


def relative(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).abs().max() / expected.abs().max().clamp_min(1e-12))


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def model_of(dtype: torch.dtype, block: BlockConfig, **layer) -> DeepLFM:
    hidden = LayerConfig(3, (block,))
    output = LayerConfig(2, (block, BlockConfig("arc1", "original", n_features=5)), **layer)
    config = ModelConfig(n_inputs=2, layers=(hidden, output), n_samples=6, n_paths=6)
    model = DeepLFM(config, seed=0).double()
    with torch.no_grad():
        for index, parameter in enumerate(model.parameters()):
            parameter.add_(0.3 * normal(*parameter.shape, seed=index))
        model.layers[0].weights.log_std.fill_(-2.0)  # hidden values of order one: e^{−γh} grows
    return model.to(dtype)


def value_and_gradients(model: DeepLFM, objective) -> list[Tensor]:
    dtype = next(model.parameters()).dtype
    batch = Batch(normal(40, 2).to(dtype), normal(40, 2, seed=1).to(dtype), 40)
    value = objective(model, batch, 6, generator_for(0, "step"))
    parameters = [p for p in model.parameters() if p.requires_grad and p.numel()]
    gradients = torch.autograd.grad(value, parameters, allow_unused=True)
    return [value.detach(), *(g for g in gradients if g is not None)]


BLOCKS = {
    "ode1": BlockConfig(n_forces=2, n_features=7, extras=("constant", "trend", "initial_state")),
    "ode2": BlockConfig("ode2", n_forces=2, n_features=7, extras=("initial_state",)),
    "running": BlockConfig(n_features=9, options={"lower_limit": -math.inf}),
    "later": BlockConfig(n_features=9, options={"lower_limit": -1.5}),
    "drawn": BlockConfig(n_features=7, noise_per_sample=True),
    "resampled": BlockConfig(n_features=7, frequencies="var-resampled"),
    "eq": BlockConfig("eq", n_forces=2, n_features=7, extras=("constant",)),
}


@needs_compiler
@precisions
@pytest.mark.parametrize("own_features", [False, True], ids=["shared", "own"])
@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_compiled_kernels_give_the_numbers_of_the_plain_path(
    block: BlockConfig, own_features: bool, dtype: torch.dtype, tolerance: float
) -> None:
    model = model_of(dtype, block, own_features=own_features)
    expected = value_and_gradients(model, elbo)
    with compiled_kernels() as is_compiled:
        found = value_and_gradients(model, elbo)
    assert is_compiled
    for left, right in zip(found, expected, strict=True):
        assert relative(left, right) < tolerance


@needs_compiler
@pytest.mark.parametrize("block", ["running", "eq", "resampled"])
def test_compiled_kernels_give_the_numbers_of_the_plain_path_with_an_exact_output(
    block: str,
) -> None:
    model = model_of(torch.float64, BLOCKS[block], weights="exact", own_features=True)
    expected = value_and_gradients(model, collapsed)
    with compiled_kernels():
        found = value_and_gradients(model, collapsed)
    for left, right in zip(found, expected, strict=True):
        assert relative(left, right) < 1e-9


def moments_of_some_powers(dtype: torch.dtype, n_shared: int, has_base: bool) -> Moments:
    """Two batches of three terms of two dimensions, where a few columns ask for powers of one input."""
    is_asked = torch.ones(2, 1, 5, 6, 13, dtype=torch.bool)  # B 1 functions inputs K
    is_asked[:, :, 1:] = False
    is_asked[0, :, 1:, 2, 4] = is_asked[0, :, 1:, 5, 0] = is_asked[1, :, 1:, 0, 12] = True
    shapes = {
        "x": (n_shared, 4, 33, 6),
        "frequency": (2, 3, 2, 13),
        "amplitude": (2, 3, 13),
        "phase": (2, 3, 13),
        "transients": (2, 30, 4, 33),
        "gains": (2, 2, 30, 13),
        "base": (2, 2, 33 if has_base else 0, 13),
        "mean": (2, 26, 3),
        "variance": (2, 26, 3),
    }
    items = {name: normal(*shape, seed=k) for k, (name, shape) in enumerate(shapes.items())}
    items["gains"] = items["gains"] * is_asked.flatten(2, 3)
    return Moments(**{name: item.to(dtype) for name, item in items.items()})


@needs_compiler
@precisions
@pytest.mark.parametrize("n_shared", [1, 2], ids=["one x", "own x"])
@pytest.mark.parametrize("has_base", [False, True], ids=["no base", "base"])
def test_columns_that_ask_for_different_transients_keep_their_places(
    n_shared: int, has_base: bool, dtype: torch.dtype, tolerance: float
) -> None:
    given = moments_of_some_powers(dtype, n_shared, has_base)
    expected, found = (kernels.moments(given) for kernels in (plain.PlainKernels(), load_kernels()))
    cotangents = [normal(*expected[0].shape, seed=seed).to(dtype) for seed in (20, 21)]
    pulled = [
        kernels.pull_moments(given, *cotangents)
        for kernels in (plain.PlainKernels(), load_kernels())
    ]
    for left, right in zip(found, expected, strict=True):
        assert relative(left, right) < tolerance
    for name, right, left in zip(Moments._fields, *pulled, strict=True):
        assert left.shape == right.shape, name
        if name == "gains":  # of a gain that is zero nobody asks for the gradient
            left, right = (item * (given.gains != 0) for item in (left, right))
        if right.numel():
            assert relative(left, right) < tolerance, name


@precisions
@pytest.mark.parametrize("n_shared", [1, 2], ids=["one x", "own x"])
@pytest.mark.parametrize("n_targets", [1, 4], ids=["one target", "own targets"])
@pytest.mark.parametrize("is_compiled", [False, pytest.param(True, marks=needs_compiler)], ids=str)
def test_squares_are_those_of_the_moments(
    n_shared: int, n_targets: int, is_compiled: bool, dtype: torch.dtype, tolerance: float
) -> None:
    """And their gradients what the moments' are for the slopes of Σ w((y − mean)² + variance)."""
    given = moments_of_some_powers(dtype, n_shared, has_base=True)
    target = normal(2, n_targets, 33, 3, seed=20).to(dtype)
    weight = normal(2, 33, 3, seed=21).exp().to(dtype)
    kernels = load_kernels() if is_compiled else plain.PlainKernels()
    mean, variance = kernels.moments(given)
    slope = 2 * weight[:, None] * (mean - target)
    expected = kernels.pull_moments(given, slope, weight[:, None].expand_as(mean))
    squares, by_target, found = kernels.squares(given, target, weight)
    assert relative(squares, ((target - mean).square() + variance).sum(1)) < tolerance
    assert relative(by_target, -slope.sum_to_size(target.shape)) < tolerance
    for name, left, right in zip(Moments._fields, found, expected, strict=True):
        assert left.shape == right.shape, name
        assert relative(left, right) < tolerance, name


@pytest.mark.parametrize("tile", [1, 50, 400, 2**20], ids=str)
@pytest.mark.parametrize("n_units", [1, 3])
def test_tiles_do_not_show(monkeypatch: pytest.MonkeyPatch, tile: int, n_units: int) -> None:
    layer = {"own_features": n_units == 1}
    expected = value_and_gradients(model_of(torch.float64, BLOCKS["ode1"], **layer), elbo)
    monkeypatch.setattr(plain, "_TILE_WAVES", tile)
    found = value_and_gradients(model_of(torch.float64, BLOCKS["ode1"], **layer), elbo)
    for left, right in zip(found, expected, strict=True):
        assert relative(left, right) < 1e-12


@needs_compiler
@precisions
@pytest.mark.parametrize("size", [1e-6, 1.0, 300.0, 1e5])
def test_compiled_sines_are_sines(size: float, dtype: torch.dtype, tolerance: float) -> None:
    """Angles of all quadrants and sizes; beyond 1e5 radians float32 has no digits left to compare."""
    angle = (size * normal(1, 1, 7, 501, 1)).to(dtype)
    one = torch.ones(1, 1, 13, dtype=dtype)
    with compiled_kernels():
        real, imag = harmonic_sum(angle, one[None], one, torch.zeros_like(one))
    rounding = 4 * torch.finfo(dtype).eps
    for found, function in ((real, torch.cos), (imag, torch.sin)):
        error = (found[0, ..., 0].double() - function(angle.double()[0, 0, ..., 0])).abs()
        assert float(error.max()) < rounding


@needs_compiler
@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_threads_share_the_rows(n_threads: int) -> None:
    model = model_of(torch.float64, BLOCKS["ode1"])
    before = torch.get_num_threads()
    with compiled_kernels():
        expected = value_and_gradients(model, elbo)
        try:
            torch.set_num_threads(n_threads)
            found = value_and_gradients(model, elbo)
        finally:
            torch.set_num_threads(before)
    for left, right in zip(found, expected, strict=True):
        assert relative(left, right) < 1e-12


def test_not_a_number_stays_one() -> None:
    for is_wanted in {False, find_compiler() is not None}:
        with compiled_kernels(is_wanted):
            x = torch.tensor([math.nan, 1.0]).view(1, 1, 1, 2, 1)
            one = torch.ones(1, 1, 3)
            real, _ = harmonic_sum(x, one[None], one, one)
        assert real[0, 0, 0].isnan().all()
        assert real[0, 0, 1].isfinite().all()


# --- choosing -------------------------------------------------------------------------------------


def test_kernels_are_plain_unless_asked_for() -> None:
    x = torch.zeros(1)
    assert isinstance(kernels_for(x), plain.PlainKernels)
    with compiled_kernels(False) as is_compiled:
        assert not is_compiled
        assert isinstance(kernels_for(x), plain.PlainKernels)


@needs_compiler
def test_kernels_are_compiled_inside_only_and_for_what_they_know() -> None:
    with compiled_kernels():
        assert isinstance(kernels_for(torch.zeros(1)), CompiledKernels)
        assert isinstance(kernels_for(torch.zeros(1, dtype=torch.float16)), plain.PlainKernels)
    assert isinstance(kernels_for(torch.zeros(1)), plain.PlainKernels)


@needs_compiler
def test_estimator_with_compiled_kernels_predicts_the_same() -> None:
    time = torch.linspace(0, 6, 80).numpy()
    value = torch.sin(3 * torch.linspace(0, 6, 80)).numpy()
    predicted = [
        DeepLFMRegressor(Paper(n_features=10), n_steps=3, dtype="float64", compile=compile)
        .fit(time, value)
        .predict(time)
        for compile in (False, True)
    ]
    assert abs(predicted[0] - predicted[1]).max() < 1e-8


# --- building -------------------------------------------------------------------------------------


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine that has not compiled anything yet."""
    monkeypatch.setenv("DEEPLFM_CACHE", str(tmp_path))
    build.cache_clear()
    load_kernels.cache_clear()
    yield tmp_path
    build.cache_clear()
    load_kernels.cache_clear()


def test_without_a_compiler_one_line_says_so_and_all_goes_on(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(fresh))
    monkeypatch.delenv("CXX", raising=False)
    with (
        pytest.warns(UserWarning, match=r"compile: no C\+\+ compiler found.*Going on") as record,
        compiled_kernels() as is_compiled,
    ):
        assert not is_compiled
        assert isinstance(kernels_for(torch.zeros(1)), plain.PlainKernels)
    assert len(record) == 1
    assert "\n" not in str(record[0].message)


def test_a_compiler_that_fails_is_named(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = fresh / "broken"
    broken.write_text(
        "#!/bin/sh\n[ $1 = --version ] && exit 0\necho 'fatal error: no' >&2\nexit 1\n"
    )
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    with pytest.raises(CompilerError, match="broken failed: fatal error: no"):
        build()
    assert not list(fresh.rglob("*.so"))


@needs_compiler
def test_kernels_are_compiled_once_and_kept(fresh: Path) -> None:
    first = build()
    made = first.stat().st_mtime_ns
    build.cache_clear()
    assert build() == first
    assert first.stat().st_mtime_ns == made
    kept = {path.name for path in (fresh / "deeplfm" / "kernels").iterdir()}
    assert kept == {first.name, first.with_suffix(".sha256").name}
    assert first.parent.stat().st_mode & 0o777 == 0o700


PLANTED = 'extern "C" __attribute__((constructor)) void planted() { __builtin_trap(); }'


@needs_compiler
@pytest.mark.parametrize("how", ["planted", "planted with its digest", "cut", "not a library"])
def test_a_library_that_was_not_compiled_here_is_compiled_again(fresh: Path, how: str) -> None:
    """A planted one would end this process when it is loaded."""
    library = build()
    build.cache_clear()
    whole = library.read_bytes()
    if how.startswith("planted"):
        library.unlink()
        compile_ = [find_compiler(), "-shared", "-fPIC", "-x", "c++", "-", "-o", str(library)]
        subprocess.run(compile_, input=PLANTED, text=True, check=True)
        if how == "planted with its digest":
            library.with_suffix(".sha256").write_text(file_digest(library))
            library.chmod(0o777)  # written by others
    else:
        library.write_bytes(whole[:5000] if how == "cut" else b"text")
    with compiled_kernels() as is_compiled:
        assert is_compiled
    assert library.read_bytes() == whole


@needs_compiler
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to someone else")
@pytest.mark.parametrize("what", ["folder", "library"])
def test_a_library_of_someone_else_is_not_used(fresh: Path, what: str) -> None:
    library = build()
    build.cache_clear()
    os.chown(library.parent if what == "folder" else library, 12345, 12345)
    again = build()
    assert again.stat().st_uid == os.geteuid()
    assert (again.parent == library.parent) == (what == "library")


def test_the_folder_of_kernels_is_closed_to_others(fresh: Path) -> None:
    folder = fresh / "deeplfm" / "kernels"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert private_folder("kernels") == folder
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.rmdir()
    (fresh / "elsewhere").mkdir()
    folder.symlink_to(fresh / "elsewhere")
    assert private_folder("kernels") == temporary_folder()


@needs_compiler
def test_a_closed_cache_folder_is_no_obstacle(tmp_path: Path) -> None:
    """In a process of its own, whose cache is a file."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    environment = {**os.environ, "DEEPLFM_CACHE": str(blocked), "TMPDIR": str(tmp_path)}
    code = "from deeplfm.kernels import compiled_kernels\nwith compiled_kernels() as c: print(c)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True"
