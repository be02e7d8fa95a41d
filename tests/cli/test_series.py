"""From a file to columns whose roles are known, where the user left them open."""

import pandas as pd
import pytest

from deeplfm.cli.inputs import read_series
from deeplfm.cli.options import ColumnOptions, FileOptions
from deeplfm.errors import InputError


def read(path, text, **columns):
    path.write_text(text)
    return read_series(str(path), FileOptions(), ColumnOptions(**columns))


@pytest.mark.parametrize(
    "text",
    [
        "x,y\n0,5\n1,3\n2,4\n",
        "Time (s),y\n2,5\n0,3\n1,4\n",  # its name says so
        "when,y\n2024-01-01,5\n2024-01-02,3\n",
        "when,y\n00:00:10,5\n00:00:20,3\n",
    ],
)
def test_the_first_column_is_time_if_it_looks_like_it(text, tmp_path):
    series = read(tmp_path / "data.csv", text)
    assert series.time == text.partition(",")[0]
    assert series.time_is_guessed
    assert series.targets == ["y"]


def test_the_only_timestamps_are_the_time_wherever_they_are(tmp_path):
    series = read(tmp_path / "data.csv", "temp,when\n9,2024-01-01\n7,2024-01-02\n8,2024-01-03\n")
    assert (series.time, series.targets) == ("when", ["temp"])


@pytest.mark.parametrize(
    "text", ["x,y\n1,5\n0,3\n", "name,y\na,5\nb,3\n", "x,y\ntrue,5\nfalse,3\n"]
)
def test_anything_else_is_asked_for(text, tmp_path):
    with pytest.raises(InputError, match=r"does not look like time.*--time"):
        read(tmp_path / "data.csv", text)


def test_all_other_numbers_are_targets(tmp_path):
    text = "t,a,word,flag,b,c\n0,1,x,true,,9\n1,2,y,false,,8\n2,3,z,true,,7\n"
    series = read(tmp_path / "data.csv", text, covariate=["c"])
    assert series.targets == ["a", "b"]
    assert series.covariates == ["c"]
    assert series.left_out == ["word", "flag"]
    assert not read(tmp_path / "data.csv", text, time="t", target=["a"]).time_is_guessed


def test_a_target_is_named_once_however_often_it_is_given(tmp_path):
    text = "t,a,b\n0,1,2\n1,2,3\n"
    assert read(tmp_path / "data.csv", text, target=["b,a", " a ", "b"]).targets == ["b", "a"]


def test_parquet_with_two_columns_of_dates(tmp_path):
    when = pd.date_range("2024-01-01", periods=4, tz="Europe/Berlin")
    frame = pd.DataFrame({"when": when, "entered": when, "load": [1, 2, 3, 4]})
    frame.to_parquet(tmp_path / "data.parquet")
    series = read_series(str(tmp_path / "data.parquet"), FileOptions(), ColumnOptions())
    assert (series.time, series.targets, series.left_out) == ("when", ["load"], ["entered"])


def test_row_numbers_that_a_frame_wrote_beside_its_times_are_neither_time_nor_target(tmp_path):
    text = ",when,y\n0,2024-01-01,5\n1,2024-01-02,3\n2,2024-01-03,4\n"
    for columns in ({}, {"time": "when"}):
        series = read(tmp_path / "data.csv", text, **columns)
        assert (series.time, series.targets) == ("when", ["y"])
    for when in ("2024-01-01,2024-01-02,2024-01-03", "31.01.2024,01.02.2024,02.02.2024"):
        rows = "".join(f"{row},{2 * row},{stamp}\n" for row, stamp in enumerate(when.split(",")))
        series = read(tmp_path / "data.csv", f",cases,date\n{rows}")
        assert (series.time, series.targets) == ("date", ["cases"])
    alone = read(tmp_path / "data.csv", ",y\n0,5\n1,3\n2,4\n")
    assert (alone.time, alone.targets) == ("column 1", ["y"])


LOGGED = (
    "Date,Time,CO,RH\n10/03/2004,18.00.00,2.6,48\n10/03/2004,19.00.00,,47\n13/03/2004,0.00.00,2,5\n"
)


@pytest.mark.parametrize("time", [None, "Date,Time", "Date Time"])
def test_date_and_clock_in_two_columns(time, tmp_path):
    series = read(tmp_path / "log.csv", LOGGED, time=time)
    assert (series.time, series.time_columns) == ("Date Time", ["Date", "Time"])
    assert series.targets == ["CO", "RH"]
    assert series.frame.index.tolist()[1] == "10/03/2004 19:00:00"


def test_a_date_that_is_asked_for_stays_alone(tmp_path):
    series = read(tmp_path / "log.csv", LOGGED, time="Date", duplicates="mean")
    assert series.time_columns == ["Date"]
    with pytest.raises(InputError, match="--target: 'Time' is a column of times"):
        read(tmp_path / "log.csv", LOGGED, time="Date,Time", target=["Time"])


def test_the_half_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"--time: .* has no column 'Tim'. Did you mean 'Time'"):
        read(tmp_path / "log.csv", LOGGED, time="Date,Tim")


def test_a_column_that_is_named_is_no_clock(tmp_path):
    text = "Date,hour,CO\n10/03/2004,1,2\n10/03/2004,2,3\n13/03/2004,3,4\n"
    assert read(tmp_path / "log.csv", text).time_columns == ["Date", "hour"]
    series = read(tmp_path / "log.csv", text, covariate=["hour"])
    assert (series.time_columns, series.covariates) == (["Date"], ["hour"])


def test_errors_name_lines_of_the_file_where_times_are_in_two_columns(tmp_path):
    with pytest.raises(InputError, match="'oops' in line 3"):
        read(tmp_path / "log.csv", LOGGED.replace("19.00.00,,", "19.00.00,oops,"), target=["CO"])
