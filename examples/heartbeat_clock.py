"""The rate of a heart from its pulse wave, beat by beat and with a band.

A pulse of about 75 beats per minute is simulated. Its rate rises and falls, and noise is added.
model="dlfm" is one deep latent force model: a season on a hidden clock whose rate wanders. The hidden
layer is the clock; its rate is compared with that of the simulation.

Run it with ``python heartbeat_clock.py [folder for the figure]``.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from deeplfm import DeepLFMRegressor
from deeplfm.plots import plot_curve

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
folder.mkdir(parents=True, exist_ok=True)

rng = np.random.default_rng(1)
t = np.arange(0, 26, 0.05)  # seconds
rate = (
    1.25 + 0.12 * np.sin(2 * np.pi * t / 14) + 0.05 * np.sin(2 * np.pi * t / 5)
)  # beats per second
phase = 2 * np.pi * np.cumsum(rate) * 0.05
pulse = np.exp(2 * (np.cos(phase) - 1)) + 0.35 * np.cos(2 * phase + 1)
pressure = 90 + 30 * pulse + 2 * rng.normal(size=len(t))

model = DeepLFMRegressor("dlfm", random_state=0).fit(t, pressure)
clock = model.hidden_layers(t)[0]

error = clock.mean - rate
print(f"rate: root mean square error {60 * np.sqrt(np.mean(error**2)):.2f} beats per minute")
inside = np.abs(error) < 1.96 * clock.std
print(f"true rate inside the 95 % band: {inside.mean():.0%} of the time")

figure = Figure(figsize=(8, 4.5), layout="constrained")
top, bottom = figure.subplots(2, sharex=True)
top.plot(t, pressure, color="0.4", linewidth=0.8)
top.set(ylabel="pressure", xlim=(0, 26))
plot_curve(bottom, t, clock, label="rate of the clock")
bottom.plot(t, rate, "k--", label="true rate")
bottom.set(xlabel="seconds", ylabel="beats per second", ylim=(0.9, 1.5))
bottom.legend(loc="lower left", ncols=3)
figure.suptitle("The clock of a heartbeat")
figure.savefig(folder / "heartbeat_clock.png")
