"""``deeplfm reproduce``: compute the tables and figures of the paper again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from deeplfm.cli.messages import print_error
from deeplfm.cli.options import Backend, RunOptions, flag, option
from deeplfm.cli.outputs import check_file, check_folder
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


@dataclass(frozen=True)
class Effort:
    """Which fits are computed, and for how long."""

    seeds: Annotated[
        int | None, option(None, "N", "Number of seeds. Default: the experiment's, five.", min=1)
    ] = None
    models: Annotated[
        list[str] | None,
        option(None, "LABEL", "Only these models; repeat, or separate by commas. Default: all."),
    ] = None
    budget: Annotated[
        float | None,
        option(
            None,
            "SECONDS",
            "Limit for each fit, and each candidate of an ensemble, of models that take one; models "
            "trained as in the paper take all their steps. Default: none.",
            min=0,
        ),
    ] = None
    quick: Annotated[
        bool, flag(None, "--quick", "Train little, for a first look at all results.")
    ] = False
    jobs: Annotated[
        int | None,
        option(None, "N", "Processes of one thread each. Default: one per core.", min=1),
    ] = None
    backend: Annotated[Backend | None, typer.Option(help="Where they run, as for deeplfm fit.")] = (
        None
    )
    retry: Annotated[bool, flag(None, "--retry", "Repeat fits that failed in an earlier run.")] = (
        False
    )
    fresh: Annotated[
        bool, flag(None, "--fresh", "Repeat fits computed with another version of the code.")
    ] = False
    show: Annotated[bool, flag(None, "--show", "Compute nothing; show the existing results.")] = (
        False
    )


def _complete(incomplete: str) -> Iterator[str]:
    from deeplfm.experiments.catalogue import EXPERIMENTS

    yield from (name for name in (*EXPERIMENTS, "all") if name.startswith(incomplete))


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Name in --list, or all.",
            autocompletion=_complete,
            show_default=False,
        ),
    ] = None,
    *,
    list_all: Annotated[
        bool, flag(None, "--list", "List the experiments and their models.")
    ] = False,
    substitute: Annotated[
        Literal["mimic"] | None,
        typer.Option(help="Other data in place of CHARIS; named in every table."),
    ] = None,
    out: Annotated[
        Path, option(None, "FOLDER", "Folder of results, one per experiment.", "--out", "-o")
    ] = Path("deeplfm-results"),
    document: Annotated[
        Path | None,
        option(
            None,
            "FILE",
            "Markdown page of the results, with their records and figures beside it. A run continues "
            "from the records that exist.",
        ),
    ] = None,
    table_format: Annotated[
        Literal["md", "latex"],
        typer.Option("--format", help="Format of the printed table; both are written."),
    ] = "md",
    effort: Effort,
    run: RunOptions,
) -> None:
    """Compute a table of the paper again: our models and baselines, beside the published numbers.

    Each fit is saved when it ends. The same command continues a run that was stopped.
    """
    terminal = Terminal(run)
    if list_all:
        _list(terminal)
        return
    if name is None:
        raise ConfigError("NAME: none given. deeplfm reproduce --list shows the experiments.")
    check_folder(out, "--out")
    if document is not None:
        check_file(document, "--document", (".md",))
    contents, errors = [], []
    for setup in _setups(name, substitute, out, effort, is_needed=document is None):
        if document is not None:
            from deeplfm.experiments.page import take_results

            take_results(document, setup, out)
        try:
            outcome, paths = _run(setup, out, effort, run)
        except DeepLFMError as error:
            if name != "all":
                raise
            print_error(f"{setup.name}: {error}")
            errors.append(error)
            continue
        from deeplfm.experiments import tables

        make = tables.latex if table_format == "latex" else tables.markdown
        terminal.print(make(outcome))
        contents.append(outcome.content())
        if document is not None and outcome.records:
            from deeplfm.experiments.page import add_results

            figures = [path for path in paths if path.suffix == ".png"]
            _print_written(add_results(document, setup, outcome, figures), run)
    if document is not None:
        from deeplfm.experiments.page import write_page

        write_page(document)
        _print_written([document], run)
    terminal.print_json({"experiments": contents})
    if errors:
        raise errors[0]


def _setups(
    name: str, substitute: str | None, out: Path, effort: Effort, is_needed: bool
) -> list[Setup]:
    """The experiments to run; with ``--show``, those that have results."""
    from deeplfm.experiments.catalogue import (
        EXPERIMENTS,
        Setup,
        declared,
        setups_in,
        takes_substitute,
    )

    chosen = list(EXPERIMENTS) if name == "all" else [name]
    wanted = []
    for item in chosen:
        # of all experiments, only some can use a substitute
        stand_in = substitute if substitute and (name != "all" or takes_substitute(item)) else None
        declared(item, stand_in)  # raises an error for an unknown name or substitute
        wanted.append(Setup(item, stand_in, effort.quick, effort.budget))
    if not effort.show:
        return wanted
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
    terminal.print(table(("name", "title", "paper", "models"), rows, words=3))
    terminal.print("Run one: deeplfm reproduce toy --quick. Or all: deeplfm reproduce all.")
    listed = [
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
    terminal.print_json({"experiments": listed})


def _run(setup: Setup, out: Path, effort: Effort, run: RunOptions) -> tuple[Outcome, list[Path]]:
    """Compute the requested fits, and gather all results of the experiment."""
    from deeplfm.experiments import runner
    from deeplfm.experiments.results import gathered, publish
    from deeplfm.selection.backends import on_backend

    experiment = setup.declared()
    labels = [part.strip() for item in effort.models or [] for part in item.split(",")]
    if labels:
        experiment = experiment.only(labels)
    tasks = runner.plan(experiment, effort.seeds, setup.is_quick, setup.budget)
    folder = out / setup.folder
    progress = Terminal(run, table_on_stdout=True)

    def report(record: Record, n_done: int, n_tasks: int) -> None:
        progress.print(f"[{n_done}/{n_tasks}] {_line(record)}")

    try:
        if not effort.show:
            with on_backend(effort.backend):
                runner.run(tasks, folder, effort.jobs, effort.retry, report, effort.fresh)
    except KeyboardInterrupt:
        progress.print("Stopped. The same command continues the run.")
        raise
    finally:  # also after an interruption: the results so far
        n_seeds = (effort.seeds or 0) if effort.show else 1 + max(task.seed for task in tasks)
        asked = [] if effort.show else [entry.label for entry in experiment.models]
        outcome, everything = gathered(setup, folder, n_seeds, asked)
        paths = publish(outcome, everything, folder) if outcome.records else []
    _print_written(paths, run)
    progress.print(*_notes(outcome, everything, folder))
    return outcome, paths


def _print_written(paths: list[Path], run: RunOptions) -> None:
    Terminal(run, table_on_stdout=True).print(*(f"Wrote {path}" for path in paths))


def _notes(outcome: Outcome, tasks: list[Task], folder: Path) -> list[str]:
    """Results of other code, and results of other settings that are not shown."""
    from deeplfm.experiments.runner import left_aside
    from deeplfm.experiments.tasks import source_digest

    notes = []
    n_old = sum(record.get("source") != source_digest() for record in outcome.records)
    if n_old:
        notes.append(
            f"{n_old} of {len(outcome.records)} results were computed with another version of the "
            "code; --fresh repeats them."
        )
    if aside := left_aside(tasks, folder):
        notes.append(
            f"{len(aside)} results in {folder} belong to other settings, data or models, and are not "
            f"shown: {', '.join(aside[:3])}{', …' if aside[3:] else ''}."
        )
    return notes


def _line(record: dict[str, Any]) -> str:
    what = f"{record['model']}, {record['case']}, seed {record['seed']}: {record['status']}"
    if record["reason"]:
        return f"{what}: {' '.join(record['reason'].split())}"
    return f"{what} in {record['seconds']['fit']:.1f} s"
