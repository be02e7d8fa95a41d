r"""A composition: a slow signal h(t) whose function F(h(t)) is the series.

Where the composition and not the spectrum carries the signal (frequency modulation, a system driven by
the output of another), the periodogram of the series shows sidebands, not the few frequencies of h. But
F(h) is a one-layer model of h, so its evidence is known in closed form: many random h are scored and
refined at once, the worse ones dropped, and the best becomes the hidden layer of a deep model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from deeplfm.config import BlockConfig, LayerConfig
from deeplfm.features.products import weighted_gram, weighted_moment
from deeplfm.layers import Block
from deeplfm.model import DeepLFM
from deeplfm.randomness import generator_for
from deeplfm.terms.base import (
    BlockPlan,
    BuildContext,
    HiddenPlan,
    Plan,
    Term,
    of_time,
    refuse_shared,
    running,
)
from deeplfm.terms.initial import mean_field, observed_series
from deeplfm.training import Rows
from deeplfm.training.interruption import stop_requested
from deeplfm.variational import Exact

_SEARCH_SHARE = 2.5  # steps of the search for each step of training
_STD = 0.03  # of the hidden weights, before training
_OTHERS = 0.01  # sensitivity of an output to the hidden units of the others
_FEWEST_CYCLES, _MOST_CYCLES = 0.5, 20.0
_RATE = 0.03


@dataclass(frozen=True, repr=False)
class Composition(Term):
    """A free function of a hidden sum of few sinusoids, for each output its own.

    Attributes:
        n: number of sinusoids of the hidden signal.
        n_features: number of frequencies of the function.
        system: linear system of both layers.
    """

    term_name: ClassVar[str] = "composition"
    margin: ClassVar[float] = 0.2  # found by a search among many
    has_hidden_layer: ClassVar[bool] = True
    n: int = 2
    n_features: int = 100
    system: str = "ode1"

    def plan(self, rows: Rows, context: BuildContext) -> Plan:
        """Search for the composition of each output; the hidden signal needs the whole model."""
        refuse_shared(self, context)
        n_outputs, options = rows.y.shape[1], running(self.system)
        inner = BlockConfig(
            self.system,
            n_forces=self.n,
            n_features=1,
            frequencies="nodes",
            extras=("trend",),
            options=options,
            name="composition",
        )
        outer = BlockConfig(
            self.system,
            "hidden",
            n_features=self.n_features,
            frequencies="prior-fixed",
            extras=("constant",),
            options=options,
            name="composition",
        )
        layer = LayerConfig(
            n_outputs, (of_time(rows, inner),), own_features=True, is_antithetic=True
        )

        def initialise(model: DeepLFM) -> None:
            for d in range(n_outputs):
                time, value = (torch.as_tensor(item) for item in observed_series(rows, d))
                if len(time) < 3:
                    continue
                found = find_composition(
                    time,
                    value,
                    generator_for(context.seed, "start", d),
                    n_sinusoids=self.n,
                    n_steps=int(
                        _SEARCH_SHARE
                        * (self.n_steps if context.n_steps is None else context.n_steps)
                    ),
                )
                _write(model, d, found)

        return Plan(
            [BlockPlan(outer, _nothing)],
            rows,
            HiddenPlan((layer,), lambda layers: None, n_samples=4, n_paths=16),
            initialise,
        )


def _nothing(block: Block) -> None:
    """Starting values are set with the whole model."""


@torch.no_grad()
def _write(model: DeepLFM, output: int, found: Found) -> None:
    """Write a composition into hidden unit, features and noise of one output."""
    hidden = model.layers[0]
    inner, outer = (
        hidden.block("composition").features,
        model.output_layer.block("composition").features,
    )
    transfer = inner.transfer(found.frequency)[output, 0]
    inner.center[output, 0] = found.frequency
    inner.center.requires_grad_(True)
    sensitivity = inner.sensitivity
    sensitivity[output, 0] = 1 / transfer.abs()
    inner.set_sensitivity(sensitivity)
    # cos and sin of the search are a rotation of Re and Im of e^{jωt} H(jω)/|H(jω)|.
    angle = -transfer.angle()
    real = found.cosine * angle.cos() + found.sine * angle.sin()
    imag = found.sine * angle.cos() - found.cosine * angle.sin()
    weights = mean_field(hidden)
    weights.mean[output, :, 0] = torch.cat([real, imag, torch.tensor([found.slope])])
    weights.log_std[output] = math.log(_STD)
    others = torch.full_like(outer.sensitivity[output], _OTHERS)
    others[output] = found.scale
    sensitivity = outer.sensitivity
    sensitivity[output] = others
    outer.set_sensitivity(sensitivity)
    std = math.sqrt(outer.spectral_variance)
    outer.log_lengthscale[output] = math.log(found.lengthscale * std)
    model.gaussian.log_variance[output] = 2 * math.log(found.noise_std)


@dataclass(frozen=True)
class Found:
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
    n_sinusoids: int = 2,
    n_trials: int = 160,
    n_steps: int = 240,
    max_rows: int = 256,
) -> Found:
    """Successive halving over random compositions, each refined by gradient ascent of its evidence.

    Args:
        time: times, complete.
        value: standardised values.
        generator: source of the trials.
        n_sinusoids: number of frequencies of h.
        n_trials: how many to begin with; a quarter survives each third of the steps.
        n_steps: gradient steps.
        max_rows: rows to score on, evenly spaced ones of a longer series; half at first.
    """
    trials = _Trials(time.double(), n_sinusoids, n_trials, generator)
    every_time, every_value = time.double(), value.double()
    for rows in (max_rows // 2, max_rows, max_rows):
        stride = max(1, math.ceil(len(every_time) / rows))
        time, value = every_time[::stride], every_value[::stride]
        optimiser = torch.optim.Adam(trials.parameters(), lr=_RATE)
        for _ in range(n_steps // 3):
            if stop_requested():
                break
            optimiser.zero_grad()
            loss = -trials.log_evidence(time, value).sum()
            loss.backward()
            optimiser.step()
        with torch.no_grad():
            score = trials.log_evidence(time, value).nan_to_num(-math.inf)
        trials = trials.take(score.argsort(descending=True)[: max(4, len(score) // 4)])
    with torch.no_grad():
        score = trials.log_evidence(time, value).nan_to_num(-math.inf)
        return trials.composition(int(score.argmax()), float(score.max()))


class _Trials(nn.Module):
    """R trials at once; the features of F have one parameter group for each."""

    n_features = 24
    noise: Tensor

    def __init__(
        self, time: Tensor, n_sinusoids: int, n_trials: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.unit = 2 * math.pi / (float(time.max() - time.min()) or 1.0)
        spread = torch.rand(n_trials, n_sinusoids, generator=generator).double()
        cycles = _FEWEST_CYCLES * (_MOST_CYCLES / _FEWEST_CYCLES) ** spread
        amplitude = 0.7 * torch.randn(2, n_trials, n_sinusoids, generator=generator).double()
        self.cycles = nn.Parameter(cycles)
        self.cosine, self.sine = nn.Parameter(amplitude[0]), nn.Parameter(amplitude[1])
        self.slope = nn.Parameter(torch.zeros(n_trials).double())
        self.log_noise = nn.Parameter(torch.full((n_trials,), -1.0).double())
        self.log_scale = nn.Parameter(torch.zeros(n_trials).double())
        self.log_lengthscale = nn.Parameter(torch.full((n_trials,), math.log(0.4)).double())
        quantiles = 0.5 + (torch.arange(self.n_features) + 0.5) / (2 * self.n_features)
        self.register_buffer("noise", torch.special.ndtri(quantiles.double()))

    def take(self, index: Tensor) -> _Trials:
        """Some of the trials."""
        chosen = _Trials.__new__(_Trials)
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

    def composition(self, index: int, score: float) -> Found:
        """One candidate as plain numbers."""
        return Found(
            frequency=self.unit * self.cycles[index].detach(),
            cosine=self.cosine[index].detach(),
            sine=self.sine[index].detach(),
            slope=float(self.slope[index]),
            lengthscale=float(self.log_lengthscale[index].exp()),
            scale=float(self.log_scale[index].exp()),
            noise_std=float(self.log_noise[index].exp()),
            log_evidence=score,
        )
