r"""One periodic force behind several outputs, each of which answers it by an equation of its own.

Where f_d' + γ_d f_d = S_d u and u repeats itself, harmonic k of output d is S_d c_k/(γ_d + jkω): K
complex numbers that all outputs tell of together, and two for each output. An output with much noise
then has the shape that a clear one shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deeplfm.starts.rhythm import Series, fundamental_of
from deeplfm.starts.spectrum import Array, Pursuit

Complex = NDArray[np.complex128]

_DECAYS = 20  # that are tried for each output
_SLOWEST, _FASTEST = 0.05, 5.0  # of them, over the lowest and the highest harmonic
_LEAST_NOISE = 1e-9  # variance, in standardised units
_RIDGE = 1e-5  # per row: harmonics of a cycle that was hardly seen once look alike


@dataclass(frozen=True)
class Response:
    """A force of K harmonics, and how D outputs answer it.

    Attributes:
        fundamental: angular frequency ω.
        force: size |c| of each harmonic.
        decay: γ of each output.
        sensitivity: S of each output; 0 where it does not answer.
        left: size of each output's harmonics beside its answer, at least what noise makes of them.
    """

    fundamental: float
    force: Array  # K
    decay: Array  # D
    sensitivity: Array  # D
    left: Array  # D K


def find_response(series: Sequence[Series], found: Sequence[Pursuit]) -> Response | None:
    """The force behind the harmonics of a rhythm; ``None`` where fewer than two outputs answer one.

    An output answers where that makes its harmonics smaller by more than decay and sensitivity cost.
    Harmonics that each have a variance of their own cost Σ log(1 + |a_k|²/noise) nats; two numbers that
    all of them tell cost log(1 + Σ|a_k|²/noise): a plain sine alone answers nothing. And less than half
    must be left: a rhythm that drifts has many harmonics, of which some force explains a few.

    Args:
        series: times and known values of each output.
        found: harmonics of each output, from :func:`find_rhythm`.
    """
    n_harmonics = max((lines.n_supported for lines in found), default=0)
    fundamental = fundamental_of(found)
    frequency: Array = fundamental * np.arange(1, n_harmonics + 1, dtype=np.float64)
    # Rows tell of harmonics, level and slope, and of the noise as well: twice as many are enough.
    heard = np.array([len(time) >= 2 * (2 * n_harmonics + 2) for time, _ in series])
    if n_harmonics == 0 or heard.sum() < 2:
        return None
    told = [_harmonics(*pair, frequency) for pair in series]
    value, noise = np.stack([item[0] for item in told]), np.array([[item[1]] for item in told])
    heard = np.flatnonzero(heard)
    answers = _Answers.of(value[heard], noise[heard], frequency)
    power, rest = (np.abs(item) ** 2 / noise[heard] for item in (value[heard], answers.left))
    before, after = np.log1p(power).sum(1), np.log1p(rest).sum(1)
    stays = (before - after > np.log1p(power.sum(1))) & (after < before / 2)
    stays[answers.clearest] = True
    if stays.sum() < 2:
        return None
    heard = heard[stays]
    answers = _Answers.of(value[heard], noise[heard], frequency)
    decay, sensitivity = np.full(len(found), fundamental), np.zeros(len(found))
    decay[heard], sensitivity[heard] = answers.decay, answers.sensitivity
    left = np.abs(value)
    left[heard] = np.abs(answers.left)
    return Response(
        fundamental, np.abs(answers.force), decay, sensitivity, np.maximum(left, np.sqrt(noise))
    )


@dataclass(frozen=True)
class _Answers:
    clearest: int  # output
    force: Complex  # K
    decay: Array  # D
    sensitivity: Array  # D
    left: Complex  # D K

    @classmethod
    def of(cls, value: Complex, noise: Array, frequency: Array) -> _Answers:
        """Least squares on a grid of decays, the force as the clearest output tells it.

        Args:
            value: harmonics of each output, D K.
            noise: mean square of each that noise makes, D 1.
            frequency: kω, K.
        """
        clearest = int(np.argmax((np.abs(value) ** 2 / noise).sum(1)))
        tried = np.geomspace(_SLOWEST * frequency[0], _FASTEST * frequency[-1], _DECAYS)
        filters = 1 / (tried[:, None] + 1j * frequency)  # J K
        answer = value[clearest] * filters[:, None] / filters  # J R K: decay, that of the clearest
        moment = np.einsum("jrk,dk->djr", answer.conj(), value).real
        power = (np.abs(answer) ** 2).sum(-1)  # J R
        explained = moment**2 / power / noise[:, :, None]  # D J R
        best = explained.argmax(1)  # D R
        reference = int(explained.max(1).sum(0).argmax())
        choice = best[:, reference]
        choice[clearest] = reference
        outputs = np.arange(len(value))
        decay = tried[choice]
        sensitivity = moment[outputs, choice, reference] / power[choice, reference]
        response = sensitivity[:, None] * filters[choice]
        weighted = response.conj() / noise
        force = (weighted * value).sum(0) / (weighted * response).sum(0).real
        return cls(clearest, force, decay, sensitivity, value - response * force)


def _harmonics(time: Array, value: Array, frequency: Array) -> tuple[Complex, float]:
    """Sizes a of waves Re a e^{jωt} beside level and slope, and the mean |a|² that noise alone makes."""
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
