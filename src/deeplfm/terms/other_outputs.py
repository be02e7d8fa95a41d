"""Outputs that inform each other: in a gap of one, what is known of the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from deeplfm.errors import ConfigError
from deeplfm.terms.base import BuildContext, Plan, Term
from deeplfm.training import Rows


@dataclass(frozen=True, repr=False)
class OtherOutputs(Term):
    r"""y_d responds to the other outputs, now and through first-order systems before and after.

    It stands beside terms in state-space form, with which it is solved exactly
    (:class:`~deeplfm.statespace.OtherOutputsLFM`). The evidence finds how large the effects are. It fills
    gaps in which other outputs are known, and makes no forecasts: it is one of several candidates.
    """

    term_name: ClassVar[str] = "others"
    margin: ClassVar[float] = float("inf")  # in gaps only
    shares_forces: ClassVar[bool] = True
    state_space_arguments: ClassVar[tuple[str, ...]] = ()

    def plan(self, rows: Rows, context: BuildContext) -> Plan:
        """Refuse terms that have no state-space form."""
        raise ConfigError(
            f"model: {self} is solved in state-space form, beside trend, season, level, reversion and "
            "covariates. Leave the other terms out, or give them as a candidate of their own."
        )
