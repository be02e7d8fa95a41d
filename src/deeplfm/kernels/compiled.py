"""The kernels of ``waves.cpp``, compiled for this machine and called with tensors."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from deeplfm.kernels.arguments import Moments

_ROWS_PER_THREAD = 16
_LANES = 8
_NAMES = {torch.float32: "float32", torch.float64: "float64"}


class CompiledKernels:
    """Sums of waves and their gradients, rows shared among PyTorch's number of threads.

    Args:
        library: what ``waves.cpp`` was compiled to.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._pool: ThreadPoolExecutor | None = None

    def evaluate(
        self, x: Tensor, frequency: Tensor, amplitude: Tensor, phase: Tensor, *bases: Tensor | None
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """See :func:`deeplfm.features.waves.wave_sum`; nothing is kept."""
        n_columns = frequency.shape[-1]
        tables = [_padded(item) for item in (frequency, amplitude, phase)]
        shape = (len(frequency), *x.shape[2:4])  # B S N
        totals = [x.new_zeros(*shape, tables[0].shape[-1]) for _ in bases]
        for total, base in zip(totals, bases, strict=True):
            if base is not None:
                total[..., :n_columns] = base
        self._run("evaluate", [x, *tables], totals)
        return tuple(total[..., :n_columns] for total in totals), ()

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
        n_columns = frequency.shape[-1]
        frequency, amplitude, phase, *gradients = (
            _padded(item) for item in (frequency, amplitude, phase, grad_real, grad_imag)
        )
        grad_x = x.new_empty(len(frequency), *x.shape[1:])
        sums = self._run(
            "pull_back",
            [x, frequency, amplitude, phase, *gradients],
            [grad_x],
            summed=[amplitude, phase, frequency],
        )
        by_amplitude, by_phase, by_frequency = (item[..., :n_columns] for item in sums)
        return grad_x.sum_to_size(x.shape), by_frequency, by_amplitude, by_phase

    def moments(self, given: Moments) -> tuple[Tensor, Tensor]:
        """Φm and Φ²v: B S N U each."""
        totals = given.empty()
        self._run("moments", _padded_arguments(given), totals)
        return totals

    def pull_moments(self, given: Moments, grad_mean: Tensor, grad_variance: Tensor) -> Moments:
        """Gradients of all arguments of :meth:`moments`."""
        padded = _padded_arguments(given)
        grad_x = given.x.new_empty(len(given.frequency), *given.x.shape[1:])
        grad_rows = torch.empty(padded.transients.shape, dtype=given.x.dtype)
        grad_base = torch.zeros_like(padded.base)
        tables = padded.amplitude, padded.phase, padded.frequency, padded.gains
        *sums, by_mean, by_variance = self._run(
            "pull_moments",
            [*padded, grad_mean, grad_variance],
            [grad_x, grad_rows, grad_base],
            summed=[*tables, padded.mean, padded.variance],
        )
        n_columns = given.frequency.shape[-1]
        by_amplitude, by_phase, by_frequency, by_gains = (item[..., :n_columns] for item in sums)
        mean, variance = (
            item.unflatten(-1, (2, -1))[..., :n_columns].flatten(-2).mT
            for item in (by_mean, by_variance)
        )
        return Moments(
            grad_x.sum_to_size(given.x.shape),
            by_frequency,
            by_amplitude,
            by_phase,
            grad_rows,
            by_gains,
            grad_base[..., :n_columns],
            mean,
            variance,
        )

    def _run(
        self,
        name: str,
        inputs: Sequence[Tensor],
        by_row: Sequence[Tensor],
        summed: Sequence[Tensor] = (),
    ) -> list[Tensor]:
        """Call a kernel on every share of the rows; each thread sums tables into a tensor of its own."""
        x, frequency = inputs[:2]
        shape = _shape_of(inputs)
        kept = [item.contiguous() for item in inputs]
        function = getattr(self._library, f"{name}_{_NAMES[x.dtype]}")
        n_rows = x.shape[3]
        n_threads = max(1, min(torch.get_num_threads(), n_rows // _ROWS_PER_THREAD))
        n_shares = 1 if n_threads == 1 else min(8 * n_threads, n_rows)
        sizes = [item[0].numel() for item in summed]
        sums = torch.zeros(n_threads, len(frequency), sum(sizes), dtype=torch.float64)
        shares = itertools.count()

        def work(thread: int) -> None:
            """Take shares until none is left: a thread that started late does fewer."""
            tensors = [*kept, *by_row, *([sums[thread]] if sizes else [])]
            pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors]
            while (share := next(shares)) < n_shares:
                first, last = (n_rows * part // n_shares for part in (share, share + 1))
                function(shape, ctypes.c_int64(first), ctypes.c_int64(last), *pointers)

        others = [self._threads(n_threads).submit(work, i) for i in range(1, n_threads)]
        work(0)
        for other in others:
            other.result()
        parts = sums.sum(0).to(x.dtype).split(sizes, dim=-1)
        return [part.view(item.shape) for part, item in zip(parts, summed, strict=True)]

    def _threads(self, n_threads: int) -> ThreadPoolExecutor:
        if self._pool is None or self._pool._max_workers < n_threads - 1:
            self._pool = ThreadPoolExecutor(n_threads - 1, thread_name_prefix="deeplfm")
        return self._pool


def _padded(table: Tensor) -> Tensor:
    """A table whose columns fill whole registers: what is left over costs as much as all the rest."""
    missing = -table.shape[-1] % _LANES
    return torch.nn.functional.pad(table, (0, missing)) if missing else table


def _padded_arguments(given: Moments) -> Moments:
    """Arguments of the moments as the kernels want them: padded, weights by unit and part."""
    parts = (2, given.frequency.shape[-1])
    return given._replace(
        frequency=_padded(given.frequency),
        amplitude=_padded(given.amplitude),
        phase=_padded(given.phase),
        gains=_padded(given.gains),
        base=_padded(given.base),
        mean=_padded(given.mean.mT.unflatten(-1, parts)).flatten(-2),
        variance=_padded(given.variance.mT.unflatten(-1, parts)).flatten(-2),
    )


def _shape_of(inputs: Sequence[Tensor]) -> ctypes.Array[ctypes.c_int64]:
    """``Shape`` of the kernels: sizes of what they are given."""
    x, frequency = inputs[:2]
    sizes = [len(frequency), len(x), *x.shape[1:], frequency.shape[-1], 0, 0, 0]
    if len(inputs) >= len(Moments._fields):
        given = Moments(*inputs[: len(Moments._fields)])
        sizes[-3:] = given.transients.shape[-1], given.mean.shape[-2], int(given.has_base)
    return (ctypes.c_int64 * len(sizes))(*sizes)
