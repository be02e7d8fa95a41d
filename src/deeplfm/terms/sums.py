"""Sums of terms, and the model that a sum builds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch

from deeplfm.config import BlockConfig, LayerConfig, ModelConfig
from deeplfm.errors import ConfigError
from deeplfm.model import DeepLFM
from deeplfm.statespace import ClocksLFM, StateSpaceLFM
from deeplfm.terms.base import (
    BlockPlan,
    BuildContext,
    Plan,
    Term,
    collapsed_schedule,
    set_noise,
    variance_of,
)
from deeplfm.training import Rows, Schedule


@dataclass(frozen=True, repr=False)
class Sum:
    """Terms side by side in the output layer.

    Attributes:
        terms: the terms; those of one name are numbered from the second on.
        uses_features: train features even where the sum has a state-space form, which is solved exactly.
    """

    terms: tuple[Term, ...]
    uses_features: bool = field(default=False, compare=False)
    default_dtype: ClassVar[torch.dtype] = torch.float64

    def __add__(self, other: Term | Sum) -> Sum:
        return Sum(
            (*self.terms, *(other.terms if isinstance(other, Sum) else (other,))),
            self.uses_features,
        )

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
    def is_markov(self) -> bool:
        """Whether the sum is solved in state-space form: exactly, and without training."""
        kinds = {(type(term), getattr(term, "damped", False)) for term in self}  # two levels add up
        n_shared = sum(term.shares_forces for term in self)
        if len(kinds) < len(self.terms) or n_shared > 1 or n_shared == len(self.terms):
            return False
        return all(term.is_markov for term in self) and not self.uses_features

    @property
    def is_of_clocks(self) -> bool:
        """Whether it is cycles on clocks, with or without a level: solved as a chain of knots."""
        from deeplfm.terms.local_level import LocalLevel
        from deeplfm.terms.warped_time import WarpedTime

        kinds = {type(term) for term in self}
        return WarpedTime in kinds <= {WarpedTime, LocalLevel} and not self.uses_features

    @property
    def is_calibrated(self) -> bool:
        """Whether held-out rows calibrate it; in state-space form the evidence does."""
        return not self.is_markov

    @property
    def margin(self) -> float:
        """Nats per row by which the sum must win a selection: its boldest term's."""
        return max(term.margin for term in self)

    @property
    def n_steps(self) -> int:
        """Training steps where the user gives no number."""
        return max(term.n_steps for term in self)

    @property
    def alone(self) -> Sum:
        """The same sum without forces that outputs share: what is an output's own."""
        return replace(self, terms=tuple(term for term in self if not term.shares_forces))

    def in_time_units(self, convert: Callable[[Any], float]) -> Sum:
        """The same sum with its times converted to numbers."""
        return replace(self, terms=tuple(term.in_time_units(convert) for term in self))

    def with_seasons(self, periods: tuple[float, ...]) -> Sum:
        """The same sum with these periods, in time units, where a season does not name its own."""
        from deeplfm.terms.season import Season

        terms = [
            replace(term, period=periods)
            if isinstance(term, Season) and term.period is None
            else term
            for term in self
        ]
        return replace(self, terms=tuple(terms))

    def schedule(self, n_steps: int) -> Schedule | None:
        """Full batches, the exact output weights solved in each step; None in state-space form."""
        return None if self.is_markov else collapsed_schedule(n_steps)

    def build(self, rows: Rows, context: BuildContext) -> DeepLFM | StateSpaceLFM | ClocksLFM:
        """A model of these terms: fitted, in state-space form; or with starting values from the rows."""
        from deeplfm.terms.state_space import build_state_space

        if self.is_markov:
            return build_state_space(self.terms, rows, context)
        if self.is_of_clocks and rows.x.shape[1] == 1:
            from deeplfm.terms.warped_chain import build_clocks

            n_clocks = max(getattr(term, "n_clocks", 1) for term in self)
            return build_clocks(rows, n_clocks, context.seed)
        return self.build_features(rows, context)

    def build_features(self, rows: Rows, context: BuildContext) -> DeepLFM:
        """A model whose terms are blocks of features, with starting values read from the rows.

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
