"""Neural processes, trained on segments of a series; needs the package neuralprocesses."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.baselines.base import Baseline
from deeplfm.errors import ConfigError, InputError, TrainingDivergedError
from deeplfm.predictive.mixture import Predictive
from deeplfm.randomness import generator_for, seed_for

_ROWS_PER_UNIT = 64  # of the network's grid, which has one point for each row
_FEWEST_ROWS = 12
_SHARE = (0.3, 0.9)  # of the rows of a task, as its context
_FORECASTS = 0.5  # of the tasks; in the others context and targets are mixed
_MOST_GRADIENT = 1.0
_MOST_LOST = 0.5  # of the steps
_MOST_DIAGONAL = 1e7  # times the package's usual 1e-12
_LEAST_NOISE = 1e-8
_VALIDATED, _FEWEST_VALIDATED = 0.2, 20  # the end of a series, and rows of it
_LOOK_EVERY = 50  # steps


@dataclass(eq=False, repr=False)
class NeuralProcess(Baseline):
    """A convolutional neural process for each output, trained on segments of its own series.

    A task is a segment of the record: some rows are the context, the others, after or between them, are
    the targets. Against overfitting, one network is trained without the last fifth of the rows, and
    another on all rows for the number of steps that predicted that fifth best. All known rows are the
    context of a prediction. Predictions are equivariant to shifts of time.
    """

    likelihood: ClassVar[str]  # the package's name of the predictive distribution
    is_series: ClassVar[bool] = True
    counts: ClassVar[tuple[str, ...]] = ("n_steps", "batch_size")

    channels: tuple[int, ...] = (64,) * 6
    n_steps: int = 1000
    batch_size: int = 16
    learning_rate: float = 1e-3
    time_limit: float | None = None
    random_state: int = 0

    def _fit(self, x: Float[Tensor, "N P"], y: Float[Tensor, "N D"]) -> None:
        package = _package(type(self).__name__)
        if len(x) < _FEWEST_ROWS or bool((~y.isnan()).sum(0).min() < _FEWEST_ROWS):
            raise InputError(
                f"y: a column has fewer than {_FEWEST_ROWS} known values, too few to make tasks of. "
                "Give a longer series."
            )
        self.unit_ = float(x[:, 0].diff().median().clamp_min(1 / len(x))) * _ROWS_PER_UNIT
        self.outputs_ = []
        for d, column in enumerate(y.T):
            known = ~column.isnan()
            seen = (x[known, 0] / self.unit_).float(), column[known].float()
            ending = _Ending(*seen)
            with _patient_factors():
                network = self._trained(package, d, ending.others, self.n_steps, ending)
                if ending.best_step is not None:
                    network = self._trained(package, d, seen, ending.best_step)
            self.outputs_.append((network.eval(), *seen))

    def _trained(
        self,
        package: Any,
        output: int,
        seen: tuple[Float[Tensor, " N"], Float[Tensor, " N"]],
        n_steps: int,
        ending: _Ending | None = None,
    ) -> Any:
        """A network trained on some rows, scored on the end of the series during training."""
        generator = generator_for(self.random_state, "step", output)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_for(self.random_state, "model", output))
            network = package.construct_convgnp(
                likelihood=self.likelihood,
                points_per_unit=_ROWS_PER_UNIT,
                unet_channels=tuple(self.channels),
            )
            self._train(network, *seen, generator, n_steps, ending)
        return network

    def _train(
        self,
        network: Any,
        time_: Float[Tensor, " N"],
        values: Float[Tensor, " N"],
        generator: torch.Generator,
        n_steps: int,
        ending: _Ending | None = None,
    ) -> None:
        deadline = None if self.time_limit is None else time.monotonic() + self.time_limit
        optimiser, n_lost = None, 0
        for step in range(1, n_steps + 1):
            task = _tasks(time_, values, self.batch_size, generator)
            loss = _descent(network, task)
            if not math.isfinite(loss):
                n_lost += 1
                if n_lost <= _MOST_LOST * n_steps:
                    continue
                if ending is not None and ending.best_step is not None:
                    break
                raise TrainingDivergedError(
                    f"{type(self).__name__}.fit: the loss became {loss} in {n_lost} steps, the last of "
                    f"them {step}. Set learning_rate lower."
                )
            if optimiser is None:  # some weights exist only after a first call
                optimiser = torch.optim.Adam(network.parameters(), lr=self.learning_rate)
            optimiser.step()
            is_late = deadline is not None and time.monotonic() > deadline
            if ending is not None and (step % _LOOK_EVERY == 0 or step == n_steps or is_late):
                ending.look(network, step)
            if is_late:
                break

    def _predict(self, x: Float[Tensor, "N P"]) -> Predictive:
        new = (x[:, 0] / self.unit_).float()[None, None]
        predictions = [
            _call(network, seen[None, None], values[None, None], new)
            for network, seen, values in self.outputs_
        ]
        mean = torch.stack([item.mean[0, 0].double() for item in predictions], 1)
        total = torch.stack([item.var[0, 0].double() for item in predictions], 1)
        latent = torch.stack([item.noiseless.var[0, 0].double() for item in predictions], 1)
        latent = latent.expand_as(total).clamp_min(0.0)
        noise = (total - latent).clamp_min(_LEAST_NOISE)

        def draw(n_draws: int, seed: int) -> Tensor:
            return torch.stack([_draws(item, n_draws, seed) for item in predictions], -1)

        weight = torch.ones(1, mean.shape[1], dtype=mean.dtype)
        return Predictive(mean[None], latent[None], noise, weight, draw)


class ConvCNP(NeuralProcess):
    """Conv-CNP (Gordon et al. 2020): every row predicted by itself; settings as the class above."""

    likelihood = "het"


class GaussianNP(NeuralProcess):
    """GNP (Bruinsma et al. 2021): rows predicted together; settings as the class above."""

    likelihood = "lowrank"


class _Ending:
    """The end of a series, and the number of steps after which a network predicted it best."""

    def __init__(self, time_: Float[Tensor, " N"], values: Float[Tensor, " N"]) -> None:
        n_end = round(_VALIDATED * len(values))
        n_others = len(values) - (n_end if n_end >= _FEWEST_VALIDATED else 0)
        self.others = time_[:n_others], values[:n_others]
        self._end = time_[n_others:], values[n_others:]
        self._score = math.inf
        self.best_step: int | None = None

    @torch.no_grad()
    def look(self, network: Any, step: int) -> None:
        """Note the step if the network is the best so far."""
        (seen, known), (new, target) = self.others, self._end
        if len(target) == 0:
            return
        try:
            prediction = _call(network, seen[None, None], known[None, None], new[None, None])
            score = -float(prediction.logpdf(target[None, None]).mean())
        except torch.linalg.LinAlgError:
            return
        if score < self._score:
            self._score, self.best_step = score, step


def _package(owner: str) -> Any:
    try:
        with warnings.catch_warnings():  # it still names parts of numpy by their old names
            warnings.simplefilter("ignore")
            return import_module("neuralprocesses.torch")
    except ImportError as error:
        raise ConfigError(
            f"{owner}: needs the package neuralprocesses, which cannot be imported ({error}). Run "
            'pip install "deeplfm[neural-processes]".'
        ) from error


@contextmanager
def _patient_factors() -> Iterator[None]:
    """Let a covariance that float32 cannot factorise have more on its diagonal, as much as it takes."""
    algebra: Any = import_module("lab")  # that of the package
    before, algebra.cholesky_retry_factor = algebra.cholesky_retry_factor, _MOST_DIAGONAL
    try:
        yield
    finally:
        algebra.cholesky_retry_factor = before


def _call(network: Any, *arguments: Tensor) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return network(*arguments)


def _descent(network: Any, task: tuple[Tensor, Tensor, Tensor, Tensor]) -> float:
    """The loss of some tasks, with its gradient in the network; NaN where one of them is none.

    float32 has too few digits for some covariances, and one gradient of NaN would be the end.
    """
    network.zero_grad()
    *given, target = task
    try:
        loss = -_call(network, *given).logpdf(target).mean() / target.shape[-1]
        loss.backward()
    except torch.linalg.LinAlgError:
        return math.nan
    norm = torch.nn.utils.clip_grad_norm_(network.parameters(), _MOST_GRADIENT)
    return float(loss.detach()) if bool(norm.isfinite()) else math.nan


def _tasks(
    time_: Float[Tensor, " N"],
    values: Float[Tensor, " N"],
    n_tasks: int,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Context times and values, target times and values, of segments of one length: B 1 n each."""

    def uniform() -> float:
        return float(torch.rand((), generator=generator))

    n_rows = len(values)
    length = _FEWEST_ROWS + int(uniform() * (n_rows - _FEWEST_ROWS + 1))
    length = min(length, n_rows)
    n_context = int(length * (_SHARE[0] + uniform() * (_SHARE[1] - _SHARE[0])))
    start = torch.randint(n_rows - length + 1, (n_tasks, 1), generator=generator)
    rows = start + torch.arange(length)
    if uniform() > _FORECASTS:
        order = torch.rand(n_tasks, length, generator=generator).argsort(1)
        rows = rows.gather(1, order)
    t, y = (time_[rows] - time_[start])[:, None], values[rows][:, None]
    return t[..., :n_context], y[..., :n_context], t[..., n_context:], y[..., n_context:]


def _draws(prediction: Any, n_draws: int, seed: int) -> Float[Tensor, "S N"]:
    """Whole functions; a distribution without a joint one is its mean."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed_for(seed, "draw"))
        drawn = prediction.noiseless.sample(n_draws)
    return drawn.reshape(n_draws, -1).double()
