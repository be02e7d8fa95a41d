"""How an experiment is run, and the folder that has its results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from deeplfm.experiments.catalogue import EXPERIMENTS, declared
from deeplfm.experiments.declaration import Experiment
from deeplfm.experiments.runner import TASKS

SUBSTITUTES = ("mimic",)


@dataclass(frozen=True)
class Setup:
    """An experiment with what decides its results but for models and seeds.

    Attributes:
        name: of the experiment.
        substitute: data in place of CHARIS.
        is_quick: train so little that it is only a look.
        budget: seconds for each fit.
    """

    name: str
    substitute: str | None = None
    is_quick: bool = False
    budget: float | None = None

    @property
    def folder(self) -> str:
        """Its results are in a folder of this name.

        >>> Setup("toy", budget=120.0).folder
        'toy-budget-120'
        """
        budget = None if self.budget is None else f"budget-{self.budget:g}"
        marks = (self.name, self.substitute, "quick" if self.is_quick else None, budget)
        return "-".join(filter(None, marks))

    @classmethod
    def of_folder(cls, folder: str) -> Self | None:
        """The setup whose results are in a folder of this name, if there is one.

        >>> Setup.of_folder("uci-two-hidden-quick").name
        'uci-two-hidden'
        """
        names, substitutes = "|".join(EXPERIMENTS), "|".join(SUBSTITUTES)
        pattern = rf"({names})(?:-({substitutes}))?(-quick)?(?:-budget-(\d[\d.e+-]*))?"
        if (found := re.fullmatch(pattern, folder)) is None:
            return None
        name, substitute, quick, budget = found.groups()
        return cls(name, substitute, quick is not None, None if budget is None else float(budget))

    def declared(self) -> Experiment:
        """The experiment."""
        return declared(self.name, self.substitute)

    def command(self, n_seeds: int) -> str:
        """The command that computes it."""
        parts = [f"deeplfm reproduce {self.name}"]
        parts += [f"--substitute {self.substitute}"] if self.substitute else []
        parts += ["--quick"] if self.is_quick else []
        parts += [] if self.budget is None else [f"--budget {self.budget:g}"]
        parts += [f"--seeds {n_seeds}"] if n_seeds != self.declared().n_seeds else []
        return " ".join(parts)

    def content(self) -> dict[str, Any]:
        """All of it for programs; the class takes it back."""
        return asdict(self)


def setups_in(out: Path) -> Iterator[Setup]:
    """Setups that have results in a folder, in the order of the experiments."""
    folders = (path.parent.name for path in out.glob(f"*/{TASKS}"))
    found = [setup for folder in folders if (setup := Setup.of_folder(folder)) is not None]
    yield from sorted(found, key=lambda setup: (EXPERIMENTS.index(setup.name), setup.folder))
