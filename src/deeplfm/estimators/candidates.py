"""From the argument ``model`` to the candidates of a selection."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from deeplfm.ensemble.autoregression_candidates import (
    autoregression_candidate,
    linear_autoregression_candidate,
)
from deeplfm.ensemble.mixture_density import mixture_density_candidate
from deeplfm.ensemble.nearest_neighbour_gp import nearest_neighbour_candidate
from deeplfm.errors import ConfigError
from deeplfm.selection.candidate import Candidate
from deeplfm.statespace import StateSpaceLFM
from deeplfm.terms import (
    BuildContext,
    DeepTable,
    Dlfm,
    NamedModel,
    Paper,
    SharedForces,
    Smooth,
    Sum,
    Table,
    Term,
    parse,
)
from deeplfm.terms.candidates import IN_GAPS, OTHER_CYCLES, SERIES, STATE_SPACE, STEPS

Member = Callable[[BuildContext], Candidate]
Model = Sum | NamedModel | Member

OF_SERIES: dict[str, Member] = {
    "autoregression": autoregression_candidate,
    "linear autoregression": linear_autoregression_candidate,
}
OF_ALL: dict[str, Member] = {
    "nearest-neighbour GP": nearest_neighbour_candidate,
    "mixture density": mixture_density_candidate,
}
_GAPS_ONLY: dict[str, Member] = {
    "nearest-neighbour GP": lambda context: nearest_neighbour_candidate(
        context, margin=float("inf")
    )
}
NAMES = ("auto", "ensemble", "dlfm", "lfm", "paper", "reference")
EFFORTS = ("fast", "default", "thorough")
FEWEST_TO_COMPARE = 1000  # rows of a table from which on several candidates are compared by default


def models_of(
    model: Any, is_series: bool, effort: str = "default", n_rows: int = FEWEST_TO_COMPARE
) -> dict[str, Model]:
    """The declared models behind the argument ``model``, by name."""
    if isinstance(model, dict):
        if not model:
            raise ConfigError("model: an empty dict found. Give at least one candidate in it.")
        models = {str(name): _one(item, is_series) for name, item in model.items()}
        if is_series and len(models) > 1:  # beside others it fills gaps and makes no forecasts
            gaps_only = _GAPS_ONLY["nearest-neighbour GP"]
            return {
                n: gaps_only if m is nearest_neighbour_candidate else m for n, m in models.items()
            }
        return models
    if isinstance(model, str) and model.strip().lower() in ("auto", "ensemble"):
        is_ensemble = model.strip().lower() == "ensemble" or effort == "thorough"
        return _ensemble(is_series) if is_ensemble else _auto(is_series, effort, n_rows)
    one = _one(model, is_series)
    return {model if isinstance(model, str) else str(model): one}


def in_time_units(
    model: Any, convert: Callable[[Any], float], seasons: tuple[float, ...] = (), effort: str = ""
) -> Any:
    """The same argument ``model`` with periods converted to numbers of time units.

    Args:
        model: as the user gave it.
        convert: from a period to its length.
        seasons: of the calendar, for state-space sums that do not name a period.
        effort: of the fit, for the name ``"auto"``.
    """
    is_auto = isinstance(model, str) and model.strip().lower() == "auto"
    if is_auto and seasons and effort != "thorough":
        model = {
            **STATE_SPACE,
            **IN_GAPS,
        }  # cycles are those of the calendar, and no others are searched for
    if isinstance(model, dict):
        return {name: in_time_units(item, convert, seasons) for name, item in model.items()}
    if isinstance(model, str):
        try:
            model = parse(model)
        except ConfigError:  # a name, or refused when it is fitted
            return model
    if isinstance(model, Term):
        model = Sum((model,))
    if isinstance(model, Sum) and model.is_markov and seasons:
        return model.in_time_units(convert).with_seasons(seasons)
    return model.in_time_units(convert) if hasattr(model, "in_time_units") else model


def candidates_of(
    models: dict[str, Model], context: BuildContext, n_steps: int | None
) -> list[Candidate]:
    """Models as candidates that can be built, trained and compared."""
    return [_candidate(name, model, context, n_steps) for name, model in models.items()]


def _auto(is_series: bool, effort: str, n_rows: int) -> dict[str, Model]:
    if not is_series:
        is_one = effort == "fast" or n_rows < FEWEST_TO_COMPARE
        return {"smooth": Smooth(), **({} if is_one else OF_ALL)}
    return {**({} if effort == "fast" else OTHER_CYCLES), **STATE_SPACE, **IN_GAPS}


def _ensemble(is_series: bool) -> dict[str, Model]:
    if is_series:
        return {**SERIES, **OF_SERIES, **_GAPS_ONLY}
    return {"deep": Table(), **OF_ALL}


def _one(model: Any, is_series: bool) -> Model:
    """One model, checked against the kind of data."""
    found = _read(model, is_series)
    if not is_series and (isinstance(found, Sum) or found in OF_SERIES.values()):
        raise ConfigError(
            f"model: {model} is a model of time, and the data are a table of several inputs. Use "
            "'ensemble' or 'dlfm', or give is_series=True where the first input is time."
        )
    return found


def _read(model: Any, is_series: bool) -> Model:
    if isinstance(model, Term):
        return Sum((model,))
    if isinstance(model, Sum | NamedModel):
        return model
    if not isinstance(model, str):
        raise ConfigError(
            f"model: {model!r} found. Give a sum of terms, such as Trend() + Season(12), a name "
            f"({', '.join(NAMES)}), or a dict of candidates."
        )
    name = model.strip()
    named: dict[str, Callable[[], Model]] = {
        "dlfm": Dlfm if is_series else DeepTable,
        "lfm": lambda: Sum((SharedForces(),)),
        "paper": Paper,
    }
    members = {
        key.lower().replace(" ", "-"): member for key, member in {**OF_SERIES, **OF_ALL}.items()
    }
    key = name.lower().replace(" ", "-")
    if key in named:
        return named[key]()
    if key in members:
        return members[key]
    try:
        return parse(name)
    except ConfigError as error:
        close = difflib.get_close_matches(key, [*NAMES, *members], n=1)
        if close and "+" not in name:
            raise ConfigError(
                f"model: {name!r} is not known. Did you mean {close[0]!r}? Names: "
                f"{', '.join([*NAMES, *members])}; or a sum of terms."
            ) from None
        raise error


def _candidate(name: str, model: Model, context: BuildContext, n_steps: int | None) -> Candidate:
    if not isinstance(model, Sum | NamedModel):
        return replace(model(replace(context, n_steps=n_steps)), name=name)
    steps = n_steps if n_steps is not None else STEPS.get(name, model.n_steps)
    context = replace(context, n_steps=steps)

    def build(rows: Any, seed: int, near: StateSpaceLFM | None = None) -> Any:
        return model.build(rows, replace(context, seed=seed, near=near))

    restarts = getattr(model, "n_restarts", 1)
    return Candidate(name, build, model.schedule(steps), model.margin, n_restarts=restarts)
