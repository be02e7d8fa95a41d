"""The record of a selection: the result for each candidate, and the table that shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Self

import pandas as pd

from deeplfm.errors import UnsuitableError
from deeplfm.training.schedule import History

NO_TIME = "no time was left to try it"

Status = Literal["fitted", "failed", "unsuitable", "not tried"]


@dataclass
class CandidateResult:
    """The result of a selection for one candidate.

    Attributes:
        name: of the candidate.
        status: "fitted"; "failed", where it could not be fitted; "unsuitable", where it is not made for
            such rows; "not tried", where no time was left or the user did not wait.
        mnll: mean negative log likelihood of the held-out rows for each output, in standardised units;
            of models that are solved exactly, of forecasts from earlier origins. None where the candidate
            does not forecast or was not fitted.
        weight: in the average, for each output; None where it is not a member.
        weight_in_gaps: the same in the gaps of a series, where the average has members for these.
        seconds: of all its fits.
        reason: why it is left out of the average.
        history: of the training of a member.
    """

    name: str
    status: Status = "not tried"
    mnll: list[float] | None = None
    weight: list[float] | None = None
    weight_in_gaps: list[float] | None = None
    seconds: float = 0.0
    reason: str = ""
    history: History | None = None

    def leave_out(self, error: Exception) -> None:
        """Record why it could not be fitted."""
        self.status = "unsuitable" if isinstance(error, UnsuitableError) else "failed"
        self.reason = str(error)


@dataclass
class Selection:
    """The result of a selection: one record for each candidate.

    Attributes:
        candidates: in the order in which they were given.
        members: candidate of each member of the average.
        is_for_gaps: whether a member was calibrated for the gaps of a series.
        held_out_nmse: of the average on the held-out rows, for each output; of the logarithm, where an
            output is modelled by it.
        log_jacobian: difference of a score on the held-out rows in the user's units to that in
            standardised units, for each output.
        logarithms_untried: no time was left to compare models of logarithms.
        interrupted: the user ended it before all candidates had been fitted and refitted.
    """

    candidates: list[CandidateResult] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    is_for_gaps: list[bool] = field(default_factory=list)
    held_out_nmse: list[float] = field(default_factory=list)
    log_jacobian: list[float] = field(default_factory=list)
    logarithms_untried: bool = False
    interrupted: bool = False

    @classmethod
    def of_one(cls, name: str, history: History) -> Self:
        """A model that was fitted to all rows without a comparison."""
        result = CandidateResult(name, "fitted", seconds=history.seconds, history=history)
        interrupted = history.stopped == "interrupt"
        return cls([result], [name], [False], interrupted=interrupted)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """The selection of which ``dataclasses.asdict`` made plain data."""
        results = [
            CandidateResult(**item | {"history": item["history"] and History(**item["history"])})
            for item in content["candidates"]
        ]
        return cls(**content | {"candidates": results})

    def add_untried(self, names: list[str]) -> None:
        """Record candidates for which no time was left."""
        self.candidates.extend(CandidateResult(name, reason=NO_TIME) for name in names)

    def __getitem__(self, name: str) -> CandidateResult:
        """The record of a candidate."""
        return next(item for item in self.candidates if item.name == name)

    @property
    def names(self) -> list[str]:
        """Candidates in the average, each once."""
        return list(dict.fromkeys(self.members))

    @property
    def held_out_mnll(self) -> dict[str, list[float]]:
        """Score of every candidate that has one, for each output, in standardised units."""
        return self._values("mnll")

    @property
    def weight(self) -> dict[str, list[float]]:
        """Weights in the average, for each output."""
        return self._values("weight")

    @property
    def weight_in_gaps(self) -> dict[str, list[float]]:
        """Weights in the gaps of a series, where the average has members for these."""
        return self._values("weight_in_gaps")

    @property
    def histories(self) -> dict[str, History]:
        """Training of the candidates in the average."""
        return self._values("history")

    @property
    def failed(self) -> dict[str, str]:
        """Candidates that could not be fitted, and why."""
        return self._reasons("failed")

    @property
    def unsuitable(self) -> dict[str, str]:
        """Candidates that are not made for such rows, and what they need."""
        return self._reasons("unsuitable")

    @property
    def untried(self) -> list[str]:
        """Candidates, or logarithms, for which no time was left or that the user did not wait for."""
        return [*self._reasons("not tried"), *(["logarithms"] if self.logarithms_untried else [])]

    def _values(self, attribute: str) -> dict[str, Any]:
        values = ((item.name, getattr(item, attribute)) for item in self.candidates)
        return {name: value for name, value in values if value is not None}

    def _reasons(self, status: Status) -> dict[str, str]:
        return {item.name: item.reason for item in self.candidates if item.status == status}

    def table(self, outputs: list[str]) -> pd.DataFrame:
        """One row for each candidate, the best score first, in the user's units.

        Returns:
            Columns ``{output}_mnll`` (mean negative log likelihood of the rows that score it),
            ``{output}_weight`` and ``{output}_weight_in_gaps`` for each output, ``seconds`` and
            ``left_out``, the reason why a candidate is not in the average.
        """
        index = pd.Index([item.name for item in self.candidates], name="candidate")
        table = pd.DataFrame(index=index)
        for d, output in enumerate(outputs):
            shift = self.log_jacobian[d] if self.log_jacobian else 0.0
            table[f"{output}_mnll"] = [
                item.mnll[d] + shift if item.mnll else float("nan") for item in self.candidates
            ]
            table[f"{output}_weight"] = [
                item.weight[d] if item.weight else 0.0 for item in self.candidates
            ]
            if self.weight_in_gaps:
                table[f"{output}_weight_in_gaps"] = [
                    item.weight_in_gaps[d] if item.weight_in_gaps else 0.0
                    for item in self.candidates
                ]
        table["seconds"] = [item.seconds for item in self.candidates]
        table["left_out"] = [item.reason for item in self.candidates]
        scores = table[[f"{output}_mnll" for output in outputs]].mean(axis=1)
        return table.iloc[scores.to_numpy().argsort(kind="stable")]
