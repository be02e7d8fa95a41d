import pytest
import torch

from deeplfm.training.shuffling import shuffled_batches


def epoch(n_rows: int, size: int, seed: int = 0, **kind: int) -> list[torch.Tensor]:
    return list(shuffled_batches(n_rows, size, torch.Generator().manual_seed(seed), **kind))


@pytest.mark.parametrize("n_rows", [2, 7, 1000, 1001, 1999, 5003])
@pytest.mark.parametrize("size", [1, 64, 999, 4000])
def test_every_row_comes_once(n_rows: int, size: int) -> None:
    batches = epoch(n_rows, size, block=16, window=500)
    assert torch.equal(torch.cat(batches).sort().values, torch.arange(n_rows))
    sizes = [len(batch) for batch in batches]
    assert max(sizes) <= size
    assert min(sizes) >= max(sizes) // 2  # none is ragged


def test_few_rows_are_permuted_as_a_whole() -> None:
    plain = torch.randperm(100_001, generator=torch.Generator().manual_seed(3))
    assert torch.equal(torch.cat(epoch(100_001, 1000, seed=3)), plain)


def test_a_seed_is_an_order_and_another_seed_another() -> None:
    first, again, other = (torch.cat(epoch(400_000, 1000, seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_batch_of_a_sorted_file_is_like_the_file() -> None:
    """Rows 0 … N−1 in blocks of 1024: the mean of a batch of 1000 must be that of all rows.

    Drawn row by row its standard error is 0.289/√1000 = 0.009 N; the blocks of a window (128 or
    more of 391) add at most 0.289/√128 · √(1 − 128/391) = 0.021 N. Five of their sum in squares: 0.115.
    """
    n_rows = 400_000
    for batch in epoch(n_rows, 1000):
        assert len(batch.div(1024, rounding_mode="floor").unique()) > 100
        assert float(batch.double().mean()) / n_rows == pytest.approx(0.5, abs=0.115)


def test_neighbours_part() -> None:
    """Two neighbouring rows share a batch as rarely as two rows of one window do."""
    n_rows, size = 400_000, 1000
    place = torch.empty(n_rows, dtype=torch.long)
    for number, batch in enumerate(epoch(n_rows, size)):
        place[batch] = number
    together = (place[1:] == place[:-1]).double().mean()
    assert float(together) == pytest.approx(size / (n_rows / 3), rel=0.2)
