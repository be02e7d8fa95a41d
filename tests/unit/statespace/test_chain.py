"""Markov processes at the times of some rows."""

import numpy as np
import pytest

from deeplfm.statespace.chain import _summed_back


@pytest.mark.parametrize("size", [1, 3, 8])  # all times at once, and one after the other
@pytest.mark.parametrize("n_times", [1, 2, 7])
def test_sums_from_the_last_time_to_the_first(n_times, size):
    rng = np.random.default_rng(n_times)
    jump = rng.normal(size=(n_times - 1, size, size))
    root = rng.normal(size=(n_times, size, size))
    noise = root @ root.transpose(0, 2, 1)
    expected = [noise[-1]]
    for t in range(n_times - 2, -1, -1):
        expected.insert(0, noise[t] + jump[t] @ expected[0] @ jump[t].T)
    np.testing.assert_allclose(_summed_back(jump, noise), expected, rtol=1e-9)
