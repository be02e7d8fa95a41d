"""The files of an experiment: its table and records, and the paper's figures."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from deeplfm.experiments.catalogue import TASKS, Setup
from deeplfm.experiments.declaration import Experiment, Split
from deeplfm.experiments.outcome import Outcome
from deeplfm.experiments.runner import plan, records, seeds_in
from deeplfm.experiments.scores import plain, write_document
from deeplfm.experiments.tables import latex, markdown
from deeplfm.experiments.tasks import DONE, Drawing, Task, drawing
from deeplfm.io.files import versions, write_whole
from deeplfm.plots import Fan, TimeAxis, plot_forecast
from deeplfm.plots.style import NORMAL, entitle, finished, line_style, lowest, panels

Curves = Mapping[tuple[str, str], Sequence[Mapping[str, float]] | None]
_TITLE_WIDTH = 90  # characters of a line


def figures(outcome: Outcome, tasks: Sequence[Task], place: Path) -> dict[str, Figure]:
    """A figure for each series, by the name of the case; for tables one figure, "training"."""
    lines = [outcome.experiment.title, *outcome.remarks()]
    title = "\n".join(textwrap.fill(line, _TITLE_WIDTH) for line in lines)
    curves = {
        (item["model"], item["case"]): item["curve"]
        for item in outcome.records
        if item.get("curve")  # of the first seed only
    }
    if curves:
        return {"training": _training_figure(outcome.experiment, curves, title)}
    found: dict[str, Figure] = {}
    done = {(item["case"], item["model"]) for item in outcome.records if item["status"] == DONE}
    for case in outcome.experiment.cases:
        drawn = {
            task.entry.label: drawing(task, place)
            for label in outcome.experiment.drawn
            for task in tasks
            if (task.case.name, task.entry.label, task.seed) == (case.name, label, 0)
            and (case.name, label) in done
        }
        made = {label: one for label, one in drawn.items() if one is not None}
        if made and len(made) == len(drawn):  # records beside a page have no predictions
            found[case.name] = series_figure(case.load(0), made, title)
    return found


def series_figure(split: Split, drawn: dict[str, Drawing], title: str) -> Figure:
    """Predictions of a series: a column for each model, a row for each output."""
    n_models = len(drawn)
    width = max(8.0, 4.6 * n_models)
    figure, axes = panels(len(split.outputs) * n_models, n_columns=n_models, width=width)
    axis = TimeAxis(split.time)
    places = iter(axes)
    for d, output in enumerate(split.outputs):
        training = pd.Series(split.y_train[:, d], index=split.x_train[:, 0])
        held_out = {
            f"{part} test": pd.Series(split.y_test[part][:, d], index=split.x_test[part][:, 0])
            for part in split.x_test
        }
        row = []
        for label, made in drawn.items():
            ax = next(places)
            plot_forecast(
                ax, split.time, _fan(made, d), training=training, later=held_out, axis=axis
            )
            row.append(entitle(ax, f"{label}: {output}"))
        limits = np.array([ax.get_ylim() for ax in row])
        for ax in row:  # one scale for all models of an output
            ax.set_ylim(limits[:, 0].min(), limits[:, 1].max())
    for ax in lowest(axes):
        axis.dress(ax, "time")
    return finished(figure, title)


def _training_figure(experiment: Experiment, curves: Curves, title: str) -> Figure:
    """A panel for each column of the table: scores of the validation rows, mean over the folds."""
    figure, axes = panels(len(experiment.columns), n_columns=2)
    for ax, column in zip(axes, experiment.columns, strict=True):
        for number, label in enumerate(experiment.drawn):
            folds = [curve for case in column.cases if (curve := curves.get((label, case)))]
            if folds:
                points = list(zip(*folds, strict=False))  # as far as all folds have come
                step = [fold[0]["step"] for fold in points]
                score = [np.mean([point[column.metric] for point in fold]) for fold in points]
                ax.plot(step, score, label=label, **line_style(number))
        entitle(ax, f"{column.label}, validation rows")
    for ax in lowest(axes):
        ax.set_xlabel("step", fontsize=NORMAL)
    return finished(figure, title)


def _fan(made: Drawing, output: int) -> Fan:
    bands = {key: (made.low[key][:, output], made.high[key][:, output]) for key in made.low}
    return Fan(made.mean[:, output], bands)


def gathered(
    setup: Setup, folder: Path, n_seeds: int = 0, asked: Collection[str] = ()
) -> tuple[Outcome, list[Task]]:
    """All records of an experiment in a folder, of any earlier command, and its tasks."""
    experiment = setup.declared()
    n_seeds = max(n_seeds, seeds_in(folder))
    tasks = plan(experiment, n_seeds, setup.is_quick, setup.budget)
    found = records(tasks, folder)
    shown = {record["model"] for record in found} | set(asked)
    models = tuple(entry for entry in experiment.models if entry.label in shown)
    experiment = replace(experiment, models=models)
    return Outcome(experiment, found, n_seeds, setup.is_quick, setup.budget), tasks


def publish(outcome: Outcome, tasks: Sequence[Task], folder: Path) -> list[Path]:
    """Write ``results.json``, ``table.md``, ``table.tex`` and the figures; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    write_document(folder / "results.json", plain(outcome.content() | {"versions": versions()}))
    paths = [folder / "results.json"]
    for name, text in (("table.md", markdown(outcome)), ("table.tex", latex(outcome))):
        write_whole(folder / name, partial(Path.write_text, data=text, encoding="utf-8"))
        paths.append(folder / name)
    for case, figure in figures(outcome, tasks, folder / TASKS).items():
        path = folder / f"{case}.png"
        write_whole(path, partial(figure.savefig, format="png"))
        paths.append(path)
    return paths
