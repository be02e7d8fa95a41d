r"""The paper transcribed letter by letter: what a first implementation costs, for `step.py` to time.

Complex tensors, every sample replicated from the first layer on, the features of every layer computed
anew for each sample and, in the last layer, for each output; autograd does the rest. Three choices are
those of the library's model ``paper``, so that both compute the same number: weights of hidden layers
are sampled by local reparametrisation, weights of the last layer are integrated, and one ε serves all
samples.

    python benchmarks/naive.py                     # a few steps on the toy shape
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from deeplfm import DeepLFM

LEAST_VARIANCE = 1e-12  # the root has no gradient where the variance of a row is 0


def normal_kl(mean: Tensor, std: Tensor, prior_std: Tensor) -> Tensor:
    """KL between normal distributions, the prior's mean being zero."""
    variance, prior_variance = std**2, prior_std**2
    log_ratio = torch.log(prior_variance / variance)
    return 0.5 * (log_ratio - 1 + variance / prior_variance + mean**2 / prior_variance).sum()


def response(t: Tensor, decay: Tensor, frequency: Tensor) -> Tensor:
    """φ(t, γ, ω), complex."""
    return (torch.exp(1j * frequency * t) - torch.exp(-decay * t)) / (decay + 1j * frequency)


class Response(nn.Module):
    """Random Fourier response features of f' + γf = Σ_q S_q u_q, with their spectral frequencies.

    Args:
        n_inputs: number P of input dimensions.
        n_forces: number Q of forces.
        n_features: number M of frequencies per force.
    """

    noise: Tensor

    def __init__(self, n_inputs: int, n_forces: int, n_features: int) -> None:
        super().__init__()
        self.log_decay = nn.Parameter(torch.full((n_inputs,), math.log(0.01)))
        self.log_lengthscale = nn.Parameter(torch.zeros(n_inputs, n_forces))
        self.sensitivity = nn.Parameter(torch.randn(n_inputs, n_forces))
        self.frequency_mean = nn.Parameter(torch.zeros(n_inputs, n_forces, n_features))
        self.frequency_log_std = nn.Parameter(torch.zeros(n_inputs, n_forces, n_features))
        self.register_buffer("noise", torch.randn(n_inputs, n_forces, n_features))

    def forward(self, x: Tensor) -> Tensor:
        """Φ, of shape S N 2QM, at inputs of shape S N P."""
        decay = self.log_decay.exp()
        frequency = self.frequency_mean + self.frequency_log_std.exp() * self.noise  # P Q M
        scale = self.sensitivity / math.sqrt(self.noise.shape[-1])
        phi = sum(
            scale[p, :, None] * response(x[..., p, None, None], decay[p], frequency[p])
            for p in range(x.shape[-1])
        ).flatten(-2)  # S N QM
        return torch.cat([phi.real, phi.imag], dim=-1)

    def kl(self) -> Tensor:
        """KL of the frequencies from N(0, 2/ℓ²)."""
        prior_std = (math.sqrt(2) / self.log_lengthscale.exp())[..., None]
        return normal_kl(self.frequency_mean, self.frequency_log_std.exp(), prior_std)


class Layer(nn.Module):
    """F' = Φ(F) W, W of independent normal entries."""

    def __init__(self, n_inputs: int, n_forces: int, n_features: int, width: int) -> None:
        super().__init__()
        self.features = Response(n_inputs, n_forces, n_features)
        self.weight_mean = nn.Parameter(torch.randn(2 * n_forces * n_features, width))
        self.weight_log_std = nn.Parameter(torch.full_like(self.weight_mean, math.log(0.1)))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of ΦW, of shape S N width."""
        phi = self.features(x)
        return phi @ self.weight_mean, phi**2 @ self.weight_log_std.exp() ** 2

    def kl(self) -> Tensor:
        """KL of weights and frequencies."""
        std = self.weight_log_std.exp()
        return normal_kl(self.weight_mean, std, torch.ones_like(std)) + self.features.kl()


class NaiveDeepLFM(nn.Module):
    """The deep latent force model of the paper.

    Args:
        n_inputs: number P of input columns.
        n_outputs: number D of outputs.
        hidden: widths of the hidden layers.
        n_forces: number Q of forces of every layer.
        n_features: number M of frequencies per force.
    """

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int,
        hidden: Sequence[int] = (3,),
        n_forces: int = 1,
        n_features: int = 100,
    ) -> None:
        super().__init__()
        seen = [n_inputs, *(width + n_inputs for width in hidden)]
        self.hidden = nn.ModuleList(
            Layer(n_seen, n_forces, n_features, width)
            for n_seen, width in zip(seen, hidden, strict=False)
        )
        self.outputs = nn.ModuleList(
            Layer(seen[-1], n_forces, n_features, 1) for _ in range(n_outputs)
        )
        self.log_noise = nn.Parameter(torch.full((n_outputs,), math.log(0.01)))

    @classmethod
    def like(cls, model: DeepLFM) -> NaiveDeepLFM:
        """A copy of a model ``paper``: the same parameters and the same ε."""
        *hidden, output = model.layers
        first = output.blocks[0].features
        naive = cls(
            model.config.n_inputs,
            model.config.n_outputs,
            [layer.n_units for layer in hidden],
            first.n_forces,
            first.n_features,
        ).to(first.decay.dtype)
        groups = [(layer, 0) for layer in hidden] + [(output, d) for d in range(output.n_groups)]
        with torch.no_grad():
            for copy, (layer, group) in zip([*naive.hidden, *naive.outputs], groups, strict=True):
                features = layer.blocks[0].features
                frequencies = layer.blocks[0].frequencies
                copy.features.log_decay.copy_(features.decay[group].log())
                copy.features.log_lengthscale.copy_(features.lengthscale[group].log())
                copy.features.sensitivity.copy_(features.sensitivity[group])
                copy.features.frequency_mean.copy_(frequencies.mean[group])
                copy.features.frequency_log_std.copy_(frequencies.log_std[group])
                copy.features.noise.copy_(frequencies.noise[0, group])
                copy.weight_mean.copy_(layer.weights.mean[group])
                copy.weight_log_std.copy_(layer.weights.log_std[group])
            naive.log_noise.copy_(model.likelihood.log_variance)
        return naive

    def draw_noise(self, n_samples: int, n_rows: int) -> list[Tensor]:
        """Standard normal noise of the values of every hidden layer, of shape S N width."""
        return [
            torch.randn(n_samples, n_rows, layer.weight_mean.shape[1], dtype=self.log_noise.dtype)
            for layer in self.hidden
        ]

    def forward(self, x: Tensor, noise: Sequence[Tensor], n_samples: int) -> tuple[Tensor, Tensor]:
        """Mean and variance of every output given each sample, of shape S N D."""
        x = x.repeat(n_samples, 1, 1)  # S N P
        inputs = x
        for layer, epsilon in zip(self.hidden, noise, strict=True):
            mean, variance = layer(inputs)
            values = mean + torch.sqrt(variance + LEAST_VARIANCE) * epsilon
            inputs = torch.cat([values, x], dim=-1)
        mean, variance = zip(*(output(inputs) for output in self.outputs), strict=True)
        return torch.cat(mean, dim=-1), torch.cat(variance, dim=-1)

    def elbo(
        self,
        x: Tensor,
        y: Tensor,
        n_rows: int,
        n_samples: int = 100,
        noise: Sequence[Tensor] | None = None,
    ) -> Tensor:
        """Evidence lower bound (eq. 8), the batch scaled up to all rows."""
        noise = self.draw_noise(n_samples, len(x)) if noise is None else noise
        mean, variance = self(x, noise, n_samples)
        noise_variance = self.log_noise.exp()
        error = ((y - mean) ** 2 + variance) / noise_variance
        log_density = -0.5 * (torch.log(2 * math.pi * noise_variance) + error)
        likelihood = n_rows / len(x) * log_density.sum((1, 2)).mean()
        return likelihood - sum(layer.kl() for layer in [*self.hidden, *self.outputs])


def main() -> None:
    """Time a few steps."""
    x, y = torch.randn(500, 1), torch.randn(500, 1)
    model = NaiveDeepLFM(n_inputs=1, n_outputs=1)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(3):
        started = time.perf_counter()
        optimiser.zero_grad()
        loss = -model.elbo(x, y, n_rows=len(x))
        loss.backward()
        optimiser.step()
        print(f"{time.perf_counter() - started:.2f} s, loss {loss.item():.1f}")


if __name__ == "__main__":
    main()
