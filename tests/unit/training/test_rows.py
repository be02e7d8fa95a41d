import pytest
import torch

from deeplfm.training import Rows, StoredRows
from deeplfm.training import rows as module
from deeplfm.training.rows import shuffled_batches

N_ROWS = 23
MEMORY = Rows(
    torch.arange(2.0 * N_ROWS).reshape(N_ROWS, 2),
    torch.arange(1.0 * N_ROWS)[:, None],
    torch.arange(1.0 * N_ROWS) / 7,
)
SOURCES = [MEMORY, StoredRows(MEMORY.take, N_ROWS), MEMORY.without(torch.zeros(0).long())]


def same(left: Rows, right: Rows) -> bool:
    pairs = ((left.x, right.x), (left.y, right.y), (left.weight, right.weight))
    return all(torch.equal(*pair) for pair in pairs)


@pytest.mark.parametrize("rows", SOURCES)
def test_rows_come_in_the_order_asked_for(rows: module.RowSource) -> None:
    index = torch.tensor([5, 0, 22, 5])
    assert len(rows) == N_ROWS
    assert same(rows.take(index), MEMORY.take(index))
    assert same(rows.everything(), MEMORY)


@pytest.mark.parametrize("rows", SOURCES)
def test_subsets_of_subsets(rows: module.RowSource) -> None:
    index = torch.tensor([9, 3, 17, 4])
    inner = rows.subset(index).subset(torch.tensor([2, 0, 1]))
    assert len(inner) == 3
    assert same(inner.everything(), MEMORY.take(index[[2, 0, 1]]))


@pytest.mark.parametrize("rows", SOURCES)
@pytest.mark.parametrize("left_out", [[0], [22], [7, 3, 8, 0, 4], [20, 21, 22], list(range(22))])
def test_all_but_a_few(rows: module.RowSource, left_out: list[int]) -> None:
    kept = torch.tensor([i for i in range(N_ROWS) if i not in left_out])
    rest = rows.without(torch.tensor(left_out))
    assert len(rest) == len(kept)
    assert same(rest.everything(), MEMORY.take(kept))


@pytest.mark.parametrize("rows", SOURCES)
@pytest.mark.parametrize("size", [1, 5, 23, 100])
def test_chunks_hold_every_row_once(
    rows: module.RowSource, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHUNK_ROWS", size)
    chunks = list(rows.chunks())
    assert max(len(chunk) for chunk in chunks) <= size
    assert torch.equal(torch.cat([chunk.y for chunk in chunks]), MEMORY.y)


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
