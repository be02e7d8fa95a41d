r"""Functions of many blocks that are forgotten and made again: memory for time, in one place."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

BlockFunction = Callable[[Sequence[Tensor]], tuple[Tensor, ...]]


def blockwise(
    function: BlockFunction, blocks: Sequence[Sequence[Tensor]]
) -> list[tuple[Tensor, ...]]:
    """Apply a function to every block, keeping nothing of its inside for the backward pass.

    The backward pass runs the function again, one block at a time, so that the memory of a step is
    that of a block. A single block is worth keeping, and is.

    Args:
        function: of the tensors of a block and of nothing else that has a gradient.
        blocks: tensors of each block; a tensor that several blocks share is given to each.
    """
    if len(blocks) == 1:
        return [function(blocks[0])]
    if not torch.is_grad_enabled():
        return [function(block) for block in blocks]
    index, tensors = _index(blocks)
    outputs = _Blockwise.apply(function, index, *tensors)
    width = len(outputs) // len(blocks)
    return [outputs[i : i + width] for i in range(0, len(outputs), width)]


def blockwise_sum(
    function: BlockFunction, blocks: Sequence[Sequence[Tensor]]
) -> tuple[Tensor, ...]:
    """The sum of a function over all blocks; for one with a gradient, a single number.

    The gradient of a number is known up to a factor as soon as the number is. So it is taken along
    with each block, which is made once and forgotten.

    Args:
        function: of the tensors of a block and of nothing else that has a gradient.
        blocks: tensors of each block; a tensor that several blocks share is given to each.
    """
    if len(blocks) == 1:
        return function(blocks[0])
    if torch.is_grad_enabled():
        index, tensors = _index(blocks)
        return (_BlockwiseSum.apply(function, index, *tensors),)
    totals = list(function(blocks[0]))
    for block in blocks[1:]:
        for i, item in enumerate(function(block)):
            totals[i] += item
    return tuple(totals)


class _Blockwise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, function, index, *tensors):  # type: ignore[no-untyped-def]
        ctx.function, ctx.index = function, index
        ctx.save_for_backward(*tensors)
        return tuple(output for block in index for output in function([tensors[i] for i in block]))

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients):  # type: ignore[no-untyped-def]
        totals = _Totals(ctx.saved_tensors, ctx.needs_input_grad[2:])
        width = len(gradients) // len(ctx.index)
        for number, block in enumerate(ctx.index):
            totals.add(ctx.function, block, gradients[number * width : (number + 1) * width])
        return None, None, *totals.gradients


class _BlockwiseSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, function, index, *tensors):  # type: ignore[no-untyped-def]
        totals = _Totals(tensors, ctx.needs_input_grad[2:])
        value = sum(totals.add(function, block, (None,))[0].detach() for block in index)
        ctx.save_for_backward(*totals.gradients)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx, factor):  # type: ignore[no-untyped-def]
        gradients = (None if item is None else factor * item for item in ctx.saved_tensors)
        return None, None, *gradients


class _Totals:
    """Gradients of tensors, added up over blocks.

    All are there from the beginning: what is left behind between one block and the next would keep the
    memory of blocks from being used again.

    Args:
        tensors: those of all blocks.
        needed: which of them want a gradient.
    """

    def __init__(self, tensors: Sequence[Tensor], needed: Sequence[bool]) -> None:
        self.tensors, self.needed = tensors, needed
        self.gradients = [
            torch.zeros_like(tensor) if is_needed else None
            for tensor, is_needed in zip(tensors, needed, strict=True)
        ]

    def add(
        self, function: BlockFunction, block: Sequence[int], given: Sequence[Tensor | None]
    ) -> tuple[Tensor, ...]:
        """Make a block anew, add what gradients of its outputs say, and return the outputs."""
        leaves = [self.tensors[i].detach().requires_grad_(self.needed[i]) for i in block]
        with torch.enable_grad():
            outputs = function(leaves)
        pairs = [(o, g) for o, g in zip(outputs, given, strict=True) if o.requires_grad]
        wanted = [(i, leaf) for i, leaf in zip(block, leaves, strict=True) if self.needed[i]]
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


def _index(blocks: Sequence[Sequence[Tensor]]) -> tuple[list[list[int]], list[Tensor]]:
    """Tensors of all blocks, each once, and which of them are those of each block."""
    unique = {id(tensor): tensor for block in blocks for tensor in block}
    place = {key: index for index, key in enumerate(unique)}
    return [[place[id(tensor)] for tensor in block] for block in blocks], list(unique.values())
