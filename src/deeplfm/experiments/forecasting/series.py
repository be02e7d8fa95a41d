"""Series of the benchmark (public competitions, or data that install with a package), and scores."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deeplfm.errors import ConfigError, InputError

Array = NDArray[np.float64]

LEVELS = (0.025, 0.1, 0.5, 0.9, 0.975)
SCORES = ("mase", "smape", "msis", "crps", "coverage80", "coverage95")
SETS = ("choose", "report", "public")
_COLUMNS = ["unique_id", "frequency", "season", "step", "y", "split"]
_OFFSETS = {"hourly": "h", "daily": "D", "weekly": "W-MON", "monthly": "MS", "quarterly": "QS"}
_OFFSETS |= {"yearly": "YS"}
_ORIGIN = "2000-01-03"  # a Monday; the series themselves have no dates


@dataclass(frozen=True)
class BenchmarkSeries:
    """One series, divided into what is known and what is to be forecast."""

    name: str
    frequency: str
    season: int  # steps in one cycle, as a user would give it
    known: NDArray[np.float64]
    later: NDArray[np.float64]

    @property
    def frame(self) -> pd.DataFrame:
        """The known values with timestamps of the frequency."""
        offset = _OFFSETS[self.frequency]
        index = pd.date_range(_ORIGIN, periods=len(self.known), freq=offset, name="ds")
        return pd.DataFrame({"y": self.known}, index=index)

    @property
    def filled(self) -> NDArray[np.float64]:
        """Known values for models that cannot have gaps: filled by the same season of the neighbours."""
        values = self.known.copy()
        for place in np.flatnonzero(np.isnan(values)):
            near = [place - self.season, place + self.season]
            inside = [self.known[i] for i in near if 0 <= i < len(values)]
            if np.isfinite(inside).any():
                values[place] = np.nanmean(inside)
        return pd.Series(values).interpolate(limit_direction="both").to_numpy()


def load_series(name: str, file: Path | None = None) -> list[BenchmarkSeries]:
    """The series of a set, or of a file in long form.

    Args:
        name: "choose" and "report", from the folder ``series`` below ``DEEPLFM_DATA``: choose by the
            first, and report the second; "public" from installed packages.
        file: a CSV with the columns unique_id, frequency, season, step, y and split ("train", "test").
    """
    if file is None and name == "public":
        return _public()
    if name not in SETS:
        raise ConfigError(f"set: {name!r} is not known. Choose one of {', '.join(SETS)}.")
    if file is None:
        folder = os.environ.get("DEEPLFM_DATA")
        file = Path(folder or "", "series", f"{name}.csv.gz")
        if folder is None or not file.exists():
            raise InputError(
                f"set: {name!r} is read from series/{name}.csv.gz in the folder DEEPLFM_DATA, which "
                f"{'is not set' if folder is None else 'has no such file'}. Set it, or use 'public'."
            )
    table = pd.read_csv(file)
    missing = [column for column in _COLUMNS if column not in table]
    if missing:
        raise InputError(f"{file}: no column {missing[0]!r}. It needs {', '.join(_COLUMNS)}.")
    return [_one(str(name), group) for name, group in table.groupby("unique_id", sort=False)]


def _one(name: str, group: pd.DataFrame) -> BenchmarkSeries:
    values = group.sort_values("step")
    is_known = (values["split"] == "train").to_numpy()
    y = values["y"].to_numpy(dtype=np.float64)
    first = group.iloc[0]
    return BenchmarkSeries(
        name, str(first["frequency"]), int(first["season"]), y[is_known], y[~is_known]
    )


def _public() -> list[BenchmarkSeries]:
    """Series that install with statsmodels and statsforecast."""
    try:
        from statsforecast.utils import AirPassengers
        from statsmodels.datasets import co2, elnino, nile, sunspots
    except ImportError as error:
        raise ConfigError(
            f"set: 'public' needs {error.name}. Install it with pip install 'deeplfm[benchmark]'."
        ) from None
    weekly = co2.load_pandas().data["co2"].to_numpy()[-520:]
    monthly = elnino.load_pandas().data.drop(columns="YEAR").to_numpy().ravel()
    yearly = [nile.load_pandas().data["volume"], sunspots.load_pandas().data["SUNACTIVITY"]]
    parts = [
        ("AirPassengers", "monthly", 12, AirPassengers, 18),
        ("CO2", "weekly", 52, weekly, 52),
        ("ElNino", "monthly", 12, monthly, 18),
        ("Nile", "yearly", 1, yearly[0].to_numpy(), 6),
        ("Sunspots", "yearly", 1, yearly[1].to_numpy(), 6),
    ]
    return [
        BenchmarkSeries(
            name, frequency, season, np.asarray(y, float)[:-ahead], np.asarray(y, float)[-ahead:]
        )
        for name, frequency, season, y, ahead in parts
    ]


def score_forecast(series: BenchmarkSeries, quantiles: Array) -> dict[str, float]:
    """Scores of one forecast.

    MASE and MSIS are in units of the mean absolute seasonal difference of the known values; the CRPS, in
    the same units, is estimated from five quantiles.
    """
    observed = ~np.isnan(series.later)
    later, ends = series.later[observed], quantiles[:, observed]
    season = series.season if len(series.known) > series.season else 1
    unit = float(np.nanmean(np.abs(series.known[season:] - series.known[:-season])))
    low, tenth, median, ninth, high = ends
    beyond = np.maximum(low - later, 0) + np.maximum(later - high, 0)
    size = np.abs(later) + np.abs(median)
    error = later - ends
    level = np.array(LEVELS)[:, None]
    pinball = np.maximum(level * error, (level - 1) * error)
    return {
        "mase": float(np.mean(np.abs(later - median))) / unit,
        "smape": float(np.mean(2 * np.abs(later - median) / np.where(size > 0, size, 1.0))),
        "msis": float(np.mean(high - low + 2 / 0.05 * beyond)) / unit,
        "crps": 2 * float(pinball.mean()) / unit,
        "coverage80": float(np.mean((later >= tenth) & (later <= ninth))),
        "coverage95": float(np.mean((later >= low) & (later <= high))),
    }
