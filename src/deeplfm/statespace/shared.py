"""A fitted state-space model of several outputs that share forces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from deeplfm.statespace.config import StateSpaceConfig
from deeplfm.statespace.forces import N_STATES, Forces
from deeplfm.statespace.model import StateSpaceLFM, solving
from deeplfm.statespace.origins import Locate
from deeplfm.statespace.parameters import Layout
from deeplfm.statespace.shared_fit import SharedFit, fit_forces
from deeplfm.statespace.solved import SHARED, Solved

_MOST_STATES = 96  # of all outputs together
_MOST_VALUES = 15_000_000  # times × states²: memory


class SharedForcesLFM(StateSpaceLFM):
    r"""Latent force model of several outputs, y_d = own terms + Σ_q a_dqᵀ u_q + noise.

    The forces u_q are common to all outputs, and each output responds to them in its own way
    (:class:`~deeplfm.statespace.forces.Forces`). So a gap of one output is filled by its own past and
    future, and by the other outputs inside the gap. Where the evidence finds no shared force, the outputs
    stay independent.

    Args:
        config: what the model of each output is made of.
        n_rows: rows that it keeps; :meth:`set_train_data` fills them.
        n_errors: 0: measurement errors of rows are refused.
        n_forces: the most forces.
    """

    n_shared: Tensor
    force_rate: Tensor
    force_frequency: Tensor
    loadings: Tensor

    def __init__(
        self,
        config: Sequence[StateSpaceConfig],
        n_rows: int = 0,
        n_errors: int = 0,
        n_forces: int = 1,
    ) -> None:
        super().__init__(config, n_rows, n_errors)
        self.n_forces = n_forces
        double, n_draws = torch.float64, config[0].n_draws
        self.register_buffer("n_shared", torch.zeros((), dtype=torch.int64))
        self.register_buffer("force_rate", torch.ones(n_draws, n_forces, dtype=double))
        self.register_buffer("force_frequency", torch.zeros(n_forces, dtype=double))
        shape = (n_draws, len(config), n_forces, N_STATES)
        self.register_buffer("loadings", torch.zeros(shape, dtype=double))

    @property
    def constructor_arguments(self) -> dict[str, Any]:
        """Arguments that make the same model, before its tensors are loaded."""
        return super().constructor_arguments | {"n_forces": self.n_forces}

    @torch.no_grad()
    def fit(
        self,
        seed: int = 0,
        near: StateSpaceLFM | None = None,
        locate: Locate | None = None,
        by_prior: bool = False,
    ) -> None:
        """Fit the parameters of each output, then the forces that they share."""
        super().fit(seed, near, locate, by_prior)
        self.n_shared.zero_()
        if by_prior:
            return
        n_evolving = self._most_evolving()
        known = [self._known(d) for d in range(len(self.config))]
        if n_evolving is None or any(len(item.y) == 0 for item in known):
            return
        # draws are around the mode
        modes = [self._draws_of(d).mean(0) for d in range(len(self.config))]
        total = float(self.log_evidence.sum())
        found = fit_forces(self.config, known, modes, total, [0.0] * self.n_forces, seed)
        if found is not None:
            self._set_forces(found, n_evolving)

    def _most_evolving(self) -> int | None:
        """Harmonics of each output that may evolve beside the others; None where memory is too small."""
        n_outputs, n_times = len(self.config), len(self.x)
        if n_outputs < 2:
            return None
        room = min(_MOST_STATES, int(np.sqrt(_MOST_VALUES / max(n_times, 1))))
        left = room - 2 * n_outputs - N_STATES * self.n_forces
        return max(left // (2 * n_outputs), 0) if left >= 0 or n_times < _MOST_STATES else None

    def _set_forces(self, found: SharedFit, n_evolving: int) -> None:
        """Keep fitted forces, and the parameters of each output beside them."""
        config = []
        for d, item in enumerate(self.config):
            seasons = tuple(
                replace(season, n_evolving=min(season.n_evolving, n_evolving))
                for season in item.seasons
                if found.has_seasons
            )
            config.append(replace(item, seasons=seasons))
            before, after = Layout(item).names, Layout(config[d]).names
            values = dict(zip(before, self._draws_of(d).T, strict=True))
            fitted = np.stack([found.layout.own(draw)[d] for draw in found.draws], axis=1)
            values |= dict(zip(Layout(found.layout.config[d]).names, fitted, strict=True))
            kept = np.stack([values[name] for name in after], axis=1)
            self.draws[d, :, : len(after)] = torch.as_tensor(kept)
        self.config = tuple(config)
        forces = [found.layout.forces(draw) for draw in found.draws]
        n_shared = len(found.layout.frequency)
        self.n_shared.fill_(n_shared)
        self.forecast_scale.fill_(1.0)  # that of each output alone
        self.force_frequency[:n_shared] = torch.as_tensor(forces[0].frequency)
        for s, drawn in enumerate(forces):
            self.force_rate[s, :n_shared] = torch.as_tensor(drawn.rate)
            self.loadings[s, :, :n_shared] = torch.as_tensor(drawn.loadings)

    @property
    def components(self) -> list[str]:
        """Names of the components."""
        return [*super().components, *([SHARED] if self.n_shared else [])]

    def _factors(self) -> Float[Tensor, "#S D"]:
        """No origins, with forces that are shared."""
        return self.forecast_scale[None] if self.n_shared else super()._factors()

    def _solved(
        self, x: Tensor, component: str | None = None
    ) -> Iterator[tuple[int, slice, Solved]]:
        """All outputs at some rows, solved together, for each draw of the parameters."""
        n_shared, n_outputs = int(self.n_shared), len(self.config)
        if not n_shared:
            yield from super()._solved(x, component)
            return
        known = [self._known(d) for d in range(n_outputs)]
        parameters = [self._draws_of(d) for d in range(n_outputs)]
        for s in range(self.draws.shape[1]):
            forces = Forces(
                self.force_rate[s, :n_shared].cpu().numpy(),
                self.force_frequency[:n_shared].cpu().numpy(),
                self.loadings[s, :, :n_shared].cpu().numpy(),
            )
            own, rows = [item[s] for item in parameters], x.double().cpu().numpy()
            with solving():
                solved = Solved.of(self.config, known, own, rows, forces)
            yield s, slice(n_outputs), solved
