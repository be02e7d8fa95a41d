"""Values between the steps of a grid."""

import pytest
import torch

from deeplfm.interpolation import interpolate


@pytest.mark.parametrize("n_first", [1, 4, 10])
def test_a_parabola_is_met_between_inner_steps_wherever_the_grid_is_cut(n_first: int) -> None:
    """Catmull and Rom's cubic reproduces polynomials of degree two."""

    def parabola(t: torch.Tensor) -> torch.Tensor:
        return (3 - 2 * t + 0.5 * t**2)[None, :, None]

    grid = parabola(torch.arange(11, dtype=torch.float64))
    place = torch.tensor([1.0, 1.25, 3.5, 4.0, 4.9, 8.75], dtype=torch.float64)
    found = interpolate(place, grid[:, :n_first], grid[:, n_first:])
    torch.testing.assert_close(found, parabola(place))
