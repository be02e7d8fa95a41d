"""Properties of series, panels and their files, for any order of rows, gaps, zones and names."""

from __future__ import annotations

import tempfile
from copy import deepcopy
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from deeplfm import DeepLFMForecaster, ModelFileError
from deeplfm.estimators.panel_columns import PanelColumns
from deeplfm.io.parts import content_of, pack, unpack, write_parts
from deeplfm.predictive.mixture import Predictive

FEW = settings(max_examples=15, deadline=None, derandomize=True)
MANY = settings(max_examples=50, deadline=None, derandomize=True)
ZONES = ("Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "Australia/Lord_Howe", "Etc/GMT+12")


@MANY
@given(
    names=st.lists(st.one_of(st.integers(0, 5), st.text(max_size=3)), min_size=1, max_size=30),
    seed=st.integers(0, 99),
)
def test_a_panel_splits_into_its_series_whatever_the_order(
    names: list[int | str], seed: int
) -> None:
    frame = pd.DataFrame({"unique_id": pd.Series(names, dtype=object), "ds": np.arange(len(names))})
    frame["y"] = np.random.default_rng(seed).normal(size=len(names))
    parts = list(PanelColumns("unique_id", "ds", ["y"], []).split(frame))
    assert [name for name, _ in parts] == list(dict.fromkeys(names))
    for name, rows in parts:
        expected = frame.loc[[other == name for other in names], ["ds", "y"]]
        pd.testing.assert_frame_equal(rows, expected.reset_index(drop=True))


@FEW
@given(
    content=st.dictionaries(st.text(max_size=5), st.one_of(st.text(), st.integers(), st.none())),
    sizes=st.lists(st.integers(0, 5), max_size=3),
    place=st.floats(0, 1, exclude_max=True),
    bit=st.integers(0, 7),
)
def test_a_part_comes_back_and_one_flipped_bit_is_refused(
    content: dict[str, object], sizes: list[int], place: float, bit: int
) -> None:
    tensors = {f"t{i}": torch.arange(float(size)) for i, size in enumerate(sizes)}
    with tempfile.TemporaryDirectory() as name:
        (file,) = write_parts(Path(name), [(7, pack({"content": content}, tensors))])
        path = Path(name) / file
        described, back = unpack(content_of(path))
        assert described["content"] == content and back.keys() == tensors.keys()
        assert all(torch.equal(back[key], tensors[key]) for key in tensors)
        changed = bytearray(path.read_bytes())
        changed[int(place * len(changed))] ^= 1 << bit
        path.write_bytes(changed)
        with pytest.raises(ModelFileError, match="is damaged"):
            content_of(path)


@cache
def fitted(zone: str = "UTC") -> DeepLFMForecaster:
    hours = pd.date_range("2024-03-29", periods=60, freq="h", tz="UTC").tz_convert(zone)
    wave = np.sin(np.arange(60) / 4)
    frame = pd.DataFrame({"a": wave, "b": 5 - 2 * wave}, index=hours)
    frame.iloc[20:25, 0] = np.nan
    settings = {"effort": "fast", "log_targets": False, "progress": False}
    return DeepLFMForecaster("trend + level", **settings).fit(frame)


@FEW
@given(
    y=arrays.arrays(np.float64, (8, 2), elements=st.one_of(st.just(np.nan), st.floats(-3, 8))),
    cut=st.integers(1, 7),
    order=st.permutations(range(8)),
)
def test_rows_may_come_at_once_in_parts_or_in_any_order(
    y: np.ndarray, cut: int, order: list[int]
) -> None:
    """Also where all values of a row are missing, or all but two of an output."""
    y[0, 0], y[-1, 1] = 1.0, 2.0  # an update has a known value
    start = fitted().training_.index[-1] + pd.Timedelta(1, "h")
    rows = pd.DataFrame(y, columns=["a", "b"], index=pd.date_range(start, periods=8, freq="h"))
    whole = deepcopy(fitted()).update(rows)
    mixed = deepcopy(fitted()).update(rows.iloc[order])
    parts = deepcopy(fitted()).update(rows[:cut]).update(rows[cut:])
    expected = whole.forecast(until=start + pd.Timedelta(12, "h"))
    assert np.isfinite(expected.to_numpy()).all()
    for other in (mixed, parts):
        found = other.forecast(until=start + pd.Timedelta(12, "h"))
        pd.testing.assert_frame_equal(found[-4:], expected[-4:], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("zone", ZONES)
def test_a_forecast_is_that_of_the_instants_in_every_zone(zone: str) -> None:
    """The clocks of Berlin and St John's change inside or near the rows."""
    expected, found = fitted().forecast(48), fitted(zone).forecast(48)
    assert found.index.tz_convert("UTC").equals(expected.index)
    np.testing.assert_allclose(found.to_numpy(), expected.to_numpy(), rtol=1e-9)


@MANY
@given(
    n_components=st.integers(1, 4),
    n_rows=st.integers(1, 5),
    n_outputs=st.integers(1, 3),
    is_single=st.booleans(),
    seed=st.integers(0, 999),
)
def test_quantiles_invert_the_distribution_of_any_mixture(
    n_components: int, n_rows: int, n_outputs: int, is_single: bool, seed: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    dtype = torch.float32 if is_single else torch.float64
    shape = (n_components, n_rows, n_outputs)
    mean = 10 * torch.randn(shape, generator=random, dtype=dtype)
    variance, noise = torch.rand(2, *shape, generator=random, dtype=dtype) + 0.01
    weight = torch.rand(n_components, 1, n_outputs, generator=random, dtype=dtype) + 0.1
    posterior = Predictive(mean, variance, noise, weight / weight.sum(0))
    levels = [0.01, 0.3, 0.5, 0.975]
    values = [posterior.quantile(level) for level in levels]
    for level, value in zip(levels, values, strict=True):
        assert value.shape == (n_rows, n_outputs) and value.dtype == dtype
        reached = posterior.cdf(value)
        assert torch.allclose(reached, torch.full_like(reached, level), atol=1e-4)
    assert all(bool((low < high).all()) for low, high in pairwise(values))
