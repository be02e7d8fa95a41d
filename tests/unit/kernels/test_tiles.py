"""Tiles go through every row once, and columns come back in the order in which they were given."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import Tensor

from deeplfm.kernels import plain as cutting
from deeplfm.kernels.plain import PlainKernels
from deeplfm.kernels.threads import workspace
from deeplfm.kernels.tiles import Moments

N_INPUTS, N_POWERS, N_COLUMNS = 2, 3, 6


def moments(n_batches: int = 2, n_samples: int = 5, n_rows: int = 7) -> Moments:
    """Random arguments; powers only in column 4 of the first batch, and in 1 and 3 of the others."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    x = draw(1, n_samples, n_rows, N_INPUTS)
    gains = draw(n_batches, 2, N_INPUTS * (1 + N_POWERS), N_COLUMNS)
    has_powers = torch.zeros(n_batches, N_COLUMNS, dtype=torch.bool)
    has_powers[0, 4] = has_powers[1:, 1] = has_powers[1:, 3] = True
    gains[:, :, N_INPUTS:] *= has_powers[:, None, None]
    return Moments(
        x=x,
        frequency=draw(n_batches, N_INPUTS, 1, N_COLUMNS),
        amplitude=draw(n_batches, N_INPUTS, N_COLUMNS),
        phase=draw(n_batches, N_INPUTS, N_COLUMNS),
        transients=draw(n_batches, N_INPUTS * (1 + N_POWERS), n_samples, n_rows),
        gains=gains,
        base=draw(2, n_batches, n_rows, N_COLUMNS),
        mean=draw(n_batches, 2 * N_COLUMNS, 3),
        variance=draw(n_batches, 2 * N_COLUMNS, 3).abs(),
    )


def features(given: Moments) -> Tensor:
    """F, real parts first, written down as the formula says: B S N 2K."""
    x = given.x.expand(len(given.mean), -1, -1, -1)
    angle = torch.einsum("bsnp,bpk->bsnpk", x, given.frequency[:, :, 0])
    wave = given.amplitude[:, None, None] * torch.exp(1j * (angle + given.phase[:, None, None]))
    gains = torch.complex(given.gains[:, 0], given.gains[:, 1])
    transients = torch.einsum("blsn,blk->bsnk", given.transients.to(gains.dtype), gains)
    base = torch.complex(given.base[0], given.base[1])[:, None]
    total = wave.sum(-2) + transients + base
    return torch.cat([total.real, total.imag], -1)


@pytest.mark.parametrize("tile_waves", [12, 60, 200, 10**6])
@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_tiles_go_through_every_row_of_every_sample_once(
    monkeypatch: pytest.MonkeyPatch, tile_waves: int, n_threads: int
) -> None:
    monkeypatch.setattr(cutting, "_TILE_WAVES", tile_waves)
    monkeypatch.setattr(cutting, "_LEAST_WAVES", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: n_threads)
    given = moments()
    cut = cutting.Tiling(given)
    seen: Counter[tuple[int, int, int]] = Counter()
    shares = cut.shares(iter(range(len(cut.tasks))))
    for tile in (tile for share in shares for tile in share.tiles()):
        batch, (samples, rows) = tile.batch.number, tile.place
        torch.testing.assert_close(tile.given.x[..., 0].mT, given.x[0, samples, rows].flatten(0, 1))
        seen.update(
            (batch, sample, row)
            for sample in range(samples.start, samples.stop)
            for row in range(rows.start, rows.stop)
        )
    assert set(seen.values()) == {1}
    assert len(seen) == 2 * 5 * 7


def test_columns_with_powers_are_brought_together_and_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = moments()
    assert cutting.Tiling(given).order is None  # so few rows are not worth it
    monkeypatch.setattr(cutting, "_LEAST_WAVES", 1)
    cut = cutting.Tiling(given)
    assert [n_columns for _, n_columns in cut.kinds] == [N_COLUMNS, 2]
    assert cut.order is not None
    assert cut.order[0, 0] == 4
    assert set(cut.order[1, :2].tolist()) == {1, 3}
    back = cut.given.with_columns(cut.order.argsort(-1))
    for item, expected in zip(back, given, strict=True):
        torch.testing.assert_close(item, expected, rtol=0, atol=0)


@pytest.mark.parametrize("tile_waves", [60, 10**6])
@pytest.mark.parametrize("least_waves", [1, 10**6])
def test_moments_and_gradients_are_those_of_the_formula(
    monkeypatch: pytest.MonkeyPatch, tile_waves: int, least_waves: int
) -> None:
    monkeypatch.setattr(cutting, "_TILE_WAVES", tile_waves)
    monkeypatch.setattr(cutting, "_LEAST_WAVES", least_waves)
    given = Moments(*(item.clone().requires_grad_() for item in moments()))
    columns = features(given)
    mean = torch.einsum("bsnk,bku->bsnu", columns, given.mean)
    variance = torch.einsum("bsnk,bku->bsnu", columns.square(), given.variance)
    of_mean, of_variance = torch.randn_like(mean), torch.randn_like(variance)
    gradients = torch.autograd.grad((mean, variance), given, (of_mean, of_variance))
    kernels, plain = PlainKernels(), moments()
    torch.testing.assert_close(kernels.moments(plain), (mean.detach(), variance.detach()))
    pulled = kernels.pull_moments(plain, of_mean, of_variance)._asdict()
    asks_gain = plain.gains != 0  # others are those that no row may change
    pulled["gains"] = torch.where(asks_gain, pulled["gains"], 0.0)
    for (name, found), expected in zip(pulled.items(), gradients, strict=True):
        expected = torch.where(asks_gain, expected, 0.0) if name == "gains" else expected
        torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11, msg=name)


def test_memory_first_asked_for_in_inference_mode_serves_others() -> None:
    workspace.share = workspace.tile = torch.empty(0)
    with torch.inference_mode():
        PlainKernels().moments(moments())
    PlainKernels().moments(moments())
