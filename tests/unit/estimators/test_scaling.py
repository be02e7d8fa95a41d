import numpy as np
import pytest

from deeplfm.estimators.scaling import Moments, Scaling


def values(offset: float) -> np.ndarray:
    rng = np.random.default_rng(0)
    array = offset + rng.normal(size=(1000, 3)) * [1, 5, 0.1]
    array[rng.random((1000, 3)) < 0.2] = np.nan
    array[:700, 2] = np.nan  # whole pieces of it are unknown
    return array


@pytest.mark.parametrize("size", [1, 7, 300, 999, 1000])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_pieces_give_what_the_whole_gives(size: int, offset: float) -> None:
    array, moments = values(offset), Moments()
    for first in range(0, 1000, size):
        moments.add(array[first : first + size])
    assert moments.mean == pytest.approx(np.nanmean(array, axis=0), rel=1e-12, abs=1e-15)
    assert moments.std == pytest.approx(np.nanstd(array, axis=0), rel=1e-12 * max(1, offset))


def test_one_piece_gives_the_same_bits() -> None:
    array, moments = values(3.0), Moments()
    moments.add(array)
    assert np.array_equal(moments.mean, np.nanmean(array, axis=0))
    assert np.array_equal(moments.std, np.nanstd(array, axis=0))


def test_single_precision_is_summed_in_double() -> None:
    x, y = values(1e4)[:, :1].astype(np.float32), values(0.0).astype(np.float32)
    found = Scaling.of(np.nan_to_num(x), y, is_series=False)
    expected = Scaling.of(np.nan_to_num(x).astype(np.float64), y.astype(np.float64), False)
    assert all(
        np.array_equal(left, right)
        for left, right in zip(vars(found).values(), vars(expected).values(), strict=True)
    )


def test_huge_constants_have_no_spread() -> None:
    moments = Moments()
    moments.add(np.full((5, 1), 1e200))
    assert moments.std.tolist() == [0.0]


@pytest.mark.parametrize("is_series", [True, False])
def test_scalings_of_chunks(is_series: bool) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(3, 2, size=(100, 2)), values(0.0)[900:]
    chunks = [(x[i : i + 9], y[i : i + 9]) for i in range(0, 100, 9)]
    whole, parts = Scaling.of(x, y, is_series), Scaling.of_chunks(chunks, is_series)
    for name, expected in vars(whole).items():
        found = getattr(parts, name)
        assert found is None if expected is None else found == pytest.approx(expected, rel=1e-12)
    scaled = parts.inputs(x)
    if is_series:  # time; the covariates are standardised
        assert (scaled[:, 0].min(), scaled[:, 0].max()) == (pytest.approx(0), pytest.approx(1))
        scaled = scaled[:, 1:]
    assert (scaled.mean(0), scaled.std(0)) == (pytest.approx(0), pytest.approx(1))
