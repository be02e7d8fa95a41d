"""How time and memory of training grow with rows, samples, features, forces, width, outputs, depth.

Each is varied alone from one base, in a process of its own. Rows are those of one epoch in batches of
1000; all others are varied in a single step of 1000 rows. Results are saved after every measurement,
and a run that was stopped goes on where it was.

    python benchmarks/scaling.py                              # everything, then the figure
    python benchmarks/scaling.py --only rows,samples
    python benchmarks/scaling.py --quick --json quick.json --figure quick.png
"""

from __future__ import annotations

import argparse
import json
import math
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter
from measure import Step, seconds_and_megabytes

from deeplfm.io.files import write_whole
from deeplfm.terms import BuildContext, Paper
from deeplfm.training import Phase, Rows, Schedule, train

ROOT = Path(__file__).parents[1]
N_BATCH = 1000
N_FITTED = 3  # largest settings that a slope is fitted to: below them fixed costs show


@dataclass(frozen=True)
class Setting:
    """The sizes that the cost of an epoch depends on."""

    rows: int = N_BATCH
    samples: int = 4
    features: int = 100
    forces: int = 1
    width: int = 3
    outputs: int = 1
    depth: int = 1
    inputs: int = 10


VALUES: dict[str, tuple[int, ...]] = {
    "rows": (1_000, 10_000, 100_000, 1_000_000),
    "samples": (1, 4, 16, 64, 256),
    "features": (25, 50, 100, 200, 400, 800),
    "forces": (1, 2, 4, 8, 16),
    "width": (1, 3, 6, 12, 24, 48),
    "outputs": (1, 2, 4, 8, 16),
    "depth": (1, 2, 4, 8),
}
QUICK: dict[str, tuple[int, ...]] = {
    "rows": (1_000, 4_000),
    "samples": (1, 4, 16),
    "features": (25, 50, 100),
    "forces": (1, 2),
    "width": (1, 3, 6),
    "outputs": (1, 2),
    "depth": (1, 2),
}


def prepare(setting: Setting, n_threads: int) -> Step:
    """One epoch, after a tiny one that makes PyTorch load what it loads late."""
    torch.set_num_threads(n_threads)
    epoch(Setting(rows=2, samples=1, features=2, inputs=1))()
    return epoch(setting)


def epoch(setting: Setting) -> Step:
    """One epoch of the paper's model on normal noise."""
    torch.manual_seed(0)
    rows = Rows(
        torch.randn(setting.rows, setting.inputs), torch.randn(setting.rows, setting.outputs)
    )
    paper = Paper((setting.width,) * setting.depth, setting.forces, setting.features)
    model = paper.build(rows, BuildContext(dtype=torch.float32))
    schedule = Schedule(
        phases=(Phase(math.ceil(setting.rows / N_BATCH)),),
        batch_size=N_BATCH,
        n_samples=setting.samples,
    )
    return lambda: train(model, rows, schedule)


def measure_missing(
    values: dict[str, tuple[int, ...]], names: list[str], path: Path, n_threads: int
) -> dict[str, dict[str, dict[str, float]]]:
    """Measure what the file does not hold yet, and write it down at once."""
    base = {**asdict(Setting()), "threads": n_threads}
    saved = json.loads(path.read_text()) if path.exists() else {"base": base, "results": {}}
    if saved["base"] != base:
        raise SystemExit(f"{path} was measured from another base. Remove it, or choose --json.")
    for name in names:
        found = saved["results"].setdefault(name, {})
        for value in values[name]:
            if str(value) in found:
                continue
            setting = replace(Setting(), **{name: value})
            seconds, megabytes = seconds_and_megabytes(prepare, setting, n_threads)
            if math.isnan(seconds):
                raise SystemExit(
                    f"{name} = {value}: the process was killed, or failed (see above)."
                )
            found[str(value)] = {"seconds": seconds, "peak_mb": round(megabytes, 1)}
            text = json.dumps(saved, indent=2) + "\n"
            write_whole(path, lambda temporary, text=text: temporary.write_text(text))
            print(f"{name:>9} = {value:<9} {seconds:9.3f} s {megabytes:9.1f} MB", flush=True)
    return saved["results"]


def draw(results: dict[str, dict[str, dict[str, float]]], path: Path) -> None:
    """Two log-log panels each for rows and for the rest: seconds above, megabytes below."""
    figure = Figure(figsize=(10, 7.5), layout="constrained")
    axes = figure.subplots(2, 2)
    rows = {name: found for name, found in results.items() if name == "rows"}
    others = {name: found for name, found in results.items() if name != "rows"}
    labels = {"seconds": "seconds", "peak_mb": "peak memory above the start / MB"}
    for row, (quantity, label) in zip(axes, labels.items(), strict=True):
        for ax, group, x_label in zip(
            row, (rows, others), ("rows of an epoch", "multiple of the base"), strict=True
        ):
            _draw_panel(ax, group, quantity)
            ax.set_xlabel(x_label)
            ax.set_ylabel(label)
    axes[0, 0].set_title(f"one epoch in batches of {N_BATCH}", fontsize="medium")
    axes[0, 1].set_title(f"one step of {N_BATCH} rows", fontsize="medium")
    base = ", ".join(f"{value} {name}" for name, value in asdict(Setting()).items())
    figure.supxlabel(
        f"base: {base}; slopes are those of the {N_FITTED} largest settings", fontsize="small"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _draw_panel(ax: Axes, group: dict[str, dict[str, dict[str, float]]], quantity: str) -> None:
    greys = np.linspace(0.0, 0.6, max(len(group), 2))
    lines = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))
    for index, (name, found) in enumerate(group.items()):
        unit = 1 if name == "rows" else getattr(Setting(), name)
        points = sorted((int(value) / unit, result[quantity]) for value, result in found.items())
        x, y = np.array(points).T
        ax.loglog(
            x,
            y,
            marker="osD^vX"[index % 6],
            linestyle=lines[index % 6],
            color=str(greys[index]),
            markersize=5,
            label=f"{name}: slope {slope(x, y):.2f}",
        )
    for axis in (ax.xaxis, ax.yaxis):
        low, high = axis.get_view_interval()
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 300 * low else (1,)))
        axis.set_major_formatter(FormatStrFormatter("%g"))
        axis.set_minor_formatter(NullFormatter())
    ax.grid(True, which="major", color="0.9")
    ax.legend(fontsize="small", frameon=False)


def slope(x: np.ndarray, y: np.ndarray) -> float:
    """Exponent of a power law through the largest settings."""
    if len(x) < 2:
        return math.nan
    exponent = np.polyfit(np.log(x[-N_FITTED:]), np.log(y[-N_FITTED:].clip(1e-9)), 1)[0]
    return round(float(exponent), 2) + 0.0  # no minus before a zero


def main() -> None:
    """Run what is missing, and draw what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(VALUES), help="comma-separated")
    parser.add_argument("--quick", action="store_true", help="few and small settings")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, default=ROOT / "benchmarks/results/scaling.json")
    parser.add_argument("--figure", type=Path, default=ROOT / "docs/figures/scaling.png")
    arguments = parser.parse_args()
    names = arguments.only.split(",")
    unknown = set(names) - set(VALUES)
    if unknown:
        parser.error(
            f"--only: {', '.join(sorted(unknown))} unknown; choose from {', '.join(VALUES)}"
        )
    values = QUICK if arguments.quick else VALUES
    results = measure_missing(values, names, arguments.json, arguments.threads)
    draw(results, arguments.figure)


if __name__ == "__main__":
    main()
