"""Results of an experiment in its folder: tables, figures, and all records as JSON."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from deeplfm.experiments.catalogue import TASKS, Setup
from deeplfm.experiments.figures import figures
from deeplfm.experiments.outcome import Outcome
from deeplfm.experiments.runner import plan, records, seeds_in
from deeplfm.experiments.scores import plain, write_document
from deeplfm.experiments.tables import latex, markdown
from deeplfm.experiments.tasks import Task
from deeplfm.io.files import versions, write_whole


def gathered(
    setup: Setup, folder: Path, n_seeds: int = 0, asked: Collection[str] = ()
) -> tuple[Outcome, list[Task]]:
    """All records of an experiment in a folder, of any earlier command, and its tasks.

    Args:
        setup: of the experiment.
        folder: of the experiment.
        n_seeds: least number of seeds in the table.
        asked: labels of models that are listed even without a record.
    """
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
