"""The training loop, and exact output weights given all rows."""

from __future__ import annotations

import copy
import math
import time
from collections import defaultdict
from collections.abc import Iterator
from operator import index
from typing import Any

import torch
from torch import Tensor

from deeplfm.errors import ConfigError
from deeplfm.io.archive import tensors_under
from deeplfm.model import DeepLFM
from deeplfm.objective import Batch, objective
from deeplfm.randomness import generator_for, part_of_batch
from deeplfm.training.checkpoint import States, optimiser_state, restore_optimiser, restoring
from deeplfm.training.distributed import world
from deeplfm.training.divergence import diverged
from deeplfm.training.interruption import stop_reason
from deeplfm.training.progress import Progress, Silent
from deeplfm.training.rows import Rows, RowSource, Share, condition
from deeplfm.training.schedule import History, Role, Schedule, role_of


def train(
    model: DeepLFM,
    rows: RowSource,
    schedule: Schedule,
    seed: int = 0,
    validation: Rows | None = None,
    progress: Progress | None = None,
    solve: bool = True,
) -> History:
    """Train a model in place; with validation rows, end at the parameters that scored best there.

    It ends early on a plateau, by Ctrl-C, or at the time limit. Inside :func:`checkpointed` it goes on
    from the last state of the same run.

    Args:
        model: the model to train.
        rows: training rows.
        schedule: objective, phases, rates and limits.
        seed: of mini-batches and noise; the same seed gives the same bits.
        validation: rows to score while training.
        progress: receives every step.
        solve: solve exact output weights on all rows at the end. A caller that solves them later
            saves this pass through the rows.
    """
    run = _Run(model, rows, schedule, seed, validation, progress or Silent())
    started = time.monotonic()
    run.resume()
    while run.has_phase and run.phase():
        pass
    run.finish()
    if solve:
        condition(model, rows)
    run.history.seconds = time.monotonic() - started
    return run.history


class _Run:
    def __init__(
        self,
        model: DeepLFM,
        rows: RowSource,
        schedule: Schedule,
        seed: int,
        validation: Rows | None,
        progress: Progress,
    ) -> None:
        self.model, self.rows, self.schedule, self.seed = model, rows, schedule, seed
        self.validation, self.progress = validation, progress
        self.history = History()
        if model.has_exact_output and schedule.objective != "collapsed":
            raise ConfigError(
                f"schedule: objective {schedule.objective!r} would leave exact weights at their "
                "prior. Use 'collapsed', or weights='full' or 'mean-field'."
            )
        is_full = (schedule.batch_size or len(rows)) >= len(rows)
        rate = 1.0 if is_full else schedule.natural_rate
        self.objective = objective(schedule.objective, rate, world().sum_)
        self.states = States.of_next_run()
        self.roles: set[Role] | None = None
        self.optimiser: torch.optim.Optimizer | None = None
        self.step = 0
        self.position = (0, 0)  # phases that are over, steps of the current one
        self.began: dict[str, Any] | None = None  # state that the current phase begins with
        self.batches = self._batches()
        self.best = (math.inf, 0)
        self.best_state: dict[str, Any] | None = None

    def _batches(self) -> Iterator[Share]:
        """Batches from the current step on."""
        size = self.schedule.batch_size or len(self.rows)
        return self.rows.batches(size, self.seed, self.step)

    @property
    def has_phase(self) -> bool:
        """Whether a phase is left."""
        return self.position[0] < len(self.schedule.phases)

    def phase(self) -> bool:
        """Run the rest of the current phase; False when a limit was reached."""
        n_over, n_done = self.position
        phase = self.schedule.phases[n_over]
        optimiser = self._optimiser(phase.train) if phase.n_steps else None
        if optimiser is not None:
            n_samples = phase.n_samples or self.schedule.n_samples or self.model.config.n_samples
            decline = self._decline(optimiser, phase.n_steps)
            for n_steps in range(n_done + 1, phase.n_steps + 1):
                self._step(optimiser, n_samples)
                decline.step()
                self.position = (n_over, n_steps)
                is_over = self._should_stop()
                may_go_on = self.history.was_cut or not is_over
                if self.states and may_go_on and (self.states.is_due or is_over):
                    self._keep(self.states, optimiser, decline)
                if is_over:
                    return False
        self.position = (n_over + 1, 0)
        return True

    def _decline(
        self, optimiser: torch.optim.Optimizer, n_steps: int
    ) -> torch.optim.lr_scheduler.LambdaLR:
        """The learning rate falls along a cosine; from where it was, in a phase that is continued."""
        low = self.schedule.final_rate_fraction
        decline = torch.optim.lr_scheduler.LambdaLR(
            optimiser, lambda k: low + (1 - low) * 0.5 * (1 + math.cos(math.pi * k / n_steps))
        )
        if self.states and self.began is not None:
            with restoring(self.states.place.folder):
                restore_optimiser(optimiser, decline, self.began)
            self.began = None
        return decline

    def resume(self) -> None:
        """Go on from the last state of the same run, if there is one."""
        state = self.states and self.states.last()
        if self.states and state:
            with restoring(self.states.place.folder):
                self._restore(*state)
        # Machines may differ in the last bits of the initial values.
        self.model.load_state_dict(world().same(self.model.state_dict))

    def _restore(self, known: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.model.load_state_dict(tensors_under("model.", tensors))
        self.best_state = tensors_under("best.", tensors) or None
        self.history = History.from_dict(known)
        (over, done), (score, best_step), self.step = (
            known["position"],
            known["best"],
            known["step"],
        )
        self.position, self.best = (index(over), index(done)), (float(score), index(best_step))
        if not (0 <= over < len(self.schedule.phases) and self.step == len(self.history.loss)):
            raise ValueError(f"step {self.step}, position {self.position}")
        self.batches = self._batches()
        self.began = {"known": known, "tensors": tensors_under("optimiser.", tensors)}

    def _keep(
        self,
        states: States,
        optimiser: torch.optim.Optimizer,
        decline: torch.optim.lr_scheduler.LambdaLR,
    ) -> None:
        description, tensors = optimiser_state(optimiser, decline)
        tensors |= {f"model.{name}": value for name, value in self.model.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in (self.best_state or {}).items()}
        described = {
            "step": self.step,
            "position": self.position,
            "loss": self.history.loss,
            "validation": self.history.validation,
            "best": self.best,
        }
        states.write(described | description, tensors)

    def _optimiser(self, roles: tuple[Role, ...]) -> torch.optim.Optimizer | None:
        """AdamW for the parameters of some roles: the present one where its roles are the same."""
        if set(roles) == self.roles:
            return self.optimiser
        by_rate: dict[float, list[torch.nn.Parameter]] = defaultdict(list)
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad and role_of(name) in roles:
                is_std = name.endswith("log_std")
                by_rate[self.schedule.std_rate if is_std else 1.0].append(parameter)
        groups = [
            {
                "params": parameters,
                "lr": self.schedule.learning_rate * rate,
                "weight_decay": self.schedule.weight_decay / rate,
            }
            for rate, parameters in by_rate.items()
        ]
        self.roles = set(roles)
        # fused: one call for all parameters
        self.optimiser = torch.optim.AdamW(groups, fused=True) if groups else None
        return self.optimiser

    def finish(self) -> None:
        """Restore the parameters of the best validation score, if there is one."""
        if self.validation is not None and self.step % self.schedule.validate_every:
            self._validate()
        if self.best_state is not None:
            self.model.load_state_dict(self.best_state)
        if not all(bool(parameter.isfinite().all()) for parameter in self.model.parameters()):
            raise diverged(self.model, next(self.rows.chunks()).x, self.step, math.nan)

    def _step(self, optimiser: torch.optim.Optimizer, n_samples: int) -> None:
        batch, of_batch, n_batch = next(self.batches)
        generator = generator_for(self.seed, "step", self.step, batch.x.device)
        optimiser.zero_grad(set_to_none=True)
        try:
            with part_of_batch(n_batch, of_batch):
                value = self.objective(
                    self.model,
                    Batch(batch.x, batch.y, len(self.rows), batch.weight, n_batch),
                    n_samples,
                    generator,
                )
        except torch.linalg.LinAlgError as error:  # not finite, so not positive definite
            raise diverged(self.model, batch.x, self.step + 1, math.nan) from error
        loss = -value / len(self.rows)
        loss.backward()
        number = self._add_up(optimiser, loss)
        self.step += 1
        if not math.isfinite(number):
            raise diverged(self.model, batch.x, self.step, number)
        optimiser.step()
        self.history.loss.append(number)
        self.progress.update(self.step, self.schedule.n_steps, number)

    def _add_up(self, optimiser: torch.optim.Optimizer, loss: Tensor) -> float:
        """Loss and gradients of the whole batch, from those of the processes that share it."""
        moved = [p for group in optimiser.param_groups for p in group["params"]]
        reached = [(p, p.grad) for p in moved if p.grad is not None]
        total, *gradients = world().sum_(loss, *(gradient for _, gradient in reached))
        for (parameter, _), gradient in zip(reached, gradients, strict=True):
            parameter.grad = gradient
        return float(total.detach())

    def _should_stop(self) -> bool:
        schedule = self.schedule
        if self.validation is not None and self.step % schedule.validate_every == 0:
            self._validate()
        elif self.validation is None and schedule.patience is not None:
            recent = self.history.loss[-schedule.validate_every :]
            self._note(sum(recent) / len(recent))
        if schedule.patience is not None and self.step - self.best[1] >= schedule.patience:
            self.history.stopped = "plateau"
            return True
        if reason := stop_reason():
            self.history.stopped = reason
            return True
        return False

    def _validate(self) -> None:
        from deeplfm.predictive.mixture import mnll, nmse

        if self.validation is None:
            return
        weights = copy.deepcopy(self.model.output_layer.weights.state_dict())
        condition(self.model, self.rows)
        posterior = self.model.posterior(self.validation.x)
        self.model.output_layer.weights.load_state_dict(weights)  # training goes on from them
        score = float(mnll(posterior, self.validation.y).nanmean())
        error = float(nmse(posterior.mean, self.validation.y).nanmean())
        self.history.validation.append({"step": self.step, "nmse": error, "mnll": score})
        if self._note(score):
            self.best_state = copy.deepcopy(self.model.state_dict())

    def _note(self, score: float) -> bool:
        if score < self.best[0]:
            self.best = (score, self.step)
            return True
        return False
