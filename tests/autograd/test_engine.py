"""The engine: order, accumulation, freeing, errors, hooks, modes."""

import gc
import sys
import threading
import weakref
from contextlib import contextmanager

import numpy as np
import pytest
from numeric import check_gradients

import autograd as ag
from autograd import Op, Tensor, apply
from autograd.engine import Watcher, run_backward, starting_gradient, watch


def leaf(*values, dtype=np.float64):
    return Tensor(np.array(values, dtype=dtype), requires_grad=True)


def random_leaf(*shape, seed=0):
    return Tensor(np.random.default_rng(seed).standard_normal(shape), requires_grad=True)


@contextmanager
def without_garbage_collector():
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


# ---- Values and intermediates used more than once ----


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * x,
        lambda x: x + x,
        lambda x: x - x * 0.5,
        lambda x: x * x * x + x,
        lambda x: ag.matmul(x, x.T),
        lambda x: ag.concatenate([x, x, x * x]),
        lambda x: ag.where(np.array([True, False, True]), x, x * x),
    ],
)
def test_a_value_used_twice_gets_both_gradients(function):
    check_gradients(function, np.random.default_rng(0).standard_normal((3, 3)))


def test_diamonds():
    def diamonds(x):
        for _ in range(4):
            middle = ag.tanh(x)
            x = middle * 0.5 + middle * middle + ag.exp(middle)
        return x

    check_gradients(diamonds, np.random.default_rng(0).standard_normal((2, 3)))


def test_many_diamonds_take_linear_time():
    """Two to the power of 200 paths, each node visited once."""
    x = leaf(1.0)
    y = x
    for _ in range(200):
        y = y * 0.5 + y * 0.5
    y.backward()
    assert x.grad.item() == 1.0


def test_an_old_value_used_again_late():
    check_gradients(lambda x, w: ag.tanh(ag.tanh(x * w) * w) * w + x, [0.3, -0.2], [1.5, 0.5])


def test_gradients_of_several_leaves_at_different_depths():
    check_gradients(lambda a, b, c: ag.exp(a * b) * c + b, [0.1, 0.2], [[0.3], [0.4]], 0.5)


# ---- Long chains ----


def test_chain_of_10000_ops_runs_backward_and_is_freed():
    assert sys.getrecursionlimit() < 10_000
    with without_garbage_collector():
        x = leaf(1.0)
        y = x
        for _ in range(10_000):
            y = y + 0.5
        first = weakref.ref(y.op)
        y.backward()
        assert x.grad.item() == 1.0
        del y
        assert first() is None


def test_chain_of_10000_ops_is_freed_without_backward():
    with without_garbage_collector():
        x = leaf(1.0)
        y = x
        for _ in range(10_000):
            y = y * 1.0
        refs = [weakref.ref(y.op), weakref.ref(y)]
        del y
        assert [r() for r in refs] == [None, None]


# ---- Freeing by reference counting alone ----


def ops_behind(tensor):
    found, stack = [], [tensor.op]
    while stack:
        op = stack.pop()
        if isinstance(op, Op) and op not in found:
            found.append(op)
            stack.extend(edge[0] for edge in op.edges if edge is not None)
    return found


def build_graph():
    x, w = random_leaf(3, 4), random_leaf(4, 4, seed=1)
    a = ag.relu(ag.linear(x, w))
    b, c = ag.split(ag.softmax(a) + a * a, 2, axis=1)
    d = ag.concatenate([b, c, b * c], axis=1)[:, [0, 0, 2]]
    y = ag.logsumexp(ag.max(d, axis=0)) + ag.var(d) + ag.einsum("ij,ij->", d, d) + ag.mean(ag.gelu(d))
    return (x, w), (a, b, c, d), y


@pytest.mark.parametrize("run", [False, True], ids=["unused", "after backward"])
def test_graph_dies_with_its_last_tensor(run):
    with without_garbage_collector():
        leaves, middle, y = build_graph()
        ops = [weakref.ref(op) for op in ops_behind(y)]
        assert len(ops) > 10
        tensors = [weakref.ref(t) for t in (*middle, y)]
        arrays = [weakref.ref(t.data) for t in (*middle, y) if t.data.base is None]
        if run:
            y.backward()
        del middle, y
        assert all(r() is None for r in ops)
        assert all(r() is None for r in tensors)
        assert all(r() is None for r in arrays)
        assert all(t.op is None for t in leaves)


def test_intermediate_tensors_are_not_kept_alive_by_the_graph():
    with without_garbage_collector():
        x = leaf(1.0, 2.0)
        middle = x + 1.0
        array = weakref.ref(middle.data)
        tensor = weakref.ref(middle)
        y = middle + 1.0  # Add saves nothing
        del middle
        assert tensor() is None
        assert array() is None
        y.backward(np.ones(2))
        assert x.grad.tolist() == [1, 1]


def test_hooks_and_retain_grad_make_no_cycle():
    with without_garbage_collector():
        x = leaf(1.0)
        middle = x * 2
        middle.retain_grad()
        middle.register_hook(lambda g: None)
        y = middle * 3
        refs = [weakref.ref(middle), weakref.ref(middle.op), weakref.ref(y.op)]
        y.backward()
        del middle, y
        assert [r() for r in refs] == [None] * 3


def test_backward_frees_saved_arrays_while_the_result_lives():
    x = leaf(1.0, 2.0)
    with without_garbage_collector():
        middle = ag.exp(x)
        saved = weakref.ref(middle.data)
        y = (middle * middle).sum()
        del middle
        assert saved() is not None
        y.backward()
        assert saved() is None


def test_errors_leave_no_graph_behind():
    with without_garbage_collector():
        x = leaf(1.0)
        y = ag.exp(x)
        op = weakref.ref(y.op)
        with pytest.raises(ValueError, match="shape"):
            y.backward(np.ones(3))
        del y
        assert op() is None


# ---- Twice ----


def test_second_backward_is_an_error_that_names_the_op():
    x = leaf(2.0)
    y = x * x
    y.backward()
    with pytest.raises(
        RuntimeError, match=r"second time to Multiply \(made at .*test_engine\.py:\d+\).*retain_graph=True"
    ):
        y.backward()
    assert x.grad.item() == 4.0


def test_second_backward_through_a_shared_part_is_an_error():
    x = leaf(2.0)
    shared = ag.exp(x)
    one, two = shared * 2, shared * 3
    one.backward()
    with pytest.raises(RuntimeError, match="second time to Exp"):
        two.backward()


def test_retain_graph_allows_a_second_backward():
    x = leaf(2.0)
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 8.0


def test_gradients_of_two_backward_passes_add_up():
    x = leaf(1.0, 2.0)
    first = x.grad
    assert first is None
    (x * 3).sum().backward()
    grad = x.grad
    (x * x).sum().backward()
    np.testing.assert_array_equal(x.grad.data, [5.0, 7.0])
    assert x.grad is grad  # added in place
    x.zero_grad()
    assert x.grad is None


# ---- Changes in place ----


def test_in_place_change_of_a_saved_array_is_an_error():
    x, w = leaf(1.0, 2.0), Tensor(np.array([3.0, 4.0]))
    y = x * w
    w += 1.0
    with pytest.raises(RuntimeError, match=r"Multiply \(made at .*test_engine\.py:\d+\).*changed in place 1 time"):
        y.sum().backward()


@pytest.mark.parametrize(
    "change",
    [
        lambda w: w.__setitem__(0, 9.0),
        lambda w: w.reshape(2, 1).__setitem__(0, 9.0),
        lambda w: w[1:].__iadd__(1.0),
        lambda w: w.T.__imul__(2.0),
        lambda w: w.detach().__isub__(1.0),
        lambda w: ag.split(w, 2)[1].__itruediv__(2.0),
        lambda w: ag.expand_dims(w.detach()[::-1], 0).__setitem__((0, 1), 9.0),
        lambda w: ag.astype(w, np.float64).__iadd__(1.0),
    ],
    ids=["itself", "reshape", "slice", "transpose", "detach", "split", "view of a view", "astype"],
)
def test_in_place_change_through_a_view_is_noticed(change):
    x, w = leaf(1.0, 2.0), Tensor(np.array([3.0, 4.0]))
    y = x * w
    before = w.data.copy()
    with ag.no_grad():
        change(w)
    assert not np.array_equal(before, w.data)
    with pytest.raises(RuntimeError, match="changed in place"):
        y.sum().backward()


def test_in_place_change_of_a_saved_output_is_noticed():
    x = leaf(1.0, 2.0)
    y = ag.exp(x)
    with ag.no_grad():
        y[0] = 5.0
    with pytest.raises(RuntimeError, match=r"Exp .*changed in place"):
        y.sum().backward()


def test_in_place_change_through_an_output_that_is_a_view_of_a_leaf():
    x = leaf(1.0, 2.0)
    y = x * x
    with ag.no_grad():
        x.reshape(2, 1)[0] = 5.0
    with pytest.raises(RuntimeError, match="changed in place"):
        y.sum().backward()


def test_in_place_change_of_an_index_is_noticed():
    x, index = leaf(1.0, 2.0, 3.0), Tensor(np.array([0, 2]))
    y = x[index] * 1.0
    index[0] = 1
    with pytest.raises(RuntimeError, match=r"GetItem .*changed in place"):
        y.sum().backward()


def test_in_place_change_of_what_nobody_saved_is_fine():
    x, w = leaf(1.0, 2.0), Tensor(np.array([3.0, 4.0]))
    y = x + w
    w += 1.0
    y.sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_in_place_change_of_a_copy_is_fine():
    x, w = leaf(1.0, 2.0), Tensor(np.array([3.0, 4.0]))
    y = x * w
    copied = w[[0, 1]]  # integer arrays copy
    copied += 1.0
    y.sum().backward()
    assert x.grad.tolist() == [3, 4]


def test_in_place_change_after_backward_is_fine():
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    with ag.no_grad():
        x -= 0.1 * x.grad
    (x * x).sum().backward()
    np.testing.assert_allclose(x.grad.data, [2 + 1.6, 4 + 3.2])


@pytest.mark.parametrize("change", ["__iadd__", "__isub__", "__imul__", "__itruediv__"])
def test_in_place_change_of_a_tensor_that_requires_a_gradient_is_an_error(change):
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="no_grad"):
        getattr(x, change)(2.0)
    with pytest.raises(RuntimeError, match="no_grad"):
        x[0] = 2.0
    assert x.tolist() == [1.0]


# ---- Ops that are wrong ----


class WrongShape(Op):
    def forward(self, x):
        return x.sum(axis=0)

    def backward(self, g_y):
        return g_y


def test_gradient_of_a_wrong_shape_names_op_shapes_and_line():
    x = random_leaf(2, 3)
    line = sys._getframe().f_lineno + 1
    y = apply(WrongShape, x)
    with pytest.raises(RuntimeError) as caught:
        y.backward(np.ones(3))
    message = str(caught.value)
    assert "WrongShape" in message
    assert "(3,)" in message
    assert "(2, 3)" in message
    assert f"test_engine.py:{line}" in message
    assert x.grad is None


def test_a_shape_that_broadcasting_would_hide_is_an_error_too():
    class Shapeless(Op):
        def forward(self, x):
            return x * 2

        def backward(self, g_y):
            return g_y[:1]

    y = apply(Shapeless, random_leaf(2, 3))
    with pytest.raises(RuntimeError, match=r"\(1, 3\) for input 0 of shape \(2, 3\)"):
        y.backward(np.ones((2, 3)))


def test_a_wrong_number_of_gradients_is_an_error():
    class OneOfTwo(Op):
        def forward(self, a, b):
            return a + b

        def backward(self, g_y):
            return g_y

    with pytest.raises(RuntimeError, match="1 gradients for 2 inputs"):
        apply(OneOfTwo, leaf(1.0), leaf(1.0)).backward()


def test_an_op_without_backward_says_so():
    class Forward(Op):
        def forward(self, x):
            return x * 1

    with pytest.raises(NotImplementedError, match=r"Forward\.backward"):
        apply(Forward, leaf(1.0)).backward()


def test_a_gradient_of_none_counts_as_zeros():
    class Constant(Op):
        def forward(self, x):
            return x * 0 + 1

        def backward(self, g_y):
            return None

    x = leaf(1.0, 2.0)
    (apply(Constant, x) * x).sum().backward()
    assert x.grad.tolist() == [1, 1]


# ---- Leaves and dtypes ----


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, bool])
def test_integers_cannot_require_a_gradient(dtype):
    with pytest.raises(TypeError, match=f"this one is {np.dtype(dtype).name}; convert it"):
        Tensor(np.zeros(3, dtype), requires_grad=True)
    t = Tensor(np.zeros(3, dtype))
    with pytest.raises(TypeError, match="floating-point"):
        t.requires_grad = True


def test_integer_outputs_carry_no_gradient():
    x = leaf(1.5, 2.5)
    y = x.astype(np.int64)
    assert not y.requires_grad
    assert y.op is None
    assert y.tolist() == [1, 2]


def test_each_gradient_has_its_inputs_dtype():
    a = Tensor(np.ones((2, 3), np.float32), requires_grad=True)
    b = Tensor(np.ones(3, np.float64), requires_grad=True)
    c = Tensor(np.ones((2, 1), np.float16), requires_grad=True)
    y = a * b + c
    assert y.dtype == np.float64
    y.sum().backward()
    assert [t.grad.dtype for t in (a, b, c)] == [np.float32, np.float64, np.float16]
    assert [t.grad.shape for t in (a, b, c)] == [(2, 3), (3,), (2, 1)]


def test_backward_needs_a_gradient_for_several_elements():
    with pytest.raises(RuntimeError, match=r"shape \(2,\).*gradient="):
        (leaf(1.0, 2.0) * 2).backward()
    with pytest.raises(ValueError, match=r"gradient has shape \(3,\), the Tensor has shape \(2,\)"):
        (leaf(1.0, 2.0) * 2).backward(np.ones(3))
    with pytest.raises(RuntimeError, match="nothing to do"):
        Tensor([1.0]).backward()


def test_backward_of_a_leaf():
    x = leaf(1.0, 2.0)
    g = np.array([3.0, 4.0])
    x.backward(g)
    assert x.grad.tolist() == [3, 4]
    assert not np.shares_memory(x.grad.data, g)


def test_requires_grad_may_be_switched_off():
    x, w = leaf(2.0), leaf(3.0)
    w.requires_grad = False
    (x * w).backward()
    assert x.grad.item() == 3.0
    assert w.grad is None


def test_arrays_and_scalars_on_the_left():
    x = leaf(1.0, 2.0)
    for y in (2.0 - x, np.array([2.0, 2.0]) - x, np.float64(2) - x, [2.0, 2.0] - x):
        assert isinstance(y, Tensor)
        np.testing.assert_array_equal(y.data, [1.0, 0.0])


# ---- Borrowed gradients ----


def test_two_leaves_of_a_sum_do_not_share_their_gradient():
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    g = np.array([1.0, 1.0])
    (a + b).backward(g)
    assert not np.shares_memory(a.grad.data, b.grad.data)
    assert not np.shares_memory(a.grad.data, g)
    a.grad += 5.0
    assert b.grad.tolist() == [1, 1]
    assert g.tolist() == [1, 1]


def test_leaf_gradients_are_writable_arrays_of_their_own():
    a, b = random_leaf(2, 3), random_leaf(2, 3)
    (ag.sum(a) + ag.broadcast_to(b, (4, 2, 3)).reshape(-1).mean()).backward()
    for t in (a, b):
        assert t.grad.data.flags.writeable
        assert t.grad.data.flags.c_contiguous
        t.grad += 1.0


def random_programs():
    """Graphs that pass on gradients in every way: as they are, as views, twice, replaced."""
    ops = [
        lambda v, w: v + w,
        lambda v, w: v - w,
        lambda v, w: v * w,
        lambda v, w: ag.maximum(v, w),
        lambda v, w: v.T.T + w,
        lambda v, w: v.reshape(-1).reshape(v.shape) + v,
        lambda v, w: ag.concatenate([v, w])[: len(v)] + ag.stack([v, w])[1],
        lambda v, w: ag.astype(v, np.float64) + ag.broadcast_to(w, w.shape),
        lambda v, w: ag.split(v, 1)[0] + w.swapaxes(0, 1).swapaxes(0, 1),
        lambda v, w: ag.squeeze(ag.expand_dims(v, 0), 0) - v.mean(),
        lambda v, w: ag.where(True, v, w) + ag.negative(w),
    ]
    for seed in range(60):
        rng = np.random.default_rng(seed)
        choice = [(ops[rng.integers(len(ops))], rng.integers(100), rng.integers(100)) for _ in range(12)]
        yield choice


def run_program(program, arrays):
    leaves = [Tensor(a.copy(), requires_grad=True) for a in arrays]
    values = list(leaves)
    for op, i, j in program:
        values.append(op(values[i % len(values)], values[j % len(values)]))
    total = values[-1] + sum(values[len(leaves) :])
    cotangent = np.random.default_rng(5).standard_normal(total.shape)
    kept = cotangent.copy()
    total.backward(cotangent)
    np.testing.assert_array_equal(cotangent, kept)
    return [np.zeros_like(a) if t.grad is None else t.grad.data for t, a in zip(leaves, arrays, strict=True)]


def test_borrowed_gradients_are_never_overwritten(monkeypatch):
    """The same gradients, bit for bit, as with an engine that copies each gradient before it adds to it."""
    arrays = [np.random.default_rng(seed).standard_normal((3, 3)) for seed in range(3)]
    programs = list(random_programs())
    sparing = [run_program(program, arrays) for program in programs]
    monkeypatch.setattr("autograd.engine._is_fresh", lambda *args: False)
    copying = [run_program(program, arrays) for program in programs]
    for one, other in zip(sparing, copying, strict=True):
        for g, h in zip(one, other, strict=True):
            np.testing.assert_array_equal(g, h)


@pytest.mark.parametrize("swap", [False, True])
def test_a_gradient_and_its_view_given_to_two_inputs_stay_apart(swap):
    """x receives another gradient later: the sum must not be written into what w was given."""

    class PlusTransposed(Op):
        def forward(self, a, b):
            return a + b.T

        def backward(self, g_y):
            g = g_y * 1.0
            return g, g.T

    def function(a, b):
        rest = a * 3 + b * 5  # older, so that its gradients arrive later
        a, b = (b, a) if swap else (a, b)
        return rest + apply(PlusTransposed, a, b) * 2

    x, w = random_leaf(2, 2), random_leaf(2, 2, seed=1)
    a, b = x * 1.0, w * 1.0
    function(a, b).backward(np.ones((2, 2)))
    np.testing.assert_array_equal(x.grad.data, np.full((2, 2), 5.0))
    np.testing.assert_array_equal(w.grad.data, np.full((2, 2), 7.0))
    assert not np.shares_memory(x.grad.data, w.grad.data)
    check_gradients(function, x.data, w.data)


# ---- Hooks ----


def test_hook_of_a_leaf_sees_the_whole_gradient_once():
    x = leaf(1.0, 2.0)
    seen = []
    x.register_hook(lambda g: seen.append(g.data.copy()))
    (x * 2 + x * 3 + x).sum().backward()
    assert len(seen) == 1
    np.testing.assert_array_equal(seen[0], [6.0, 6.0])
    np.testing.assert_array_equal(x.grad.data, [6.0, 6.0])


def test_hook_of_an_intermediate_sees_the_whole_gradient_once():
    x = leaf(1.0, 2.0)
    middle = x * 2
    seen = []
    middle.register_hook(lambda g: seen.append(g.data.copy()))
    (middle * 3 + middle * middle).sum().backward()
    assert len(seen) == 1
    np.testing.assert_array_equal(seen[0], [3 + 4.0, 3 + 8.0])


def test_hook_replaces_the_gradient():
    x = leaf(1.0)
    middle = x * 2
    middle.register_hook(lambda g: g * 10.0)
    x.register_hook(lambda g: g.data + 1)
    (middle * 3).backward()
    assert x.grad.item() == 3 * 10 * 2 + 1


def test_hooks_run_in_order_and_can_be_removed():
    x = leaf(1.0)
    x.register_hook(lambda g: g + 1.0)
    remove = x.register_hook(lambda g: g * 10.0)
    (x * 1).backward()
    assert x.grad.item() == 20.0
    remove()
    x.zero_grad()
    (x * 1).backward()
    assert x.grad.item() == 2.0


def test_hook_must_keep_the_shape():
    x = leaf(1.0, 2.0)
    x.register_hook(lambda g: g[:1])
    with pytest.raises(ValueError, match=r"hook returned shape \(1,\) for a gradient of shape \(2,\)"):
        (x * 1).sum().backward()


def test_hook_on_what_gets_no_gradient_is_an_error():
    with pytest.raises(RuntimeError, match="never be called"):
        Tensor([1.0]).register_hook(lambda g: None)


def test_hook_of_one_output_of_several():
    x = leaf(1.0, 2.0, 3.0)
    a, b = ag.split(x, [1])
    seen = {}
    a.register_hook(lambda g: seen.setdefault("a", g.data.copy()))
    b.register_hook(lambda g: seen.setdefault("b", g.data.copy()))
    (b * 2).sum().backward()
    assert seen["a"].tolist() == [0]
    assert seen["b"].tolist() == [2, 2]
    assert x.grad.tolist() == [0, 2, 2]


def test_leaf_gradient_is_not_spoiled_by_a_hook_that_keeps_it():
    x = leaf(1.0)
    kept = []
    x.register_hook(lambda g: kept.append(g) or g * 2.0)
    (x * 3).backward()
    assert kept[0].item() == 3.0
    assert x.grad.item() == 6.0


def test_what_a_hook_keeps_does_not_change_with_a_later_backward():
    x = leaf(1.0)
    kept = []
    x.register_hook(lambda g: kept.append(g))
    (x * 3 + x * 1).backward()
    (x * 5).backward()
    assert [g.item() for g in kept] == [4.0, 5.0]
    assert x.grad.item() == 9.0


def test_retain_grad_keeps_the_gradient_of_an_intermediate():
    x = leaf(1.0, 2.0)
    middle = x * 2
    other = x * 5
    middle.retain_grad()
    (middle * middle + other).sum().backward()
    np.testing.assert_array_equal(middle.grad.data, [4.0, 8.0])
    assert other.grad is None


def test_retain_grad_adds_up_over_two_passes():
    x = leaf(1.0)
    middle = x * 2
    middle.retain_grad()
    y = middle * 3
    y.backward(retain_graph=True)
    y.backward()
    assert middle.grad.item() == 6.0


# ---- grad() ----


def test_grad_returns_and_does_not_accumulate():
    x, w = leaf(2.0), leaf(3.0)
    g_x, g_w = ag.grad(x * w * w, [x, w])
    assert (g_x.item(), g_w.item()) == (9.0, 12.0)
    assert x.grad is None
    assert w.grad is None


def test_grad_of_intermediates():
    x = leaf(2.0)
    middle = ag.exp(x)
    y = middle * middle + x
    g_middle, g_x = ag.grad(y, [middle, x])
    np.testing.assert_allclose(g_middle.data, 2 * np.exp([2.0]))
    np.testing.assert_allclose(g_x.data, 2 * np.exp([4.0]) + 1)
    assert middle.grad is None


def test_grad_of_an_output_itself():
    x = leaf(2.0, 3.0)
    y = x * 2
    g = np.array([5.0, 6.0])
    (g_y,) = ag.grad(y, y, grad_outputs=g)
    assert g_y.tolist() == [5, 6]
    assert not np.shares_memory(g_y.data, g)


def test_grads_of_intermediates_do_not_share_memory():
    x = leaf(1.0, 2.0)
    a, b = x * 2, x * 3
    y = a + b
    gradients = ag.grad(y.sum(), [y, a, b, x])
    for i, g in enumerate(gradients):
        assert g.data.flags.writeable
        for h in gradients[:i]:
            assert not np.shares_memory(g.data, h.data)
    assert [g.tolist() for g in gradients] == [[1, 1], [1, 1], [1, 1], [5, 5]]


def test_grad_of_unused_inputs():
    x, unused = leaf(2.0), leaf(3.0)
    with pytest.raises(RuntimeError, match=r"\[1\].*allow_unused"):
        ag.grad(x * 2, [x, unused])
    g_x, g_unused = ag.grad(x * 2, [x, unused], allow_unused=True)
    assert g_x.item() == 2.0
    assert g_unused is None


def test_grad_of_several_outputs():
    x = leaf(1.0, 2.0)
    y, z = x * x, ag.exp(x)
    (g,) = ag.grad([y, z], x, grad_outputs=[np.array([1.0, 2.0]), np.array([3.0, 4.0])])
    np.testing.assert_allclose(g.data, [2 + 3 * np.e, 8 + 4 * np.exp(2)])


def test_grad_errors():
    x = leaf(1.0, 2.0)
    with pytest.raises(ValueError, match="2 arrays for 1 outputs"):
        ag.grad(x * 2, x, grad_outputs=[np.ones(2), np.ones(2)])
    with pytest.raises(RuntimeError, match="input 1 of grad"):
        ag.grad((x * 2).sum(), [x, Tensor([1.0])])


def test_grad_twice_needs_retain_graph():
    x = leaf(2.0)
    y = x * x
    assert ag.grad(y, x, retain_graph=True)[0].item() == 4.0
    assert ag.grad(y, x)[0].item() == 4.0
    with pytest.raises(RuntimeError, match="second time"):
        ag.grad(y, x)


def test_grad_leaves_hooks_of_wanted_leaves_in_charge():
    x = leaf(2.0)
    x.register_hook(lambda g: g * 10.0)
    assert ag.grad(x * 3, x)[0].item() == 30.0


# ---- Several outputs ----


class SumAndDifference(Op):
    def forward(self, a, b):
        return a + b, a - b

    def backward(self, g_sum, g_difference):
        return g_sum + g_difference, g_sum - g_difference


def test_op_with_several_outputs():
    check_gradients(lambda a, b: apply(SumAndDifference, a, b), [1.0, 2.0], [3.0, 4.0])


@pytest.mark.parametrize("used", [0, 1])
def test_unused_output_counts_as_zeros(used):
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    apply(SumAndDifference, a, b)[used].backward(np.array([2.0, 3.0]))
    sign = 1 if used == 0 else -1
    assert a.grad.tolist() == [2, 3]
    assert b.grad.tolist() == [2 * sign, 3 * sign]


def test_outputs_that_are_integers_carry_no_gradient():
    class ValueAndPlace(Op):
        def forward(self, x):
            return x.max(), x.argmax()

        def backward(self, g_value, g_place):
            raise AssertionError("not needed here")

    value, place = apply(ValueAndPlace, leaf(1.0, 3.0))
    assert value.requires_grad
    assert not place.requires_grad
    assert isinstance(place.data, np.ndarray)


# ---- Modes ----


def test_no_grad_records_nothing():
    x = leaf(1.0)
    with ag.no_grad():
        assert not ag.is_grad_enabled()
        y = x * 2
        with ag.enable_grad():
            assert ag.is_grad_enabled()
            z = x * 3
        assert not ag.is_grad_enabled()
    assert ag.is_grad_enabled()
    assert y.op is None
    assert not y.requires_grad
    assert z.requires_grad


def test_no_grad_ends_with_an_exception():
    with pytest.raises(KeyError), ag.no_grad():
        raise KeyError
    assert ag.is_grad_enabled()


def test_modes_as_decorators():
    @ag.no_grad()
    def double(x):
        return x * 2

    @ag.enable_grad()
    def triple(x):
        return x * 3

    x = leaf(1.0)
    for _ in range(2):  # a decorator may be used again and again
        assert not double(x).requires_grad
        with ag.no_grad():
            assert triple(x).requires_grad
    assert ag.is_grad_enabled()


def test_modes_belong_to_one_thread():
    x = leaf(1.0)
    results = {}
    inside, done = threading.Event(), threading.Event()

    def other():
        inside.wait()
        results["other"] = (x * 2).requires_grad
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with ag.no_grad():
        inside.set()
        done.wait()
        results["this"] = (x * 2).requires_grad
    thread.join()
    assert results == {"other": True, "this": False}


def test_threads_build_and_run_their_own_graphs():
    errors = []

    def work(seed):
        try:
            for i in range(20):
                check_gradients(lambda x: ag.softmax(ag.tanh(x) * x), np.random.default_rng(seed + i).normal(size=3))
        except AssertionError as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(100 * t,)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_backward_works_inside_no_grad():
    x = leaf(3.0)
    y = x * x
    with ag.no_grad():
        y.backward()
    assert x.grad.item() == 6.0


# ---- Warnings ----


def test_backward_does_not_warn():
    x = leaf(0.0, 1.0)
    with np.errstate(all="raise", under="ignore"):
        ag.sqrt(x).sum().backward()
        assert np.geterr()["divide"] == "raise"
    np.testing.assert_array_equal(x.grad.data, [np.inf, 0.5])


# ---- Watchers ----


def test_watcher_sees_every_op():
    class Names(Watcher):
        def __init__(self):
            self.seen = []

        def before_forward(self, op, arrays):
            self.seen.append(("forward", type(op).__name__, len(arrays)))

        def after_forward(self, op, outputs):
            self.seen.append(("made", [a.shape for a in outputs]))

        def before_backward(self, op, g_outputs):
            self.seen.append(("backward", type(op).__name__))

        def after_backward(self, op, g_inputs):
            self.seen.append(("gradients", [None if g is None else g.shape for g in g_inputs]))

    x = leaf(1.0, 2.0)
    with watch(Names()) as names:
        y = ag.sum(x * 2.0)
        y.backward()
    assert names.seen == [
        ("forward", "Multiply", 2),
        ("made", [(2,)]),
        ("forward", "Sum", 1),
        ("made", [()]),
        ("backward", "Sum"),
        ("gradients", [(2,)]),
        ("backward", "Multiply"),
        ("gradients", [(2,), None]),
    ]
    x * 2.0
    assert len(names.seen) == 8


def test_every_op_class_is_registered():
    assert {"Add", "Matmul", "GetItem", "Softmax", "Einsum", "Clip"} <= set(Op.registry)
    assert "WrongShape" not in Op.registry


def test_run_backward_from_several_outputs_meets_in_the_middle():
    x = leaf(1.0, 2.0)
    shared = x * x
    a, b = shared * 2, ag.sum(shared)
    run_backward([a, b], [starting_gradient(a, np.ones(2)), starting_gradient(b, None)])
    assert x.grad.tolist() == [6, 12]
