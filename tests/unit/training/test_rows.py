import pytest
import torch

from deeplfm.training import Rows, StoredRows
from deeplfm.training import rows as module

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
