"""``deeplfm reproduce``: the paper's tables and figures, computed again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deeplfm.cli.options import Running
from deeplfm.cli.paths import output_folder
from deeplfm.cli.reporting import complain
from deeplfm.cli.terminal import Terminal, table
from deeplfm.errors import ConfigError, DeepLFMError

if TYPE_CHECKING:
    from deeplfm.experiments.tables import Outcome
    from deeplfm.experiments.tasks import Record

EXAMPLES = (
    "deeplfm reproduce --list",
    "deeplfm reproduce toy --quick --models DLFM --seeds 1",
)


class Substitute(StrEnum):
    """Data in place of CHARIS."""

    MIMIC = "mimic"


class Format(StrEnum):
    """How the table is printed."""

    MARKDOWN = "md"
    LATEX = "latex"


def _complete(incomplete: str) -> Iterator[str]:
    from deeplfm.experiments.catalogue import EXPERIMENTS

    yield from (name for name in (*EXPERIMENTS, "all") if name.startswith(incomplete))


@dataclass(frozen=True)
class Effort:
    """How much is computed."""

    seeds: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="How many seeds. Default: the experiment's, five."),
    ] = None
    models: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LABEL",
            help="Only these models; repeat it, or separate by commas. Default: all.",
        ),
    ] = None
    budget: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Seconds for each fit of a start, of models that take a limit. Default: none.",
        ),
    ] = None
    quick: Annotated[
        bool,
        typer.Option("--quick", metavar="", help="A look at everything, by training little."),
    ] = False
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Processes of one thread each. Default: one for each core."
        ),
    ] = None
    retry: Annotated[
        bool, typer.Option("--retry", metavar="", help="Do again what failed in an earlier run.")
    ] = False
    show: Annotated[
        bool,
        typer.Option("--show", metavar="", help="Compute nothing; tables of what is there by now."),
    ] = False


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="As --list names it, or all.",
            autocompletion=_complete,
            show_default=False,
        ),
    ] = None,
    *,
    list_all: Annotated[
        bool, typer.Option("--list", metavar="", help="List the experiments and their models.")
    ] = False,
    substitute: Annotated[
        Substitute | None,
        typer.Option(help="Other data in place of CHARIS; every table says so."),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="FOLDER", help="Folder for results, one per experiment."
        ),
    ] = Path("deeplfm-results"),
    table_format: Annotated[
        Format, typer.Option("--format", help="How the table is printed; both are written.")
    ] = Format.MARKDOWN,
    effort: Effort,
    running: Running,
) -> None:
    """Compute a table of the paper again: our model and its comparators, beside the paper's numbers.

    Each fit is kept as soon as it is done: a run that was stopped, however it was, goes on where it was
    when the same command is given again.
    """
    terminal = Terminal(running)
    if list_all:
        _list(terminal)
        return
    if name is None:
        raise ConfigError(
            "NAME: none given. Name an experiment; deeplfm reproduce --list has them."
        )
    output_folder(out, "--out")
    answers, failures = [], []
    for chosen in _chosen(name):
        stand_in = str(substitute) if substitute and _needs_data(chosen, name) else None
        try:
            outcome = _run(chosen, stand_in, out, effort, running)
        except DeepLFMError as error:
            if name != "all":
                raise
            complain(f"{chosen}: {error}")
            failures.append(error)
            continue
        from deeplfm.experiments import tables

        make = tables.latex if table_format is Format.LATEX else tables.markdown
        terminal.say(make(outcome))
        answers.append(outcome.content())
    terminal.answer({"experiments": answers})
    if failures:
        raise failures[0]


def _chosen(name: str) -> list[str]:
    from deeplfm.experiments.catalogue import EXPERIMENTS

    return list(EXPERIMENTS) if name == "all" else [name]


def _needs_data(chosen: str, name: str) -> bool:
    """Whether a substitute goes to an experiment: of all, only to those that can use it."""
    from deeplfm.experiments.catalogue import takes_substitute

    return name != "all" or takes_substitute(chosen)


def _list(terminal: Terminal) -> None:
    from deeplfm.experiments.catalogue import EXPERIMENTS, declared

    found = [declared(name) for name in EXPERIMENTS]
    rows = [[item.name, item.title, item.source, len(item.models)] for item in found]
    terminal.say(table(("name", "title", "paper", "models"), rows, words=3))
    terminal.say("Run one: deeplfm reproduce toy --quick. Or all of them: deeplfm reproduce all.")
    terminal.answer(
        {
            "experiments": [
                {
                    "name": item.name,
                    "title": item.title,
                    "source": item.source,
                    "models": [entry.label for entry in item.models],
                    "cases": [case.name for case in item.cases],
                    "seeds": item.n_seeds,
                }
                for item in found
            ]
        }
    )


def _run(name: str, substitute: str | None, out: Path, effort: Effort, running: Running) -> Outcome:
    from deeplfm.experiments.catalogue import declared
    from deeplfm.experiments.results import publish
    from deeplfm.experiments.runner import plan, records, run
    from deeplfm.experiments.tables import Outcome

    experiment = declared(name, substitute)
    labels = [part.strip() for item in effort.models or [] for part in item.split(",")]
    if labels:
        experiment = experiment.only(labels)
    budget = None if effort.budget is None else f"budget-{effort.budget:g}"
    marks = (name, substitute, "quick" if effort.quick else None, budget)
    folder = out / "-".join(filter(None, marks))
    tasks = plan(experiment, effort.seeds, effort.quick, effort.budget)
    n_seeds = 1 + max(task.seed for task in tasks)
    progress = Terminal(running, results_on_stdout=True)

    def report(record: Record, n_done: int, n_tasks: int) -> None:
        progress.say(f"[{n_done}/{n_tasks}] {_told(record)}")

    try:
        if not effort.show:
            run(tasks, folder, effort.jobs, effort.retry, report)
    except KeyboardInterrupt:
        progress.say("Stopped; the same command goes on from here.")
        raise
    finally:  # also where the user stops it: what is known by then
        outcome = Outcome(experiment, records(tasks, folder), n_seeds, effort.quick, effort.budget)
        paths = publish(outcome, tasks, folder) if outcome.records else []
    progress.say(*(f"Wrote {path}" for path in paths))
    return outcome


def _told(record: dict[str, Any]) -> str:
    """One line about a task that has ended."""
    what = f"{record['model']}, {record['case']}, seed {record['seed']}: {record['status']}"
    if record["reason"]:
        return f"{what}: {' '.join(record['reason'].split())}"
    return f"{what} in {record['seconds']['fit']:.1f} s"
