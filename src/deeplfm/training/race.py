r"""A race of recipes on held-out rows inside the training data.

The extrapolation of this model is its frequencies, and no single start wins everywhere. So every
recipe is fitted without a part of the rows (the last part of a series, random rows of a table),
calibrated and scored there; the survivors are stacked and refitted on all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from deeplfm.errors import TrainingDivergedError
from deeplfm.model import DeepLFM
from deeplfm.randomness import generator_for, seed_for
from deeplfm.training.loop import History, Rows, train
from deeplfm.training.progress import progress_bar
from deeplfm.training.schedule import Schedule
from deeplfm.training.stack import Stack, stacking_weights

_TEMPERATURES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
_INFLATIONS = (1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0)
_SERIES_TAIL, _TABLE_PART = 0.25, 0.2
_ROWS_PER_FACT = 30  # neighbouring residuals of a series repeat each other
_KEEP_ABOVE = 0.05


@dataclass(frozen=True)
class Recipe:
    """A way to a trained model.

    Attributes:
        name: what to call it.
        build: makes a model and its starting values from training rows and a seed.
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
        weight: stacking weight of every recipe, for each output.
        histories: training of the members of the stack.
        failed: recipes that could not be fitted, and why.
    """

    names: list[str] = field(default_factory=list)
    held_out_mnll: dict[str, list[float]] = field(default_factory=dict)
    weight: dict[str, list[float]] = field(default_factory=dict)
    histories: dict[str, History] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def fit_recipe(
    recipe: Recipe, rows: Rows, seed: int, progress: bool | None = None, label: str = ""
) -> tuple[DeepLFM, History]:
    """Build a model and train it."""
    model = recipe.build(rows, seed).to(rows.x.device)
    with progress_bar(label or recipe.name, progress) as bar:
        history = train(model, rows, recipe.schedule, seed_for(seed, "step"), progress=bar)
    return model, history


def race(
    recipes: list[Recipe],
    rows: Rows,
    is_series: bool,
    seed: int = 0,
    progress: bool | None = None,
) -> tuple[Stack, Report]:
    """Fit all recipes without the held-out rows, stack the best, refit them on all rows.

    A recipe that cannot be fitted is reported and left out, as long as another can.
    """
    report = Report()
    inner, held_out = split(rows, is_series, seed)
    entrants = []
    for recipe in recipes:
        with _failures_of(recipe, report):
            model, _ = fit_recipe(recipe, inner, seed, progress, f"race: {recipe.name}")
            calibrate(model, inner, held_out)
            entrant = _Entrant(recipe, model, held_out)
            report.held_out_mnll[recipe.name] = (-entrant.density.nanmean(0)).tolist()
            entrants.append(entrant)
    if not entrants:
        raise _nobody_left(report)
    weight = stacking_weights(
        torch.stack([entrant.density for entrant in entrants]),
        torch.tensor([entrant.recipe.handicap for entrant in entrants], device=rows.x.device),
    )
    members, shares = [], []
    for entrant, share in zip(entrants, weight, strict=True):
        if float(share.max()) < _KEEP_ABOVE:
            continue
        recipe = entrant.recipe
        with _failures_of(recipe, report):
            model, history = fit_recipe(recipe, rows, seed, progress, f"refit: {recipe.name}")
            _set_calibration(model, entrant.temperature, entrant.inflation)
            _solve(model, rows)
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
    return Stack(members, kept), report


class _Entrant:
    """A recipe with what the held-out rows said of it."""

    def __init__(self, recipe: Recipe, model: DeepLFM, held_out: Rows) -> None:
        self.recipe = recipe
        self.temperature, self.inflation = model.temperature, model.likelihood.inflation
        self.density = model.posterior(held_out.x).log_prob(held_out.y)
        if bool((self.density.isnan() & ~held_out.y.isnan()).any()):
            raise TrainingDivergedError("its prediction of the held-out rows is not a number")


@contextmanager
def _failures_of(recipe: Recipe, report: Report) -> Iterator[None]:
    try:
        yield
    except (TrainingDivergedError, torch.linalg.LinAlgError) as error:
        report.failed[recipe.name] = str(error)


def _nobody_left(report: Report) -> TrainingDivergedError:
    return TrainingDivergedError(
        f"race: none of {len(report.failed)} starts could be fitted: {report.failed}. "
        "Check the data for extreme values, or choose one start with start=."
    )


def split(rows: Rows, is_series: bool, seed: int) -> tuple[Rows, Rows]:
    """Rows to fit on and rows to judge by: the last ones of a series, random ones of a table."""
    if is_series:
        order, part = rows.x[:, 0].argsort(stable=True), _SERIES_TAIL
    else:
        order, part = torch.randperm(len(rows), generator=generator_for(seed, "split")), _TABLE_PART
    n_inner = len(rows) - max(1, round(part * len(rows)))
    return rows.take(order[:n_inner]), rows.take(order[n_inner:])


@torch.no_grad()
def calibrate(model: DeepLFM, inner: Rows, held_out: Rows) -> None:
    """Set temperature and noise inflation of each output by the density of the held-out rows.

    The mean of their logarithms over the grid, weighted by that density: with few independent
    residuals the best point of the grid is mostly luck.
    """
    temperatures = _TEMPERATURES if model.has_exact_output else (1.0,)
    model.likelihood.inflation.fill_(1.0)
    statistics = model.statistics(inner.x, inner.y, inner.weight) if model.has_exact_output else ()
    grid, scores = [], []
    for temperature in temperatures:
        model.temperature.fill_(temperature)
        if statistics:
            model.solve(*statistics)
        posterior = model.posterior(held_out.x)
        plain_noise = posterior.component_noise
        for inflation in _INFLATIONS:
            posterior.component_noise = plain_noise * inflation
            grid.append([temperature, inflation])
            scores.append(posterior.log_prob(held_out.y).nanmean(0).nan_to_num(0.0))
    known = (~held_out.y.isnan()).sum(0)
    share = torch.softmax(torch.stack(scores) * known / _ROWS_PER_FACT, dim=0)  # grid D
    logs = torch.tensor(grid, dtype=share.dtype, device=share.device).log()
    temperature, inflation = (logs.T @ share).exp()
    _set_calibration(model, temperature, inflation)
    _solve(model, inner)


def _set_calibration(model: DeepLFM, temperature: Tensor, inflation: Tensor) -> None:
    model.temperature.copy_(temperature)
    model.likelihood.inflation.copy_(inflation)


def _solve(model: DeepLFM, rows: Rows) -> None:
    if model.has_exact_output:
        model.condition(rows.x, rows.y, rows.weight)
