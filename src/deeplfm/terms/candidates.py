"""The sums that a default fit compares."""

from __future__ import annotations

from deeplfm.terms.broad_band import BroadBand
from deeplfm.terms.composition import Composition
from deeplfm.terms.deep import Deep
from deeplfm.terms.local_level import LocalLevel, MeanReversion, Trend
from deeplfm.terms.other_outputs import OtherOutputs
from deeplfm.terms.season import Season
from deeplfm.terms.shared_season import SharedSeason
from deeplfm.terms.sinusoids import Sinusoids
from deeplfm.terms.sums import Sum
from deeplfm.terms.warped_time import WarpedTime

STATE_SPACE: dict[str, Sum] = {
    "level": Trend() + Season() + LocalLevel() + LocalLevel(damped=True),
    "reversion": Trend() + Season(evolves=False) + MeanReversion(),
}
"""Compared by default. Beyond the last row the first goes on in the last direction for a while, and the
second returns to the trend. Past rows do not decide between them, so that both have the same weight.
"""

IN_GAPS: dict[str, Sum] = {
    "other outputs": Trend() + OtherOutputs(),
    "other outputs, season": Trend() + Season(evolves=False) + OtherOutputs(),
    "other outputs, reversion": Trend() + Season(evolves=False) + MeanReversion() + OtherOutputs(),
}
"""For gaps of one of several outputs, where others are known."""

_FEW = Sinusoids(8, bandwidth=2.0, learn_bandwidth=True)

SERIES: dict[str, Sum] = {
    "sinusoids": Sinusoids() + BroadBand(),
    "sinusoids + trend": Trend() + Sinusoids(jitter=0.001) + BroadBand(),
    "sinusoids of free bandwidth": Sinusoids(bandwidth=1.0, learn_bandwidth=True) + BroadBand(),
    "few sinusoids": _FEW + BroadBand(),
    "season + trend": Trend() + Season() + BroadBand(),
    "season + level": Sum((Trend(), Season(), LocalLevel()), uses_features=True),
    "season + damped level": Sum((Trend(), Season(), LocalLevel(damped=True)), uses_features=True),
    "season": SharedSeason() + BroadBand(),
    "warped season": WarpedTime() + Sinusoids(6, bandwidth=2.0, learn_bandwidth=True) + BroadBand(),
    "deep": Deep() + _FEW + BroadBand(),
    "composition": Sum((Composition(),)),
}

OTHER_CYCLES: dict[str, Sum] = {
    "clocks": WarpedTime() + LocalLevel(damped=True),
    "sinusoids": Trend() + Sinusoids(12) + MeanReversion(),
}
"""Beside those in state-space form where times are numbers: cycles that do not keep time, or of several
frequencies.
"""

STEPS = {"few sinusoids": 80}  # training steps that differ from those of the terms
