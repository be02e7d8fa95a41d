"""The kernels of ``waves.cpp``, compiled for this machine and called with tensors."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from deeplfm.kernels.threads import on_threads
from deeplfm.kernels.tiles import Moments

_ROWS_PER_THREAD, _SHARES_PER_THREAD = 16, 8  # threads that are done early take further shares
_NAMES = {torch.float32: "float32", torch.float64: "float64"}
_Shape = ctypes.c_int64 * 11


class CompiledKernels:
    """Sums of waves and their gradients, rows shared among PyTorch's number of threads."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def evaluate(
        self, x: Tensor, frequency: Tensor, amplitude: Tensor, phase: Tensor, *bases: Tensor | None
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """See :func:`deeplfm.features.harmonic.harmonic_sum`; nothing is kept."""
        coefficients = [frequency.flatten(1, 2), amplitude, phase]
        shape = (len(frequency), *x.shape[2:4], frequency.shape[-1])  # B S N K
        totals = tuple(
            x.new_zeros(shape) if base is None else base.expand(shape).clone() for base in bases
        )
        rows = x.movedim(1, 3)  # as they are in memory where they come from
        self._run(
            "evaluate", _shape(rows, frequency), [rows, torch.cat(coefficients, dim=1)], totals
        )
        return totals, ()

    def pull_back(
        self,
        x: Tensor,
        frequency: Tensor,
        amplitude: Tensor,
        phase: Tensor,
        grad_real: Tensor,
        grad_imag: Tensor,
        kept: Sequence[Tensor] = (),
    ) -> tuple[Tensor, ...]:
        """Gradients of x, ω, a and α, from those of :meth:`evaluate`."""
        coefficients = [frequency.flatten(1, 2), amplitude, phase]
        rows = x.movedim(1, 3)
        grad_x = torch.empty(rows.shape, dtype=x.dtype)
        by_frequency, by_amplitude, by_phase = self._run(
            "pull_back",
            _shape(rows, frequency),
            [rows, torch.cat(coefficients, dim=1), grad_real, grad_imag],
            [grad_x],
            summed=coefficients,
        )
        by_frequency = by_frequency.view(frequency.shape)
        return grad_x.movedim(3, 1), by_frequency, by_amplitude, by_phase

    def moments(self, given: Moments) -> tuple[Tensor, Tensor]:
        """Φm and Φ²v: B S N U each."""
        totals = given.empty()
        self._run("moments", _shape_of(given), _arguments(given, _stacked(given)), totals)
        return totals

    def pull_moments(self, given: Moments, grad_mean: Tensor, grad_variance: Tensor) -> Moments:
        """Gradients of all arguments of :meth:`moments`."""
        cotangents = [grad_mean.movedim(0, 2), grad_variance.movedim(0, 2)]
        return self._gradients("pull_moments", given, _shape_of(given), cotangents)

    def squares(
        self, given: Moments, target: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor, Moments]:
        """See :meth:`deeplfm.kernels.plain.PlainKernels.squares`."""
        rows = [target.movedim(0, 2), weight.movedim(0, 1)]  # #S N B U and N B U
        grad_target, squares = (
            torch.zeros_like(item, memory_format=torch.contiguous_format) for item in rows
        )
        shape = _shape_of(given, target.shape[1])
        gradients = self._gradients("squares", given, shape, rows, [squares, grad_target])
        return squares.movedim(1, 0), grad_target.movedim(2, 0), gradients

    def _gradients(
        self,
        name: str,
        given: Moments,
        shape: ctypes.Array[ctypes.c_int64],
        rows: Sequence[Tensor],
        by_row: Sequence[Tensor] = (),
    ) -> Moments:
        """Call a kernel that finds gradients of all arguments of :meth:`moments`."""
        coefficients = _stacked(given)
        grad_x, grad_transients = (
            torch.empty(item.shape, dtype=item.dtype) for item in (given.x, given.transients.mT)
        )
        grad_base = torch.zeros_like(given.base, memory_format=torch.contiguous_format)
        found = self._run(
            name,
            shape,
            [*_arguments(given, coefficients), *rows],
            [grad_x, grad_base, grad_transients, *by_row],
            summed=coefficients,
        )
        by_frequency, by_amplitude, by_phase, by_gains, by_mean, by_variance = found
        n_units = given.mean.shape[-1]
        mean, variance = (
            item.unflatten(1, (n_units, 2)).flatten(-2).mT for item in (by_mean, by_variance)
        )
        return Moments(
            x=grad_x,
            frequency=by_frequency.view(given.frequency.shape),
            amplitude=by_amplitude,
            phase=by_phase,
            transients=grad_transients.mT,
            gains=by_gains.view(given.gains.shape),
            base=grad_base,
            mean=mean,
            variance=variance,
        )

    def _run(
        self,
        name: str,
        shape: ctypes.Array[ctypes.c_int64],
        inputs: Sequence[Tensor],
        by_row: Sequence[Tensor],
        summed: Sequence[Tensor] = (),
    ) -> list[Tensor]:
        """Call a kernel on every share of the rows; each thread sums gradients in a tensor of its own."""
        x = inputs[0]
        kept = [item.contiguous() for item in inputs]
        function = getattr(self._library, f"{name}_{_NAMES[x.dtype]}")
        n_rows = x.shape[2]
        n_threads = max(1, min(torch.get_num_threads(), n_rows // _ROWS_PER_THREAD))
        n_shares = 1 if n_threads == 1 else min(_SHARES_PER_THREAD * n_threads, n_rows)
        sizes = [math.prod(item.shape[1:]) for item in summed]
        n_batches = len(summed[0]) if summed else 0

        def work(mine: Iterator[int]) -> Tensor:
            sums = torch.zeros(n_batches, sum(sizes), dtype=torch.float64)
            tensors = [*kept, *by_row, *([sums] if summed else [])]
            pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors]
            for share in mine:
                first, last = (n_rows * part // n_shares for part in (share, share + 1))
                function(shape, ctypes.c_int64(first), ctypes.c_int64(last), *pointers)
            return sums

        total = torch.stack(on_threads(work, n_shares, n_threads)).sum(0).to(x.dtype)
        parts = total.split(sizes, dim=-1)
        return [part.view(item.shape) for part, item in zip(parts, summed, strict=False)]


def _stacked(given: Moments) -> list[Tensor]:
    """All coefficients as rows of columns, in the order of the kernels; weights by unit and part."""
    parts = (2, given.frequency.shape[-1])
    weights = [item.mT.unflatten(-1, parts).flatten(1, 2) for item in (given.mean, given.variance)]
    waves = given.frequency.flatten(1, 2), given.amplitude, given.phase
    return [*waves, given.gains.flatten(1, 2), *weights]


def _arguments(given: Moments, coefficients: Sequence[Tensor]) -> list[Tensor]:
    return [given.x, torch.cat(list(coefficients), dim=1), given.transients.mT, given.base]


def _shape_of(given: Moments, n_target_samples: int = 0) -> ctypes.Array[ctypes.c_int64]:
    n_units, has_base = given.mean.shape[-1], int(given.has_base)
    others = given.gains.shape[2], n_units, has_base, n_target_samples
    return _shape(given.x, given.frequency, *others)


def _shape(
    rows: Tensor, frequency: Tensor, n_transients: int = 0, *others: int
) -> ctypes.Array[ctypes.c_int64]:
    """``Shape`` of the kernels."""
    n_batches, n_terms, n_dimensions, n_columns = frequency.shape
    sizes = n_batches, len(rows), n_terms, *rows.shape[1:3], n_dimensions, n_columns
    return _Shape(*sizes, n_transients, *others)
