"""Maximum of an objective by L-BFGS, from several starts."""

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
_STRIDE = 10  # steps between looks at progress; with a time limit, one


def fit_from(
    starts: Sequence[Model],
    loss: Callable[[Model], Tensor],
    n_steps: int,
    owner: str,
    time_limit: float | None = None,
) -> Model:
    """A tenth of the steps from each start, then on from the best.

    Args:
        starts: models at their starting values.
        loss: minus the log evidence of a model.
        n_steps: steps of L-BFGS from the best start.
        owner: whose fit it is.
        time_limit: seconds, after which the best so far is kept.
    """
    deadline = None if time_limit is None else time.monotonic() + time_limit
    tried: list[tuple[float, Model]] = []
    for model in starts:
        if tried and deadline is not None and time.monotonic() > deadline:
            break
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
    learned = {name: value.clone() for name, value in best.state_dict().items()}
    try:
        minimise(best, loss, n_steps, deadline)
    except _FAILURES:  # a line search went too far; what the first steps found stands
        best.load_state_dict(learned)
    return best


def minimise(
    model: Model, loss: Callable[[Model], Tensor], n_steps: int, deadline: float | None = None
) -> float:
    """L-BFGS until it is flat, out of steps, or out of time; returns the loss it ended at."""
    stride = min(n_steps, _STRIDE if deadline is None else 1)
    optimiser = torch.optim.LBFGS(
        model.parameters(), max_iter=stride, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        value = loss(model)
        value.backward()
        return value

    before = float("inf")
    for _ in range(-(-n_steps // stride)):
        value = float(optimiser.step(closure).detach())  # at the start of this stride
        if not value < before or (deadline is not None and time.monotonic() > deadline):
            break
        before = value
    return float(closure().detach())
