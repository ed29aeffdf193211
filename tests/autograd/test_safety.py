"""What a graph keeps and frees, when; who may write into an array; what notices that it was changed."""

import threading
import weakref

import numpy as np
import pytest

import autograd as ag
from autograd import Op, Tensor, apply, no_grad, safety
from tests.helpers.leaves import leaf, random_leaf, without_garbage_collector

# ---- Freeing by reference counting alone ----


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


# ---- Twice ----


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("Multiply", lambda x: x * x),
        ("CrossEntropy", lambda x: ag.cross_entropy(x[None] * [1, 2], [0], with_nll=True)[0]),
    ],
)
def test_second_backward_is_an_error_that_names_the_op(name, function):
    x = leaf(2.0)
    y = function(x)
    y.backward()
    first = x.grad.item()
    with pytest.raises(
        RuntimeError, match=rf"second time through {name} \(made at .*test_safety\.py:\d+\).*retain_graph=True"
    ):
        y.backward()
    assert x.grad.item() == first


# ---- Changes in place ----


@pytest.mark.parametrize(
    "change",
    [
        lambda w: w.__setitem__(0, 9.0),
        lambda w: Tensor(w.data).__iadd__(1.0),
        lambda w: Tensor(w.data.reshape(1, 2).T).__iadd__(1.0),
        lambda w: w.reshape(2, 1).__setitem__(0, 9.0),
        lambda w: w[1:].__iadd__(1.0),
        lambda w: w.T.__imul__(2.0),
        lambda w: w.detach().__isub__(1.0),
        lambda w: ag.split(w, 2)[1].__itruediv__(2.0),
        lambda w: ag.expand_dims(w.detach()[::-1], 0).__setitem__((0, 1), 9.0),
        lambda w: ag.astype(w, np.float64).__iadd__(1.0),
    ],
    ids=["itself", "another", "view in another", "reshape", "slice", "transpose", "detach", "split", "views", "astype"],
)
def test_in_place_change_through_a_view_is_noticed(change):
    x, w = leaf(1.0, 2.0), Tensor(np.array([3.0, 4.0]))
    y = x * w
    before = w.data.copy()
    with ag.no_grad():
        change(w)
    assert not np.array_equal(before, w.data)
    with pytest.raises(RuntimeError, match=r"Multiply \(made at .*test_safety\.py:\d+\).*changed in place"):
        y.sum().backward()


def test_in_place_change_of_a_saved_output_is_noticed():
    x = leaf(1.0, 2.0)
    y = ag.exp(x)
    with ag.no_grad():
        y[0] = 5.0
    with pytest.raises(RuntimeError, match=r"Exp .*changed in place"):
        y.sum().backward()


def test_in_place_change_of_what_nobody_saved_is_fine():
    x, w = leaf(1.0, 2.0), Tensor(np.array([3.0, 4.0]))
    y = x + w
    w += 1.0
    y.sum().backward()
    assert x.grad.tolist() == [1, 1]


@pytest.mark.parametrize("change", ["__iadd__", "__isub__", "__imul__", "__itruediv__"])
def test_in_place_change_of_a_tensor_that_requires_a_gradient_is_an_error(change):
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="no_grad"):
        getattr(x, change)(2.0)
    with pytest.raises(RuntimeError, match="no_grad"):
        x[0] = 2.0
    assert x.tolist() == [1.0]


# ---- Borrowed gradients ----


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
    monkeypatch.setattr("autograd.tensor.GradientSums.owns", lambda *args: False)
    copying = [run_program(program, arrays) for program in programs]
    for one, other in zip(sparing, copying, strict=True):
        for g, h in zip(one, other, strict=True):
            np.testing.assert_array_equal(g, h)


@pytest.mark.parametrize(
    "statement", ["h += y", "h -= y", "h *= y", "h /= y", "h[0] = y[0]"], ids=lambda statement: statement[1:4].strip()
)
def test_what_would_lose_its_gradient_is_not_written_into_a_tensor(statement):
    w = random_leaf(3)
    h = Tensor(np.ones(3))
    with pytest.raises(RuntimeError, match="would lose the gradient of y"):
        exec(statement, {"h": h, "y": w * 3})
    np.testing.assert_array_equal(h.numpy(), 1)
    with no_grad():
        exec(statement, {"h": h, "y": w * 3})
    exec(statement, {"h": h, "y": (w * 3).detach()})


class Buffered(Op):
    """y = 2 x, with a buffer of its own for the gradient."""

    buffer = np.zeros(3)

    def forward(self, x):
        return 2 * x

    def backward(self, g_y):
        return np.multiply(g_y, 2, out=self.buffer)


def test_a_buffer_that_an_op_keeps_is_not_taken_for_a_gradient():
    a, b = random_leaf(3), random_leaf(3)
    (apply(Buffered, a) * 1.0).sum().backward()
    (apply(Buffered, b) * 3.0).sum().backward()
    np.testing.assert_array_equal(a.grad.numpy(), 2)
    np.testing.assert_array_equal(b.grad.numpy(), 6)


def test_threads_that_share_a_leaf_lose_no_gradient():
    w = Tensor(np.zeros(50_000), requires_grad=True)

    def add_ones():
        for _ in range(50):
            w.sum().backward()

    threads = [threading.Thread(target=add_ones) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(w.grad.numpy(), 200)


def test_a_change_of_memory_that_is_gone_is_none_of_another_array(monkeypatch):
    """Another array may be at the address of one that was freed; what is noted of it goes with it."""
    x, other, noted = np.ones(2), np.ones(2), {}
    monkeypatch.setattr(safety, "_changes", noted)
    noted[id(x)] = weakref.ref(other), 7
    assert safety.last_change(x) == 0
    safety.note_change(x)
    safety.require_unchanged([x], safety.last_change(x), "it was not changed after that time")
    del x
    assert not noted
