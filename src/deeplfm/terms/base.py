r"""Terms: the named parts that a model is the sum of.

A term is one block of the output layer with a meaning, such as a season or a level, and with starting
values that are read from the data. A term with a hidden layer brings that layer too. A sum of terms
builds a :class:`~deeplfm.model.DeepLFM`:

>>> from deeplfm.terms import LocalLevel, Season, Trend
>>> Trend() + Season(12) + LocalLevel()
Trend() + Season(12) + LocalLevel()
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor

from deeplfm.config import BlockConfig, LayerConfig
from deeplfm.errors import ConfigError
from deeplfm.features import feature_map
from deeplfm.layers import Block, Layer
from deeplfm.model import DeepLFM
from deeplfm.statespace.config import PRIOR, Prior
from deeplfm.training import Phase, Rows, Schedule

if TYPE_CHECKING:
    from deeplfm.statespace import ClocksLFM, StateSpaceLFM
    from deeplfm.terms.sums import Sum

LEAST_NOISE = 1e-6  # variance, in standardised units
TERMS: dict[str, type[Term]] = {}
NAMED_MODELS: dict[str, type[NamedModel]] = {}


@dataclass(frozen=True)
class BuildContext:
    """The settings of a model that its terms share.

    Attributes:
        seed: of all that is random.
        dtype: of the parameters.
        input_dependent_noise: learn the noise variance as a function of the input.
        time_scale: the user's units of time in one unit of the model's.
        n_steps: training steps that follow, where the user or a default gives a number.
        beside: the other terms of the sum.
        shares_weights: all outputs share their forces and weights (:class:`SharedForces`).
        near: a fitted model in state-space form, from whose parameters a fit starts.
        prior: of the parameters of a sum in state-space form.
    """

    seed: int = 0
    dtype: torch.dtype = torch.float64
    input_dependent_noise: bool = False
    time_scale: float = 1.0
    n_steps: int | None = None
    beside: tuple[Term, ...] = ()
    shares_weights: bool = False
    near: StateSpaceLFM | None = None
    prior: Prior = PRIOR


@dataclass(frozen=True)
class BlockPlan:
    """A block of the output layer, and how its starting values are set."""

    config: BlockConfig
    initialise: Callable[[Block], None]


@dataclass(frozen=True)
class HiddenPlan:
    """Hidden layers, how their starting values are set, and how many samples of them are drawn."""

    layers: tuple[LayerConfig, ...]
    initialise: Callable[[list[Layer]], None]
    n_samples: int
    n_paths: int


@dataclass(frozen=True)
class Plan:
    """The parts that a term adds to a model of some rows."""

    blocks: list[BlockPlan]
    residual: Rows  # what is left for the terms that are planned after it
    hidden: HiddenPlan | None = None
    initialise_model: Callable[[DeepLFM], None] | None = None  # needs the whole model: last


@dataclass(frozen=True)
class Declared(ABC):
    """A declaration with a name, arguments in the user's units, and defaults for a selection."""

    term_name: ClassVar[str]
    margin: ClassVar[float] = 0.0  # nats per row by which it must win a selection
    n_steps: ClassVar[int] = 60  # training steps
    has_hidden_layer: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse counts that are no counts, layers of no width and systems that are not registered."""
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if item.name == "n" or item.name.startswith("n_"):
                self._check(item.name, value, is_count(value), "a whole number of at least 1")
            elif item.name == "hidden":
                widths = (value,) if is_count(value) else tuple(value) if _is_list(value) else ()
                is_valid = bool(widths) and all(map(is_count, widths))
                self._check(
                    item.name, value, is_valid, "the width of each hidden layer, such as (3,)"
                )
                object.__setattr__(self, "hidden", widths)
            elif item.name == "system":
                feature_map(value)

    def _check(self, name: str, value: Any, is_valid: bool, wanted: str) -> None:
        if not is_valid:
            raise ConfigError(f"{self.term_name}: {name} is {value!r}. Give {wanted}.")

    def __init_subclass__(cls, **options: Any) -> None:
        """Make a class with a name known to texts and files; one whose name begins with _ stays apart."""
        super().__init_subclass__(**options)
        if "term_name" in cls.__dict__ and not cls.__name__.startswith("_"):
            known: dict[str, Any] = TERMS if issubclass(cls, Term) else NAMED_MODELS
            known[cls.term_name] = cls

    def in_time_units(self, convert: Callable[[Any], float]) -> Self:
        """The same declaration with its times converted to numbers by ``convert``."""
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_arguments(self, repr)})"

    def __str__(self) -> str:
        arguments = _arguments(self, str)
        return f"{self.term_name}({arguments})" if arguments else self.term_name


@dataclass(frozen=True, repr=False)
class NamedModel(Declared):
    """A whole model that is no sum of terms, such as the paper's."""

    has_hidden_layer: ClassVar[bool] = True
    is_calibrated: ClassVar[bool] = True  # on held-out rows
    default_dtype: ClassVar[torch.dtype] = torch.float64

    @abstractmethod
    def schedule(self, n_steps: int) -> Schedule | None:
        """How it is trained; None where it is complete once it is built."""

    @abstractmethod
    def build(self, rows: Rows, context: BuildContext) -> DeepLFM | StateSpaceLFM | ClocksLFM:
        """A model with its starting values."""


@dataclass(frozen=True, repr=False)
class Term(Declared):
    """One additive part of a model. Adding terms gives a :class:`Sum`."""

    order: ClassVar[int] = 1  # terms of a lower order read the rows first
    is_residual: ClassVar[bool] = False  # explains what is left between rows, and nothing beyond
    shares_forces: ClassVar[bool] = False  # all outputs respond to the same forces
    is_own: ClassVar[bool] = False  # can be an output's own beside shared forces
    state_space_arguments: ClassVar[tuple[str, ...] | None] = (
        None  # of its state-space form, if any
    )

    @property
    def is_markov(self) -> bool:
        """Whether it has a state-space form, in which a sum of such terms is solved exactly."""
        free = self.state_space_arguments
        return free is not None and all(
            getattr(self, item.name) == item.default
            for item in dataclasses.fields(self)
            if item.name not in free
        )

    @abstractmethod
    def plan(self, rows: Rows, context: BuildContext) -> Plan:
        """Read the rows that earlier terms left, and plan the blocks of this term."""

    def resolve(self, rows: Rows, context: BuildContext) -> Term:
        """The term that the rows ask for; most terms are themselves for all rows."""
        return self

    def __add__(self, other: Term | Sum) -> Sum:
        from deeplfm.terms.sums import Sum

        return Sum((self,)) + other


def is_count(value: Any) -> bool:
    """Whether a value is a whole number of at least 1; a truth value is none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_list(value: Any) -> bool:
    return isinstance(value, tuple | list)


def collapsed_schedule(n_steps: int, learning_rate: float = 0.05) -> Schedule:
    """All rows in every step, the exact last layer solved in each."""
    return Schedule(
        "collapsed",
        (Phase(n_steps),),
        batch_size=None,
        learning_rate=learning_rate,
        final_rate_fraction=0.1,
        weight_decay=0.0,
    )


def of_time(rows: Rows, block: BlockConfig) -> BlockConfig:
    """A block that sees time, and no covariates."""
    return block if rows.x.shape[1] == 1 else replace(block, columns=(0,))


def running(system: str) -> dict[str, Any]:
    """Options of a system that was running before the record began, where it has a lower limit."""
    return {"lower_limit": -math.inf} if feature_map(system).has_force else {}


def variance_of(residual: Rows) -> Tensor:
    """Mean square of what is left of each output; 1 where an output has no known value."""
    known = ~residual.y.isnan()
    squares = residual.y.double().nan_to_num(0.0).square().sum(0)
    return torch.where(known.any(0), squares / known.sum(0).clamp_min(1), 1.0)


@torch.no_grad()
def set_noise(model: DeepLFM, variance: Tensor) -> None:
    """Start the noise of each output, never at zero."""
    model.gaussian.log_variance.copy_(variance.clamp_min(LEAST_NOISE).log())


def refuse_shared(term: Term, context: BuildContext) -> None:
    """Refuse a term that cannot be an output's own where all outputs share their weights."""
    if context.shares_weights:
        shared = next(str(other) for other in context.beside if other.shares_forces)
        raise ConfigError(
            f"model: {term} cannot stand beside {shared}, whose outputs share their weights. "
            "Use broadband beside it, or give both as candidates."
        )


def _arguments(declared: Declared, show: Callable[[Any], str]) -> str:
    """Arguments that differ from their defaults; the first of all fields by position."""
    parts = []
    for index, item in enumerate(dataclasses.fields(declared)):
        value = getattr(declared, item.name)
        is_default = value == (
            item.default if item.default_factory is dataclasses.MISSING else item.default_factory()
        )
        if not is_default:
            text = show(value) if isinstance(value, Declared) else repr(value)
            is_first = index == 0 and not isinstance(value, bool)
            parts.append(text if is_first else f"{item.name}={text}")
    return ", ".join(parts)
