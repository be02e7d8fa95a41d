"""Models of the experiments: our own, and comparators by name.

A comparator is imported when it is built: one that cannot be imported is reported in the table and
does not stop the others.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

from deeplfm.baselines import BASELINES
from deeplfm.errors import DeepLFMError
from deeplfm.experiments.declaration import Entry

_QUICK_OURS: dict[str, dict[str, Any]] = {
    "series": {"n_steps": 3},
    "table": {"n_steps": 3, "n_features": 10},
    "paper": {"n_steps": 2, "n_features": 10},
}
_QUICK_START = {"series": "pursuit", "table": "table"}  # one candidate in place of an ensemble
_QUICK_OTHERS: dict[str, Any] = {"n_steps": 3, "n_epochs": 2, "n_features": 10, "max_iter": 10}
# No time limit: with fewer steps it would be another model than the paper's. The compiled kernels give
# the same numbers in a third of the time.
_AS_PUBLISHED: dict[str, Any] = {"preset": "paper", "compile": True, "time_limit": None}


class NotAvailableError(DeepLFMError):
    """A comparator cannot be imported, or does not take a setting."""


def ensemble(kind: str, label: str = "ensemble", **settings: Any) -> Entry:
    """Our default: several models, weighed by held-out rows. The paper has no such row.

    Args:
        kind: of the data, "series" or "table".
        label: in the table.
        settings: other than the defaults.
    """
    return Entry(label, partial(_build_ours, kind, settings))


def dlfm(kind: str, paper: str = "DLFM", label: str = "DLFM", **settings: Any) -> Entry:
    """One model with hidden layers.

    Args:
        kind: of the data, "series" or "table".
        paper: row of the paper's table.
        label: in the table.
        settings: other than the defaults.
    """
    start = {"start": "deep" if kind == "series" else "table"}
    return Entry(label, partial(_build_ours, kind, start | settings), paper)


def paper_dlfm(label: str = "DLFM (paper)", paper: str = "DLFM", **settings: Any) -> Entry:
    """The model of the paper's text, by default with one hidden layer of 3 units and 100 features."""
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
    """A deep Gaussian process trained as in the paper's text, and trained as our DLFM is."""
    as_published = comparator(name, paper, f"{name} (paper)", **_AS_PUBLISHED, **settings)
    return as_published, comparator(name, paper, preset="default", **settings)


def comparators(*names: str) -> tuple[Entry, ...]:
    """Models that the paper's table does not have."""
    return tuple(comparator(name) for name in names)


def _build_ours(
    kind: str, settings: dict[str, Any], *, seed: int, is_quick: bool, budget: float | None
) -> Any:
    from deeplfm.estimators import DeepLFMRegressor
    from deeplfm.recipes import Architecture, recipes_for

    chosen = settings | (_QUICK_OURS[kind] if is_quick else {})
    if is_quick and kind in _QUICK_START:
        chosen = {"start": _QUICK_START[kind]} | chosen
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
