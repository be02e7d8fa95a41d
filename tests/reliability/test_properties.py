"""Properties that hold for any shape, dtype, pattern of missing values, split or time zone."""

from __future__ import annotations

import tempfile
from itertools import islice
from pathlib import Path
from zoneinfo import available_timezones

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from deeplfm import DeepLFMRegressor
from deeplfm.data.tables import read_table, write_table
from deeplfm.errors import DeepLFMError
from deeplfm.estimators.scaling import Scaling
from deeplfm.estimators.timeline import Timeline
from deeplfm.io.storage import read_folder, write_folder
from deeplfm.randomness import generator_for
from deeplfm.selection.split import Split
from deeplfm.training import Rows
from deeplfm.training.rows import shuffled_batches

# The same examples in every run, so that a failure is found where it was made.
FEW = settings(max_examples=20, deadline=None, derandomize=True)
MANY = settings(
    max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
ZONES = sorted(zone for zone in available_timezones() if "/" in zone and not zone.startswith("Etc"))
finite = st.floats(-1e100, 1e100, allow_subnormal=False)


@pytest.mark.slow
@FEW
@given(
    n_rows=st.integers(3, 30),
    n_outputs=st.integers(0, 3),
    x_dtype=st.sampled_from(["int8", "int64", "uint16", "float32", "float64", "bool", "O"]),
    y_dtype=st.sampled_from(["int32", "float32", "float64", "O"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_predictions_have_the_shape_of_the_targets(
    n_rows: int, n_outputs: int, x_dtype: str, y_dtype: str, seed: int
) -> None:
    """Zero outputs stand for a vector; a fit is refused by an error of deeplfm, or predicts numbers."""
    random = np.random.default_rng(seed)
    x = np.arange(n_rows).astype(x_dtype)
    y = (10 * random.normal(size=(n_rows, *([n_outputs] if n_outputs else [])))).astype(y_dtype)
    if y.dtype.kind == "f":
        y[random.random(y.shape) < 0.3] = np.nan
    model = DeepLFMRegressor("trend", n_steps=0, progress=False)
    try:
        model.fit(x, y)
    except DeepLFMError:
        assert x_dtype == "bool" or np.isnan(y.astype(float)).any()
        return
    for part in model.predict(x, return_std=True):
        assert part.shape == y.shape and part.dtype == np.float64 and np.isfinite(part).all()


@MANY
@given(
    y=arrays.arrays(
        np.float64,
        arrays.array_shapes(min_dims=2, max_dims=2, min_side=4, max_side=40),
        elements=st.one_of(st.just(np.nan), st.floats(-10, 10)),
    ),
    is_series=st.booleans(),
    seed=st.integers(0, 99),
)
def test_a_split_takes_every_row_once_and_hides_only_known_values(
    y: np.ndarray, is_series: bool, seed: int
) -> None:
    x = torch.linspace(0, 1, len(y), dtype=torch.float64)[:, None]
    rows = Rows(x, torch.as_tensor(y))
    split = Split.of(rows, is_series, seed)
    parts = torch.cat([split.training.everything().x, split.held_out.x])
    assert torch.equal(parts.sort(dim=0).values, x)
    if is_series:
        assert float(split.held_out.x.min()) > float(split.training.everything().x.max())
    if split.hidden is not None:
        kept, hidden = split.around_gaps.everything().counts.sum(), split.hidden.counts.sum()
        assert hidden > 0 and kept + hidden == rows.counts.sum()


@MANY
@given(
    n_rows=st.integers(1, 300),
    size=st.integers(1, 80),
    first=st.integers(0, 60),
    seed=st.integers(0, 9),
)
def test_batches_take_every_row_once_and_can_begin_anywhere(
    n_rows: int, size: int, first: int, seed: int
) -> None:
    epoch = list(shuffled_batches(n_rows, size, generator_for(seed, "epoch"), block=4, window=16))
    assert torch.equal(torch.cat(epoch).sort().values, torch.arange(n_rows))
    assert max(map(len, epoch)) <= size
    rows = Rows(torch.arange(n_rows).double()[:, None], torch.zeros(n_rows, 1).double())
    whole = islice(rows.batches(size, seed), first, first + 3)
    later = islice(rows.batches(size, seed, first), 3)
    assert all(torch.equal(a.rows.x, b.rows.x) for a, b in zip(whole, later, strict=True))


@MANY
@given(
    y=arrays.arrays(np.float64, (12, 2), elements=st.one_of(st.just(np.nan), finite)),
    cut=st.integers(1, 11),
)
def test_a_scaling_is_the_same_whatever_the_chunks_and_can_be_undone(
    y: np.ndarray, cut: int
) -> None:
    x = np.arange(12.0)[:, None]
    try:
        whole = Scaling.of_chunks([(x, y)], is_series=True)
    except DeepLFMError:
        return
    parts = Scaling.of_chunks([(x[:cut], y[:cut]), (x[cut:], y[cut:])], is_series=True)
    np.testing.assert_allclose(parts.y_scale, whole.y_scale, rtol=1e-6)
    assert (whole.y_scale > 0).all() and np.isfinite(whole.y_shift).all()
    back = whole.outputs(y) * whole.y_scale + whole.y_shift
    size = np.nanmax(np.abs(y), axis=0, initial=0.0)
    assert (np.isnan(y) | (np.abs(back - y) <= 1e-9 * size)).all()


@MANY
@given(
    zone=st.sampled_from(ZONES),
    begin=st.datetimes(pd.Timestamp(1950, 1, 1), pd.Timestamp(2060, 1, 1)),
    step=st.sampled_from(["15min", "h", "D", "W", "MS", "QS", "YS", "B"]),
    n_rows=st.integers(4, 40),
)
def test_times_come_back_and_go_on_in_every_zone(
    zone: str, begin: pd.Timestamp, step: str, n_rows: int
) -> None:
    """Days may have 23 or 25 hours, and clocks have changed at midnight."""
    utc = pd.date_range(pd.Timestamp(begin).floor("h"), periods=n_rows + 3, freq=step, tz="UTC")
    index = utc.tz_convert(zone)[:n_rows]
    timeline = Timeline.of(index)
    assert timeline.from_ticks(timeline.ticks(index)).equals(index)
    assert Timeline.from_dict(timeline.to_dict()) == timeline
    numbers = timeline.numbers(index)
    assert (np.diff(numbers) > 0).all()
    later = timeline.after(index[-1:], 3)
    assert len(later) == 3 and str(later.tz) == zone
    assert later[0] > index[-1] and later.is_monotonic_increasing
    if step in ("15min", "h"):
        assert later.equals(utc.tz_convert(zone)[n_rows:])


@FEW
@given(
    values=arrays.arrays(
        np.float64, (5, 2), elements=st.floats(allow_infinity=False, allow_subnormal=True)
    ),
    names=st.lists(
        st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=8),
        min_size=2, max_size=2, unique=True,
    ),
)  # fmt: skip
def test_tables_come_back_bit_by_bit(values: np.ndarray, names: list[str]) -> None:
    frame = pd.DataFrame(values, columns=[f"x{name}" for name in names])
    with tempfile.TemporaryDirectory() as folder:
        write_table(frame, Path(folder) / "a.csv", index=False)
        try:
            back = read_table(Path(folder) / "a.csv")
        except DeepLFMError:
            assert np.isnan(values).all()  # nothing but empty fields
            return
    assert list(back.columns) == list(frame.columns)
    rows = len(back)  # empty rows at the end are left out
    np.testing.assert_array_equal(back.to_numpy(), values[:rows])
    assert np.isnan(values[rows:]).all()


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | st.text(
        st.characters(codec="utf-8"), max_size=10
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip


@FEW
@given(
    content=plain,
    shapes=st.lists(st.lists(st.integers(0, 4), max_size=3), max_size=4),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.int64, torch.bool]),
)
def test_plain_data_and_tensors_come_back(
    content: object, shapes: list[list[int]], dtype: torch.dtype
) -> None:
    tensors = {f"t{i}": torch.ones(shape).cumsum(0).to(dtype) if shape else torch.ones((), dtype=dtype)
               for i, shape in enumerate(shapes)}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        write_folder(Path(folder) / "m", {"content": content}, tensors)
        description, back = read_folder(Path(folder) / "m")
    assert description["content"] == content
    assert back.keys() == tensors.keys()
    assert all(torch.equal(back[name], tensors[name]) for name in tensors)
    assert all(back[name].dtype == dtype for name in tensors)
