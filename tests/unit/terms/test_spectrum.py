import numpy as np
import pytest

from deeplfm.terms.spectrum import matching_pursuit, periodogram, typical_step


def series(seed: int, irregular: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    time = np.sort(rng.uniform(0, 10, 300)) if irregular else np.linspace(0, 10, 300)
    value = 2 + 3 * np.cos(7.3 * time + 0.4) + np.sin(19.1 * time) + 0.5 * time
    return time, value + 0.1 * rng.normal(size=300)


@pytest.mark.parametrize("irregular", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_pursuit_finds_known_sinusoids(irregular: bool, shuffle: bool) -> None:
    time, value = series(0, irregular)
    if shuffle:
        order = np.random.default_rng(1).permutation(300)
        time, value = time[order], value[order]
    found = matching_pursuit(time, value, max_sinusoids=8)
    assert found.n_supported == 2
    assert found.frequency[:2] == pytest.approx([7.3, 19.1], abs=0.01)
    assert found.amplitude[:2] == pytest.approx([3, 1], abs=0.05)
    assert found.residual_variance[2] == pytest.approx(0.01, rel=0.2)
    assert (np.diff(found.residual_variance) <= 1e-12).all()


def test_pursuit_does_not_mind_a_gap() -> None:
    time, value = series(0, irregular=False)
    keep = (time < 4) | (time > 5.5)
    found = matching_pursuit(time[keep], value[keep], max_sinusoids=8)
    assert found.frequency[:2] == pytest.approx([7.3, 19.1], abs=0.02)


def test_white_noise_supports_no_lines() -> None:
    """BIC admits a false line in a few per cent of draws; these seeds are fixed."""
    counts = [
        matching_pursuit(
            np.linspace(0, 1, 200), np.random.default_rng(seed).normal(size=200), 5
        ).n_supported
        for seed in range(20)
    ]
    assert np.mean(counts) < 0.3


@pytest.mark.parametrize("n_rows", [3, 4, 6])
def test_short_series_get_few_lines(n_rows: int) -> None:
    time = np.arange(n_rows, dtype=float)
    found = matching_pursuit(time, np.sin(time), max_sinusoids=20)
    assert len(found.frequency) == (n_rows - 2) // 3
    assert np.isfinite(found.residual_variance).all()


def test_a_constant_series_has_no_lines() -> None:
    assert matching_pursuit(np.linspace(0, 1, 50), np.full(50, 3.0), 5).n_supported == 0


def test_draws_follow_the_power() -> None:
    """Both lines are hit in proportion to their power, 9 : 1; six standard errors."""
    time, value = series(0, irregular=False)
    spectrum = periodogram(time, value - 0.5 * time)
    drawn = spectrum.draw(4000, np.random.default_rng(0))
    near = [(np.abs(drawn - line) < 1.5).mean() for line in (7.3, 19.1)]
    ratio = near[0] / (near[0] + near[1])
    assert ratio == pytest.approx(0.9, abs=6 * np.sqrt(0.09 / 4000) + 0.01)
    assert (drawn > 0).all()


def test_power_of_a_regular_series_is_its_transform() -> None:
    time = np.arange(64.0)
    value = np.random.default_rng(0).normal(size=64)
    spectrum = periodogram(time, value)
    centred = value - value.mean()
    direct = [abs((centred * np.exp(-1j * w * time)).sum()) ** 2 for w in spectrum.frequency]
    assert spectrum.power == pytest.approx(direct, rel=1e-8, abs=1e-8)


def test_few_rows_in_bursts_far_apart_cost_no_million_frequencies() -> None:
    time = np.concatenate([day + 1e-9 * np.arange(10) for day in range(8)])
    assert len(periodogram(time, np.sin(time)).frequency) < 100 * 100 * len(time)


@pytest.mark.parametrize("n_rows", [12, 20, 30, 50, 80])
def test_short_noise_supports_hardly_a_line(n_rows: int) -> None:
    """Of 200 other sums over ten draws one was above three."""
    rng = np.random.default_rng(n_rows)
    time = np.arange(n_rows) / n_rows
    found = [matching_pursuit(time, rng.normal(size=n_rows), 20).n_supported for _ in range(10)]
    assert sum(found) <= 3


def test_two_lines_of_a_short_series_are_supported_and_no_more() -> None:
    time = np.arange(48.0)
    noise = 0.2 * np.random.default_rng(0).normal(size=48)
    value = np.sin(2 * np.pi * time / 12) + 0.7 * np.cos(2 * np.pi * time / 5) + noise
    assert matching_pursuit(time, value, 20).n_supported == 2


def test_readings_repeated_at_once_do_not_shorten_the_typical_step() -> None:
    day = np.arange(100.0)
    pairs, triples = (np.sort(np.add.outer(day, 1e-4 * np.arange(n)).ravel()) for n in (2, 3))
    assert typical_step(pairs) == pytest.approx(1, abs=1e-3)
    assert typical_step(triples) == pytest.approx(1, abs=1e-3)
    stretches = np.concatenate([start + 0.01 * np.arange(100) for start in (0.0, 500.0, 900.0)])
    assert typical_step(stretches) == pytest.approx(0.01)
    found = matching_pursuit(pairs, np.sin(2 * np.pi * pairs / 17), 1)
    assert 2 * np.pi / found.frequency[0] == pytest.approx(17, rel=1e-3)
