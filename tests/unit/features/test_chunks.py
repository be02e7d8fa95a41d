"""Blocks that are forgotten and made again: the values and gradients of calling the function."""

import pytest
import torch

from deeplfm.features.chunks import chunkwise, chunkwise_sum


def normal(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def leaf(*shape, seed=0):
    return normal(*shape, seed=seed).requires_grad_()


def plainly(function, blocks):
    return [function(block) for block in blocks]


def weighted(outputs):
    """One number that hears every entry of every output, each in its own way."""
    items = [item for block in outputs for item in block]
    return sum((item * normal(*item.shape, seed=k)).sum() for k, item in enumerate(items))


def assert_same(function, blocks, leaves):
    """Values, and gradients by ``grad`` and by ``backward``."""
    found, expected = chunkwise(function, blocks), plainly(function, blocks)
    assert [len(block) for block in found] == [len(block) for block in expected]
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    loss, reference = weighted(found), weighted(expected)
    gradients = torch.autograd.grad(reference, leaves, retain_graph=True, allow_unused=True)
    by_grad = torch.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True)
    loss.backward()
    for item, left, right in zip(leaves, by_grad, gradients, strict=True):
        for gradient in (left, item.grad):
            if right is None:
                assert gradient is None or not gradient.any()
            else:
                torch.testing.assert_close(gradient, right, rtol=1e-13, atol=1e-13)


def product(tensors):
    left, right = tensors
    return (torch.sin(left @ right),)


@pytest.mark.parametrize("n_blocks", [1, 2, 5])
def test_blocks_with_a_tensor_of_their_own_and_one_for_all(n_blocks):
    rows, table = leaf(10, 3), leaf(3, 2, seed=1)
    blocks = [[part, table] for part in rows.tensor_split(n_blocks)]
    assert_same(product, blocks, [rows, table])


def test_blocks_of_different_size():
    rows, table = leaf(10, 3), leaf(3, 2, seed=1)
    assert_same(product, [[part, table] for part in rows.split([1, 6, 3])], [rows, table])


@pytest.mark.parametrize("which", [0, 1])
def test_tensors_without_a_gradient(which):
    items = [normal(6, 3), normal(3, 2, seed=1)]
    items[which].requires_grad_()
    blocks = [[part, items[1]] for part in items[0].split(2)]
    assert_same(product, blocks, [items[which]])


def test_tensors_that_no_gradient_needs_at_all():
    outputs = chunkwise(product, [[normal(2, 3, seed=k), normal(3, 2)] for k in range(3)])
    assert not any(item.requires_grad for block in outputs for item in block)


def test_integer_tensors_pass_through():
    rows, index = leaf(4, 3), torch.tensor([2, 0])
    assert_same(lambda t: (t[0][:, t[1]],), [[part, index] for part in rows.split(2)], [rows])


def test_unused_tensors():
    rows, unused = leaf(6, 3), leaf(4, seed=1)
    blocks = [[part, unused] for part in rows.split(2)]
    assert_same(lambda t: (t[0].exp(),), blocks, [rows, unused])


def test_tensors_used_by_some_blocks():
    first, second = leaf(3), leaf(3, seed=1)
    blocks = [[first, second], [second, second], [first, first]]
    assert_same(lambda t: (t[0] * t[1],), blocks, [first, second])


def test_several_outputs_of_different_shape():
    rows, table = leaf(6, 3), leaf(3, 2, seed=1)

    def function(tensors):
        return (*product(tensors), tensors[0].square().sum(-1), tensors[1].sum())

    assert_same(function, [[part, table] for part in rows.split([4, 2])], [rows, table])


def test_outputs_that_nobody_asks_for():
    rows = leaf(6, 3)

    def function(tensors):
        return tensors[0].exp(), tensors[0].square()

    outputs = chunkwise(function, [[part] for part in rows.split(2)])
    (found,) = torch.autograd.grad(outputs[1][0].sum(), rows)
    expected = torch.zeros_like(rows)
    expected[2:4] = rows[2:4].exp()
    torch.testing.assert_close(found, expected)


def test_outputs_that_are_inputs():
    rows, other = leaf(4, 3), leaf(2, 3, seed=1)
    blocks = [[part, other] for part in rows.split(2)]
    assert_same(lambda t: (t[0], t[1], 2 * t[1]), blocks, [rows, other])


def test_one_leaf_twice_in_a_block_and_again_outside():
    item, outside = leaf(3, 3), leaf(3, 3, seed=1)
    blocks = [[item, item], [item, item.exp()], [item * outside, item]]
    gradients = [
        torch.autograd.grad(
            item.square().sum() + weighted(apply(product, blocks)),
            [item, outside],
            retain_graph=True,
        )
        for apply in (chunkwise, plainly)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-13, atol=1e-13)


def test_blocks_of_blocks():
    rows, table = leaf(8, 3), leaf(3, 2, seed=1)

    def outer(apply):
        def function(tensors):
            parts = apply(product, [[part, tensors[1]] for part in tensors[0].split(2)])
            return tuple(item for part in parts for item in part)

        return function

    blocks = [[part, table] for part in rows.split(4)]
    found = weighted(chunkwise(outer(chunkwise), blocks))
    expected = weighted(plainly(outer(plainly), blocks))
    torch.testing.assert_close(
        torch.autograd.grad(found, [rows, table]), torch.autograd.grad(expected, [rows, table])
    )


def test_without_gradients_nothing_is_kept_or_made_again():
    rows, calls = leaf(6, 3), []

    def function(tensors):
        calls.append(len(tensors))
        return (tensors[0].exp(),)

    with torch.no_grad():
        outputs = chunkwise(function, [[part] for part in rows.split(2)])
    assert not any(item.requires_grad for (item,) in outputs)
    torch.testing.assert_close(torch.cat([item for (item,) in outputs]), rows.detach().exp())
    assert calls == [1, 1, 1]


def test_many_blocks_are_made_twice_and_one_block_once():
    rows, calls = leaf(6, 3), []

    def function(tensors):
        calls.append(len(tensors[0]))
        return (tensors[0].exp(),)

    weighted(chunkwise(function, [[part] for part in rows.split([1, 2, 3])])).backward()
    assert calls == [1, 2, 3, 1, 2, 3]
    calls.clear()
    weighted(chunkwise(function, [[rows]])).backward()
    assert calls == [6]


def test_only_the_arguments_are_kept():
    """What the function makes on its way is larger than all that is saved."""
    rows, saved = leaf(6, 3), []

    def function(tensors):
        return (tensors[0].repeat(1, 100).exp().sin().sum(-1),)

    with torch.autograd.graph.saved_tensors_hooks(
        lambda item: saved.append(item.numel()) or item, lambda item: item
    ):
        outputs = chunkwise(function, [[part] for part in rows.split(2)])
    assert sum(saved) == rows.numel()
    weighted(outputs).backward()
    assert rows.grad.isfinite().all()


def test_gradients_may_be_asked_for_twice_where_the_graph_is_kept():
    rows, table = leaf(6, 3), leaf(3, 2, seed=1)
    loss = weighted(chunkwise(product, [[part, table] for part in rows.split(2)]))
    first = torch.autograd.grad(loss, [rows, table], retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(loss, [rows, table]), first, rtol=0, atol=0)


def test_numerical_gradients():
    rows, table = leaf(4, 2), leaf(2, 2, seed=1)

    def function(rows, table):
        parts = chunkwise(product, [[part, table] for part in rows.split([1, 3])])
        return torch.cat([part for (part,) in parts])

    assert torch.autograd.gradcheck(function, (rows, table))


def test_blocks_some_of_which_need_no_gradient():
    first, second = leaf(3), normal(3, seed=1)
    assert_same(lambda t: (t[0].square(),), [[first], [second]], [first])


def test_outputs_some_of_which_need_no_gradient():
    rows, known = leaf(4, 3), normal(3, seed=1)
    blocks = [[part, known] for part in rows.split(2)]
    assert_same(lambda t: (t[0].exp(), t[1].exp()), blocks, [rows])


def test_second_derivatives_are_refused_rather_than_wrong():
    rows = leaf(4, 3)
    outputs = chunkwise(lambda t: (t[0] ** 3,), [[part] for part in rows.split(2)])
    loss = sum(part.square().sum() for (part,) in outputs)
    (gradient,) = torch.autograd.grad(loss, rows, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        (rows * gradient).sum().backward()


# --- sums -----------------------------------------------------------------------------------------


def length(tensors):
    return (product(tensors)[0].square().sum(),)


@pytest.mark.parametrize("sizes", [[10], [5, 5], [1, 6, 3]], ids=str)
@pytest.mark.parametrize("learned", [(0,), (1,), (0, 1)], ids=str)
def test_sum_has_the_value_and_gradients_of_calling_the_function(sizes, learned):
    items = [normal(10, 3), normal(3, 2, seed=1), normal(4)]
    leaves = [items[i].requires_grad_() for i in learned]
    blocks = [[part, *items[1:]] for part in items[0].split(sizes)]
    (found,) = chunkwise_sum(lambda tensors: length(tensors[:2]), blocks)
    (expected,) = length(items[:2])
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=0)
    torch.testing.assert_close(
        torch.autograd.grad(3 * found, leaves),
        torch.autograd.grad(3 * expected, leaves),
        rtol=1e-12,
        atol=1e-12,
    )


def test_sum_of_which_no_gradient_is_needed_has_none():
    rows, table = normal(6, 3), normal(3, 2, seed=1)
    (found,) = chunkwise_sum(length, [[part, table] for part in rows.split(2)])
    assert not found.requires_grad
    torch.testing.assert_close(found, length([rows, table])[0])


def test_sum_makes_every_block_once():
    rows, calls = leaf(6, 3), []

    def function(tensors):
        calls.append(len(tensors[0]))
        return (tensors[0].exp().sum(),)

    chunkwise_sum(function, [[part] for part in rows.split([1, 2, 3])])[0].backward()
    assert calls == [1, 2, 3]
    torch.testing.assert_close(rows.grad, rows.detach().exp())


def test_sums_of_any_shape_without_gradients():
    rows = leaf(6, 3)
    with torch.no_grad():
        found = chunkwise_sum(
            lambda t: (t[0].mT @ t[0], t[0].sum(0)), [[part] for part in rows.split(4)]
        )
    expected = rows.detach()
    torch.testing.assert_close(found, (expected.mT @ expected, expected.sum(0)))


def test_gradients_of_a_sum_may_be_asked_for_twice_but_not_differentiated():
    rows, table = leaf(6, 3), leaf(3, 2, seed=1)
    (loss,) = chunkwise_sum(length, [[part, table] for part in rows.split(2)])
    first = torch.autograd.grad(loss, [rows, table], retain_graph=True)
    second = torch.autograd.grad(loss.square(), [rows, table], create_graph=True)
    torch.testing.assert_close(second, tuple(2 * loss * item for item in first))
    with pytest.raises(RuntimeError, match="differentiate twice"):
        second[0].sum().backward()
