"""Small series and quick models for the tests of the page."""

import numpy as np
import pandas as pd

from deeplfm.estimators import DeepLFMForecaster

NASTY = "ecg <script>alert(1)</script> & %{x} $y$"


def quick(**options: object) -> DeepLFMForecaster:
    return DeepLFMForecaster(
        **{"model": "sinusoids + broadband", "n_steps": 3, "random_state": 0} | options
    )


def waves(n_rows: int = 120) -> pd.DataFrame:
    """A frame of two targets, one with a gap of 20 rows and one with a name full of markup."""
    rng = np.random.default_rng(0)
    time = 0.1 * np.arange(n_rows)
    noise = 0.1 * rng.normal(size=(n_rows, 2))
    abp = 90 + 10 * np.sin(2 * np.pi * time) + noise[:, 0]
    ecg = np.cos(2 * np.pi * time) + noise[:, 1]
    frame = pd.DataFrame({"time": time, "abp": abp, NASTY: ecg})
    frame.loc[20:39, "abp"] = np.nan
    return frame
