"""Extrapolation of the toy problem against time: ours, the paper's model fast and naive, a GP.

The ensemble and single models are one point each: the error when the fit is done. Models that train
for as long as one lets them (the model ``paper`` through our kernels, and the transcription of
`naive.py`) are curves: every so often the clock is stopped and the rows after the last training row are
predicted.

    python benchmarks/quality.py --seconds 600         # writes results/quality.json, one process each
    python benchmarks/quality.py --plot                # docs/figures/quality.png from what is there
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from naive import NaiveDeepLFM

from deeplfm import DeepLFMRegressor
from deeplfm.baselines.exact_gp import ExactGP
from deeplfm.data.simulated import ToyData, toy_system
from deeplfm.kernels import compiled_kernels
from deeplfm.objective import Batch, elbo
from deeplfm.randomness import generator_for
from deeplfm.terms import BuildContext, Paper
from deeplfm.training import Rows

HERE = Path(__file__).parent
RESULTS, FIGURE = HERE / "results" / "quality.json", HERE.parent / "docs/figures/quality.png"
TARGET = 0.15
MODELS = {"ensemble": "ensemble", "LFM": "trend + sinusoids + broadband", "DLFM": "dlfm"}
STYLES = {
    "ensemble": ("o", "#000000"),
    "LFM": ("s", "#0072B2"),
    "DLFM": ("^", "#009E73"),
    "GP": ("D", "#999999"),
    "DLFM (paper)": ("-", "#D55E00"),
    "DLFM (paper), naive": ("--", "#CC79A7"),
}
Curve = list[tuple[float, float]]


def error(data: ToyData, mean: np.ndarray) -> float:
    """NMSE of the rows after the last training row."""
    y = data.value[data.extrapolation]
    return float(((mean - y) ** 2).mean() / ((y - y.mean()) ** 2).mean())


def estimator_point(make: Callable[[], DeepLFMRegressor | ExactGP], data: ToyData) -> Curve:
    """Seconds of a whole fit, and its error."""
    started = time.perf_counter()
    fitted = make().fit(data.time[data.train], data.value[data.train])
    spent = time.perf_counter() - started
    return [(spent, error(data, np.asarray(fitted.predict(data.time[data.extrapolation]))))]


def paper_curve(data: ToyData, limit: float, is_naive: bool, every: float = 20.0) -> Curve:
    """The paper's model, trained with the clock running and scored with the clock stopped."""
    time_scale = np.ptp(data.time[data.train])
    x = torch.as_tensor((data.time - data.time[data.train].min()) / time_scale)[:, None].float()
    shift, scale = data.value[data.train].mean(), data.value[data.train].std()
    y = torch.as_tensor((data.value - shift) / scale)[:, None].float()
    rows = Rows(x[data.train], y[data.train])
    model = Paper().build(rows, BuildContext(dtype=torch.float32))
    trained = NaiveDeepLFM.like(model) if is_naive else model
    optimiser = torch.optim.AdamW([p for p in trained.parameters() if p.requires_grad], lr=0.01)
    batch, new_x = Batch(rows.x, rows.y, len(rows.x)), x[data.extrapolation]

    def bound(step: int) -> torch.Tensor:
        if isinstance(trained, NaiveDeepLFM):
            return trained.elbo(rows.x, rows.y, len(rows.x))
        return elbo(trained, batch, 100, generator_for(0, "step", step))

    @torch.no_grad()
    def predicted() -> np.ndarray:
        if isinstance(trained, NaiveDeepLFM):
            noise = trained.draw_noise(100, len(new_x))
            mean = trained(new_x, noise, 100)[0].mean(0)
        else:
            mean = trained.posterior(new_x).mean
        return (mean[:, 0].double() * scale + shift).numpy()

    curve, spent, due, step = [], 0.0, 1.0, 0
    with compiled_kernels(not is_naive):
        while spent < limit:
            started = time.perf_counter()
            optimiser.zero_grad()
            (-bound(step) / len(rows.x)).backward()
            optimiser.step()
            spent += time.perf_counter() - started
            step += 1
            if spent >= due:
                curve.append((spent, error(data, predicted())))
                due = min(due * 1.6, due + every)
    print(f"{'naive' if is_naive else 'ours'}: {step} steps in {spent:.0f} s", flush=True)
    return curve


def plot(results: dict[str, Curve]) -> None:
    """Error against seconds, both logarithmic."""
    _, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for name, curve in results.items():
        mark, colour = STYLES[name]
        seconds, errors = zip(*curve, strict=True)
        if len(curve) == 1:
            axes.plot(seconds, errors, mark, color=colour, label=name, ms=8)
        else:
            axes.plot(seconds, errors, mark, color=colour, label=name)
    axes.axhline(TARGET, color="0.6", lw=1, ls=":")
    axes.annotate(f"{TARGET}", (axes.get_xlim()[0], TARGET), va="bottom", color="0.4")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="seconds of fitting, one core",
        ylabel="NMSE of the extrapolation",
        title="Toy problem: error against time",
    )
    axes.legend(frameon=False, loc="center right", bbox_to_anchor=(1.0, 0.42))
    plt.savefig(FIGURE, dpi=150)


def main() -> None:
    """Measure what is missing, or plot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="for each curve")
    parser.add_argument("--only", nargs="+", choices=list(STYLES), default=list(STYLES))
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--plot", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    data = toy_system(seed=0)
    for name in [] if arguments.plot else arguments.only:
        if name in MODELS:
            model = MODELS[name]
            curve = estimator_point(lambda m=model: DeepLFMRegressor(m, progress=False), data)
        elif name == "GP":
            curve = estimator_point(ExactGP, data)
        else:
            curve = paper_curve(data, arguments.seconds, name == "DLFM (paper), naive")
        kept = json.loads(arguments.json.read_text()) if arguments.json.exists() else {}
        arguments.json.write_text(json.dumps({**kept, name: curve}, indent=1) + "\n")
        reached = next((f"{s:.1f} s" for s, e in curve if e <= TARGET), "never")
        best = min((e for _, e in curve), default=math.nan)
        print(f"{name}: NMSE ≤ {TARGET} after {reached}; best {best:.3f}", flush=True)
    if arguments.plot:
        plot(json.loads(arguments.json.read_text()))


if __name__ == "__main__":
    main()
