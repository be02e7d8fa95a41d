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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.errors import ConfigError
from deeplfm.features import feature_map
from deeplfm.layers import Block, Layer
from deeplfm.model import DeepLFM
from deeplfm.training import Phase, Rows, Schedule

LEAST_NOISE = 1e-6  # variance, in standardised units


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
    """

    seed: int = 0
    dtype: torch.dtype = torch.float64
    input_dependent_noise: bool = False
    time_scale: float = 1.0
    n_steps: int | None = None
    beside: tuple[Term, ...] = ()
    shares_weights: bool = False


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
    """The parts that a term adds to a model of some rows.

    Attributes:
        blocks: blocks of the output layer.
        residual: what the term leaves of the rows for the terms that are planned after it.
        hidden: hidden layers that the blocks see.
        initialise_model: starting values that need the whole model, set last.
    """

    blocks: list[BlockPlan]
    residual: Rows
    hidden: HiddenPlan | None = None
    initialise_model: Callable[[DeepLFM], None] | None = None


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
    def schedule(self, n_steps: int) -> Schedule:
        """How it is trained."""

    @abstractmethod
    def build(self, rows: Rows, context: BuildContext) -> DeepLFM:
        """A model with its starting values."""


@dataclass(frozen=True, repr=False)
class Term(Declared):
    """One additive part of a model. Adding terms gives a :class:`Sum`."""

    order: ClassVar[int] = 1  # terms of a lower order read the rows first
    is_residual: ClassVar[bool] = False  # explains what is left between rows, and nothing beyond
    shares_forces: ClassVar[bool] = False  # all outputs respond to the same forces
    is_own: ClassVar[bool] = False  # can be an output's own beside shared forces

    @abstractmethod
    def plan(self, rows: Rows, context: BuildContext) -> Plan:
        """Read the rows that earlier terms left, and plan the blocks of this term."""

    def resolve(self, rows: Rows, context: BuildContext) -> Term:
        """The term that the rows ask for; most terms are themselves for all rows."""
        return self

    def __add__(self, other: Term | Sum) -> Sum:
        return Sum((self,)) + other


@dataclass(frozen=True, repr=False)
class Sum:
    """Terms side by side in the output layer.

    Attributes:
        terms: the terms; those of one name are numbered from the second on.
    """

    terms: tuple[Term, ...]
    is_calibrated: ClassVar[bool] = True
    default_dtype: ClassVar[torch.dtype] = torch.float64

    def __add__(self, other: Term | Sum) -> Sum:
        return Sum((*self.terms, *(other.terms if isinstance(other, Sum) else (other,))))

    def __iter__(self) -> Iterator[Term]:
        return iter(self.terms)

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.terms))

    def __str__(self) -> str:
        return " + ".join(map(str, self.terms))

    @property
    def has_hidden_layer(self) -> bool:
        """Whether the sum is a deep latent force model; otherwise it is a latent force model."""
        return any(term.has_hidden_layer for term in self)

    @property
    def margin(self) -> float:
        """Nats per row by which the sum must win a selection: its boldest term's."""
        return max(term.margin for term in self)

    @property
    def n_steps(self) -> int:
        """Training steps where the user gives no number."""
        return max(term.n_steps for term in self)

    def in_time_units(self, convert: Callable[[Any], float]) -> Sum:
        """The same sum with its times converted to numbers."""
        return Sum(tuple(term.in_time_units(convert) for term in self))

    def schedule(self, n_steps: int) -> Schedule:
        """Full batches, the exact output weights solved in each step."""
        return collapsed_schedule(n_steps)

    def build(self, rows: Rows, context: BuildContext) -> DeepLFM:
        """A model of these terms, with starting values read from the rows.

        Each term takes out what it explains before the next one reads the rows. Known covariates have
        a term of their own even where the sum names none.
        """
        from deeplfm.terms.covariates import Covariates

        terms = list(self.terms)
        if rows.x.shape[1] > 1 and not any(isinstance(term, Covariates) for term in terms):
            terms.append(Covariates())
        read = rows
        for term in terms:
            if isinstance(term, Covariates):
                read = term.unexplained(rows)
        terms = [
            term.resolve(read, replace(context, beside=_others(terms, term))) for term in terms
        ]
        _check(terms)
        context = replace(context, shares_weights=any(term.shares_forces for term in terms))
        plans: dict[int, Plan] = {}
        for index in sorted(range(len(terms)), key=lambda index: terms[index].order):
            term = terms[index]
            plans[index] = term.plan(read, replace(context, beside=_others(terms, term)))
            read = plans[index].residual
        return _assemble(rows, read, [plans[index] for index in sorted(plans)], context)


def _assemble(rows: Rows, residual: Rows, plans: list[Plan], context: BuildContext) -> DeepLFM:
    """A model of planned blocks; the noise starts at what all terms leave of the rows."""
    blocks = [block for plan in plans for block in plan.blocks]
    hidden = next((plan.hidden for plan in plans if plan.hidden), None)
    output = LayerConfig(
        rows.y.shape[1],
        _named_apart(blocks),
        "exact",
        own_features=not context.shares_weights,
        shared_weights=context.shares_weights,
    )
    config = ModelConfig(
        n_inputs=rows.x.shape[1],
        layers=(*(hidden.layers if hidden else ()), output),
        input_dependent_noise=context.input_dependent_noise,
        n_samples=hidden.n_samples if hidden else 1,
        n_paths=hidden.n_paths if hidden else 1,
    )
    model = DeepLFM(config, context.seed).to(context.dtype)
    if hidden:
        hidden.initialise(list(model.layers[:-1]))
    for block_plan, block in zip(blocks, model.output_layer.blocks, strict=True):
        block_plan.initialise(block)
    set_noise(model, variance_of(residual))
    for plan in plans:
        if plan.initialise_model:
            plan.initialise_model(model)
    return model


def _named_apart(blocks: list[BlockPlan]) -> tuple[BlockConfig, ...]:
    """Declarations of blocks; those of one name are numbered from the second on."""
    seen: dict[str, int] = {}
    named = []
    for config in (block.config for block in blocks):
        seen[config.name] = seen.get(config.name, 0) + 1
        number = f" {seen[config.name]}" if seen[config.name] > 1 else ""
        named.append(replace(config, name=config.name + number))
    return tuple(named)


def _others(terms: list[Term], term: Term) -> tuple[Term, ...]:
    return tuple(other for other in terms if other is not term)


def _check(terms: list[Term]) -> None:
    for what, has in (("hidden layers", "has_hidden_layer"), ("shared forces", "shares_forces")):
        some = [str(term) for term in terms if getattr(term, has)]
        if len(some) > 1:
            raise ConfigError(
                f"model: {' and '.join(some)} each bring {what}, and a sum has room for one of them. "
                "Leave one out, or give both as candidates."
            )


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
