"""New data arrive: take them in with ``update``, without training again.

A tide drifts in phase, as sums of fixed waves do not. Two copies of one fitted model forecast it 20 rows
at a time: one then takes in what came true, the other does not. In the end the updated last layer is
compared with the same layer solved on all rows at once.

Run it with ``python online_update.py [folder for the figure]``.
"""

import sys
from copy import deepcopy
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd
import torch

from deeplfm import DeepLFMForecaster
from deeplfm.terms import BroadBand, Sinusoids, Trend

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
folder.mkdir(parents=True, exist_ok=True)

rng = np.random.default_rng(0)
hours = pd.Index(np.arange(240) * 0.5, name="hours")
phase = 2 * np.pi * hours / 12.4 + np.cumsum(0.02 * rng.normal(size=len(hours)))
level = 2 + np.sin(phase) + 0.3 * np.sin(2 * phase) + 0.1 * rng.normal(size=len(hours))
series = pd.DataFrame({"level": level}, index=hours)

start = perf_counter()
model = Trend() + Sinusoids() + BroadBand()
frozen = DeepLFMForecaster(model, n_steps=30, random_state=0).fit(series.iloc[:120])
fitting = perf_counter() - start
updated, updating, errors = deepcopy(frozen), [], []
for first in range(120, 240, 20):
    news = series.iloc[first : first + 20]
    errors.append([model.evaluate(news).loc["level", "rmse"] for model in (frozen, updated)])
    if first == 200:
        updated.plot(40, later=series.iloc[200:], since=40.0).savefig(folder / "online_update.png")
    start = perf_counter()
    updated.update(news)
    updating.append(perf_counter() - start)

print("root mean square error of each forecast of 20 rows (noise 0.1)")
table = pd.DataFrame(errors, columns=["not updated", "updated"], index=range(120, 240, 20))
print(table.rename_axis("rows seen").round(2).to_string())
print(f"mean: not updated {table['not updated'].mean():.2f}, updated {table['updated'].mean():.2f}")
print(f"seconds: fit {fitting:.1f}, update {np.median(updating):.3f}")

# An update gives the same weights as an output layer solved on all rows at once.
before = updated.forecast(horizon=50)["level"]
scaling, average = updated.regressor_.scaling_, updated.regressor_.model_
x = torch.as_tensor(scaling.inputs(hours.to_numpy()[:, None]))
y = torch.as_tensor(scaling.outputs(series.to_numpy()))
for member in average.members:
    member.solve(*member.statistics(x, y))
difference = (updated.forecast(horizon=50)["level"] - before).abs().max()
print(f"largest difference to the last layer solved on all {len(series)} rows: {difference:.0e}")
