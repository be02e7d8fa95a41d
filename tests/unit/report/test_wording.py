import numpy as np
import pytest

from deeplfm.report.wording import aligned, amount, count, digits_for, listed, percent


def test_digits_distinguish_a_thousandth_of_the_range() -> None:
    digits = digits_for(np.array([101325.0, 101335.0]))
    assert amount(101325.01, digits) != amount(101325.02, digits)
    assert digits_for(np.array([0.1, 0.9])) == 4


@pytest.mark.parametrize("values", [[], [np.nan], [7.0, 7.0], [0.0, 0.0]])
def test_values_without_a_range_have_digits(values: list[float]) -> None:
    assert digits_for(np.array(values)) == 4
    assert len(aligned(np.array(values))) == len(values)


def test_numbers_are_written_for_people() -> None:
    assert amount(-0.5) == "−0.5"
    assert amount(np.nan) == "–"
    assert amount(15302.4, 3) == "15\u202f300"
    assert amount(300.123, 15) == "300.123"
    assert amount(1e-7) == "1e−07"
    assert count(1234567) == "1\u202f234\u202f567"
    assert percent(0.946) == "95 %"
    assert percent(np.nan) == "–"


def test_a_column_has_as_many_decimals_everywhere() -> None:
    assert aligned(np.array([81.0, -72.25, np.nan])) == ["81.0", "−72.2", "–"]
    assert aligned(np.array([3.0, 3.0])) == ["3", "3"]
    assert aligned(np.array([1e12, 2e12]))[0] == "1e+12"
    assert aligned(np.array([1e-9, 2e-9]))[0] == "1e−09"


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (["a", "b", "c", "d"], "a, b, c and d"),
        (["a", "b", "c", "d", "e", "f"], "a, b, c and 3 more"),
    ],
)
def test_names_are_listed_as_in_a_sentence(names: list[str], text: str) -> None:
    assert listed(names) == text
