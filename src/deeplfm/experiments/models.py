"""Models of the experiments: our own with its settings, and comparators by their name.

A comparator is looked for when it is built: one that is not there, or that lacks a part, is told of in
the table and stops nothing.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

from deeplfm.baselines import BASELINES
from deeplfm.errors import DeepLFMError
from deeplfm.experiments.declaration import Entry

_QUICK_OURS: dict[str, dict[str, Any]] = {
    "series": {"start": "pursuit", "n_steps": 3},
    "table": {"start": "table", "n_steps": 3, "n_features": 10},
    "paper": {"n_steps": 2, "n_features": 10},
}
_QUICK_OTHERS: dict[str, Any] = {"n_steps": 3, "n_epochs": 2, "n_features": 10, "max_iter": 10}
# All its steps, whatever limit the others have: cut short, it would be another model than the paper's.
# Compiled where there is a compiler: the same numbers in a third of the time.
_AS_PUBLISHED: dict[str, Any] = {"preset": "paper", "compile": True, "time_limit": None}


RACE = (
    "The row DLFM is the default: a race of starts, some of them without hidden layers, of which the "
    "best are stacked. The rows with one start are the deep model alone."
)


class NotAvailableError(DeepLFMError):
    """A comparator is not there, or not with these settings."""


def dlfm(kind: str, paper: str | None = None, label: str = "DLFM", **settings: Any) -> Entry:
    """Our model with its defaults.

    Args:
        kind: of the data, "series" or "table".
        paper: row of the paper's table.
        label: in the table.
        settings: other than the defaults.
    """
    return Entry(label, partial(_build_ours, kind, settings), paper)


def dlfm_alone(start: str, paper: str = "DLFM", name: str = "", **settings: Any) -> Entry:
    """One start of our model alone: what its hidden layers do when none without them may win the race.

    Args:
        start: "deep" for a series, "table" for a table.
        paper: row of the paper's table.
        name: of its settings in the label, where they differ from row to row.
        settings: other than the defaults.
    """
    label = f"DLFM (start {start}) {name}".strip()
    kind = "table" if start == "table" else "series"
    return dlfm(kind, paper, label, start=start, **settings)


def paper_dlfm(
    label: str = "DLFM (paper preset)", paper: str | None = "DLFM", **settings: Any
) -> Entry:
    """The paper's model letter by letter: one hidden layer of 3 units and 100 features, unless told."""
    return Entry(label, partial(_build_ours, "paper", _AS_PUBLISHED | settings), paper)


def comparator(
    name: str, paper: str | None = None, label: str | None = None, **settings: Any
) -> Entry:
    """A model of ``deeplfm.baselines``.

    Args:
        name: in the registry.
        paper: row of the paper's table, if it has one.
        label: in the table; by default the name.
        settings: other than its defaults, which are the paper's.
    """
    return Entry(label or name, partial(_build_comparator, name, settings), paper)


def deep_gp(name: str, paper: str | None = None, **settings: Any) -> tuple[Entry, Entry]:
    """A deep Gaussian process as the paper trains it, and with the care of one start of our model."""
    careful = comparator(name, paper, f"{name} (default preset)", preset="default", **settings)
    return comparator(name, paper, **_AS_PUBLISHED, **settings), careful


def comparators(*names: str) -> tuple[Entry, ...]:
    """Models that the paper's table does not have."""
    return tuple(comparator(name) for name in names)


def _build_ours(
    kind: str, settings: dict[str, Any], *, seed: int, is_quick: bool, budget: float | None
) -> Any:
    from deeplfm.estimators import DeepLFMRegressor
    from deeplfm.recipes import Architecture, recipes_for

    chosen = settings | (_QUICK_OURS[kind] if is_quick else {})
    if budget is not None:
        starts = recipes_for(chosen.get("start", "race"), Architecture(), kind == "series")
        chosen = {"time_limit": budget * len(starts)} | chosen
    return DeepLFMRegressor(**chosen, random_state=seed, progress=False)


def _build_comparator(
    name: str, settings: dict[str, Any], *, seed: int, is_quick: bool, budget: float | None
) -> Any:
    try:
        kind: Any = BASELINES[name]  # imports it
    except KeyError:
        raise NotAvailableError(
            f"no comparator is named {name!r}. Known: {', '.join(BASELINES)}."
        ) from None
    except ImportError as error:
        raise NotAvailableError(f"{name} cannot be imported: {error}.") from error
    accepted = inspect.signature(kind).parameters
    takes_all = any(item.kind is item.VAR_KEYWORD for item in accepted.values())
    missing = [key for key in settings if key not in accepted and not takes_all]
    if missing:
        raise NotAvailableError(f"{name} has no setting {', '.join(missing)}.")
    wishes = {"random_state": seed, "time_limit": budget, "progress": False, **settings}
    wishes |= _QUICK_OTHERS if is_quick else {}
    return kind(**{key: wishes[key] for key in wishes if key in accepted or key in settings})
