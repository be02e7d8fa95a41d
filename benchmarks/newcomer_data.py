"""Series of the newcomer's jobs: real ones that install from a package index, and simulated ones.

Simulated series are called so in every table; their law is here.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd


def weekly_co2() -> pd.DataFrame:
    """Weekly CO₂ at Mauna Loa, 1958 to 2001, in ppm, with gaps (statsmodels)."""
    from statsmodels.datasets import co2

    return co2.load_pandas().data


def twelve_macro_series() -> pd.DataFrame:
    """Twelve quarterly series of the USA, 1959 to 2009, in long form (statsmodels)."""
    from statsmodels.datasets import macrodata

    wide = macrodata.load_pandas().data
    quarter = wide["year"].astype(int).astype(str) + "Q" + wide["quarter"].astype(int).astype(str)
    wide = wide.drop(columns=["year", "quarter"])
    wide.insert(0, "ds", pd.PeriodIndex(quarter, freq="Q").to_timestamp())
    return wide.melt("ds", var_name="unique_id", value_name="y")[["unique_id", "ds", "y"]]


def us_change() -> pd.DataFrame:
    """Quarterly growth of consumption in the USA, 1970 to 2016, and four covariates (sktime)."""
    from sktime.datasets import load_uschange

    y, others = load_uschange()
    quarter = pd.period_range("1970Q1", periods=len(y), freq="Q").astype(str)
    return pd.DataFrame({"quarter": quarter, "Consumption": y.to_numpy(), **others})


def autoregression(kept: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """A stationary autoregression of order one with variance 1."""
    from scipy.signal import lfilter

    found = lfilter([np.sqrt(1 - kept**2)], [1, -kept], rng.normal(size=n + 1000))
    return np.asarray(found)[1000:]


def air_quality_file(path: Path) -> pd.DataFrame:
    """A simulated file of the shape of UCI's "Air Quality": 13 columns, 9357 hours.

    Semicolons, decimal commas, date and time of day in two columns, two empty columns, empty rows at the
    end, and −200 where a sensor gave nothing; one sensor is taken off after 914 hours.

    Returns:
        The clean columns by time, with a week after the end of the file.
    """
    rng, n = np.random.default_rng(0), 9357
    time = pd.date_range("2004-03-10 18:00", periods=n + 168, freq="h", name="time")
    hour, day = time.hour.to_numpy(), np.arange(len(time)) / 24
    drift = autoregression(0.93, len(time), rng)
    rush = np.exp(-(((hour - 8) / 2.5) ** 2)) + 1.2 * np.exp(-(((hour - 19) / 3) ** 2))
    traffic = np.where(time.dayofweek < 5, 1, 0.7) * rush * np.exp(0.35 * drift) + 0.3
    year, sun = np.cos(2 * np.pi * (day - 130) / 365), np.cos(2 * np.pi * (hour - 3) / 24)

    def column(values: np.ndarray, noise: float, least: float, digits: int = 0) -> np.ndarray:
        return (values + noise * rng.normal(size=len(values))).clip(least).round(digits)

    clean = pd.DataFrame(
        {
            "CO(GT)": column(1.7 * traffic, 0.2, 0.1, 1),
            "PT08.S1(CO)": column(850 + 270 * traffic, 30, 0),
            "NMHC(GT)": column(200 * traffic, 30, 5),
            "C6H6(GT)": column(9 * traffic, 0.8, 0.1, 1),
            "PT08.S2(NMHC)": column(700 + 240 * traffic, 25, 0),
            "NOx(GT)": column(180 * traffic * (1 - 0.3 * year), 20, 2),
            "PT08.S3(NOx)": column(1100 - 220 * traffic, 35, 300),
            "NO2(GT)": column(75 + 40 * traffic + 10 * drift, 6, 2),
            "PT08.S4(NO2)": column(1300 + 200 * traffic + 150 * year, 40, 0),
            "PT08.S5(O3)": column(700 + 330 * traffic, 60, 0),
            "T": column(18 + 9 * year - 4 * sun + 3 * drift, 0.4, -20, 1),
            "RH": column(49 - 5 * year + 10 * sun - 8 * drift, 1.5, 9, 1),
            "AH": column(1 + 0.35 * year + 0.1 * drift, 0.02, 0.18, 4),
        },
        index=time,
    )
    seen = clean.iloc[:n].copy()
    for name in seen:
        share = 0.18 if name in ("CO(GT)", "NOx(GT)", "NO2(GT)") else 0.04
        while (seen[name] == -200).mean() < share:
            first = rng.integers(n)
            seen.iloc[first : first + rng.integers(1, 30), seen.columns.get_loc(name)] = -200.0
    seen.iloc[914:, seen.columns.get_loc("NMHC(GT)")] = -200.0
    seen.insert(0, "Time", seen.index.strftime("%H.%M.%S"))
    seen.insert(0, "Date", seen.index.strftime("%d/%m/%Y"))
    lines = seen.to_csv(sep=";", decimal=",", index=False, lineterminator="\n").splitlines()
    path.write_text("\n".join([line + ";;" for line in lines] + [";" * 16] * 114) + "\n")
    return clean


def light_curve() -> pd.DataFrame:
    """A simulated variable star of 3.7 days in three seasons of 60 nights, and an error for each."""
    rng = np.random.default_rng(1)
    time = np.sort(np.concatenate([rng.uniform(a, a + 90, 60) for a in (0, 365, 730)]))
    phase, error = 2 * np.pi * time / 3.7, rng.uniform(0.01, 0.05, len(time))
    magnitude = 12.3 + 0.25 * np.sin(phase) + 0.1 * np.sin(2 * phase + 0.7)
    magnitude += error * rng.normal(size=len(time))
    return pd.DataFrame({"mjd": 58000 + time, "magnitude": magnitude, "error": error})


def daily_shop() -> pd.DataFrame:
    """Simulated daily sales of two years and six weeks: weekdays, a year, German holidays."""
    import holidays

    rng = np.random.default_rng(2)
    day = pd.date_range("2021-12-18", "2024-01-28", name="ds")  # Prophet fits a year from two on
    closed = holidays.country_holidays("DE", years=range(2021, 2025))
    sales = (
        200 + 0.05 * np.arange(len(day)) + 25 * np.cos(2 * np.pi * (day.dayofyear - 170) / 365.25)
    )
    sales += np.array([0, 5, 8, 12, 30, 55, -20])[day.dayofweek]
    sales += -80 * np.array([date in closed for date in day]) + 10 * rng.normal(size=len(day))
    return pd.DataFrame({"ds": day, "y": sales.to_numpy().round(1)})


def long_load() -> pd.DataFrame:
    """A simulated hourly load of 46 000 hours and a week: hours, weekends, a year, an autoregression."""
    time = pd.date_range("2018-01-01", periods=46_168, freq="h", name="ds")
    hour = time.hour.to_numpy()
    load = (
        1000 + 120 * np.sin(2 * np.pi * (hour - 9) / 24) + 40 * np.sin(4 * np.pi * (hour - 7) / 24)
    )
    load += -90 * (time.dayofweek >= 5) + 150 * np.cos(2 * np.pi * time.dayofyear / 365.25)
    load += 40 * autoregression(0.95, len(time), np.random.default_rng(3))
    return pd.DataFrame({"unique_id": "load", "ds": time, "y": np.round(load, 1)})


def force(t: np.ndarray) -> np.ndarray:
    """The force of ``examples/recover_force.py``."""
    return 2 * np.exp(-((t - 3) ** 2) / 2) - 1.5 * np.exp(-((t - 7) ** 2)) + 0.6 * np.sin(2 * t)


def three_sensors(seed: int) -> tuple[np.ndarray, pd.DataFrame]:
    """The simulated sensors of that example, which one force drives."""
    from scipy.integrate import solve_ivp

    decay, sensitivity = np.array([0.3, 2.0, 0.8]), np.array([1.0, 3.0, -1.0])
    t = np.linspace(0, 10, 150)
    solution = solve_ivp(
        lambda time, f: sensitivity * force(time) - decay * f,
        (0, 10),
        np.zeros(3),
        t_eval=t,
        rtol=1e-8,
    )
    outputs = pd.DataFrame(solution.y.T, columns=["slow", "fast", "inverted"])
    noise = np.random.default_rng(seed).normal(size=outputs.shape)
    return t, outputs + 0.03 * outputs.std().to_numpy() * noise
