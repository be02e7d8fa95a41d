"""The paper's experiments by name, and the setups in which they are run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from deeplfm.errors import ConfigError

if TYPE_CHECKING:
    from deeplfm.experiments.declaration import Experiment

# the module of each experiment, imported when it is used
_MODULES = {
    "toy": "toy",
    "charis-extrapolation": "charis",
    "charis-imputation": "charis",
    "charis-two-hidden": "charis",
    "uci": "uci",
    "uci-two-hidden": "uci",
    "fitzhugh-nagumo": "systems",
    "lorenz": "systems",
    "neural-processes": "charis",
    "hyperparameters": "charis",
}
EXPERIMENTS = tuple(_MODULES)
SUBSTITUTES = ("mimic",)
TASKS = "tasks"  # folder of the records of an experiment


def takes_substitute(name: str) -> bool:
    """Whether an experiment is on CHARIS, for which there is a substitute."""
    return _MODULES.get(name) == "charis"


def declared(name: str, substitute: str | None = None) -> Experiment:
    """The experiment of a name, with other data in place of CHARIS where there is a substitute.

    >>> declared("lorenz").source
    'Table A6'
    """
    if name not in _MODULES:
        raise ConfigError(
            f"experiment {name!r} is not known. Choose from {', '.join(EXPERIMENTS)}, or all."
        )
    module = import_module(f"deeplfm.experiments.paper.{_MODULES[name]}")
    declaration = module.DECLARATIONS[name]
    if takes_substitute(name):
        return declaration(substitute)
    if substitute is not None:
        raise ConfigError(
            f"--substitute: {substitute!r} found, but experiment {name} is not on CHARIS and needs "
            "none. Leave it out."
        )
    return declaration()


@dataclass(frozen=True)
class Setup:
    """An experiment and how it is run, apart from models and seeds."""

    name: str
    substitute: str | None = None
    is_quick: bool = False
    budget: float | None = None

    @property
    def folder(self) -> str:
        """Name of the folder of its results.

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
        """As JSON; the arguments of the class."""
        return asdict(self)


def setups_in(out: Path) -> Iterator[Setup]:
    """Setups with results in a folder, in the order of the experiments."""
    folders = (path.parent.name for path in out.glob(f"*/{TASKS}"))
    found = [setup for folder in folders if (setup := Setup.of_folder(folder)) is not None]
    yield from sorted(found, key=lambda setup: (EXPERIMENTS.index(setup.name), setup.folder))
