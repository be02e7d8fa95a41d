"""Values hidden like the gaps of a series."""

import math

import pytest
import torch

from deeplfm.selection.split import hide_like_gaps
from deeplfm.training import Rows


def series(n_rows: int = 200, n_outputs: int = 1) -> Rows:
    time = torch.arange(n_rows, dtype=torch.float64)[:, None]
    return Rows(time, torch.sin(time + torch.arange(n_outputs)))


def runs(is_there: torch.Tensor) -> list[int]:
    """Lengths of the runs of true values."""
    edge = torch.zeros(1, dtype=torch.long)
    change = torch.cat([edge, is_there.long(), edge]).diff()
    return ((change == -1).nonzero() - (change == 1).nonzero())[:, 0].tolist()


def hidden_of(rows: Rows) -> torch.Tensor:
    rest, hidden = hide_like_gaps(rows)
    assert hidden is not None
    is_hidden = rest.y.isnan() & ~rows.y.isnan()
    at = is_hidden.any(1)
    assert torch.equal(hidden.x, rows.x[at])
    assert torch.equal(rest.x, rows.x)
    is_told = ~hidden.y.isnan()
    assert torch.equal(is_told, is_hidden[at])  # each value is in one of both
    assert torch.equal(hidden.y[is_told], rows.y[is_hidden])
    assert torch.equal(rest.y[~rest.y.isnan()], rows.y[~rows.y.isnan() & ~is_hidden])
    return is_hidden


@pytest.mark.parametrize("n_missing", [0, 3])
def test_nothing_is_hidden_where_there_is_no_gap(n_missing: int) -> None:
    rows = series()
    rows.y[50 : 50 + n_missing] = math.nan
    rest, hidden = hide_like_gaps(rows)
    assert rest is rows and hidden is None


def test_copies_are_as_long_as_the_gap_and_far_from_the_ends() -> None:
    rows = series(400)
    rows.y[100:110] = math.nan
    is_hidden = hidden_of(rows)[:, 0]
    lengths = runs(is_hidden)
    assert len(lengths) == 8  # not more
    assert set(lengths) <= {10, 11}
    assert not is_hidden[:1].any() and not is_hidden[-1:].any()
    together = runs(is_hidden | rows.y.isnan()[:, 0])
    assert len(together) == 9  # none beside another


def test_rows_that_are_not_there_are_a_gap_too() -> None:
    whole = series(400)
    is_there = torch.ones(400, dtype=torch.bool)
    is_there[100:110] = False
    lengths = runs(hidden_of(whole.take(is_there.nonzero()[:, 0]))[:, 0])
    assert lengths and set(lengths) <= {10, 11}


@pytest.mark.parametrize("gaps", [[(100, 300)], [(100, 130), (200, 230)]])
def test_few_long_gaps_are_too_little_evidence(gaps) -> None:
    rows = series(400)
    for start, end in gaps:
        rows.y[start:end] = math.nan
    assert hide_like_gaps(rows)[1] is None


def test_of_many_gaps_some_are_moved_and_none_is_shortened() -> None:
    rows = series(400)
    for start in (40, 130, 220, 310):
        rows.y[start : start + 26] = math.nan
    lengths = runs(hidden_of(rows)[:, 0])
    assert len(lengths) == 3  # of four: less than three tenths of the rest
    assert set(lengths) <= {26, 27}


def test_outputs_that_are_missing_together_are_hidden_together() -> None:
    rows = series(400, 2)
    rows.y[100:110] = math.nan
    is_hidden = hidden_of(rows)
    assert torch.equal(is_hidden[:, 0], is_hidden[:, 1])
    rows = series(400, 2)
    rows.y[100:110, 0] = math.nan
    is_hidden = hidden_of(rows)
    assert is_hidden[:, 0].any() and not is_hidden[:, 1].any()


def test_an_output_that_is_never_known_has_no_gap() -> None:
    rows = series(100, 2)
    rows.y[:, 1] = math.nan
    rows.y[40:46, 0] = math.nan
    is_hidden = hidden_of(rows)
    assert is_hidden[:, 0].any() and not is_hidden[:, 1].any()
    rows.y[:, 0] = math.nan
    assert hide_like_gaps(rows)[1] is None


@pytest.mark.parametrize("n_outputs", [1, 2, 5])
def test_of_no_output_too_much_is_hidden(n_outputs: int) -> None:
    """Its own values count, not those of outputs without gaps."""
    rows = series(300, n_outputs)
    rows.y[torch.arange(300) % 15 > 8, 0] = math.nan
    is_hidden, known = hidden_of(rows), ~rows.y.isnan()
    assert is_hidden[:, 0].any()
    assert (is_hidden.sum(0) <= 0.3 * known.sum(0) + 1).all()


def test_times_that_repeat_are_no_gaps() -> None:
    time = torch.arange(100, dtype=torch.float64).repeat_interleave(2)[:, None]
    assert hide_like_gaps(Rows(time, torch.sin(time)))[1] is None
