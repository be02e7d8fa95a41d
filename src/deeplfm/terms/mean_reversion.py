"""Deviations that revert to zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from deeplfm.errors import ConfigError
from deeplfm.terms.base import BuildContext, Plan, Term
from deeplfm.training import Rows


@dataclass(frozen=True, repr=False)
class MeanReversion(Term):
    """f' + γf = white noise, an Ornstein–Uhlenbeck process; on even steps, an autoregression of order 1.

    It stands beside trend, season, level and covariates, with which it is solved in state-space form.
    """

    term_name: ClassVar[str] = "reversion"

    @property
    def is_markov(self) -> bool:
        """It is a Markov process."""
        return True

    def plan(self, rows: Rows, context: BuildContext) -> Plan:
        """Refuse terms that have no state-space form."""
        others = " and ".join(str(term) for term in context.beside if not term.is_markov)
        raise ConfigError(
            f"model: {self} is solved in state-space form, beside trend, season, level and covariates"
            f"{f'; found {others}' if others else ''}. Use broadband in its place."
        )
