import gzip
import io
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest
from pyarrow import parquet

from deeplfm import ConfigError, InputError
from deeplfm.data import numeric_column, read_table, write_table

NAN = float("nan")


def file(folder: Path, content: str | bytes, name: str = "vitals.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def columns(frame: pd.DataFrame) -> dict[str, list[object]]:
    return {name: frame[name].tolist() for name in frame}


def stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def refused(path: object, **options: str) -> str:
    with pytest.raises(InputError) as caught:
        read_table(path, **options)  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message
    return message


# Reading: dialects


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", " ", "   ", " \t "])
@pytest.mark.parametrize("decimal", [".", ","])
def test_delimiter_and_decimal_are_found(tmp_path: Path, delimiter: str, decimal: str) -> None:
    rows = [["time", "abp", "ecg"], ["0.5", "80.25", "-1e-3"], ["1.0", "81.5", "2.125"]]
    quote = '"' if delimiter == decimal == "," else ""
    lines = [delimiter.join(f"{quote}{cell}{quote}" for cell in row) for row in rows]
    text = "\n".join(lines[:1] + [line.replace(".", decimal) for line in lines[1:]])
    frame = read_table(file(tmp_path, text))
    assert columns(frame) == {"time": [0.5, 1.0], "abp": [80.25, 81.5], "ecg": [-1e-3, 2.125]}
    assert set(frame.dtypes) == {np.dtype(np.float64)}


@pytest.mark.parametrize(
    "text",
    [
        "start time,note\n2024-01-01 10:00,a b\n2024-01-01 11:00,c d\n",  # blanks also make two
        "start time;note\n2024-01-01 10:00;a, b\n2024-01-01 11:00;c, d\n",
        'start time,note\n2024-01-01 10:00,"a; b"\n2024-01-01 11:00,"c; d"\n',
        "start time|note\n2024-01-01 10:00|a, b\n2024-01-01 11:00|c, d\n",
    ],
)
def test_text_with_other_delimiters_inside_does_not_mislead(tmp_path: Path, text: str) -> None:
    frame = read_table(file(tmp_path, text))
    assert frame["start time"].tolist() == ["2024-01-01 10:00", "2024-01-01 11:00"]


def test_commas_in_names_do_not_hide_semicolons(tmp_path: Path) -> None:
    frame = read_table(file(tmp_path, "time, s;pressure, mmHg\n0,1;2,3\n0,2;4,5\n"))
    assert columns(frame) == {"time, s": [0.1, 0.2], "pressure, mmHg": [2.3, 4.5]}


def test_decimal_commas_far_down_are_found(tmp_path: Path) -> None:
    text = "time;abp\n" + "".join(f"{row};1\n" for row in range(500)) + "500;1,5\n"
    assert read_table(file(tmp_path, text))["abp"].iloc[-1] == 1.5


def test_delimiter_and_decimal_can_be_forced(tmp_path: Path) -> None:
    path = file(tmp_path, "a:b\n1,234:2\n3,456:4\n")
    frame = read_table(path, delimiter=":", decimal=",")
    assert columns(frame) == {"a": [1.234, 3.456], "b": [2.0, 4.0]}
    tabs = file(tmp_path, "a\tb;c\n1\t2;3\n")
    for name in ("tab", "\\t", "\t", "TAB"):
        assert list(read_table(tabs, delimiter=name)) == ["a", "b;c"]
    blanks = file(tmp_path, "  a   b\n  1   2\n")
    assert columns(read_table(blanks, delimiter="space")) == {"a": [1.0], "b": [2.0]}


def test_a_first_line_that_names_the_delimiter_is_obeyed(tmp_path: Path) -> None:
    frame = read_table(file(tmp_path, "sep=:\r\na:b\r\n1:x\r\n"))
    assert columns(frame) == {"a": [1.0], "b": ["x"]}
    with pytest.raises(InputError, match="'x' in line 3"):
        numeric_column(frame, "b", "vitals.csv")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delimiter": "::"}, "delimiter: '::' found. Give one character, such as ';'"),
        ({"delimiter": "x"}, "delimiter: 'x' found"),
        ({"delimiter": ""}, "delimiter: '' found"),
        ({"delimiter": '"'}, "delimiter: '\"' found"),
        ({"decimal": ";"}, "decimal: ';' found. Give '.' or ','."),
    ],
)
def test_settings_without_meaning_are_refused(
    tmp_path: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        read_table(file(tmp_path, "a,b\n1,2\n"), **options)


def test_a_comma_that_may_separate_thousands_is_not_guessed(tmp_path: Path) -> None:
    path = file(tmp_path, "a\tb\n1,234\t5\n2,345\t6\n")
    message = refused(path)
    assert "vitals.csv: the comma in '1,234' may mark decimals or thousands" in message
    assert "--decimal ','" in message
    assert read_table(path, decimal=",")["a"].tolist() == [1.234, 2.345]
    assert read_table(path, decimal=".")["a"].tolist() == ["1,234", "2,345"]
    one_decided = file(tmp_path, "a\tb\n1,234\t5\n0,345\t6\n")
    assert read_table(one_decided)["a"].tolist() == [1.234, 0.345]
    semicolons = file(tmp_path, "a;b\n1,234;5\n2,345;6\n")
    assert read_table(semicolons)["a"].tolist() == [1.234, 2.345]


def test_points_and_commas_together_are_never_read_as_decimals(tmp_path: Path) -> None:
    path = file(tmp_path, "a;b;c\n1,234;5.5;1,234.5\n2,345;6.5;1,234.5\n")
    frame = read_table(path)
    assert columns(frame)["b"] == [5.5, 6.5]
    for name, value in (("a", "1,234"), ("c", "1,234.5")):
        with pytest.raises(InputError) as caught:
            numeric_column(frame, name, path)
        assert f"2 of 2 values are not numbers (first: '{value}' in line 2)" in str(caught.value)
        assert "Remove separators of thousands; if the comma marks decimals" in str(caught.value)


# Reading: encodings, containers, line ends


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\r\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16"])
@pytest.mark.parametrize("is_last_ended", [True, False])
def test_encodings_and_line_ends(
    tmp_path: Path, end: str, encoding: str, is_last_ended: bool
) -> None:
    text = "time,Größe µm\n0,1.5\n1,2.5" + "\n" * is_last_ended
    frame = read_table(file(tmp_path, text.replace("\n", end).encode(encoding)))
    assert columns(frame) == {"time": [0.0, 1.0], "Größe µm": [1.5, 2.5]}


def test_bytes_that_only_latin_1_knows_are_read(tmp_path: Path) -> None:
    assert list(read_table(file(tmp_path, b"time,\x81\xfc\n1,2\n"))) == ["time", "\x81ü"]


def test_quoted_fields_may_hold_delimiters_quotes_and_line_ends(tmp_path: Path) -> None:
    text = 'time,"note, long",value\n0,"a ""b"", c",1\n1,"two\nlines", 2\n'
    frame = read_table(file(tmp_path, text))
    assert columns(frame) == {
        "time": [0.0, 1.0],
        "note, long": ['a "b", c', "two\nlines"],
        "value": [1.0, 2.0],
    }


@pytest.mark.parametrize("name", ["vitals.csv.gz", "vitals.csv", "vitals"])
def test_gzip_is_known_by_its_content(tmp_path: Path, name: str) -> None:
    path = file(tmp_path, gzip.compress(b"time,abp\n0,1\n"), name)
    assert columns(read_table(path)) == {"time": [0.0], "abp": [1.0]}


def test_a_name_that_says_gzip_does_not_make_it_so(tmp_path: Path) -> None:
    assert len(read_table(file(tmp_path, "time,abp\n0,1\n", "vitals.csv.gz"))) == 1


@pytest.mark.parametrize("name", ["vitals.parquet", "vitals", "vitals.csv"])
@pytest.mark.parametrize("is_zipped", [False, True])
def test_parquet_is_known_by_its_content(tmp_path: Path, name: str, is_zipped: bool) -> None:
    times = pd.date_range("2024-01-01", periods=2, tz="Europe/Berlin")
    frame = pd.DataFrame({"time": times, "count": [1, 2], "is_on": [True, False], "id": ["1", "2"]})
    content = frame.to_parquet(None)
    path = file(tmp_path, gzip.compress(content) if is_zipped else content, name)
    read = read_table(path)
    assert read["time"].tolist() == times.tolist()
    assert read["count"].dtype == np.float64 and read["count"].tolist() == [1.0, 2.0]
    assert read["is_on"].tolist() == [True, False]
    assert read["id"].tolist() == ["1", "2"]


def test_nulls_in_parquet_are_missing_and_an_index_is_a_column(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"small": pd.array([1, None], "Int8"), "price": [Decimal("1.5"), None]},
        index=pd.Index([10, 20], name="time"),
    )
    frame.to_parquet(tmp_path / "f.parquet")
    read = read_table(tmp_path / "f.parquet")
    assert list(read) == ["time", "small", "price"]
    np.testing.assert_equal(read["small"].to_numpy(), [1.0, NAN])
    np.testing.assert_equal(numeric_column(read, "price", "f.parquet"), [1.5, NAN])


@pytest.mark.parametrize("kind", ["csv", "gz", "parquet"])
def test_standard_input_may_be_any_of_them(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    text = b"time,abp\n0,1.5\n"
    frame = pd.DataFrame({"time": [0.0], "abp": [1.5]})
    contents = {"csv": text, "gz": gzip.compress(text), "parquet": frame.to_parquet(None)}
    stdin(monkeypatch, contents[kind])
    assert columns(read_table("-")) == {"time": [0.0], "abp": [1.5]}


def test_messages_name_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, b"")
    assert refused("-") == (
        "standard input: the file is empty. Give a line of column names, and rows."
    )


# Reading: values


@pytest.mark.parametrize(
    "mark", ["", "NA", "nan", "NaN", "null", "NULL", "-", "#N/A", "n/a", "None", " ", " NA ", "?"]
)
def test_marks_of_missing_values_are_nan(tmp_path: Path, mark: str) -> None:
    frame = read_table(file(tmp_path, f"time,abp,note\n0,1.5,a\n1,{mark},{mark}\n2,-3,b\n"))
    np.testing.assert_equal(frame["abp"].to_numpy(), [1.5, NAN, -3.0])
    assert frame["note"].isna().tolist() == [False, True, False]


def test_dates_and_words_stay_text_and_numbers_become_floats(tmp_path: Path) -> None:
    text = (
        "day,clock,count,big,flag,word,spaced\n"
        "2024-01-01,10:00,1,18446744073709551616,True,a, 1 \n"
        "02.01.2024,11:00,2,4,False, b , 2 \n"
    )
    frame = read_table(file(tmp_path, text))
    assert columns(frame) == {
        "day": ["2024-01-01", "02.01.2024"],
        "clock": ["10:00", "11:00"],
        "count": [1.0, 2.0],
        "big": [2.0**64, 4.0],
        "flag": [True, False],
        "word": ["a", "b"],
        "spaced": [1.0, 2.0],
    }
    assert all(frame[name].dtype == np.float64 for name in ("count", "big", "spaced"))


def test_every_float_is_read_exactly(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    values = generator.normal(size=5000) * 10.0 ** generator.integers(-200, 100, 5000)
    for text in ("a;b\n{};1\n", "a;b\n{} ;NA \n"):
        head, row = text.split("\n")[:2]
        lines = "\n".join(row.format(repr(value)) for value in values.tolist())
        for mark in ".,":
            path = file(tmp_path, f"{head}\n{lines}\n".replace(".", mark))
            assert np.array_equal(read_table(path)["a"].to_numpy(), values)


def test_blank_lines_empty_margins_and_short_rows_are_no_rows_and_no_columns(
    tmp_path: Path,
) -> None:
    text = "\n\ntime,abp,,\n0,1,,\n\n  \n1\n2,3,,\n,,,\n,,,\n\n"
    frame = read_table(file(tmp_path, text))
    assert list(frame) == ["time", "abp"]
    np.testing.assert_equal(frame.to_numpy(), [[0, 1], [1, NAN], [2, 3]])
    longer = read_table(file(tmp_path, "time,abp\n0,1,\n1,2,\n"))
    assert columns(longer) == {"time": [0.0, 1.0], "abp": [1.0, 2.0]}


def test_an_unnamed_first_column_is_named_by_its_place(tmp_path: Path) -> None:
    frame = read_table(file(tmp_path, ",abp\n0,1\n1,2\n"))
    assert list(frame) == ["column 1", "abp"]


# Reading: what is refused


def test_files_that_are_not_there_or_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "missing.csv"
    assert refused(missing) == (f"{missing}: there is no such file. Check the name and the folder.")
    assert refused(str(tmp_path)) == f"{tmp_path}: this is a folder. Give a file in it."
    below = file(tmp_path, "a,b\n1,2\n") / "below.csv"
    assert "cannot be read (Not a directory). Check that you may read it." in refused(below)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads all")
def test_a_file_without_permission(tmp_path: Path) -> None:
    path = file(tmp_path, "a,b\n1,2\n")
    path.chmod(0)
    assert "vitals.csv: cannot be read (Permission denied)" in refused(path)


def test_a_denied_file_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(path: Path, *_: object) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", deny)
    assert refused("vitals.csv") == (
        "vitals.csv: cannot be read (Permission denied). Check that you may read it."
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty. Give a line of column names, and rows."),
        (b" \n\r\n", "the file is empty"),
        (b"\xef\xbb\xbf", "the file is empty"),
        (b",,\n,,\n", "the file is empty"),
        (b"time,abp\n", "column names, but no rows below them. Give at least one row."),
        (b"time,abp\n\n,\n", "column names, but no rows below them"),
        (
            b"time:abp\n0:1\n",
            "only one column found ('time:abp'): no comma, semicolon, tab, pipe or blank separates "
            "others. Give at least two columns, or try --delimiter.",
        ),
        (b"abp\n1,5\n2,5\n", "only one column found ('abp')"),
        (b"abp,\n1,\n2,\n", "only one column found ('abp,') with delimiter comma"),
        (
            b"a,b,a, b,c\n1,2,3,4,5\n",
            "several columns are named 'a', 'b'. Give each a name of its own.",
        ),
        (
            b"time,abp\n0,1\n1,2,3\n",
            "fields in line 3: 3, but the first line names 2 columns (delimiter: comma). Correct "
            "the line, put fields that hold the delimiter in quotes, or try another --delimiter.",
        ),
        (b"time,abp\n0,1,2\n1,2\n", "fields in line 2: 3, but"),
        (b'time,abp\n"0\n",1\n\n1,2,3\n', "fields in line 5: 3, but"),
        (b"a b c\n1 2 3\n4 5\n", "fields in line 3: 2, but the first line names 3 columns"),
        (
            b"0.5,1.5\n1.5,2.5\n",
            "the first line holds numbers (0.5, 1.5) in place of the names of the columns. "
            "Add a line of names at the top.",
        ),
        (b"\x00\x01\x02\xff", "not a text file (byte 00 at position 0). Give CSV or Parquet."),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "not a text file (byte 1a at position 6)"),
        (b"\xff\xfea\x00,\x00b", "not a whole UTF-16 text. Save the table again, as UTF-8."),
        (b"PK\x03\x04...", "this is an Excel workbook or a zip archive, not text. Save the table"),
        (b"BZh91AY", "this is compressed with bzip2, not text"),
        (b'time,abp\n0,"1\n1,2\n', "cannot be cut into fields"),
        (b'time,abp\n0,"' + b"1" * 200_000 + b"\n", "Check that every quote is closed."),
    ],
)
def test_content_that_is_no_table(tmp_path: Path, content: bytes, message: str) -> None:
    path = file(tmp_path, content)
    found = refused(path)
    assert found.startswith(f"{path}: ")
    assert message in found


def test_the_error_of_a_wrong_delimiter_names_the_likely_one(tmp_path: Path) -> None:
    path = file(tmp_path, "time;abp\n0,5;1,5\n")
    assert refused(path, delimiter=",") == (
        f"{path}: only one column found ('time;abp') with delimiter comma. "
        "It looks like semicolon: try --delimiter semicolon."
    )
    assert "with delimiter '#'. It looks like semicolon" in refused(path, delimiter="#")


def test_damaged_gzip(tmp_path: Path) -> None:
    whole = gzip.compress(b"time,abp\n" + b"0,1\n" * 1000)
    for content in (whole[:-20], whole[:12], whole[:30] + b"\x00" * 9 + whole[39:]):
        path = file(tmp_path, content, "vitals.csv.gz")
        found = refused(path)
        assert found.startswith(f"{path}: the gzip file is damaged (")
        assert found.endswith("). Copy or download it again.")


def test_damaged_parquet(tmp_path: Path) -> None:
    whole = pd.DataFrame({"a": np.arange(1000.0), "b": 1.0}).to_parquet(None)
    for content in (
        whole[:-40],
        whole[:500],
        b"PAR1" + bytes(500) + whole[504:],
        b"a,b\n1,2\n",
        b"",
    ):
        path = file(tmp_path, content, "vitals.parquet")
        found = refused(path)
        assert found.startswith(f"{path}: not a whole Parquet file (")
        assert found.endswith("). Copy or write it again.")


def test_parquet_without_rows(tmp_path: Path) -> None:
    pd.DataFrame({"a": [], "b": []}).to_parquet(tmp_path / "f.parquet")
    assert "0 rows and 2 columns found" in refused(tmp_path / "f.parquet")


def test_names_of_columns_in_parquet_are_text_and_differ(tmp_path: Path) -> None:
    pd.DataFrame({1: [1.5], 2: [2.5]}).to_parquet(tmp_path / "f.parquet")
    assert columns(read_table(tmp_path / "f.parquet")) == {"1": [1.5], "2": [2.5]}
    twins = pyarrow.table([[1.0], [2.0]], names=["a", "a"])
    parquet.write_table(twins, tmp_path / "g.parquet")
    assert "g.parquet: several columns are named 'a'." in refused(tmp_path / "g.parquet")


def test_parquet_without_pyarrow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.DataFrame({"a": [1.0], "b": [2.0]})
    path = file(tmp_path, frame.to_parquet(None), "f.parquet")
    monkeypatch.setattr("deeplfm.data.tables.find_spec", lambda name: None)
    advice = 'which is not installed. Run pip install "deeplfm[parquet]", or use CSV.'
    assert refused(path) == f"{path}: Parquet needs pyarrow, {advice}"
    with pytest.raises(InputError, match="Parquet needs pyarrow"):
        write_table(frame, tmp_path / "g.parquet")
    assert os.listdir(tmp_path) == ["f.parquet"]


# Columns of numbers


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            ["1", "abc", "2", "x"],
            "2 of 4 values are not numbers (first: 'abc' in line 3). "
            "Correct them, or leave them empty to mark them as missing.",
        ),
        (["1", "2", "inf", "-Infinity"], "2 of 4 values are infinite (first: 'inf' in line 4)"),
        (["1", "1e400", "2", ""], "1 of 4 values are infinite (first: 'inf' in line 3)"),
        (
            ["1", "-1e151", "2", "3"],
            "1 of 4 values are beyond ±1e+150 (first: '-1e+151' in line 3)",
        ),
        (["1", "2024-01-01", "2", "3"], "not numbers (first: '2024-01-01' in line 3). Correct"),
        (["1", "5 mmHg", "2", "3"], "not numbers (first: '5 mmHg' in line 3). Correct"),
        (["1.5", '"1,234.5"', "2", "3"], "'1,234.5' in line 3). Remove separators of thousands"),
        (["1.5", "1'234", "2", "3"], "'1'234\" in line 3). Remove separators of thousands"),
    ],
)
def test_values_that_are_no_numbers_are_named_with_their_line(
    tmp_path: Path, values: list[str], message: str
) -> None:
    path = file(tmp_path, "time,abp\n" + "".join(f"0,{value}\n" for value in values))
    with pytest.raises(InputError) as caught:
        numeric_column(read_table(path), "abp", path)
    assert str(caught.value).startswith(f"column 'abp' of {path}: ")
    assert message.replace("'1'234\"", '"1\'234"') in str(caught.value)


def test_lines_are_right_for_rows_that_were_chosen(tmp_path: Path) -> None:
    frame = read_table(file(tmp_path, "\ntime,abp\n0,1\n1,2\n2,x\n"))
    with pytest.raises(InputError, match=r"1 of 2 values .*'x' in line 5"):
        numeric_column(frame[frame["time"] > 0], "abp", "vitals.csv")


@pytest.mark.parametrize("text", ["t,abp\n0,1\n\n1,x\n", 't,abp\n"0\n",1\n1,x\n'])
def test_where_lines_and_rows_part_the_row_is_named(tmp_path: Path, text: str) -> None:
    frame = read_table(file(tmp_path, text))
    with pytest.raises(InputError, match="'x' in row 1"):
        numeric_column(frame, "abp", "vitals.csv")


def test_columns_of_any_numeric_kind_become_float64() -> None:
    frame = pd.DataFrame(
        {
            "int": [1, 2, 3],
            "nullable": pd.array([1, None, 3], "Int64"),
            "flag": [True, False, True],
            "flags": [True, None, False],
            "text": ["1.5", " NA", "2e3 "],
            "decimal": [Decimal("1.5"), None, Decimal("2")],
            "kind": pd.Categorical(["1", "2", "1"]),
        }
    )
    expected = {
        "int": [1, 2, 3],
        "nullable": [1, NAN, 3],
        "flag": [1, 0, 1],
        "flags": [1, NAN, 0],
        "text": [1.5, NAN, 2000],
        "decimal": [1.5, NAN, 2],
        "kind": [1, 2, 1],
    }
    for name, values in expected.items():
        found = numeric_column(frame, name, "frame")
        assert found.dtype == np.float64
        np.testing.assert_equal(found, values)


@pytest.mark.parametrize(
    "values",
    [
        pd.date_range("2024-01-01", periods=2),
        pd.to_timedelta([1, 2], "s"),
        [1 + 2j, 3j],
        [[1], [2]],
        ["1_000", "2"],
        ["0x10", "2"],
    ],
)
def test_what_could_be_mistaken_for_numbers_is_refused(values: object) -> None:
    with pytest.raises(InputError, match=r"column 'a' of f.csv: \d of 2 values are not numbers"):
        numeric_column(pd.DataFrame({"a": values}), "a", "f.csv")


def test_columns_that_are_not_there_are_named_with_those_that_are() -> None:
    frame = pd.DataFrame(np.zeros((1, 25)), columns=[f"c{i}" for i in range(24)] + ["c1"])
    with pytest.raises(InputError) as caught:
        numeric_column(frame, "abp", "-")
    assert str(caught.value).startswith(
        "standard input: no columns are named 'abp'. Choose from c0,"
    )
    assert str(caught.value).endswith("c19, ….")
    with pytest.raises(InputError, match=r"f.csv: 2 columns are named 'c1'"):
        numeric_column(frame, "c1", "f.csv")


# Writing


def example() -> pd.DataFrame:
    index = pd.Index([0.1, 0.2, 1 / 3], name="time")
    return pd.DataFrame({"abp": [80.1, NAN, 1e-300], "note": ["a,b", None, 'c"d']}, index=index)


@pytest.mark.parametrize("name", ["f.csv", "f.CSV", "f.tsv", "f.csv.gz", "f.tsv.gz", "f.parquet"])
def test_what_is_written_is_read_again(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("old")
    write_table(example(), path)
    assert os.listdir(tmp_path) == [name]
    read = read_table(path)
    pd.testing.assert_frame_equal(
        read, example().reset_index(), check_dtype=False, check_exact=True
    )
    assert path.read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz")
    assert path.read_bytes().startswith(b"PAR1") == name.endswith(".parquet")


def test_text_is_short_and_exact(tmp_path: Path) -> None:
    write_table(example(), tmp_path / "f.csv")
    assert (tmp_path / "f.csv").read_bytes().decode() == (
        'time,abp,note\n0.1,80.1,"a,b"\n0.2,,\n0.3333333333333333,1e-300,"c""d"\n'
    )
    write_table(example(), tmp_path / "f.tsv", index=False)
    assert (tmp_path / "f.tsv").read_text().startswith("abp\tnote\n80.1\ta,b\n")
    for name in ("a.csv.gz", "b.csv.gz"):
        write_table(example(), tmp_path / name)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


@pytest.mark.parametrize(
    ("times", "text"),
    [
        (["2024-03-31 01:30+01:00", "2024-03-31 03:30+02:00"], "T01:30:00+01:00"),
        (["2024-03-31 01:30:00.5+01:00", "2024-03-31 03:30+02:00"], "T01:30:00.500+01:00"),
        (["2024-03-31 01:30:00.0005+01:00", None], "T01:30:00.000500+01:00"),
        (["2024-03-31 01:30:00.000000005+01:00"], "T01:30:00.000000005+01:00"),
    ],
)
def test_timestamps_are_iso_8601_with_their_offset(
    tmp_path: Path, times: list[str | None], text: str
) -> None:
    stamps = pd.to_datetime(times, utc=True, format="ISO8601").tz_convert("Europe/Berlin")
    frame = pd.DataFrame({"abp": 1.0, "seen": stamps}, index=pd.Index(stamps, name="time"))
    write_table(frame, tmp_path / "f.csv")
    read = read_table(tmp_path / "f.csv")
    assert read["time"].iloc[0] == read["seen"].iloc[0] == f"2024-03-31{text}"
    again = pd.to_datetime(read["time"], utc=True)
    assert again.tolist() == stamps.tz_convert("UTC").tolist()


def test_naive_timestamps_have_no_offset(tmp_path: Path) -> None:
    frame = pd.DataFrame({"abp": [1.0]}, index=pd.DatetimeIndex(["2024-01-01"], name="time"))
    write_table(frame, tmp_path / "f.csv")
    assert (tmp_path / "f.csv").read_text() == "time,abp\n2024-01-01T00:00:00,1.0\n"


def test_standard_output_is_csv(capsys: pytest.CaptureFixture[str]) -> None:
    write_table(example(), "-", index=False)
    assert capsys.readouterr().out == 'abp,note\n80.1,"a,b"\n,\n1e-300,"c""d"\n'


def test_a_reader_that_stops_is_no_error() -> None:
    code = (
        "import pandas as pd; from deeplfm.data import write_table;"
        "write_table(pd.DataFrame({'a': range(200000)}), '-')"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert writer.stdout is not None and writer.stderr is not None
    assert writer.stdout.readline() == b"index,a\n"
    writer.stdout.close()
    assert (writer.stderr.read(), writer.wait()) == (b"", 0)
    writer.stderr.close()


@pytest.mark.parametrize("name", ["forecast", "forecast.xlsx", "forecast.gz", "forecast.txt"])
def test_a_suffix_that_is_not_known_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"has no suffix of a known format. Let it end in one"):
        write_table(example(), tmp_path / name)
    assert os.listdir(tmp_path) == []


def test_a_table_that_could_not_be_read_again_is_refused(tmp_path: Path) -> None:
    twins = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(InputError, match=r"f.csv: several columns are named 'a'. Give each a name"):
        write_table(twins, tmp_path / "f.csv")
    same = pd.DataFrame({"time": [1]}, index=pd.Index([2], name="time"))
    with pytest.raises(InputError, match="several columns are named 'time'"):
        write_table(same, tmp_path / "f.csv")
    mixed = pd.DataFrame({"a": [1, "x", 2.5]})
    with pytest.raises(InputError, match=r"a column cannot be written as Parquet \(.*write CSV\."):
        write_table(mixed, tmp_path / "f.parquet")
    assert os.listdir(tmp_path) == []


def test_places_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"f.csv: cannot be written \(No such file or directory\)"):
        write_table(example(), tmp_path / "nowhere" / "f.csv")
    (tmp_path / "g.csv").mkdir()
    with pytest.raises(InputError, match=r"g.csv: cannot be written \(Is a directory\)"):
        write_table(example(), tmp_path / "g.csv")
    assert os.listdir(tmp_path) == ["g.csv"]


def test_columns_may_have_any_name(tmp_path: Path) -> None:
    path = tmp_path / "names.csv"
    path.write_text("t,self,other\n0,1.5,2\n1,2.5,3\n")
    frame = read_table(path)
    assert frame["self"].tolist() == [1.5, 2.5]
    write_table(frame, tmp_path / "again.csv", index=False)
    pd.testing.assert_frame_equal(read_table(tmp_path / "again.csv"), frame)


def test_a_table_is_an_ordinary_frame(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "t.csv"
    path.write_text("t,y\n0,1\n1,2\n")
    read_table(path).to_parquet(tmp_path / "t.parquet")
