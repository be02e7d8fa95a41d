"""The usual tools for the newcomer's jobs, each with the settings that its own guide suggests."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pandas as pd
from prophet import Prophet
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, ExpSineSquared
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from statsforecast import StatsForecast
from statsforecast.models import MSTL, AutoARIMA, AutoETS
from statsmodels.tsa.holtwinters import ExponentialSmoothing

Z95 = 1.959964


def named(name: str, mean: Any, low: Any, high: Any) -> pd.DataFrame:
    """A forecast with the columns of ours."""
    return pd.DataFrame(
        {name: np.asarray(mean), f"{name}_low": np.asarray(low), f"{name}_high": np.asarray(high)}
    )


def prophet(past: pd.DataFrame, later: pd.DataFrame) -> pd.DataFrame:
    """Prophet with its defaults; with German holidays where times are a column."""
    logging.getLogger("cmdstanpy").setLevel(logging.ERROR)
    logging.getLogger("prophet").setLevel(logging.ERROR)
    (name,) = set(past) - {"ds"}
    has_column = "ds" in past
    known, ahead = (
        frame if has_column else frame.rename_axis("ds").reset_index() for frame in (past, later)
    )
    model = Prophet(interval_width=0.95)
    if has_column:
        model.add_country_holidays("DE")
    model.fit(known.rename(columns={name: "y"}), seed=0)
    found = model.predict(ahead[["ds"]])
    return named(name, found["yhat"], found["yhat_lower"], found["yhat_upper"])


def seasonal_naive(past: pd.DataFrame, later: pd.DataFrame) -> pd.DataFrame:
    """The same hour a week before, with the quantiles of its errors."""
    ahead = past.iloc[-168 : -168 + len(later) or None].set_axis(later.index)
    errors = past.diff(168).dropna()
    low, high = (ahead + errors.quantile(share) for share in (0.025, 0.975))
    parts = [ahead, low.add_suffix("_low"), high.add_suffix("_high")]
    return pd.concat(parts, axis=1)


def auto_ets(past: pd.DataFrame, later: pd.DataFrame) -> pd.DataFrame:
    """AutoETS of statsforecast with a season of four quarters."""
    tool = StatsForecast(models=[AutoETS(season_length=4, alias="y")], freq="QS", n_jobs=1)
    found = tool.forecast(df=past, h=8, level=[95])
    return found.rename(columns={"y-lo-95": "y_low", "y-hi-95": "y_high"})


def periodic_gp(past: pd.DataFrame, later: pd.DataFrame) -> pd.DataFrame:
    """A periodic GP with known errors, its period started at the best of many."""
    time, values = past[["mjd"]].to_numpy(), past["magnitude"].to_numpy()

    def at(period: float, optimizer: str | None) -> GaussianProcessRegressor:
        bounds = (0.99 * period, 1.01 * period)
        shape = ExpSineSquared(1.0, period, (0.1, 10), bounds)
        kernel = ConstantKernel(0.04, (1e-3, 1)) * shape
        model = GaussianProcessRegressor(
            kernel, alpha=past["error"].to_numpy() ** 2, optimizer=optimizer, normalize_y=False
        )
        return model.fit(time, values - values.mean())

    periods = 1 / np.arange(1 / 20, 1 / 2, 1 / (4 * np.ptp(time)))
    best = max(periods, key=lambda p: at(p, None).log_marginal_likelihood_value_)
    model = at(float(best), "fmin_l_bfgs_b")
    mean, std = model.predict(later[["mjd"]].to_numpy(), return_std=True)
    mean = mean + values.mean()
    return named("magnitude", mean, mean - Z95 * std, mean + Z95 * std)


def auto_arima(past: pd.DataFrame, later: pd.DataFrame) -> pd.DataFrame:
    """AutoARIMA of statsforecast with the covariates as regressors."""
    known = [name for name in past if name not in ("quarter", "Consumption")]
    found = AutoARIMA(season_length=4).forecast(
        past["Consumption"].to_numpy(),
        len(later),
        X=past[known].to_numpy(),
        X_future=later[known].to_numpy(),
        level=[95],
    )
    return named("Consumption", found["mean"], found["lo-95"], found["hi-95"])


def mstl(past: pd.DataFrame, later: pd.DataFrame) -> pd.DataFrame:
    """MSTL of statsforecast: days, weeks, and AutoETS of what is left."""
    model = MSTL(season_length=[24, 168], trend_forecaster=AutoETS(model="ZZN"))
    found = model.forecast(past["y"].to_numpy(), len(later), level=[95])
    return named("y", found["mean"], found["lo-95"], found["hi-95"])


def ridge(X: Any, y: Any, folds: Any) -> float:
    """Ridge regression, its penalty by the same search."""
    model = make_pipeline(StandardScaler(), Ridge())
    choices = {"ridge__alpha": np.logspace(-2, 4, 13)}
    return float(GridSearchCV(model, choices, cv=folds).fit(X, y).best_score_)


def refitted(past: pd.DataFrame, later: pd.DataFrame) -> pd.DataFrame:
    """Holt–Winters of statsmodels with an additive year, fitted again for each new row."""
    values, n, rows = [*past["co2"], *later["co2"]], len(past), []
    for k in range(len(later)):
        known = np.array(values[: n + k])
        model = ExponentialSmoothing(known, trend="add", seasonal="add", seasonal_periods=52).fit()
        error = float(np.std(known - model.fittedvalues))
        mean = float(model.forecast(1)[0])
        rows.append((mean, mean - Z95 * error, mean + Z95 * error))
    return named("co2", *zip(*rows, strict=True))
