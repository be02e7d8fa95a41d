import datetime
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from deeplfm import ConfigError, DeepLFMRegressor, InputError
from deeplfm.data import open_parquet
from deeplfm.data import parquet as module

DAY = datetime.datetime(2020, 1, 1)


def write(path: Path, **columns: object) -> Path:
    parquet.write_table(pyarrow.table(columns), path)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(
        tmp_path / "mixed.parquet",
        small=pyarrow.array([1, 2, 3], pyarrow.int8()),
        flag=[True, False, True],
        half=pyarrow.array(np.array([0.5, 1, 2], np.float16)),
        single=pyarrow.array([1.5, 2.5, 3.5], pyarrow.float32()),
        large=[2**40, 2, 3],
        price=[Decimal("1.25"), Decimal("2.50"), Decimal("3.75")],
        delay=[9.0, None, float("nan")],
        late=[True, None, False],
        city=["a", "b", "c"],
        day=[DAY, DAY, DAY],
        codes=[[1], [2], [3]],
        kind=pyarrow.array(["a", "b", "a"]).dictionary_encode(),
    )


def test_numbers_come_back_in_a_type_that_holds_them(file: Path) -> None:
    inputs = ["small", "flag", "half", "single"]
    with open_parquet(file, inputs=inputs, targets=["delay", "late"]) as table:
        assert table.X.tolist() == [[1, 1, 0.5, 1.5], [2, 0, 1, 2.5], [3, 1, 2, 3.5]]
        assert table.X.dtype == np.float32
        np.testing.assert_equal(np.array(table.y), [[9, 1], [np.nan, np.nan], [np.nan, 0]])
        assert (table.inputs, table.targets) == (tuple(inputs), ("delay", "late"))
        assert isinstance(table.X, np.memmap) and isinstance(table.y, np.memmap)
    with open_parquet(file, inputs=["price", "large"], targets="late") as table:
        assert table.X.tolist() == [[1.25, 2**40], [2.5, 2], [3.75, 3]]
        np.testing.assert_equal(np.array(table.y), [1, np.nan, 0])


def test_many_batches_and_row_groups_keep_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BATCH_ROWS", 7)
    columns = {"a": np.arange(100), "y": np.arange(100) / 3, "b": -np.arange(100.0)}
    parquet.write_table(pyarrow.table(columns), tmp_path / "f.parquet", row_group_size=33)
    with open_parquet(tmp_path / "f.parquet", targets=["y"]) as table:
        assert np.array_equal(table.X, np.stack([columns["a"], columns["b"]], axis=1))
        assert np.array_equal(table.y, columns["y"][:, None])


def test_a_file_fits_like_the_arrays_in_it(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(80, 2))
    write(tmp_path / "f.parquet", a=x[:, 0], b=x[:, 1], y=x.sum(1))
    plain, streamed = (DeepLFMRegressor(n_steps=2) for _ in range(2))
    plain.fit(x, x.sum(1))
    with open_parquet(tmp_path / "f.parquet", targets="y") as table:
        streamed.fit(table.X, table.y)
    assert np.array_equal(plain.predict(x), streamed.predict(x))


def test_scratch_files_are_removed_whatever_happens(file: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with (
        pytest.raises(KeyError),
        open_parquet(file, inputs="small", targets="delay", folder=scratch),
    ):
        assert len(list(scratch.iterdir())) == 0  # it has no name: a killed run leaves nothing
        raise KeyError
    with (
        pytest.raises(InputError),
        open_parquet(file, inputs="late", targets="delay", folder=scratch),
    ):
        pass
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("inputs", "targets", "message"),
    [
        ("speed", "delay", "mixed.parquet has no columns named 'speed'. Choose from small, flag"),
        ("small", "dellay", "no columns named 'dellay'"),
        ("delay", "delay", "'delay' is input and target"),
        ("late", "delay", "column 'late' of mixed.parquet is null in row 1.*fill it"),
        ("city", "delay", "column 'city' of mixed.parquet holds string, not numbers"),
        ("day", "delay", r"'day'.* holds timestamp\[us\].*seconds or days since"),
        ("codes", "delay", "'codes' .*holds list"),
        ("kind", "delay", "'kind' .*holds dictionary"),
        ("small", "city", "column 'city' of mixed.parquet holds string"),
        (None, "delay", "column 'city'"),
        ([], "delay", "no inputs"),
        ("small", [], "no targets"),
    ],
)
def test_columns_that_cannot_be_used_are_named(
    file: Path, inputs: object, targets: object, message: str
) -> None:
    with (
        pytest.raises(InputError, match=message),
        open_parquet(
            file,
            inputs=inputs,  # type: ignore[arg-type]
            targets=targets,  # type: ignore[arg-type]
        ),
    ):
        pass


def test_null_is_found_in_later_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BATCH_ROWS", 4)
    values = [0.0] * 9 + [None]
    path = write(tmp_path / "f.parquet", a=values, y=[1.0] * 10)
    with pytest.raises(InputError, match="null in row 9"), open_parquet(path, targets="y"):
        pass


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("empty", "has no rows"),
        ("text", "not a parquet file.*Check that it is a whole Parquet file"),
        ("truncated", "could not be copied"),
        ("damaged", "could not be copied"),
        ("missing", "No such file"),
        ("folder", "directory"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, how: str, message: str) -> None:
    path = tmp_path / "f.parquet"
    values = np.random.default_rng(0).normal(size=0 if how == "empty" else 50_000)
    if how == "text":
        path.write_text("a,b\n1,2\n3,4\n")
    elif how == "folder":
        path.mkdir()
    elif how != "missing":
        content = bytearray(write(path, a=values, y=values).read_bytes())
        if how == "damaged":
            content[1000:300_000] = bytes(299_000)
        path.write_bytes(content[:-40] if how == "truncated" else content)
    with pytest.raises(InputError, match=message), open_parquet(path, targets="y"):
        pass


def test_what_is_missing_is_named(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = tmp_path / "nowhere"
    with (
        pytest.raises(InputError, match=r"no scratch file can be made in .*nowhere"),
        open_parquet(file, inputs="small", targets="delay", folder=nowhere),
    ):
        pass
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with (
        pytest.raises(ConfigError, match=r"pip install 'deeplfm\[parquet\]'"),
        open_parquet(file, targets="delay"),
    ):
        pass
