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

_QUICK_STEPS, _QUICK_FEATURES = 3, 10
_QUICK_OTHERS: dict[str, Any] = {
    "n_steps": _QUICK_STEPS,
    "n_features": _QUICK_FEATURES,
    "n_epochs": 2,
    "max_iter": 10,
}
_QUICK_MEMBERS = {"series": "sinusoids + broadband", "table": "nearest-neighbour GP"}
# arguments of the model, not of the estimator
_SIZES = ("hidden", "n_forces", "n_features", "n_samples", "n_restarts")
_SHALLOW = ("LFM", "LFM-RFF", "GP", "VAR-GP", "ridge on lags", "last period", "boosted trees")
# No time limit: with fewer steps it would be another model than the paper's. The compiled kernels give
# the same numbers in a third of the time.
_AS_PUBLISHED: dict[str, Any] = {"compile": True, "time_limit": None}


class NotAvailableError(DeepLFMError):
    """A comparator cannot be imported, or does not take a setting."""


def ensemble(kind: str, label: str = "ensemble", **settings: Any) -> Entry:
    """Our default: several models, weighed by held-out rows. The paper has no such row."""
    return Entry(label, partial(_build_ours, "ensemble", kind, settings))


def dlfm(kind: str, paper: str = "DLFM", **settings: Any) -> Entry:
    """One model whose hidden layers carry the forecast."""
    settings = {"time_limit": None} | settings  # half a search for clocks is another model
    return Entry("DLFM", partial(_build_ours, "dlfm", kind, settings), paper, has_hidden_layer=True)


def beside_sinusoids(suffix: str = "", paper: str | None = None, **settings: Any) -> Entry:
    """The paper's hidden layers beside sinusoids, which may carry all of the forecast."""
    label = f"sinusoids + deep {suffix}".strip()
    return Entry(label, partial(_build_ours, "beside", "series", settings), paper)


def beside_smooth(**settings: Any) -> Entry:
    """Hidden layers of a table beside smooth features of its inputs, which may carry all of it."""
    return Entry("smooth + deep", partial(_build_ours, "beside", "table", settings))


def without_hidden_layer() -> Entry:
    """The mixture density of a table whose weights are functions of the inputs."""
    build = partial(_build_ours, "mixture density", "table", {"time_limit": None})
    return Entry("mixture density", build, has_hidden_layer=False)


def shallow(*models: str) -> tuple[Entry, ...]:
    """Sums of terms without a hidden layer."""
    return tuple(
        Entry(f"LFM: {model}", partial(_build_ours, model, "series", {}), has_hidden_layer=False)
        for model in models
    )


def paper_dlfm(label: str = "DLFM (paper)", paper: str = "DLFM", **settings: Any) -> Entry:
    """The model of the paper's text, by default with one hidden layer of 3 units and 100 features."""
    build = partial(_build_ours, "paper", "", _AS_PUBLISHED | settings)
    return Entry(label, build, paper, has_hidden_layer=True)


def reference_dlfm(paper: str = "DLFM", **settings: Any) -> Entry:
    """The model as the authors' public code builds and trains it."""
    label = "DLFM (reference)"
    build = partial(_build_ours, "reference", "", _AS_PUBLISHED | settings)
    return Entry(label, build, paper, has_hidden_layer=True)


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
    build = partial(_build_comparator, name, settings)
    has_hidden_layer = False if name in _SHALLOW else None
    return Entry(label or name, build, paper, has_hidden_layer=has_hidden_layer)


def deep_gp(name: str, paper: str | None = None, **settings: Any) -> tuple[Entry, Entry]:
    """A deep Gaussian process trained as in the paper's text, and trained as our DLFM is."""
    as_published = comparator(name, paper, f"{name} (paper)", **_AS_PUBLISHED, **settings)
    return as_published, comparator(name, paper, follows_paper=False, **settings)


def comparators(*names: str) -> tuple[Entry, ...]:
    """Models that the paper's table does not have."""
    return tuple(comparator(name) for name in names)


def _build_ours(
    name: str,
    kind: str,
    settings: dict[str, Any],
    *,
    seed: int,
    is_quick: bool,
    budget: float | None,
) -> Any:
    from deeplfm.estimators import DeepLFMRegressor
    from deeplfm.estimators.candidates import models_of

    sizes = {key: settings[key] for key in _SIZES if key in settings}
    if is_quick:
        sizes["n_features"] = _QUICK_FEATURES
    model = _model(name, kind, sizes, is_quick)
    chosen: dict[str, Any] = {"n_steps": _QUICK_STEPS if is_quick else None}
    if budget is not None:
        chosen["time_limit"] = budget * len(models_of(model, kind != "table"))
    chosen |= {key: value for key, value in settings.items() if key not in _SIZES}
    if is_quick:
        chosen["n_steps"] = _QUICK_STEPS
    return DeepLFMRegressor(model, **chosen, random_state=seed, progress=False)


def _model(name: str, kind: str, sizes: dict[str, Any], is_quick: bool) -> Any:
    """The argument ``model`` of the estimator."""
    from deeplfm.estimators.candidates import OF_ALL, OF_SERIES
    from deeplfm.terms import (
        BroadBand,
        Deep,
        DeepTable,
        Dlfm,
        Paper,
        Reference,
        Sinusoids,
        Sum,
        Table,
        parse,
    )
    from deeplfm.terms.candidates import SERIES

    if name == "paper":
        return Paper(**sizes)
    if name == "reference":
        return Reference(**sizes | ({"n_samples": 2, "n_restarts": 1} if is_quick else {}))
    is_table = kind == "table"
    if name == "dlfm":
        return DeepTable(**sizes) if is_table else Dlfm(**sizes)
    few = Sinusoids(8, bandwidth=2.0, learn_bandwidth=True)
    deep = Table(**sizes) if is_table else Sum((Deep(**sizes), few, BroadBand()))
    if name == "beside":
        return deep
    if name == "mixture density":
        return name
    if name != "ensemble":
        return parse(name)
    if is_quick:  # two members in place of all
        return {"deep": deep, _QUICK_MEMBERS[kind]: _QUICK_MEMBERS[kind]}
    if not sizes:
        return "ensemble"
    others = OF_ALL if is_table else (*OF_SERIES, "nearest-neighbour GP")
    return {**({} if is_table else SERIES), "deep": deep, **{other: other for other in others}}


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
