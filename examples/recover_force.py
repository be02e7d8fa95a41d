"""Recover the force behind three sensors, and the decay of each of them.

One force u(t) drives three first-order systems, f' + decay f = sensitivity u(t), which are simulated and
observed with noise. The classical latent force model (model="lfm") sees the three outputs alone, from
their means. Its force therefore has a unit and a zero of its own (twice the force on half the sensitivity
is the same); both are fitted before the comparison.

Run it with ``python recover_force.py [folder for the figure]``.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.integrate import solve_ivp

from deeplfm import DeepLFMRegressor
from deeplfm.plots import plot_curve

DECAY, SENSITIVITY = np.array([0.3, 2.0, 0.8]), np.array([1.0, 3.0, -1.0])


def force(t: np.ndarray) -> np.ndarray:
    """A push, a pull and a hum."""
    return 2 * np.exp(-((t - 3) ** 2) / 2) - 1.5 * np.exp(-((t - 7) ** 2)) + 0.6 * np.sin(2 * t)


folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
folder.mkdir(parents=True, exist_ok=True)

t = np.linspace(0, 10, 150)
solution = solve_ivp(
    lambda time, f: SENSITIVITY * force(time) - DECAY * f, (0, 10), np.zeros(3), t_eval=t, rtol=1e-8
)
outputs = pd.DataFrame(solution.y.T, columns=["slow", "fast", "inverted"])
noise = np.random.default_rng(0).normal(size=outputs.shape) * 0.03 * outputs.std().to_numpy()

model = DeepLFMRegressor(model="lfm", random_state=0).fit(t, outputs + noise)
(found,) = model.forces(t)
unit, zero = np.polyfit(found.mean, force(t), 1)
found = replace(found, mean=zero + unit * found.mean, std=abs(unit) * found.std)

print(f"correlation with the true force: {np.corrcoef(found.mean, force(t))[0, 1]:.4f}")
inside = np.abs(found.mean - force(t)) < 1.96 * found.std
print(f"true force inside the 95 % band: {inside.mean():.0%} of the time")
for name, truth, response in zip(outputs, DECAY, model.filters(), strict=True):
    # a wave of angular frequency w passes with the gain 1 / sqrt(decay^2 + w^2)
    decay = np.sqrt(response.value[0] ** -2 - (2 * np.pi * response.frequency[0]) ** 2)
    print(f"decay of {name:8}: {decay:.2f}, true {truth:.2f}")

figure = Figure(figsize=(8, 3.5), layout="constrained")
ax = plot_curve(figure.subplots(), t, found, label="recovered force")
ax.plot(t, force(t), "k--", label="true force")
ax.set(xlabel="time", title="The force behind three sensors")
ax.legend()
figure.savefig(folder / "recover_force.png")
