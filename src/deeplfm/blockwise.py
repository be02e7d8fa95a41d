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
    unique = {id(tensor): tensor for block in blocks for tensor in block}
    place = {key: index for index, key in enumerate(unique)}
    index = [[place[id(tensor)] for tensor in block] for block in blocks]
    outputs = _Blockwise.apply(function, index, *unique.values())
    width = len(outputs) // len(blocks)
    return [outputs[i : i + width] for i in range(0, len(outputs), width)]


class _Blockwise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, function, index, *tensors):  # type: ignore[no-untyped-def]
        ctx.function, ctx.index = function, index
        ctx.save_for_backward(*tensors)
        return tuple(output for block in index for output in function([tensors[i] for i in block]))

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients):  # type: ignore[no-untyped-def]
        tensors, needed = ctx.saved_tensors, ctx.needs_input_grad[2:]
        totals: list[Tensor | None] = [None] * len(tensors)
        width = len(gradients) // len(ctx.index)
        for number, block in enumerate(ctx.index):
            leaves = [tensors[i].detach().requires_grad_(needed[i]) for i in block]
            with torch.enable_grad():
                outputs = ctx.function(leaves)
            given = gradients[number * width : (number + 1) * width]
            pairs = [(o, g) for o, g in zip(outputs, given, strict=True) if o.requires_grad]
            wanted = [(i, leaf) for i, leaf in zip(block, leaves, strict=True) if needed[i]]
            if not pairs:
                continue
            parts = torch.autograd.grad(
                [output for output, _ in pairs],
                [leaf for _, leaf in wanted],
                [gradient for _, gradient in pairs],
                allow_unused=True,
            )
            for (i, _), part in zip(wanted, parts, strict=True):
                total = totals[i]
                if part is not None:
                    totals[i] = part if total is None else total + part
        return None, None, *totals
