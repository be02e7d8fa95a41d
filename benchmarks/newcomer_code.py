"""What a user writes for each of the newcomer's jobs."""

import pandas as pd
from newcomer_measure import command
from sklearn.model_selection import GridSearchCV

from deeplfm import DeepLFMForecaster, DeepLFMRegressor


def forecast_co2(past, later):
    model = DeepLFMForecaster(random_state=0).fit(past)
    return model.forecast(len(later))


def forecast_air(folder):
    command(
        "fit", f"{folder}/air.csv", "--missing", "-200", "--effort", "fast", "-o", f"{folder}/air"
    )
    command("forecast", f"{folder}/air", "--horizon", "168", "-o", f"{folder}/ahead.csv")


def forecast_twelve(past, later):
    model = DeepLFMForecaster(random_state=0).fit(past)
    return model.forecast(8)


def forecast_star(past, later):
    model = DeepLFMForecaster(random_state=0).fit(past, time="mjd", measurement_error="error")
    return model.forecast(times=later["mjd"])


def forecast_growth(past, later):
    known = ["Income", "Production", "Savings", "Unemployment"]
    model = DeepLFMForecaster(random_state=0).fit(past, targets="Consumption", covariates=known)
    return model.forecast(covariates=later)


def forecast_shop(past, later):
    model = DeepLFMForecaster(random_state=0).fit(past, holidays="DE")
    return model.forecast(28)


def forecast_load(past, later):
    model = DeepLFMForecaster(effort="fast", random_state=0).fit(past[["ds", "y"]])
    return model.forecast(168)


def search_diabetes(X, y, folds):
    search = GridSearchCV(DeepLFMRegressor(random_state=0), {"model": ["smooth", "auto"]}, cv=folds)
    return search.fit(X, y).best_score_


def recover(t, outputs):
    model = DeepLFMRegressor(model="lfm", random_state=0).fit(t, outputs)
    return model.forces(t)[0]


def report_shop(folder):
    command("fit", f"{folder}/past.csv", "--holidays", "DE", "-o", f"{folder}/m")
    return command(
        "evaluate", f"{folder}/m", f"{folder}/later.csv", "--report", f"{folder}/r.html", "--json"
    )


def update_weekly(past, later):
    model, found = DeepLFMForecaster(random_state=0).fit(past), []
    for n in range(len(later)):
        found.append(model.forecast(1))
        model.update(later[n : n + 1])
    return pd.concat(found)


NOTEBOOK = """
from deeplfm import DeepLFMForecaster
model = DeepLFMForecaster(random_state=0).fit(frame)
model
---
model.plot(52)
---
model.components(52)["co2"].tail()
""".strip().split("---")
