"""Maximum of the marginal likelihood by L-BFGS, from several starting values."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from deeplfm.errors import TrainingDivergedError

with warnings.catch_warnings():  # linear_operator still scripts its solvers with torch.jit
    warnings.simplefilter("ignore", DeprecationWarning)
    from gpytorch.utils.errors import NanError, NotPSDError

Model = TypeVar("Model", bound=nn.Module)

_FAILURES = (NanError, NotPSDError, torch.linalg.LinAlgError)
_STRIDE = 10  # steps between looks at progress
_TRIALS = 0.5  # of the time, for all starts together


class _OutOfTimeError(Exception):
    """Ends a line search, which may take as long as many steps."""


def fit_from(
    starts: Sequence[Model],
    loss: Callable[[Model], Tensor],
    n_steps: int,
    owner: str,
    time_limit: float | None = None,
) -> Model:
    """A tenth of the steps from each start, then on from the best."""
    started = time.monotonic()
    tried: list[tuple[float, Model]] = []
    for number, model in enumerate(starts, 1):
        share = _TRIALS * number / len(starts)
        deadline = None if time_limit is None else started + share * time_limit
        if tried and _is_past(deadline):
            continue
        try:
            tried.append((minimise(model, loss, max(1, n_steps // 10), deadline), model))
        except _FAILURES:
            continue
    tried = [(value, model) for value, model in tried if abs(value) < float("inf")]
    if not tried:
        raise TrainingDivergedError(
            f"{owner}.fit: the marginal likelihood is not a number at any of {len(starts)} starts. "
            "Check the data for extreme values."
        )
    best = min(tried, key=lambda pair: pair[0])[1]
    deadline = None if time_limit is None else started + time_limit
    if _is_past(deadline):
        return best
    learned = {name: value.clone() for name, value in best.state_dict().items()}
    try:
        minimise(best, loss, n_steps, deadline)
    except _FAILURES:  # a line search went too far; what the first steps found stands
        best.load_state_dict(learned)
    return best


def minimise(
    model: Model, loss: Callable[[Model], Tensor], n_steps: int, deadline: float | None = None
) -> float:
    """L-BFGS until it is flat, out of steps, or out of time; returns the loss it ended at.

    The loss is computed once at least. Out of time, the parameters are the best that were met.
    """
    stride = min(n_steps, _STRIDE)
    optimiser = torch.optim.LBFGS(
        model.parameters(), max_iter=stride, line_search_fn="strong_wolfe"
    )

    best, best_state = float("inf"), dict[str, Tensor]()

    def closure() -> Tensor:
        nonlocal best, best_state
        if best_state and _is_past(deadline):
            raise _OutOfTimeError
        optimiser.zero_grad()
        value = loss(model)
        value.backward()
        if not best_state or value.item() < best:
            best = value.item()
            best_state = {k: v.detach().clone() for k, v in model.named_parameters()}
        return value

    before = float("inf")
    try:
        for _ in range(-(-n_steps // stride)):
            value = float(optimiser.step(closure).detach())  # at the start of this stride
            if not value < before:
                break
            before = value
        return float(closure().detach())
    except _OutOfTimeError:
        model.load_state_dict(best_state, strict=False)
        return best


def _is_past(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() > deadline
