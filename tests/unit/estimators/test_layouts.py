"""Times are written in the layout in which they were read."""

import pandas as pd
import pytest

from deeplfm.estimators.layouts import layout_of, write_layout


@pytest.mark.parametrize(
    ("texts", "zone", "layout"),
    [
        (["1970Q1", "1970Q2"], None, "%YQ%q"),
        (["1970-Q1", "1970-Q2"], None, "%Y-Q%q"),
        (["1970/01/01 00:00", "1970/04/01 00:00"], None, "%Y/%m/%d %H:%M"),
        (["Jan 01 1970", "Apr 01 1970"], None, "%b %d %Y"),
        (["January 1970", "April 1970"], None, "%B %Y"),
        (
            ["1970-01-01 00:00+01:00", "1970-04-01 00:00+01:00"],
            "Europe/Berlin",
            "%Y-%m-%d %H:%M%:z",
        ),
    ],
)
def test_quarters_and_offsets_are_written_as_they_were(texts, zone, layout):
    stamps = pd.DatetimeIndex(["1970-01-01", "1970-04-01"], tz=zone)
    assert layout_of(pd.Series(texts), stamps) == layout
    assert list(write_layout(stamps, layout)) == texts
