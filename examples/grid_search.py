"""scikit-learn all around: a Pipeline in a GridSearchCV over time.

A river's level follows the tide and the rain, whose record has holes. The pipeline fills these and hands
the rain on as a known covariate beside the time; the search compares two models by R² on later
rows, and the better one predicts rows that neither has seen.

Run it with ``python grid_search.py [folder for the figure]``.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
from sklearn.pipeline import Pipeline

from deeplfm import DeepLFMRegressor
from deeplfm.plots import fans_of, forecast_figure

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
folder.mkdir(parents=True, exist_ok=True)

rng = np.random.default_rng(0)
hours = np.arange(0.0, 120.0, 0.5)
rain = rng.gamma(0.3, 2.0, size=len(hours))
tide = np.sin(2 * np.pi * hours / 12.4) + 0.4 * np.sin(2 * np.pi * hours / 6.2 + 1)
level = tide + 0.5 * np.log1p(rain) + 0.1 * rng.normal(size=len(hours))
X = pd.DataFrame({"hours": hours, "rain": np.where(rng.random(len(hours)) < 0.05, np.nan, rain)})
X_past, X_later, past, later = X.iloc[:180], X.iloc[180:], level[:180], level[180:]

pipeline = Pipeline(
    [
        ("fill", SimpleImputer(strategy="median").set_output(transform="pandas")),
        ("model", DeepLFMRegressor(is_series=True, n_steps=10, random_state=0)),
    ]
)
choices = {"model__model": ["trend + sinusoids + broadband", "dlfm"]}
search = GridSearchCV(pipeline, choices, cv=TimeSeriesSplit(n_splits=2, test_size=30))
search.fit(X_past, past)

table = pd.DataFrame(search.cv_results_)[["param_model__model", "mean_test_score"]]
print(table.set_axis(["model", "R2 on later rows"], axis=1).round(3).to_string(index=False))
print(f"best model: {search.best_params_['model__model']}")
print(f"R2 on {len(later)} rows that the search has not seen: {search.score(X_later, later):.3f}")
print(f"R2 of the truth without its noise: {1 - 0.01 / later.var():.3f}")

fill, model = search.best_estimator_.named_steps.values()
fans = fans_of(model.posterior(fill.transform(X)), ["level"])
seen = pd.DataFrame({"level": level}, index=hours)
figure = forecast_figure(hours, fans, seen.iloc[:180], seen.iloc[180:], time_label="hours")
figure.savefig(folder / "grid_search.png")
