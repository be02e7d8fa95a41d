"""One page about all results, made from the records beside it and from nothing else.

Beside ``docs/results.md`` are ``docs/results/<setup>.json`` and ``docs/figures/results-*.png``.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from deeplfm.errors import InputError
from deeplfm.experiments.catalogue import EXPERIMENTS, TASKS, Setup
from deeplfm.experiments.outcome import Outcome
from deeplfm.experiments.scores import plain, write_document
from deeplfm.experiments.tables import (
    MODELS,
    WORDS,
    items,
    markdown_heading,
    markdown_remarks,
    markdown_table,
)
from deeplfm.experiments.tasks import Record, task_name
from deeplfm.experiments.verdicts import depth_table, verdict
from deeplfm.io.files import write_whole

_KEPT = (
    *("case", "model", "seed", "data", "settings"),
    *(
        "status",
        "reason",
        "rows",
        "seconds",
        "weight",
        "hidden_share",
        "curve",
        "same_as_seed",
        "finished",
    ),
)
_SURROUNDINGS = ("versions", "source", "threads")
_PATH = re.compile(r"(?<![\w/:.])(?:[A-Za-z]:)?(?:[\\/][^\s\\/:;,'\"()]+)+[\\/]([^\s\\/:;,'\"()]+)")


@dataclass(frozen=True, eq=False)
class Archive:
    """The setup of an experiment, its records, and the names of its figures."""

    setup: Setup
    records: Sequence[Record]
    figures: tuple[str, ...] = ()

    @classmethod
    def of(cls, setup: Setup, outcome: Outcome, figures: Sequence[str] = ()) -> Self:
        """The archive of an outcome; a record keeps what a page needs."""
        kept = (*_KEPT, *_SURROUNDINGS)
        records = [
            {key: _without_paths_in(record[key]) for key in kept if key in record}
            for record in outcome.records
        ]
        return cls(setup, records, tuple(figures))

    @property
    def n_seeds(self) -> int:
        """One more than the highest seed."""
        return 1 + max((record["seed"] for record in self.records), default=-1)

    def outcome(self) -> Outcome:
        """The outcome, of the models that have a record."""
        experiment, setup = self.setup.declared(), self.setup
        run = {record["model"] for record in self.records}
        models = tuple(entry for entry in experiment.models if entry.label in run)
        experiment = replace(experiment, models=models)
        return Outcome(experiment, self.records, self.n_seeds, setup.is_quick, setup.budget)

    def not_run(self) -> list[str]:
        """Models of the experiment that have no record."""
        run = {record["model"] for record in self.records}
        return [entry.label for entry in self.setup.declared().models if entry.label not in run]

    def write(self, path: Path) -> None:
        """Write the file, one line for each record."""
        surroundings: list[dict[str, Any]] = []
        lines = []
        for record in self.records:
            made_with = {key: record[key] for key in _SURROUNDINGS if key in record}
            if made_with not in surroundings:
                surroundings.append(made_with)
            others = {key: value for key, value in record.items() if key not in _SURROUNDINGS}
            lines.append(json.dumps(others | {"surroundings": surroundings.index(made_with)}))
        head = {
            "experiment": self.setup.content(),
            "figures": list(self.figures),
            "surroundings": surroundings,
        }
        opening = json.dumps(plain(head), indent=2).removesuffix("\n}")
        listed = ",\n    ".join(lines)
        text = f'{opening},\n  "records": [\n    {listed}\n  ]\n}}\n'
        write_whole(path, partial(Path.write_text, data=text, encoding="utf-8"))

    def unpack(self, folder: Path) -> None:
        """Copy the records to a folder of results, where a run finds them; existing ones stay."""
        (folder / TASKS).mkdir(parents=True, exist_ok=True)
        run_as = {"quick": self.setup.is_quick, "budget": self.setup.budget}
        for record in self.records:
            name = task_name(record["case"], record["model"], record["seed"])
            path = folder / TASKS / f"{name}.json"
            if not path.exists():
                write_document(path, record | run_as)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file that :meth:`write` wrote."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            made_with = content["surroundings"]
            records = [
                {key: value for key, value in item.items() if key != "surroundings"}
                | made_with[item["surroundings"]]
                for item in content["records"]
            ]
            return cls(Setup(**content["experiment"]), records, tuple(content["figures"]))
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise InputError(
                f"{path}: no results of deeplfm reproduce ({type(error).__name__}: {error}). Remove the "
                "file, and write the page again from the folder of the results."
            ) from error


def without_paths(text: str) -> str:
    """A text in which the name of a file replaces its path.

    >>> without_paths("cannot read /home/ann/data/ecg.csv (row 3)")
    'cannot read ecg.csv (row 3)'
    """
    return _PATH.sub(r"\1", text)


def _without_paths_in(value: Any) -> Any:
    if isinstance(value, str):
        return without_paths(value)
    if isinstance(value, dict):
        return {key: _without_paths_in(item) for key, item in value.items()}
    return [_without_paths_in(item) for item in value] if isinstance(value, list) else value


_FIGURES = "figures"


def take_results(page: Path, setup: Setup, out: Path) -> None:
    """Copy the records beside a page to the folder of all results, so that a run resumes there."""
    archive = _archive(page, setup)
    if archive.exists():
        Archive.read(archive).unpack(out / setup.folder)


def add_results(page: Path, setup: Setup, outcome: Outcome, figures: Sequence[Path]) -> list[Path]:
    """Write records and figures of an experiment beside a page; returns the files.

    Figures of an earlier run stay unless a new one replaces them.
    """
    names = [
        f"{page.stem}-{setup.folder}-{re.sub(r'[^a-z0-9]+', '-', figure.stem.lower())}.png"
        for figure in figures
    ]
    places = [page.parent / _FIGURES / name for name in names]
    archive = _archive(page, setup)
    before = Archive.read(archive).figures if archive.exists() else ()
    stay = [name for name in before if (page.parent / _FIGURES / name).exists()]
    for place in (*places, archive):
        place.parent.mkdir(parents=True, exist_ok=True)
    for figure, place in zip(figures, places, strict=True):
        write_whole(place, partial(shutil.copyfile, figure))
    Archive.of(setup, outcome, list(dict.fromkeys([*stay, *names]))).write(archive)
    return [archive, *places]


def write_page(page: Path) -> None:
    """Write a page from the records beside it."""
    archives = [Archive.read(path) for path in sorted((page.parent / page.stem).glob("*.json"))]
    archives = [archive for archive in archives if archive.records]
    if not archives:
        raise InputError(
            f"{page}: no results found, neither in --out nor beside the page. Run an experiment "
            "first: deeplfm reproduce toy."
        )
    archives.sort(key=lambda item: (EXPERIMENTS.index(item.setup.name), item.setup.folder))
    lines = _introduction(page, archives)
    for archive in archives:
        lines += _section(page, archive)
    text = "\n".join(lines) + "\n"
    write_whole(page, partial(Path.write_text, data=text, encoding="utf-8"))


def _archive(page: Path, setup: Setup) -> Path:
    return page.parent / page.stem / f"{setup.folder}.json"


def _introduction(page: Path, archives: Sequence[Archive]) -> list[str]:
    records = [record for archive in archives for record in archive.records]
    days = sorted(record["finished"][:10] for record in records if "finished" in record)
    when = f" on {days[0]}" if days else ""
    when = f" between {days[0]} and {days[-1]}" if days[:1] != days[-1:] else when
    # the first records do not have the number of threads, which was always 1
    threads = " or ".join(map(str, sorted({record.get("threads", 1) for record in records})))
    return [
        "# Results",
        "",
        f"All numbers were computed by `deeplfm reproduce`{when}: {len(records)} fits, each with "
        f"{threads} thread{'' if threads == '1' else 's'} on a CPU. The command is below each table. "
        "Time limits hold for each fit. Data and models have the seeds 0, 1, …; the column *seeds* has "
        "their number.",
        "",
        WORDS,
        "",
        *items(MODELS),
        "",
        *_surroundings(records),
        "",
        f"This page is generated from the records in [{page.stem}/]({page.stem}) by "
        f"`deeplfm reproduce all --show --document {page.name}`; do not edit it by hand.",
        "",
    ]


def _surroundings(records: Sequence[dict[str, Any]]) -> list[str]:
    """Versions of the packages, and the number of versions of the source."""
    sources: dict[str, set[str]] = {}
    for record in records:
        packages = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
        sources.setdefault(packages, set()).add(record.get("source") or "not recorded")
    return [
        f"Computed with {packages}; source {next(iter(names))}."
        if len(names) == 1
        else f"Computed with {packages}; {len(names)} versions of the source, named in each record."
        for packages, names in sources.items()
    ]


def _section(page: Path, archive: Archive) -> list[str]:
    outcome = archive.outcome()
    lines = [*markdown_heading(outcome), verdict(outcome), "", *markdown_table(outcome)]
    if depth := depth_table(outcome):
        lines += ["", *depth]
    lines += markdown_remarks(outcome)
    if missing := archive.not_run():
        lines += ["", f"Not run: {', '.join(missing)}."]
    title = outcome.experiment.title
    for name in archive.figures:
        lines += ["", f"![{title}]({_FIGURES}/{name})"]
    raw = f"{page.stem}/{archive.setup.folder}.json"
    command = archive.setup.command(archive.n_seeds)
    return [*lines, "", f"Computed by `{command}`; all records: [{raw}]({raw}).", ""]
