r"""One periodic force behind several outputs, each with its own first-order response.

Where f_d' + γ_d f_d = S_d u and u is periodic, harmonic k of output d is S_d c_k/(γ_d + jkω): K complex
numbers that all outputs determine together, and two for each output. An output with much noise then has
the shape of a clear one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from deeplfm.config import BlockConfig
from deeplfm.errors import ConfigError
from deeplfm.features import feature_map
from deeplfm.layers import Block
from deeplfm.terms.base import BlockPlan, BuildContext, Plan, Term, of_time, running
from deeplfm.terms.initial import all_series, set_multiples, span_of, with_values
from deeplfm.terms.local_level import SCALE
from deeplfm.terms.season import Season, Series, find_season, frequency_of, fundamental_of
from deeplfm.terms.spectrum import Array, SinusoidFit, fit_sinusoids
from deeplfm.training import Rows

Complex = NDArray[np.complex128]

_DECAYS = 20  # that are tried for each output
_SLOWEST, _FASTEST = 0.05, 5.0  # of them, over the lowest and the highest harmonic
_LEAST_NOISE = 1e-9  # variance, in standardised units
_RIDGE = (
    1e-5  # per row: harmonics of a cycle that the record holds hardly once are nearly collinear
)


@dataclass(frozen=True)
class Response:
    """A force of K harmonics, and the response of D outputs to it.

    Attributes:
        fundamental: angular frequency ω.
        force: size |c| of each harmonic.
        decay: γ of each output.
        sensitivity: S of each output; 0 where it does not respond.
        left: size of each output's harmonics beside its response, at least the size of noise.
    """

    fundamental: float
    force: Array  # K
    decay: Array  # D
    sensitivity: Array  # D
    left: Array  # D K


_N_NODES = 4  # of each harmonic of an output's own
_MOST_OUTPUTS = 8  # that may share a force: memory grows with their cube


@dataclass(frozen=True, repr=False)
class SharedSeason(Term):
    """One periodic force, to which each output has its own response, beside harmonics of its own.

    Where fewer than two outputs respond to one force, or they are many, each output has its own
    harmonics, as in :class:`Season`.

    Attributes:
        period: as in :class:`Season`.
        n_harmonics: at most so many.
        bandwidth: of an output's own harmonics, in units of one over the record length.
        system: a first-order system.
    """

    term_name: ClassVar[str] = "shared_season"
    period: float | str | None = None
    n_harmonics: int = 20
    bandwidth: float = 0.3
    system: str = "ode1"

    def __post_init__(self) -> None:
        """Refuse a system of another order."""
        super().__post_init__()
        if feature_map(self.system).n_states != 1:
            raise ConfigError(
                f"shared_season: system {self.system!r} is not of first order, and the responses of "
                "outputs to one periodic force are found for first order. Use season, which takes any."
            )

    def in_time_units(self, convert: Callable[[Any], float]) -> Self:
        """The same term with its period as a number of time units."""
        return self if self.period is None else replace(self, period=convert(self.period))

    def resolve(self, rows: Rows, context: BuildContext) -> Term:
        """The shared force, where the data have one that the rest of the sum can stand beside."""
        series = all_series(rows)
        may_share = len(series) <= _MOST_OUTPUTS and all(term.is_own for term in context.beside)
        if may_share:
            fundamental = frequency_of(self.period, context)
            found = find_season(series, self.n_harmonics, fundamental)
            response = find_response(series, found)
            if response is not None:
                return _FoundSharedSeason(self.bandwidth, self.system, found, response)
        return Season(self.period, self.n_harmonics, bandwidth=self.bandwidth, system=self.system)

    def plan(self, rows: Rows, context: BuildContext) -> Plan:
        """Never asked for: the rows decide what this term is."""
        return self.resolve(rows, context).plan(rows, context)


@dataclass(frozen=True, repr=False, eq=False)
class _FoundSharedSeason(Term):
    """A shared season whose force has been found."""

    term_name: ClassVar[str] = "shared_season"
    shares_forces: ClassVar[bool] = True
    bandwidth: float
    system: str
    found: list[SinusoidFit]
    response: Response

    def __str__(self) -> str:
        return self.term_name

    def plan(self, rows: Rows, context: BuildContext) -> Plan:
        """The force, and what each output has beside its response."""
        force = BlockConfig(
            self.system,
            "original",
            n_features=len(self.response.force),
            frequencies="prior-fixed",
            options=running(self.system),
            name="shared season",
        )
        own = BlockConfig(
            "eq",
            "original",
            n_forces=sum(fit.n_supported + 1 for fit in self.found),
            n_features=_N_NODES,
            frequencies="nodes",
            name="season",
        )
        length = span_of(rows)
        blocks = [
            BlockPlan(of_time(rows, force), self._initialise_force),
            BlockPlan(of_time(rows, own), lambda block: self._initialise_own(block, length)),
        ]
        left = [
            fit_sinusoids(*pair, fit.frequency[: fit.n_supported])[1]
            if len(pair[0]) > 2
            else pair[1]
            for pair, fit in zip(all_series(rows), self.found, strict=True)
        ]
        return Plan(blocks, with_values(rows, left))

    @torch.no_grad()
    def _initialise_force(self, block: Block) -> None:
        """Whole multiples of one frequency, each of the size that the force has there."""
        features, response = block.features, self.response
        size = torch.as_tensor(response.force / math.sqrt(2))
        total = set_multiples(block, [response.fundamental], size)
        features.set_bandwidth(torch.as_tensor(response.decay)[:, None])
        sensitivity = torch.as_tensor(response.sensitivity) * total
        features.set_sensitivity(sensitivity[:, None, None])

    @torch.no_grad()
    def _initialise_own(self, block: Block, length: float) -> None:
        """A level and harmonics of each output that no other responds to."""
        features = block.features
        sensitivity = torch.zeros_like(features.sensitivity)
        center = torch.zeros_like(features.center)
        first = 0
        for d, fit in enumerate(self.found):
            own = slice(first + 1, first + 1 + fit.n_supported)
            center[0, 0, own] = torch.as_tensor(fit.frequency[: fit.n_supported]).to(center)
            size = torch.as_tensor(self.response.left[d, : fit.n_supported]) / math.sqrt(2)
            sensitivity[d, 0, own] = size.to(sensitivity)
            sensitivity[d, 0, first] = SCALE
            first += 1 + fit.n_supported
        features.center.copy_(center)
        features.set_sensitivity(sensitivity)
        lengthscale = math.sqrt(features.spectral_variance) * length / self.bandwidth
        features.log_lengthscale.fill_(math.log(lengthscale))


def find_response(series: Sequence[Series], found: Sequence[SinusoidFit]) -> Response | None:
    """The force behind the harmonics of a season; ``None`` where fewer than two outputs respond to one.

    An output responds where that explains more of its harmonics than decay and sensitivity cost.
    Harmonics with a variance each cost Σ log(1 + |a_k|²/noise) nats; two parameters that all of them
    determine cost log(1 + Σ|a_k|²/noise), so that a plain sine alone is no response. And less than half
    must be left: a season that drifts has many harmonics, of which some force explains a few.
    """
    n_harmonics = max((fit.n_supported for fit in found), default=0)
    fundamental = fundamental_of(found)
    frequency: Array = fundamental * np.arange(1, n_harmonics + 1, dtype=np.float64)
    # Twice as many rows as harmonics, level and slope: enough for the noise as well.
    usable = np.array([len(time) >= 2 * (2 * n_harmonics + 2) for time, _ in series])
    if n_harmonics == 0 or usable.sum() < 2:
        return None
    estimated = [_harmonics(*pair, frequency) for pair in series]
    value, noise = (
        np.stack([item[0] for item in estimated]),
        np.array([[item[1]] for item in estimated]),
    )
    usable = np.flatnonzero(usable)
    responses = _Responses.of(value[usable], noise[usable], frequency)
    power, rest = (np.abs(item) ** 2 / noise[usable] for item in (value[usable], responses.left))
    before, after = np.log1p(power).sum(1), np.log1p(rest).sum(1)
    stays = (before - after > np.log1p(power.sum(1))) & (after < before / 2)
    stays[responses.clearest] = True
    if stays.sum() < 2:
        return None
    usable = usable[stays]
    responses = _Responses.of(value[usable], noise[usable], frequency)
    decay, sensitivity = np.full(len(found), fundamental), np.zeros(len(found))
    decay[usable], sensitivity[usable] = responses.decay, responses.sensitivity
    left = np.abs(value)
    left[usable] = np.abs(responses.left)
    return Response(
        fundamental, np.abs(responses.force), decay, sensitivity, np.maximum(left, np.sqrt(noise))
    )


@dataclass(frozen=True)
class _Responses:
    clearest: int  # output
    force: Complex  # K
    decay: Array  # D
    sensitivity: Array  # D
    left: Complex  # D K

    @classmethod
    def of(cls, value: Complex, noise: Array, frequency: Array) -> _Responses:
        """Least squares on a grid of decays, the force as estimated from the clearest output.

        Args:
            value: harmonics of each output, D K.
            noise: mean square of each by noise alone, D 1.
            frequency: kω, K.
        """
        clearest = int(np.argmax((np.abs(value) ** 2 / noise).sum(1)))
        tried = np.geomspace(_SLOWEST * frequency[0], _FASTEST * frequency[-1], _DECAYS)
        filters = 1 / (tried[:, None] + 1j * frequency)  # J K
        # J R K: decay, that of the clearest
        response = value[clearest] * filters[:, None] / filters
        moment = np.einsum("jrk,dk->djr", response.conj(), value).real
        power = (np.abs(response) ** 2).sum(-1)  # J R
        explained = moment**2 / power / noise[:, :, None]  # D J R
        best = explained.argmax(1)  # D R
        reference = int(explained.max(1).sum(0).argmax())
        choice = best[:, reference]
        choice[clearest] = reference
        outputs = np.arange(len(value))
        decay = tried[choice]
        sensitivity = moment[outputs, choice, reference] / power[choice, reference]
        transfer = sensitivity[:, None] * filters[choice]
        weighted = transfer.conj() / noise
        force = (weighted * value).sum(0) / (weighted * transfer).sum(0).real
        return cls(clearest, force, decay, sensitivity, value - transfer * force)


def _harmonics(time: Array, value: Array, frequency: Array) -> tuple[Complex, float]:
    """Amplitudes a of Re a e^{jωt} beside level and slope, and the mean |a|² by noise alone."""
    if len(time) == 0:
        return np.zeros(len(frequency), np.complex128), 1.0
    phase = np.outer(time, frequency)
    line = np.ones_like(time), time - time.mean()
    design = np.column_stack([*line, np.cos(phase), np.sin(phase)])
    gram = design.T @ design + _RIDGE * len(time) * np.eye(design.shape[1])
    coefficient = np.linalg.solve(gram, design.T @ value)
    cosine, sine = coefficient[2:].reshape(2, -1)
    n_free = max(1, len(time) - design.shape[1])
    left = float(np.sum((value - design @ coefficient) ** 2)) / n_free
    return cosine - 1j * sine, 4 * max(left, _LEAST_NOISE) / len(time)
