"""Count the files of the package that a call passes through: fewer are easier to follow.

``python tools/trace_files.py`` traces three calls and prints the number of files of each;
``--files`` lists them, ``--steps N`` sets the training steps of the fit (3: the files are the same
as with all of them).
"""

from __future__ import annotations

import argparse
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd
import torch

import deeplfm
from deeplfm import DeepLFM, DeepLFMForecaster, LayerConfig, ModelConfig

PACKAGE = Path(deeplfm.__file__).parent


def files_of(call: Callable[[], Any]) -> list[str]:
    """Files of the package with a function that runs during the call, in any thread."""
    names: set[str] = set()

    def record(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            names.add(frame.f_code.co_filename)

    sys.setprofile(record)
    threading.setprofile(record)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    paths = (Path(name) for name in names)
    return sorted(str(p.relative_to(PACKAGE)) for p in paths if p.is_relative_to(PACKAGE))


def hourly_load() -> pd.DataFrame:
    """Five days of a daily cycle with a gap."""
    hours = pd.date_range("2024-03-01", periods=120, freq="h", tz="Europe/Berlin")
    load = 50 + 9 * np.sin(np.arange(120) * 2 * np.pi / 24)
    load += np.random.default_rng(0).normal(size=120)
    load[40:52] = np.nan
    return pd.DataFrame({"load": load}, index=hours)


def traces(n_steps: int = 3) -> dict[str, list[str]]:
    """Files of a default fit, of its forecast, and of a posterior of a model built by hand."""
    forecaster = DeepLFMForecaster(n_steps=n_steps, random_state=0)
    frame = hourly_load()
    fit = files_of(lambda: forecaster.fit(frame))
    forecast = files_of(lambda: forecaster.forecast(horizon=24))
    config = ModelConfig(n_inputs=1, layers=(LayerConfig(3), LayerConfig(1)))
    model, times = DeepLFM(config, seed=0), torch.linspace(0, 1, 5)[:, None]
    return {"fit": fit, "forecast": forecast, "posterior": files_of(lambda: model.posterior(times))}


def main() -> None:
    """Print the numbers, and with ``--files`` the names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", action="store_true", help="list the files")
    parser.add_argument("--steps", type=int, default=3, help="training steps of the fit")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for name, paths in traces(arguments.steps).items():
        print(f"{name}: {len(paths)} files")
        if arguments.files:
            print(*(f"  {path}" for path in paths), sep="\n")


if __name__ == "__main__":
    main()
