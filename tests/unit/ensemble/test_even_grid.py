"""Values on an even grid, where they are missing, and between its steps."""

import math

import pytest
import torch

from deeplfm.ensemble.even_grid import completed, in_long_gaps, interpolate, steps_of

NAN = math.nan


@pytest.mark.parametrize("n_first", [1, 4, 10])
def test_a_parabola_is_met_between_inner_steps_wherever_the_grid_is_cut(n_first: int) -> None:
    """Catmull and Rom's cubic reproduces polynomials of degree two."""

    def parabola(t: torch.Tensor) -> torch.Tensor:
        return (3 - 2 * t + 0.5 * t**2)[None, :, None]

    grid = parabola(torch.arange(11, dtype=torch.float64))
    place = torch.tensor([1.0, 1.25, 3.5, 4.0, 4.9, 8.75], dtype=torch.float64)
    found = interpolate(place, grid[:, :n_first], grid[:, n_first:])
    torch.testing.assert_close(found, parabola(place))


def test_steps_are_counted_however_many_are_left_out() -> None:
    whole = torch.tensor([0, 1, 2, 3, 7, 8, 10])
    shaken = 0.3 + 0.25 * whole + 0.02 * torch.tensor([0, 1, -1, 1, 0, -1, 1])
    assert steps_of(shaken).tolist() == whole.tolist()


def test_known_values_stay_and_a_line_is_filled_by_a_line() -> None:
    step = torch.tensor([0, 1, 2, 4, 5])
    values = torch.tensor([[0.0, 5.0], [1.0, NAN], [2.0, 5.5], [4.0, NAN], [NAN, NAN]]).double()
    filled = completed(step, values)
    line = [0.0, 1.0, 2.0, 3.0, 4.0, 4.0]  # the last is that of the last known
    torch.testing.assert_close(filled[:, 0], torch.tensor(line).double())
    torch.testing.assert_close(filled[:, 1], torch.tensor([5, 5.25, 5.5, 5.5, 5.5, 5.5]).double())


def test_a_column_known_once_is_constant() -> None:
    filled = completed(torch.arange(3), torch.tensor([[NAN], [2.0], [NAN]]))
    assert filled[:, 0].tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(("longest", "first"), [(1, [0, 1, 4, 5]), (2, []), (0, [0, 1, 4, 5, 7])])
def test_gaps_are_told_by_column_at_both_ends_and_in_rows_left_out(longest, first) -> None:
    step = torch.tensor([0, 1, 2, 3, 6, 7, 8])
    values = torch.ones(7, 2)
    values[[0, 1, 5], 0] = NAN
    values[3:, 1] = NAN
    found = in_long_gaps(step, values, longest)
    assert found[:, 0].nonzero()[:, 0].tolist() == first
    assert found[:, 1].nonzero()[:, 0].tolist() == [3, 4, 5, 6, 7, 8]
