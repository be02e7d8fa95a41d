"""What an experiment leaves in its folder: tables, figures, and all of it as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from deeplfm.experiments.figures import figures
from deeplfm.experiments.runner import TASKS
from deeplfm.experiments.scores import plain, write_document
from deeplfm.experiments.tables import Outcome, latex, markdown
from deeplfm.experiments.tasks import Task
from deeplfm.files import write_whole
from deeplfm.versions import versions


def publish(outcome: Outcome, tasks: Sequence[Task], folder: Path) -> list[Path]:
    """Write ``results.json``, ``table.md``, ``table.tex`` and a figure for each case that has one.

    Args:
        outcome: what is known.
        tasks: all tasks of the experiment.
        folder: of the experiment.
    """
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
