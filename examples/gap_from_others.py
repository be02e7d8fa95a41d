"""Fill the gap of one sensor from the others: they see the same weather, each in its own way.

Three stations measure the temperature of each hour. The third one is in a valley, where air is exchanged
slowly, so that it follows the others some hours later. Its logger was off for two days. A default
fit uses what the others measured meanwhile; the same without them shows what that is worth.

Run it with ``python gap_from_others.py [folder for the figure]``.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from deeplfm import DeepLFMForecaster
from deeplfm.terms.candidates import STATE_SPACE

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
folder.mkdir(parents=True, exist_ok=True)

rng = np.random.default_rng(5)
n_hours, gap = 240, slice(120, 168)
hours = pd.date_range("2024-10-01", periods=n_hours, freq="h", name="time")
day = 3 * np.sin(2 * np.pi * (np.arange(n_hours) - 9) / 24)
front = 0.6 * rng.normal(size=n_hours + 100).cumsum()  # of the weather, which all stations see
valley = front.copy()
for n in range(1, len(front)):
    valley[n] = valley[n - 1] + 0.2 * (front[n] - valley[n - 1])
own = {
    "airport": 12 + day + front[100:],
    "harbour": 13 + 0.5 * day + 0.8 * front[100:],
    "valley": 9 + 1.2 * day + 1.1 * valley[100:],
}
truth = pd.DataFrame(own, index=hours) + 0.4 * rng.normal(size=(n_hours, 3))
stations = truth.copy()
stations.iloc[gap, 2] = np.nan

model = DeepLFMForecaster(effort="fast", random_state=0).fit(stations)
alone = DeepLFMForecaster(STATE_SPACE, effort="fast", random_state=0).fit(stations)

missing = truth["valley"].iloc[gap]
for name, fitted in (("with the others", model), ("alone", alone)):
    filled = fitted.impute(intervals=True).iloc[gap]
    error = np.sqrt(((filled["valley"] - missing) ** 2).mean())
    inside = missing.between(filled["valley_low"], filled["valley_high"]).mean()
    print(
        f"{name}: root mean square error {error:.2f} degrees, {inside:.0%} inside the 95 % interval"
    )
print(model.selection_.filter(like="valley_weight").round(2))

figure = model.plot(1, title="Two days of one station, filled from two others")
figure.axes[2].plot(missing.index, missing, "x", color="C3", markersize=4)  # what was not seen
figure.savefig(folder / "gap_from_others.png")
