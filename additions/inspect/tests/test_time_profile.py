"""profile(): every moment of a step is in exactly one row."""

import math
import threading
import time

import numpy as np
import pytest

import autograd as ag
from additions.inspect import memory, profile
from additions.inspect.flops import PER_INPUT, PER_OUTPUT, PRODUCTS, operations
from additions.inspect.modules import ModuleListener, listen
from additions.inspect.time_profile import BACKWARD, OUTSIDE, PROFILER, PYTHON
from autograd import Op, Tensor, apply, checkpoint
from autograd.anomaly import anomaly_mode
from autograd.modes import Observer, observe
from minitf.config import TransformerConfig
from minitf.model.layers import Module
from minitf.model.transformer import Transformer
from tests.helpers.leaves import random_leaf


class Slow(Op):
    """y = x, in 20 ms, and back in 30."""

    def forward(self, x):
        time.sleep(0.02)
        return x.copy()

    def backward(self, g_y):
        time.sleep(0.03)
        return g_y.copy()


class Part(Module):
    """Python for 10 ms, then the slow op."""

    def __call__(self, x):
        time.sleep(0.01)
        return apply(Slow, x)


class Model(Module):
    def __init__(self):
        self.parts = [Part(), Part()]
        self.again = self.parts[0]

    def __call__(self, x):
        for part in self.parts:
            x = part(x)
        return self.again(x)


class Optimizer:
    def step(self, rate):
        time.sleep(0.015)
        return rate


def by_name(rows):
    return {row.name: row for row in rows}


@pytest.fixture(scope="module")
def measured():
    """One step of the slow model, with sleeps of known length everywhere."""
    model, optimizer = Model(), Optimizer()
    x = random_leaf(3)
    before = time.perf_counter()
    with profile(model, optimizer=optimizer.step) as p:
        with p.section("data"):
            time.sleep(0.012)
            ag.exp(x)
        y = ag.sum(model(x))
        y.backward()
        assert optimizer.step(2) == 2
        time.sleep(0.017)
    wall_ms = (time.perf_counter() - before) * 1e3
    return p, wall_ms


# ---- Time ----


def test_all_rows_add_up_to_the_time_of_the_block(measured):
    p, wall_ms = measured
    assert 12 + 3 * (10 + 20 + 30) + 15 + 17 <= p.accounted_ms <= wall_ms
    assert p.accounted_ms == pytest.approx(p.wall_ms, rel=1e-6)
    for by in ("op", "layer"):
        for depth in (None, 1):
            assert sum(row.total_ms for row in p.rows(by, depth)) == pytest.approx(p.accounted_ms)


def test_each_moment_is_in_the_row_where_it_belongs(measured):
    rows = by_name(measured[0].rows())
    at_least = {
        "Slow": (3 * 20, 3 * 30, 0),
        PYTHON: (3 * 10, 0, 0),
        "(optimizer)": (0, 0, 15),
        "(data)": (0, 0, 12),
        OUTSIDE: (0, 0, 17),
    }
    for name, times in at_least.items():
        row = rows[name]
        for found, slept in zip((row.forward_ms, row.backward_ms, row.other_ms), times, strict=True):
            assert found == 0 if slept == 0 else found >= slept, name  # more would be missing elsewhere
    assert set(rows) == {*at_least, "Exp", "Sum", BACKWARD, PROFILER}
    assert (rows["Slow"].calls, rows["(optimizer)"].calls, rows["Exp"].calls) == (3, 1, 1)


def test_layers(measured):
    rows = by_name(measured[0].rows("layer"))
    assert rows["parts.0"].calls == 2  # also under its other name
    assert rows["parts.1"].calls == 1
    assert rows["parts.0"].forward_ms >= 60  # Python and the op
    assert rows["parts.0"].backward_ms >= 60  # the backward pass belongs to the layer of its forward pass
    assert {"Sum, in no layer", "Exp, in no layer", "Model", "(optimizer)"} <= set(rows)
    assert "again" not in rows
    joined = by_name(measured[0].rows("layer", depth=1))
    assert joined["parts"].calls == 3
    with pytest.raises(ValueError, match="by='line' is neither"):
        measured[0].rows("line")


def test_the_table_shows_every_row_and_the_sum(measured):
    p, _ = measured
    ops, layers = str(p).split("\n\n")
    header = "op calls forward ms backward ms total ms share saved GFLOP GFLOP/s"
    assert " ".join(ops.splitlines()[0].split()) == header
    for text, rows in ((ops, p.rows()), (layers, p.rows("layer", depth=3))):
        lines = text.splitlines()
        assert len(lines) == len(rows) + 3
        assert all(line.startswith(row.name) for line, row in zip(lines[2:], rows, strict=False))
        assert f"{p.accounted_ms:.2f}" in lines[-1]
        assert "100.0%" in lines[-1]
        assert len({len(line) for line in lines[1:2]}) == 1
    with profile() as plain:
        ag.exp(random_leaf(2))
    assert "layer" not in str(plain)


def test_what_a_checkpoint_computes_again_has_its_own_row():
    x = random_leaf(3)
    with profile() as p:
        checkpoint(lambda x: apply(Slow, ag.exp(x)), x).backward(np.ones(3))
    rows = by_name(p.rows())
    assert rows["Slow"].calls == rows["Slow, computed again"].calls == 1
    assert rows["Slow, computed again"].forward_ms >= 20
    assert rows["Slow, computed again"].backward_ms == 0


def fails_after_10_ms():
    time.sleep(0.01)
    raise ZeroDivisionError


def test_an_error_ends_the_block_and_keeps_the_times():
    optimizer = Optimizer()
    with pytest.raises(ZeroDivisionError), profile(Model(), optimizer=optimizer.step) as p:
        optimizer.step(fails_after_10_ms())
    assert by_name(p.rows())[OUTSIDE].other_ms >= 10
    assert p.wall_ms == pytest.approx(p.accounted_ms)
    assert "step" not in vars(optimizer)
    assert Model.__call__.__qualname__ == "Model.__call__"
    assert not hasattr(Model.__call__, "__wrapped__")


@pytest.mark.parametrize("call", [math.hypot, len, [].append, Optimizer.step, random_leaf(1).__add__])
def test_methods_that_cannot_be_timed_are_an_error(call):
    with pytest.raises(TypeError, match=r"norm=.* is not a method .* `with p.section\('norm'\)"), profile(norm=call):
        pass


def test_a_model_without_children_is_an_error():
    with pytest.raises(TypeError, match=r"list has no children\(\) to find its modules by"), profile([1]):
        pass


# ---- Saved bytes and operations ----


def test_saved_bytes_of_rows():
    x = random_leaf(4)  # 32 bytes
    with profile() as p:
        y = ag.exp(x)
        z = ag.relu(y * y)
        del y, z
        for _ in range(5):  # the memory of arrays that have gone may be used again
            ag.exp(x)
    rows = by_name(p.rows())
    assert {name: row.saved_bytes for name, row in rows.items() if row.saved_bytes} == {"Exp": 6 * 32, "Relu": 32}


def shapes_of(function, *tensors):
    """(forward, backward) operations of the only op that `function` runs."""

    class Shapes(Observer):
        def before_forward(self, op, arrays):
            self.inputs = [np.shape(a) for a in arrays]

        def after_forward(self, op, outputs):
            self.found = operations(op, self.inputs, [y.shape for y in outputs])

    with observe(Shapes()) as shapes:
        function(*tensors)
    return shapes.found


def test_every_op_is_counted():
    assert {*PER_INPUT, *PER_OUTPUT, *PRODUCTS} == {*Op.registry}


def test_flops_of_products():
    x, w, b = random_leaf(2, 3, 5), random_leaf(7, 5), random_leaf(7)
    product = 2 * 6 * 5 * 7
    assert shapes_of(ag.linear, x, w, b) == (product + 42, 2 * product + 42)
    assert shapes_of(ag.linear, x, w) == (product, 2 * product)
    assert shapes_of(ag.linear, Tensor(x.data), w, b) == (product + 42, product + 42)
    assert shapes_of(ag.linear, Tensor(x.data), Tensor(w.data)) == (product, 0)
    assert shapes_of(ag.matmul, x, w.detach().T) == (product, product)
    assert shapes_of(ag.matmul, random_leaf(4, 3, 5), random_leaf(4, 5, 2)) == (2 * 4 * 3 * 5 * 2, 4 * 4 * 3 * 5 * 2)
    assert shapes_of(lambda a, b: ag.einsum("bik,kj->bij", a, b), random_leaf(4, 3, 5), random_leaf(5, 2)) == (
        2 * 4 * 3 * 5 * 2,
        2 * 2 * 4 * 3 * 5 * 2,
    )
    assert shapes_of(lambda a: ag.einsum("ij,ij,i->j", a, a, np.ones(4)), random_leaf(4, 3)) == (3 * 12, 2 * 3 * 12)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x + x, (12, 0)),
        (lambda x: x * 2.0, (12, 12)),
        (lambda x: x * x, (12, 24)),
        (lambda x: ag.sum(x, axis=0), (12, 0)),
        (ag.softmax, (60, 48)),
        (lambda x: x.reshape(12), (0, 0)),
        (lambda x: x[:2], (0, 6)),
    ],
)
def test_flops_by_the_element(function, expected):
    assert shapes_of(function, random_leaf(4, 3)) == expected


# ---- Which module runs ----


class Calls(ModuleListener):
    def __init__(self):
        self.seen = []

    def enter_module(self, name):
        self.seen.append(f"+{name}")

    def leave_module(self, name):
        self.seen.append(f"-{name}")


class Child(Part):
    """A `__call__` that calls its parent's, and one that is inherited below."""

    def __call__(self, x):
        return super().__call__(x)


class Grandchild(Child):
    pass


class Family(Module):
    def __init__(self):
        self.child, self.grandchild, self.part = Child(), Grandchild(), Part()

    def __call__(self, x):
        return self.part(self.grandchild(self.child(x)))


def test_modules_are_heard_once_each_in_order():
    family, calls = Family(), Calls()
    x = random_leaf(1)
    originals = Family.__call__, Child.__call__, Part.__call__
    with listen(family, calls):
        family(x)
        Child()(x)  # not of this model
    assert calls.seen == ["+", "+child", "-child", "+grandchild", "-grandchild", "+part", "-part", "-"]
    assert (Family.__call__, Child.__call__, Part.__call__) == originals
    assert "__call__" not in vars(Grandchild)
    family(x)
    assert len(calls.seen) == 8


def test_an_error_in_a_module_leaves_it():
    family, calls = Family(), Calls()
    with listen(family, calls):
        for _ in range(2):
            with pytest.raises(AttributeError):
                family(None)
    assert calls.seen == ["+", "+child", "-child", "-"] * 2


def test_other_threads_are_not_heard():
    family, calls = Family(), Calls()
    with listen(family, calls):
        thread = threading.Thread(target=family, args=(random_leaf(1),))
        thread.start()
        thread.join()
    assert calls.seen == []


# ---- Several at once ----


def test_observers_nest():
    class Log(Observer):
        def __init__(self, name):
            self.name = name

        def before_forward(self, op, arrays):
            log.append(f"{self.name} before")

        def after_forward(self, op, outputs):
            log.append(f"{self.name} after")

        def after_record(self, op, inputs, outputs):
            log.append(f"{self.name} recorded {len(inputs)} {len(outputs)}")

        def before_backward_pass(self):
            log.append(f"{self.name} pass begins")

        def before_backward(self, op, g_outputs):
            log.append(f"{self.name} back")

        def after_backward(self, op, g_inputs):
            log.append(f"{self.name} done")

        def after_leaf(self, leaf, gradient):
            log.append(f"{self.name} leaf {gradient.tolist()}")

        def after_backward_pass(self):
            log.append(f"{self.name} pass ends")

    log = []
    x = Tensor(np.ones(1), requires_grad=True)
    with observe(Log("a")), observe(Log("b")):
        y = x * 2.0
        y.backward(np.ones(1))
    assert log == [
        *("a before", "b before", "b after", "a after", "b recorded 2 1", "a recorded 2 1"),
        *("a pass begins", "b pass begins", "a back", "b back", "b done", "a done"),
        *("b leaf [2.0]", "a leaf [2.0]", "b pass ends", "a pass ends"),
    ]
    x * 2.0
    assert len(log) == 16


def test_all_tools_at_once():
    model = Transformer(TransformerConfig(layers=1, d_model=8, d_ff=16, heads=2, vocab_size=20))
    source = target = np.random.default_rng(0).integers(4, 20, (2, 5))
    with profile(model) as p, memory(model) as m, anomaly_mode():
        ag.cross_entropy(checkpoint(model, source, target), target).backward()
    assert by_name(p.rows())["Linear, computed again"].calls == by_name(p.rows())["Linear"].calls
    assert m.peak_bytes > 0
    assert not hasattr(type(model).__call__, "__wrapped__")
