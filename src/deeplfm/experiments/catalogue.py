"""The paper's experiments by name; what declares them is imported when one is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from deeplfm.errors import ConfigError

if TYPE_CHECKING:
    from deeplfm.experiments.declaration import Experiment

_HOMES = {
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
EXPERIMENTS = tuple(_HOMES)


def takes_substitute(name: str) -> bool:
    """Whether an experiment is on CHARIS, for which other data can stand in."""
    return _HOMES.get(name) == "charis"


def declared(name: str, substitute: str | None = None) -> Experiment:
    """The experiment of a name.

    Args:
        name: one of ``EXPERIMENTS``.
        substitute: data in place of CHARIS: ``mimic``.

    >>> declared("lorenz").source
    'Table A6'
    """
    if name not in _HOMES:
        raise ConfigError(
            f"experiment {name!r} is not known. Choose from {', '.join(EXPERIMENTS)}, or all."
        )
    module = import_module(f"deeplfm.experiments.paper.{_HOMES[name]}")
    declaration = module.DECLARATIONS[name]
    if takes_substitute(name):
        return declaration(substitute)
    if substitute is not None:
        raise ConfigError(
            f"--substitute: {substitute!r} found, but experiment {name} is not on CHARIS and needs "
            "none. Leave it out."
        )
    return declaration()
