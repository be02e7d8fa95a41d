"""Vital signs with gaps: fill what is missing, forecast what comes, and score both against the truth.

Three channels at 50 Hz: 12 s of arterial pressure, ECG and respiration. A tenth of all values is deleted
at random, and half a second of each channel as a whole. The channels are simulated; where the environment
variable DEEPLFM_DATA names a folder with the data set mimic-037, they are those of a patient.

Caution: this shows a method. It is no medical device, and nothing it prints is for decisions about a
person without a trained professional.

Run it with ``python vital_signs.py [folder for the figure]``.
"""

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from deeplfm import DeepLFMForecaster
from deeplfm.data import load

N_PAST, N_FUTURE = 600, 100


def simulated(n_rows: int) -> pd.DataFrame:
    """A heart at 75 beats a minute that quickens a little with every breath."""
    time = np.arange(n_rows) / 50
    breath = 2 * np.pi * 0.25 * time
    beat = 1.25 * time + 0.02 * np.sin(breath)

    def bump(where: float, width: float, height: float) -> np.ndarray:
        distance = (beat - where + 0.5) % 1 - 0.5
        return height * np.exp(-0.5 * (distance / width) ** 2)

    ecg = bump(0.2, 0.04, 0.15) + bump(0.4, 0.03, 1.0) + bump(0.7, 0.06, 0.3)
    pressure = 80 + bump(0.55, 0.09, 40) + bump(0.8, 0.12, 15) + 3 * np.sin(breath)
    respiration = np.sin(breath) + 0.3 * np.sin(2 * breath + 0.5)
    channels = {"ABP_mmHg": pressure, "ECG_mV": ecg, "RESP_au": respiration}
    frame = pd.DataFrame(channels, index=pd.Index(time, name="time_s"))
    return frame + np.random.default_rng(0).normal(size=frame.shape) * [1.0, 0.03, 0.03]


folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
folder.mkdir(parents=True, exist_ok=True)

is_real = "DEEPLFM_DATA" in os.environ
truth = load("mimic-037").set_index("time_s") if is_real else simulated(N_PAST + N_FUTURE)
past, future = truth.iloc[:N_PAST], truth.iloc[N_PAST : N_PAST + N_FUTURE]

seen = past.mask(np.random.default_rng(1).random(past.shape) < 0.1)
for channel, first in enumerate((150, 300, 450)):
    seen.iloc[first : first + 25, channel] = np.nan

# One model and few steps, for a quick run; the default compares several models.
model = DeepLFMForecaster("trend + sinusoids + broadband", n_steps=30, random_state=0).fit(seen)
filled = model.impute(intervals=True)  # adds ABP_mmHg_low, ABP_mmHg_high, ... where it filled
filled.to_csv(folder / "vital_signs_filled.csv")
model.plot(N_FUTURE, later=future, since=2.0).savefig(folder / "vital_signs.png")

columns = ["rows", "rmse", "nmse", "coverage95"]
print(f"{'mimic-037' if is_real else 'simulated'} channels; nmse 0 is perfect, 1 is the mean's")
print("\nfilled values against the deleted truth")
print(model.evaluate(past.where(seen.isna()))[columns].round(3).to_string())
print(f"\nforecast of the next {N_FUTURE / 50:g} s")
print(model.evaluate(future)[columns].round(3).to_string())
print("\nNot for decisions about a person without a trained professional.")
