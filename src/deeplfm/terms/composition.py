r"""Search for a composition: a slow signal h(t) whose function F(h(t)) is the series.

Where the composition and not the spectrum carries the signal (frequency modulation, a system driven
by the output of another), the periodogram of the series shows sidebands, not the few frequencies of h.
But F(h) is a one-layer model of h, so its evidence is known in closed form: many random h are scored
and refined at once, the worse ones dropped, and the best becomes the hidden layer of a deep model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from deeplfm.training.interruption import stop_requested
from deeplfm.variational import Exact
from deeplfm.variational.products import weighted_gram, weighted_moment

_FEWEST_CYCLES, _MOST_CYCLES = 0.5, 20.0
_RATE = 0.03


@dataclass(frozen=True)
class Composition:
    """The best composition found, as parameters of a hidden unit and of the features that see it.

    Attributes:
        frequency: angular frequencies of h.
        cosine: amplitudes of their cosines.
        sine: amplitudes of their sines.
        slope: slope of h.
        lengthscale: of F along h.
        scale: standard deviation of F.
        noise_std: of the observations.
        log_evidence: of the rows searched on.
    """

    frequency: Float[Tensor, " L"]
    cosine: Float[Tensor, " L"]
    sine: Float[Tensor, " L"]
    slope: float
    lengthscale: float
    scale: float
    noise_std: float
    log_evidence: float


def find_composition(
    time: Float[Tensor, " N"],
    value: Float[Tensor, " N"],
    generator: torch.Generator,
    n_lines: int = 2,
    n_candidates: int = 160,
    n_steps: int = 240,
    max_rows: int = 256,
) -> Composition:
    """Successive halving over random compositions, each refined by gradient ascent of its evidence.

    Args:
        time: times, complete.
        value: standardised values.
        generator: source of the candidates.
        n_lines: number of frequencies of h.
        n_candidates: how many to begin with; a quarter survives each third of the steps.
        n_steps: gradient steps.
        max_rows: rows to score on, evenly spaced ones of a longer series; half at first.
    """
    candidates = _Candidates(time.double(), n_lines, n_candidates, generator)
    every_time, every_value = time.double(), value.double()
    for rows in (max_rows // 2, max_rows, max_rows):
        stride = max(1, math.ceil(len(every_time) / rows))
        time, value = every_time[::stride], every_value[::stride]
        optimiser = torch.optim.Adam(candidates.parameters(), lr=_RATE)
        for _ in range(n_steps // 3):
            if stop_requested():
                break
            optimiser.zero_grad()
            loss = -candidates.log_evidence(time, value).sum()
            loss.backward()
            optimiser.step()
        with torch.no_grad():
            score = candidates.log_evidence(time, value).nan_to_num(-math.inf)
        candidates = candidates.take(score.argsort(descending=True)[: max(4, len(score) // 4)])
    with torch.no_grad():
        score = candidates.log_evidence(time, value).nan_to_num(-math.inf)
        return candidates.composition(int(score.argmax()), float(score.max()))


class _Candidates(nn.Module):
    """R candidates at once; the features of F have one parameter group for each."""

    n_features = 24
    noise: Tensor

    def __init__(
        self, time: Tensor, n_lines: int, n_candidates: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.unit = 2 * math.pi / (float(time.max() - time.min()) or 1.0)
        spread = torch.rand(n_candidates, n_lines, generator=generator).double()
        cycles = _FEWEST_CYCLES * (_MOST_CYCLES / _FEWEST_CYCLES) ** spread
        amplitude = 0.7 * torch.randn(2, n_candidates, n_lines, generator=generator).double()
        self.cycles = nn.Parameter(cycles)
        self.cosine, self.sine = nn.Parameter(amplitude[0]), nn.Parameter(amplitude[1])
        self.slope = nn.Parameter(torch.zeros(n_candidates).double())
        self.log_noise = nn.Parameter(torch.full((n_candidates,), -1.0).double())
        self.log_scale = nn.Parameter(torch.zeros(n_candidates).double())
        self.log_lengthscale = nn.Parameter(torch.full((n_candidates,), math.log(0.4)).double())
        quantiles = 0.5 + (torch.arange(self.n_features) + 0.5) / (2 * self.n_features)
        self.register_buffer("noise", torch.special.ndtri(quantiles.double()))

    def take(self, index: Tensor) -> _Candidates:
        """Some of the candidates."""
        chosen = _Candidates.__new__(_Candidates)
        nn.Module.__init__(chosen)
        chosen.unit = self.unit
        for name, parameter in self.named_parameters():
            setattr(chosen, name, nn.Parameter(parameter.detach()[index].clone()))
        chosen.register_buffer("noise", self.noise)
        return chosen

    def hidden(self, time: Tensor) -> Float[Tensor, "R N"]:
        """The hidden signal h at each time."""
        phase = self.unit * time[:, None] * self.cycles[:, None, :]  # R N L
        waves = self.cosine[:, None] * torch.cos(phase) + self.sine[:, None] * torch.sin(phase)
        return waves.sum(-1) + self.slope[:, None] * time

    def log_evidence(self, time: Tensor, value: Tensor) -> Float[Tensor, " R"]:
        """Log marginal likelihood of F(h(t)) + noise with F a random-feature Gaussian process.

        Written as the bound at its optimal q(W), which gives its gradient without one through the
        factorisation.
        """
        frequency = self.noise / self.log_lengthscale.exp()[:, None]  # R M
        phase = self.hidden(time)[..., None] * frequency[:, None, :]
        scale = (self.log_scale.exp() / math.sqrt(self.n_features))[:, None, None]
        ones = torch.ones_like(phase[..., :1])
        features = torch.cat([scale * torch.cos(phase), scale * torch.sin(phase), ones], dim=-1)
        log_variance = 2 * self.log_noise
        weights = Exact(len(features), features.shape[-1], 1)
        with torch.no_grad():
            precision = torch.exp(-log_variance)[:, None, None].expand(-1, len(time), 1)
            target = precision * value[:, None]
            weights.step(weighted_gram([features], precision), weighted_moment([features], target))
        mean, variance = weights.moments_of([features])
        squares = ((value[:, None] - mean).square() + variance).sum((-2, -1))
        density = len(time) * (math.log(2 * math.pi) + log_variance)
        return -0.5 * (density + squares * torch.exp(-log_variance)) - weights.kl_by_group()

    def composition(self, index: int, score: float) -> Composition:
        """One candidate as plain numbers."""
        return Composition(
            frequency=self.unit * self.cycles[index].detach(),
            cosine=self.cosine[index].detach(),
            sine=self.sine[index].detach(),
            slope=float(self.slope[index]),
            lengthscale=float(self.log_lengthscale[index].exp()),
            scale=float(self.log_scale[index].exp()),
            noise_std=float(self.log_noise[index].exp()),
            log_evidence=score,
        )
