"""Recipes: architecture, starting values and schedule together, from the data at hand."""

from __future__ import annotations

import math

from deeplfm.ensemble.autoregression_candidates import feedback_recipe, memory_recipe
from deeplfm.ensemble.tables import density_recipe, neighbours_recipe, paper_recipe, table_recipe
from deeplfm.errors import ConfigError
from deeplfm.recipes.architecture import Architecture
from deeplfm.recipes.lfm import lfm_recipe
from deeplfm.recipes.phase import phase_recipe
from deeplfm.recipes.rhythm import rhythm_recipe
from deeplfm.recipes.series import (
    composition_recipe,
    deep_recipe,
    pursuit_recipe,
    spectrum_recipe,
)
from deeplfm.selection.candidate import Candidate

_OF_SERIES = (
    "spectrum",
    "pursuit",
    "rhythm",
    "phase",
    "deep",
    "composition",
    "feedback",
    "memory",
    "lfm",
)
STARTS = ("race", "paper", "table", "neighbours", "density", *_OF_SERIES)


def recipes_for(
    start: str, architecture: Architecture, is_series: bool, n_steps: int | None = None
) -> list[Candidate]:
    """The recipes behind a start: one, or all that race.

    Args:
        start: one of ``STARTS``.
        architecture: what the user chose.
        is_series: the first input is time; a table otherwise.
        n_steps: overrides the steps of a single start.
    """

    def steps(default: int) -> int:
        return default if n_steps is None else n_steps

    single = {
        "paper": lambda: paper_recipe(architecture, steps(1000)),
        "table": lambda: table_recipe(architecture, steps(100)),
        "neighbours": lambda: neighbours_recipe(architecture),
        "density": lambda: density_recipe(architecture, steps(800)),
        "deep": lambda: deep_recipe(architecture, n_steps=steps(60)),
        "spectrum": lambda: spectrum_recipe(architecture, steps(60)),
        "pursuit": lambda: pursuit_recipe(architecture, has_trend=True, n_steps=steps(60)),
        "rhythm": lambda: rhythm_recipe(architecture, n_steps=steps(60)),
        "phase": lambda: phase_recipe(architecture, steps(60)),
        "composition": lambda: composition_recipe(architecture, n_steps=steps(60)),
        "feedback": lambda: feedback_recipe(architecture),
        "memory": lambda: memory_recipe(architecture),
        "lfm": lambda: lfm_recipe(architecture, steps(200)),
    }
    if start not in STARTS:
        raise ConfigError(f"start: {start!r} is not known. Choose one of {', '.join(STARTS)}.")
    if start in _OF_SERIES and not is_series:
        raise ConfigError(
            f"start: {start!r} is for a series, and there are several inputs. Use "
            "'race' or one of 'table', 'neighbours', 'density', 'paper', or say is_series=True where the "
            "first is time."
        )
    if start != "race":
        return [single[start]()]
    if not is_series:
        return [single[name]() for name in ("table", "neighbours", "density")]
    return [
        pursuit_recipe(architecture, "pursuit: steady lines", n_steps=steps(60)),
        pursuit_recipe(
            architecture,
            "pursuit: drifting",
            jitter=0.001,
            has_trend=True,
            n_steps=steps(60),
        ),
        pursuit_recipe(
            architecture,
            "pursuit: learned",
            bandwidth=1.0,
            learn_bandwidth=True,
            n_steps=steps(60),
        ),
        pursuit_recipe(
            architecture,
            "pursuit: few lines",
            n_lines=8,
            bandwidth=2.0,
            learn_bandwidth=True,
            n_steps=steps(80),
        ),
        rhythm_recipe(architecture, "rhythm: on a trend", has_trend=True, n_steps=steps(60)),
        rhythm_recipe(
            architecture, "rhythm: on a walk", has_trend=True, walk="rough", n_steps=steps(60)
        ),
        rhythm_recipe(
            architecture,
            "rhythm: on a smooth walk",
            has_trend=True,
            walk="smooth",
            n_steps=steps(60),
        ),
        *(
            single[name]()
            for name in ("rhythm", "phase", "deep", "composition", "feedback", "memory")
        ),
        neighbours_recipe(
            architecture, margin=math.inf
        ),  # rough series: for gaps, which have two sides
    ]


__all__ = [
    "STARTS",
    "Architecture",
    "composition_recipe",
    "deep_recipe",
    "density_recipe",
    "feedback_recipe",
    "lfm_recipe",
    "memory_recipe",
    "neighbours_recipe",
    "paper_recipe",
    "phase_recipe",
    "pursuit_recipe",
    "recipes_for",
    "rhythm_recipe",
    "spectrum_recipe",
    "table_recipe",
]
