"""All records of an experiment in one file beside a page, without paths of the machine."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from deeplfm.errors import InputError
from deeplfm.experiments.catalogue import TASKS, Setup
from deeplfm.experiments.outcome import Outcome
from deeplfm.experiments.scores import plain, write_document
from deeplfm.experiments.tasks import Record, task_name
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
