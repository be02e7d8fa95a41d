r"""Functions of many chunks that are made again in the backward pass: memory for time, in one place."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

ChunkFunction = Callable[[Sequence[Tensor]], tuple[Tensor, ...]]


def chunkwise(
    function: ChunkFunction, chunks: Sequence[Sequence[Tensor]]
) -> list[tuple[Tensor, ...]]:
    """Apply a function to every chunk, keeping nothing of its inside for the backward pass.

    The backward pass runs the function again, one chunk at a time, so that the memory of a step is
    that of a chunk. A single chunk is kept.
    """
    if len(chunks) == 1:
        return [function(chunks[0])]
    if not torch.is_grad_enabled():
        return [function(chunk) for chunk in chunks]
    index, tensors = _index(chunks)
    outputs = _Chunkwise.apply(function, index, *tensors)
    width = len(outputs) // len(chunks)
    return [outputs[i : i + width] for i in range(0, len(outputs), width)]


def chunkwise_sum(
    function: ChunkFunction, chunks: Sequence[Sequence[Tensor]]
) -> tuple[Tensor, ...]:
    """The sum of a function over all chunks; for one with a gradient, a single number.

    The gradient of a number is known up to a factor as soon as the number is. So it is computed with
    each chunk, which is made once.
    """
    if len(chunks) == 1:
        return function(chunks[0])
    if torch.is_grad_enabled():
        index, tensors = _index(chunks)
        return (_ChunkwiseSum.apply(function, index, *tensors),)
    totals = list(function(chunks[0]))
    for chunk in chunks[1:]:
        for i, item in enumerate(function(chunk)):
            totals[i] += item
    return tuple(totals)


class _Chunkwise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, function, index, *tensors):  # type: ignore[no-untyped-def]
        ctx.function, ctx.index = function, index
        ctx.save_for_backward(*tensors)
        return tuple(output for chunk in index for output in function([tensors[i] for i in chunk]))

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients):  # type: ignore[no-untyped-def]
        totals = _Totals(ctx.saved_tensors, ctx.needs_input_grad[2:])
        width = len(gradients) // len(ctx.index)
        for number, chunk in enumerate(ctx.index):
            totals.add(ctx.function, chunk, gradients[number * width : (number + 1) * width])
        return None, None, *totals.gradients


class _ChunkwiseSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, function, index, *tensors):  # type: ignore[no-untyped-def]
        totals = _Totals(tensors, ctx.needs_input_grad[2:])
        value = sum(totals.add(function, chunk, (None,))[0].detach() for chunk in index)
        ctx.save_for_backward(*totals.gradients)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx, factor):  # type: ignore[no-untyped-def]
        gradients = (None if item is None else factor * item for item in ctx.saved_tensors)
        return None, None, *gradients


class _Totals:
    """Gradients of tensors, added up over chunks.

    All are allocated first: tensors kept between one chunk and the next would keep the memory of chunks
    from being used again.
    """

    def __init__(self, tensors: Sequence[Tensor], needed: Sequence[bool]) -> None:
        self.tensors, self.needed = tensors, needed
        self.gradients = [
            torch.zeros_like(tensor) if is_needed else None
            for tensor, is_needed in zip(tensors, needed, strict=True)
        ]

    def add(
        self, function: ChunkFunction, chunk: Sequence[int], given: Sequence[Tensor | None]
    ) -> tuple[Tensor, ...]:
        """Make a chunk again, add the gradients of its tensors, and return the outputs."""
        leaves = [self.tensors[i].detach().requires_grad_(self.needed[i]) for i in chunk]
        with torch.enable_grad():
            outputs = function(leaves)
        pairs = [(o, g) for o, g in zip(outputs, given, strict=True) if o.requires_grad]
        wanted = [(i, leaf) for i, leaf in zip(chunk, leaves, strict=True) if self.needed[i]]
        if pairs:
            parts = torch.autograd.grad(
                [output for output, _ in pairs],
                [leaf for _, leaf in wanted],
                [gradient for _, gradient in pairs],
                allow_unused=True,
            )
            for (i, _), part in zip(wanted, parts, strict=True):
                total = self.gradients[i]
                if total is not None and part is not None:
                    total += part
        return outputs


def _index(chunks: Sequence[Sequence[Tensor]]) -> tuple[list[list[int]], list[Tensor]]:
    """Tensors of all chunks, each once, and which of them are those of each chunk."""
    unique = {id(tensor): tensor for chunk in chunks for tensor in chunk}
    place = {key: index for index, key in enumerate(unique)}
    return [[place[id(tensor)] for tensor in chunk] for chunk in chunks], list(unique.values())
