r"""A race of recipes on held-out rows inside the training data.

The extrapolation of this model is its frequencies, and no single start wins everywhere. So every
recipe is fitted without a part of the rows (the last part of a series, random rows of a table),
calibrated and scored there; the survivors are stacked and refitted on all rows. Of very many rows a
bounded number is held out, and a bounded number shown to the starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from deeplfm.errors import DeepLFMError, InputError, TrainingDivergedError, UnsuitableError
from deeplfm.interruption import stop_requested
from deeplfm.metrics import nmse
from deeplfm.model import DeepLFM
from deeplfm.randomness import generator_for, numpy_for, seed_for
from deeplfm.training.conditioning import condition, remember, statistics
from deeplfm.training.loop import History, train
from deeplfm.training.progress import progress_bar
from deeplfm.training.rows import Rows, RowSource
from deeplfm.training.schedule import Schedule
from deeplfm.training.stack import Stack, series_weights, stacking_weights

_TEMPERATURES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
_INFLATIONS = (1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0)
_PRIOR_POWERS = (-1.0, -0.5)  # of a temperature, and of an inflation: a variance
_SERIES_TAIL, _TABLE_PART = 0.25, 0.2
# Two numbers for each output and the weights of a stack are learned from the held-out rows, whose mean
# log density this many tell to about 0.01 nats; each is predicted once for every temperature.
_MOST_HELD_OUT = 10_000
_SERIES_START, _TABLE_START = 100_000, 10_000  # most rows that a start is shown
_ROWS_PER_FACT = 30  # neighbouring residuals of a series repeat each other
_KEEP_ABOVE = 0.05


@dataclass(frozen=True)
class Recipe:
    """A way to a trained model.

    Attributes:
        name: what to call it.
        build: makes a model and its starting values from training rows, or some of very many, and
            a seed.
        schedule: how it is trained.
        handicap: nats per row that it must be ahead of where others stand: a start found by searching
            through many has more chances to be lucky on the held-out rows.
    """

    name: str
    build: Callable[[Rows, int], DeepLFM]
    schedule: Schedule
    handicap: float = 0.0


@dataclass
class Report:
    """What a race found.

    Attributes:
        names: of the recipes in the stack.
        held_out_mnll: score of every recipe on the held-out rows, for each output.
        held_out_nmse: error of the stack on the held-out rows over their variance, for each output.
        weight: stacking weight of every recipe, for each output.
        histories: training of the members of the stack.
        failed: recipes that could not be fitted, and why.
        left_out: recipes that are not made for such rows, and what they need.
        interrupted: the user ended it before all recipes had been fitted and refitted.
    """

    names: list[str] = field(default_factory=list)
    held_out_mnll: dict[str, list[float]] = field(default_factory=dict)
    held_out_nmse: list[float] = field(default_factory=list)
    weight: dict[str, list[float]] = field(default_factory=dict)
    histories: dict[str, History] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False


def fit_recipe(
    recipe: Recipe,
    rows: RowSource,
    is_series: bool,
    seed: int,
    progress: bool | None = None,
    label: str = "",
    solve: bool = True,
) -> tuple[DeepLFM, History]:
    """Build a model and train it; ``solve`` as in :func:`train`."""
    start = _start_rows(rows, is_series)
    model = recipe.build(start, seed).to(start.x.device)
    with progress_bar(label or recipe.name, progress) as bar:
        history = train(
            model, rows, recipe.schedule, seed_for(seed, "step"), progress=bar, solve=solve
        )
    return model, history


def _start_rows(rows: RowSource, is_series: bool) -> Rows:
    """The last rows of a long series, since thinning would alias it; a table's evenly spaced ones."""
    n_rows, most = len(rows), _SERIES_START if is_series else _TABLE_START
    if n_rows <= most:
        return rows.everything()
    some = torch.arange(n_rows - most, n_rows) if is_series else torch.arange(most) * n_rows // most
    return rows.take(some)


def race(
    recipes: list[Recipe],
    rows: RowSource,
    is_series: bool,
    seed: int = 0,
    progress: bool | None = None,
) -> tuple[Stack, Report]:
    """Fit all recipes without the held-out rows, stack the best, refit them on all rows.

    A recipe that cannot be fitted, or is not made for such rows, is reported and left out, as long as
    another can. Where the user interrupts, those fitted so far are kept as they are, and only their
    last layer hears all rows.
    """
    report = Report()
    inner, held_out = split(rows, is_series, seed)
    reach = _reach(held_out) if is_series else None
    entrants: list[_Entrant] = []
    for recipe in recipes:
        if entrants and stop_requested():
            break
        with _failures_of(recipe, report):
            label = f"race: {recipe.name}"
            model, history = fit_recipe(
                recipe, inner, is_series, seed, progress, label, solve=False
            )
            remember(model, inner, reach)
            calibrate(model, inner, held_out)
            entrant = _Entrant(recipe, model, history, held_out)
            report.held_out_mnll[recipe.name] = (-entrant.density.nanmean(0)).tolist()
            entrants.append(entrant)
    if not entrants:
        raise _nobody_left(report)
    weights_of = series_weights if is_series else stacking_weights
    weight = weights_of(
        torch.stack([entrant.density for entrant in entrants]),
        torch.tensor([entrant.recipe.handicap for entrant in entrants], device=held_out.x.device),
    )
    report.held_out_nmse = _nmse_of_stack(entrants, weight, held_out)
    members, shares = [], []
    for entrant, share, stays in zip(entrants, weight, _staying(entrants, weight), strict=True):
        if not stays:
            continue
        recipe, model, history = entrant.recipe, entrant.model, entrant.history
        with _failures_of(recipe, report):
            if not stop_requested():
                label = f"refit: {recipe.name}"
                refitted = fit_recipe(recipe, rows, is_series, seed, progress, label, solve=False)
                if not stop_requested():
                    model, history = refitted
            _set_calibration(model, entrant.temperature, entrant.inflation)
            remember(model, rows, reach)
            condition(model, rows)
            members.append(model)
            shares.append(share)
            report.names.append(recipe.name)
            report.histories[recipe.name] = history
    if not members:
        raise _nobody_left(report)
    kept = torch.stack(shares)
    kept = torch.where(kept.sum(0) > 0, kept, 1.0)  # outputs whose members all failed
    kept = kept / kept.sum(0)
    report.weight = {name: kept[i].tolist() for i, name in enumerate(report.names)}
    report.interrupted = stop_requested()
    return Stack(members, kept), report


class _Entrant:
    """A recipe with what the held-out rows said of it."""

    def __init__(self, recipe: Recipe, model: DeepLFM, history: History, held_out: Rows) -> None:
        self.recipe, self.model, self.history = recipe, model, history
        self.temperature, self.inflation = model.temperature, model.likelihood.inflation
        posterior = model.posterior(held_out.x)
        self.mean, self.density = posterior.mean, posterior.log_prob(held_out.y)
        if bool((self.density.isnan() & ~held_out.y.isnan()).any()):
            raise TrainingDivergedError("its prediction of the held-out rows is not a number")


def _staying(entrants: list[_Entrant], weight: Tensor) -> list[bool]:
    """Who has a share worth keeping; and in any case a function of time, to be looked into."""
    stays = [float(share.max()) >= _KEEP_ABOVE for share in weight]
    in_time = [i for i, entrant in enumerate(entrants) if entrant.model.is_function_of_time]
    if in_time and not any(stays[i] for i in in_time):
        best = max(in_time, key=lambda i: float(entrants[i].density.nanmean()))
        stays[best] = True
    return stays


def _nmse_of_stack(entrants: list[_Entrant], weight: Tensor, held_out: Rows) -> list[float]:
    means = torch.stack([entrant.mean for entrant in entrants])  # B N D
    return nmse((weight[:, None] * means).sum(0), held_out.y).tolist()


@contextmanager
def _failures_of(recipe: Recipe, report: Report) -> Iterator[None]:
    try:
        yield
    except (TrainingDivergedError, torch.linalg.LinAlgError) as error:
        report.failed[recipe.name] = str(error)
    except UnsuitableError as error:
        report.left_out[recipe.name] = str(error)


def _nobody_left(report: Report) -> DeepLFMError:
    if not report.failed:
        reasons = "; ".join(f"{name}: {needs}" for name, needs in report.left_out.items())
        return InputError(
            f"race: no start is made for these rows ({reasons}). Choose another start."
        )
    return TrainingDivergedError(
        f"race: none of {len(report.failed)} starts could be fitted: {report.failed}. "
        "Check the data for extreme values, or choose one start with start=."
    )


def split(rows: RowSource, is_series: bool, seed: int) -> tuple[RowSource, Rows]:
    """Rows to fit on and rows to judge by: the last ones of a series, random ones of a table."""
    part = _SERIES_TAIL if is_series else _TABLE_PART
    n_held_out = min(max(1, round(part * len(rows))), _MOST_HELD_OUT)
    if is_series:
        order = torch.cat([chunk.x[:, 0] for chunk in rows.chunks()]).argsort(stable=True)
    elif n_held_out < _MOST_HELD_OUT:
        order = torch.randperm(len(rows), generator=generator_for(seed, "split"))
    else:  # too many for a permutation
        drawn = numpy_for(seed, "split").choice(len(rows), n_held_out, replace=False)
        held_out = torch.as_tensor(drawn).sort().values
        return rows.without(held_out), rows.take(held_out)
    return rows.subset(order[:-n_held_out]), rows.take(order[-n_held_out:])


@torch.no_grad()
def calibrate(model: DeepLFM, inner: RowSource, held_out: Rows) -> None:
    """Set temperature and noise inflation of each output by the density of the held-out rows.

    The mean of their logarithms over the grid, weighted by that density: with few independent
    residuals the best point of the grid is mostly luck. Beforehand twice the temperature is half as
    likely, and so is twice the standard deviation of the noise: rows that say little leave both near
    one, since a temperature also pulls the function towards zero where its values are known.
    """
    is_tempered = model.has_exact_output and model.is_tempered
    temperatures = _TEMPERATURES if is_tempered else (1.0,)
    model.likelihood.inflation.fill_(1.0)
    remoteness = model.likelihood.remoteness(held_out.x)
    known_of_inner = statistics(model, inner) if model.has_exact_output else ()
    grid, scores = [], []
    for temperature in temperatures:
        model.temperature.fill_(temperature)
        if known_of_inner:
            model.solve(*known_of_inner)
        posterior = model.posterior(held_out.x)
        plain_noise = posterior.component_noise
        for inflation in _INFLATIONS:
            posterior.component_noise = plain_noise * inflation**remoteness
            grid.append([temperature, inflation])
            scores.append(posterior.log_prob(held_out.y).nanmean(0).nan_to_num(0.0))
    density = torch.stack(scores)  # grid D
    logs = torch.tensor(grid, dtype=density.dtype, device=density.device).log()
    n_facts = (~held_out.y.isnan()).sum(0) / _ROWS_PER_FACT
    prior = logs @ logs.new_tensor(_PRIOR_POWERS)
    share = torch.softmax(density * n_facts + prior[:, None], dim=0)
    temperature, inflation = (logs.T @ share).exp()
    _set_calibration(model, temperature, inflation)
    if known_of_inner:
        model.solve(*known_of_inner)


def _reach(held_out: Rows) -> float:
    """Half the length of the held-out tail: there, on average, its calibration holds."""
    time = held_out.x[:, 0]
    return float(time.max() - time.min()) / 2 or 1.0


def _set_calibration(model: DeepLFM, temperature: Tensor, inflation: Tensor) -> None:
    model.temperature.copy_(temperature)
    model.likelihood.inflation.copy_(inflation)
