"""Simulated systems: they solve their equations, and noise is what it says."""

import numpy as np
import pytest
from scipy.integrate import odeint

from deeplfm.data.simulated import LORENZ_STATES, fitzhugh_nagumo, lorenz
from deeplfm.errors import ConfigError


def nerve(state, time):
    v, r = state
    return [3 * (v - v**3 / 3 + r), -(v - 0.2 + 0.2 * r) / 3]


def attractor(state, time):
    x, y, z = state
    return [10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z]


def test_the_nerve_agrees_with_another_solver():
    data = fitzhugh_nagumo()
    assert data.time[[0, 1, -1]] == pytest.approx([0.0, 0.05, 19.95])
    other = odeint(nerve, [-1.0, 1.0], data.time, rtol=1e-11, atol=1e-11)
    assert data.clean == pytest.approx(other, abs=1e-6)


def test_the_attractor_agrees_with_another_solver_until_chaos_parts_them():
    data = lorenz(LORENZ_STATES[1], n_rows=101, end=5.0)
    other = odeint(attractor, LORENZ_STATES[1], data.time, rtol=1e-12, atol=1e-12)
    assert data.clean == pytest.approx(other, abs=1e-4)
    assert (data.value == data.clean).all()


def test_the_attractor_has_the_rows_of_the_paper_and_forgets_its_state():
    paths = [lorenz(state) for state in LORENZ_STATES]
    assert all(path.value.shape == (1000, 3) and path.time[-1] == 50.0 for path in paths)
    ends = np.stack([path.clean[-1] for path in paths])
    gaps = np.linalg.norm(ends[:, None] - ends, axis=-1) + 99 * np.eye(len(ends))
    assert gaps.min() > 0.5


def test_noise_has_its_variance_and_its_seed():
    data, again, other = (fitzhugh_nagumo(seed, n_rows=2000) for seed in (3, 3, 4))
    noise = data.value - data.clean
    # 4000 draws: the variance is within 0.03 of 0.25 but for one in ten million seeds
    assert noise.var() == pytest.approx(0.25, abs=0.03)
    assert (data.value == again.value).all()
    assert not np.allclose(noise[:20], (other.value - other.clean)[:20])


def test_settings_without_meaning_are_refused():
    with pytest.raises(ConfigError, match="noise_variance: -1"):
        fitzhugh_nagumo(noise_variance=-1)
    with pytest.raises(ConfigError, match="n_rows: 1 found"):
        lorenz(n_rows=1)
