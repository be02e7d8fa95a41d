"""``deeplfm reproduce``: the paper's tables and figures, computed again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deeplfm.cli.effort import Effort, Format, Substitute
from deeplfm.cli.options import Running
from deeplfm.cli.paths import output_file, output_folder
from deeplfm.cli.reporting import complain
from deeplfm.cli.terminal import Terminal, table
from deeplfm.errors import ConfigError, DeepLFMError, InputError

if TYPE_CHECKING:
    from deeplfm.experiments.catalogue import Setup
    from deeplfm.experiments.outcome import Outcome
    from deeplfm.experiments.tasks import Record, Task

EXAMPLES = (
    "deeplfm reproduce --list",
    "deeplfm reproduce toy --quick --models DLFM --seeds 1",
    "deeplfm reproduce all --show --document results.md",
)


def _complete(incomplete: str) -> Iterator[str]:
    from deeplfm.experiments.catalogue import EXPERIMENTS

    yield from (name for name in (*EXPERIMENTS, "all") if name.startswith(incomplete))


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
    document: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Page about the results, with their records and figures beside it; Markdown. A run "
            "goes on from records that are there.",
        ),
    ] = None,
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
    if document is not None:
        output_file(document, "--document", (".md",))
    answers, failures = [], []
    for setup in _setups(name, substitute, out, effort, is_needed=document is None):
        if document is not None:
            from deeplfm.experiments.page import take_results

            take_results(document, setup, out)
        try:
            outcome, paths = _run(setup, out, effort, running)
        except DeepLFMError as error:
            if name != "all":
                raise
            complain(f"{setup.name}: {error}")
            failures.append(error)
            continue
        from deeplfm.experiments import tables

        make = tables.latex if table_format is Format.LATEX else tables.markdown
        terminal.say(make(outcome))
        answers.append(outcome.content())
        if document is not None and outcome.records:
            from deeplfm.experiments.page import add_results

            figures = [path for path in paths if path.suffix == ".png"]
            _say_written(add_results(document, setup, outcome, figures), running)
    if document is not None:
        from deeplfm.experiments.page import write_page

        write_page(document)
        _say_written([document], running)
    terminal.answer({"experiments": answers})
    if failures:
        raise failures[0]


def _setups(
    name: str, substitute: str | None, out: Path, effort: Effort, is_needed: bool
) -> list[Setup]:
    """What to run; to show, all that has results and is not excluded by an option."""
    from deeplfm.experiments.catalogue import (
        EXPERIMENTS,
        Setup,
        declared,
        setups_in,
        takes_substitute,
    )

    chosen = list(EXPERIMENTS) if name == "all" else [name]
    asked = []
    for item in chosen:
        # of all experiments, a substitute goes to those that can use it
        stand_in = (
            str(substitute) if substitute and (name != "all" or takes_substitute(item)) else None
        )
        declared(item, stand_in)  # a name or a substitute that is not known is told of here
        asked.append(Setup(item, stand_in, effort.quick, effort.budget))
    if not effort.show:
        return asked
    found = [
        setup
        for setup in setups_in(out)
        if setup.name in chosen
        and setup.is_quick == effort.quick
        and effort.budget in (None, setup.budget)
        and (substitute is None or not takes_substitute(setup.name) or setup.substitute)
    ]
    if not found and is_needed:
        raise InputError(
            f"--show: folder {out} has no such results of {name}. Leave --show out to compute them."
        )
    return found


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


def _run(setup: Setup, out: Path, effort: Effort, running: Running) -> tuple[Outcome, list[Path]]:
    """Compute what is asked, and show all that is there."""
    from deeplfm.experiments.results import gathered, publish
    from deeplfm.experiments.runner import plan, run

    experiment = setup.declared()
    labels = [part.strip() for item in effort.models or [] for part in item.split(",")]
    if labels:
        experiment = experiment.only(labels)
    tasks = plan(experiment, effort.seeds, setup.is_quick, setup.budget)
    folder = out / setup.folder
    progress = Terminal(running, results_on_stdout=True)

    def report(record: Record, n_done: int, n_tasks: int) -> None:
        progress.say(f"[{n_done}/{n_tasks}] {_told(record)}")

    try:
        if not effort.show:
            run(tasks, folder, effort.jobs, effort.retry, report, effort.fresh)
    except KeyboardInterrupt:
        progress.say("Stopped; the same command goes on from here.")
        raise
    finally:  # also where the user stops it: what is known by then
        n_seeds = (effort.seeds or 0) if effort.show else 1 + max(task.seed for task in tasks)
        asked = [] if effort.show else [entry.label for entry in experiment.models]
        outcome, everything = gathered(setup, folder, n_seeds, asked)
        paths = publish(outcome, everything, folder) if outcome.records else []
    _say_written(paths, running)
    progress.say(*_cautions(outcome, everything, folder))
    return outcome, paths


def _say_written(paths: list[Path], running: Running) -> None:
    Terminal(running, results_on_stdout=True).say(*(f"Wrote {path}" for path in paths))


def _cautions(outcome: Outcome, tasks: list[Task], folder: Path) -> list[str]:
    """What does not belong to the code and the settings as they are now."""
    from deeplfm.experiments.runner import left_aside
    from deeplfm.experiments.source import source_digest

    said = []
    n_old = sum(record.get("source") != source_digest() for record in outcome.records)
    if n_old:
        said.append(
            f"{n_old} of {len(outcome.records)} results were computed with another version of the code; "
            "--fresh does them again."
        )
    if aside := left_aside(tasks, folder):
        said.append(
            f"{len(aside)} results in {folder} are of other settings, data or models, and not shown: "
            f"{', '.join(aside[:3])}{', …' if aside[3:] else ''}."
        )
    return said


def _told(record: dict[str, Any]) -> str:
    """One line about a task that has ended."""
    what = f"{record['model']}, {record['case']}, seed {record['seed']}: {record['status']}"
    if record["reason"]:
        return f"{what}: {' '.join(record['reason'].split())}"
    return f"{what} in {record['seconds']['fit']:.1f} s"
