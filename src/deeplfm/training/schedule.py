"""The schedule of a training run as plain data (objective, phases, rates, limits), and its history."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Self

from deeplfm.errors import ConfigError

Role = Literal["weights", "frequencies", "hyperparameters", "noise"]
_LAST_STEPS = 50  # that a final loss is the mean of
ROLES: tuple[Role, ...] = ("weights", "frequencies", "hyperparameters", "noise")


def role_of(parameter_name: str) -> Role:
    """Which of W, Ω, Θ and the likelihood a parameter belongs to, by its place in the model."""
    if parameter_name.startswith("likelihood."):
        return "noise"
    if ".weights." in parameter_name:
        return "weights"
    if ".frequencies." in parameter_name:
        return "frequencies"
    return "hyperparameters"


@dataclass(frozen=True)
class Phase:
    """A number of steps in which some of the parameters move.

    Attributes:
        n_steps: number of steps.
        train: roles of the parameters that move. AdamW keeps its moments from one phase to the next
            where both train the same roles.
        n_samples: Monte Carlo samples per step; ``None`` takes the schedule's number.
    """

    n_steps: int
    train: tuple[Role, ...] = ROLES
    n_samples: int | None = None


@dataclass(frozen=True)
class Schedule:
    """How a model is trained.

    Attributes:
        objective: "elbo", "collapsed", "predictive" or "sampled-predictive".
        phases: one after the other.
        batch_size: rows per step; ``None`` is all rows.
        learning_rate: of AdamW, at the start of each phase.
        final_rate_fraction: the rate falls along a cosine to this fraction by the end of a phase.
        weight_decay: of AdamW.
        std_rate: learning rate of log standard deviations, as a fraction of the others'; ½ makes the
            steps those of AdamW in log variances. The decay of a step stays the same.
        n_samples: Monte Carlo samples per step; ``None`` takes the model's own number.
        natural_rate: step of exact weights in mini-batches (full batches take the whole way).
        patience: stop after this many steps without a better objective (validation score, where
            validation rows are given); ``None`` never stops early.
        validate_every: steps between two validations.
    """

    objective: str = "elbo"
    phases: tuple[Phase, ...] = (Phase(1000),)
    batch_size: int | None = 1000
    learning_rate: float = 0.01
    final_rate_fraction: float = 1.0
    weight_decay: float = 0.01
    std_rate: float = 1.0
    n_samples: int | None = None
    natural_rate: float = 0.1
    patience: int | None = None
    validate_every: int = 50

    def __post_init__(self) -> None:
        for phase in self.phases:
            unknown = set(phase.train) - set(ROLES)
            if unknown or phase.n_steps < 0:
                raise ConfigError(
                    f"schedule: phase {phase} is not valid. Train some of {list(ROLES)}, "
                    "for 0 or more steps."
                )
        if self.batch_size is not None and self.batch_size < 1:
            raise ConfigError(f"schedule: batch_size must be at least 1, found {self.batch_size}.")

    @property
    def n_steps(self) -> int:
        """Steps of all phases."""
        return sum(phase.n_steps for phase in self.phases)


@dataclass
class History:
    """Losses and scores of a training run.

    Attributes:
        loss: minus the objective per row, for every step.
        validation: step, NMSE and MNLL of the validation rows.
        stopped: reason of the end: "steps", "plateau", "time" or "interrupt".
        seconds: duration.
    """

    loss: list[float] = field(default_factory=list)
    validation: list[dict[str, float]] = field(default_factory=list)
    stopped: str = "steps"
    seconds: float = 0.0

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """The history of plain data, which are checked."""
        stopped, seconds = str(content.get("stopped", "steps")), float(content.get("seconds", 0.0))
        validation = [{str(k): float(v) for k, v in one.items()} for one in content["validation"]]
        return cls([float(value) for value in content["loss"]], validation, stopped, seconds)

    @property
    def final_loss(self) -> float:
        """Mean loss of the last steps: single ones have the noise of their samples."""
        last = self.loss[-_LAST_STEPS:]
        return sum(last) / len(last) if last else 0.0

    @property
    def was_cut(self) -> bool:
        """Whether Ctrl-C or the time limit ended it."""
        return self.stopped in ("interrupt", "time")
