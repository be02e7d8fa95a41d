r"""The contract of a feature map: what waves of given frequencies do to one linear system.

Every layer of the model is Φ(x; Ω, θ) W. A feature map owns the parameters θ of the system and the
prior of the frequencies Ω; it turns inputs into columns, independent of weights and layers.
It does so in two steps: *coefficients* from parameters and frequencies alone, once, and the *basis* from
rows and coefficients, for each chunk of samples and rows.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import torch
from jaxtyping import Complex, Float
from torch import Tensor, nn

from deeplfm.errors import ConfigError

EXTRAS = ("constant", "trend", "initial_state")
Coefficients = tuple[Tensor, ...]
_ALL = slice(None)


class FeatureMap(nn.Module):
    r"""Columns φ(x, ω) of one linear system driven by Q latent forces with M waves each.

    Parameters carry a leading group dimension G: one group in a hidden layer, whose units share
    their features, and one group per output at the last layer (γ_d, ℓ_d, S_d of the paper). Force q
    has the spectral prior ω ~ N(c_q, v/ℓ_q²) with v = ``spectral_variance``: c = 0 is the paper's
    exponentiated-quadratic force, c ≠ 0 a narrow-band force that oscillates at c and stays coherent
    over times of order ℓ.

    Args:
        n_inputs: number P of input dimensions.
        n_forces: number Q of latent forces.
        n_features: number M of frequencies per force.
        n_groups: number G of independent parameter sets (outputs with their own system).
        extras: columns beside the force: ``"constant"``, ``"trend"`` (one per input dimension) and,
            for responses, ``"initial_state"`` (``n_states`` per input dimension).
        shared_forces: all groups respond to the same forces (one ℓ and one Ω): the classical LFM.
    """

    sensitivity_unit: Tensor
    columns_per_frequency: ClassVar[int] = 2
    is_additive: ClassVar[bool] = False  # Φ is a sum over input dimensions
    has_force: ClassVar[bool] = False  # a differential equation with an option lower_limit
    n_states: ClassVar[int] = 0  # order of the differential equation of each input
    origin: float = 0.0  # where the convolution with the force begins
    spectral_variance: ClassVar[float] = 1.0

    def __init__(
        self,
        n_inputs: int,
        n_forces: int,
        n_features: int,
        n_groups: int = 1,
        extras: tuple[str, ...] = (),
        shared_forces: bool = False,
    ) -> None:
        super().__init__()
        unknown = set(extras) - set(EXTRAS)
        if unknown:
            raise ConfigError(
                f"features: unknown extra columns {sorted(unknown)}. Choose from {list(EXTRAS)}."
            )
        if "initial_state" in extras and not self.n_states:
            raise ConfigError(
                f"features: {type(self).__name__} has no differential equation, so no initial "
                "state. Remove 'initial_state' from extras."
            )
        self.n_inputs, self.n_forces, self.n_features = n_inputs, n_forces, n_features
        self.n_groups, self.extras = n_groups, tuple(extras)
        self.n_spectra = 1 if shared_forces else n_groups
        self.log_lengthscale = nn.Parameter(torch.zeros(self.n_spectra, n_inputs, n_forces))
        self.center = nn.Parameter(
            torch.zeros(self.n_spectra, n_inputs, n_forces), requires_grad=False
        )
        self.raw_sensitivity = nn.Parameter(torch.ones(n_groups, n_inputs, n_forces))
        self.register_buffer("sensitivity_unit", torch.ones(n_groups, n_inputs, n_forces))
        self.log_extra_scale = nn.Parameter(torch.zeros(n_groups, self.n_extra_columns))

    @property
    def n_extra_columns(self) -> int:
        """Columns that no frequency owns."""
        n_states = self.n_states * self.n_inputs
        counts = {"constant": 1, "trend": self.n_inputs, "initial_state": n_states}
        return sum(counts[name] for name in self.extras)

    @property
    def n_columns(self) -> int:
        """Width K of Φ."""
        return self.columns_per_frequency * self.n_forces * self.n_features + self.n_extra_columns

    @property
    def frequency_shape(self) -> tuple[int, int, int, int]:
        """Shape of Ω: groups, inputs, forces, features."""
        return (self.n_spectra, self.n_inputs, self.n_forces, self.n_features)

    @property
    def sensitivity(self) -> Float[Tensor, "G P Q"]:
        """Sensitivity S of the system to each force, learned in units that a start may choose."""
        return self.raw_sensitivity * self.sensitivity_unit

    @torch.no_grad()
    def set_sensitivity(self, value: Float[Tensor, "G P Q"]) -> None:
        """Set S and make it the unit in which steps are taken: forces differ by orders of magnitude."""
        self.sensitivity_unit.copy_(value)
        self.raw_sensitivity.fill_(1.0)

    @property
    def lengthscale(self) -> Float[Tensor, "G P Q"]:
        """Lengthscale ℓ of each force along each input dimension."""
        return 1 / torch.exp(-self.log_lengthscale)

    def frequency_prior(self) -> tuple[Float[Tensor, "G P Q 1"], Float[Tensor, "G P Q 1"]]:
        """Mean and standard deviation of p(ω)."""
        std = math.sqrt(self.spectral_variance) / self.lengthscale
        return self.center.unsqueeze(-1), std.unsqueeze(-1)

    def forward(
        self,
        x: Float[Tensor, "*#S N P"],
        frequency: Float[Tensor, "*#S #G P Q M"],
        feature_weight: Float[Tensor, " M"],
    ) -> Float[Tensor, "*S G N K"]:
        """Columns of Φ, whole.

        Args:
            x: inputs, with a leading sample dimension or none.
            frequency: Ω, with a leading sample dimension or none.
            feature_weight: prior standard deviation of each wave within its force: M^(−½) for
                random frequencies, root quadrature weights for nodes.
        """
        coefficients = self.coefficients(frequency, feature_weight, self.extent(x, frequency))
        columns = [*self.basis(x, coefficients), *self.extra_columns(x)]
        samples = torch.broadcast_shapes(*(column.shape[:-1] for column in columns))
        return torch.cat([column.expand(*samples, -1) for column in columns], dim=-1)

    @abstractmethod
    def coefficients(
        self,
        frequency: Float[Tensor, "*S #G P Q M"],
        feature_weight: Float[Tensor, " M"],
        extent: Float[Tensor, "*#S P"],
        inputs: slice = _ALL,
    ) -> Coefficients:
        """Tensors of the columns that do not depend on rows.

        Args:
            frequency: Ω.
            feature_weight: prior standard deviation of each wave within its force.
            extent: largest absolute value of each input chosen, from :meth:`extent`.
            inputs: input dimensions that take part; all, unless the map ``is_additive``.

        Returns:
            Tensors with a leading sample dimension, all of them, where Ω has one.
        """

    @abstractmethod
    def basis(
        self,
        x: Float[Tensor, "*#S N P"],
        coefficients: Coefficients,
        base: tuple[Float[Tensor, "G N QM"], ...] | None = None,
    ) -> tuple[Float[Tensor, "*S G N QM"], ...]:
        """The ``columns_per_frequency`` families of columns, sensitivities and weights included.

        Args:
            x: the inputs that the coefficients are for.
            coefficients: from :meth:`coefficients`; no other tensor with a gradient may enter.
            base: what other inputs of an additive map add to each family.
        """

    def extent(
        self, x: Float[Tensor, "*S N P"], frequency: Float[Tensor, "*R G P Q M"]
    ) -> Float[Tensor, "*T P"]:
        """Largest distance of each input from the origin, by sample where Ω differs by sample."""
        x = x.detach()
        # Over samples first: inputs are too few to be the innermost dimension of a reduction.
        if x.dim() == 3 and frequency.dim() == 4:
            x = torch.cat([x.amin(0), x.amax(0)])
        return (x - self.origin).abs().amax(-2)

    def transfer(self, frequency: Float[Tensor, " F"]) -> Complex[Tensor, "G P F"]:
        """Transfer function H(jω): the steady response to e^{jωt}; 1 where there is no system."""
        shape = (self.n_groups, self.n_inputs, len(frequency))
        return torch.ones(shape, dtype=frequency.dtype.to_complex(), device=frequency.device)

    def gain(self, frequency: Float[Tensor, " F"]) -> Float[Tensor, "G P F"]:
        """|H(jω)|: amplitude of the steady response to a wave of amplitude 1."""
        return self.transfer(frequency).abs()

    @property
    def bandwidth(self) -> Float[Tensor, "G P"]:
        """Frequency beyond which the system attenuates; infinite where there is no system."""
        return torch.full_like(self.sensitivity[..., 0], math.inf)

    def set_bandwidth(self, width: float | Float[Tensor, "#G #P"]) -> None:
        """Set the parameters of the system by their bandwidth; no effect where there is no system."""

    def growth(self, extent: Float[Tensor, " P"]) -> float:
        """Largest exponent of a transient, for inputs up to ``extent`` before the origin.

        A stable system decays after the origin and grows exponentially before it, where hidden layers
        may put their values. Beyond the logarithm of the largest number of a dtype it overflows.
        """
        return 0.0

    def initial_state(self, x: Float[Tensor, "*S 1 N P"]) -> Float[Tensor, "*S G N E"]:
        """Free responses to the ``n_states`` states of each input at the origin, states fastest."""
        raise ConfigError(f"features: {type(self).__name__} has no initial state.")

    def extra_columns(self, x: Float[Tensor, "*S N P"]) -> list[Float[Tensor, "*S G N E"]]:
        """Columns that no frequency owns, one matrix for each kind."""
        if not self.extras:
            return []
        x = x.unsqueeze(-3)
        make = {
            "constant": lambda: torch.ones_like(x[..., :1]),
            "trend": lambda: x,
            "initial_state": lambda: self.initial_state(x),
        }
        columns, start = [], 0
        for name in self.extras:
            column = make[name]()
            stop = start + column.shape[-1]
            columns.append(column * self.log_extra_scale[:, None, start:stop].exp())  # ... G N ·
            start = stop
        return columns
