"""The checks of the engine: Tensors, the graph, the backward pass; with ops whose results tell mistakes apart."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from additions.course.exercise import find
from additions.course.exercises import broadcasting, central_differences
from additions.course.expect import Wrong, equal, told, true
from additions.course.judge import run_check
from additions.course.path.checks import Work, of


class Product:
    """y = a · b"""

    broadcasts = True

    @staticmethod
    def forward(xp, a, b):
        return a * b

    @staticmethod
    def backward(xp, g, y, a, b):
        return g * b, g * a


class Sum2:
    """y = a + b; both gradients are one array"""

    broadcasts = True

    @staticmethod
    def forward(xp, a, b):
        return a + b

    @staticmethod
    def backward(xp, g, y, a, b):
        return g, g


class Power:
    """y = xⁿ, from y"""

    broadcasts = False

    @staticmethod
    def forward(xp, x, *, n):
        return xp.power(x, n)

    @staticmethod
    def backward(xp, g, y, x, *, n):
        return (g * n * y / x,)


class Pick:
    """y = weight[index], which has no gradient by the index"""

    broadcasts = False

    @staticmethod
    def forward(xp, weight, index):
        return weight[index]

    @staticmethod
    def backward(xp, g, y, weight, index):
        g_weight = xp.zeros_like(weight)
        g_weight[index] = g
        return g_weight, None


def leaf(work: Work, *values: Any, dtype: Any = np.float64) -> Any:
    """A Tensor that requires a gradient."""
    return work.engine.Tensor(np.array(values if len(values) != 1 else values[0], dtype), requires_grad=True)


def gradient_of(what: str, x: Any) -> np.ndarray:
    """The array of x.grad."""
    g = x.grad
    true(g is not None, f"{what}.grad is None after backward: no gradient has arrived")
    true(not isinstance(g, np.ndarray), f"{what}.grad is an array; put a Tensor there")
    return np.asarray(g.data)


# ---- Tensor and apply --------------------------------------------------------------------------------------------


@of("tensor")
def check_data(work: Work) -> None:
    """its array and what describes it"""
    array = np.arange(6.0).reshape(2, 3)
    x = work.engine.Tensor(array)
    true(x.data is not None, "data is None: is it set in __init__?")
    true(isinstance(x.data, np.ndarray), f"data is a {type(x.data).__name__}, expected the array")
    true(x.data is array, "data is a copy of the array; keep the array itself, into which the optimizer will write")
    found = x.shape, x.ndim, x.size
    true(callable(x.shape) is False, "shape is a method; it is to be a property, x.shape")
    true(found == ((2, 3), 2, 6), f"shape, ndim and size are {found}, expected ((2, 3), 2, 6)")
    true(x.dtype == np.float64, f"dtype is {x.dtype}, expected float64")


@of("tensor")
def check_lists(work: Work) -> None:
    """lists and numbers"""
    for given, shape in (([[1.0, 2.0]], (1, 2)), (3.0, ()), ([], (0,))):
        x = work.engine.Tensor(given)
        true(isinstance(x.data, np.ndarray), f"Tensor({given}).data is a {type(x.data).__name__}, expected an array")
        equal(f"the shape of Tensor({given})", x.shape, shape)
    item = work.engine.Tensor([[2.5]]).item()
    true(not isinstance(item, np.ndarray), "item() returns an array; the Python number is data.item()")
    equal("Tensor([[2.5]]).item()", item, 2.5)


@of("tensor")
def check_gradient_attributes(work: Work) -> None:
    """requires_grad, grad and node"""
    Tensor = work.engine.Tensor
    x = Tensor([1.0])
    true(x.requires_grad is False, "requires_grad is not False by default")
    true(Tensor([1.0], requires_grad=True).requires_grad is True, "requires_grad=True is not kept")
    true(x.grad is None, "grad begins as something; it is None, which says that no gradient has arrived")
    true(x.node is None, "node is not None in a leaf")


@of("tensor")
def check_change(work: Work) -> None:
    """data that is exchanged"""
    x = work.engine.Tensor([1.0, 2.0])
    x.data = np.zeros((2, 2))
    true(x.shape == (2, 2), "shape is that of the first array after x.data = another; ask x.data each time")


@of("apply")
def check_result(work: Work) -> None:
    """the result"""
    a, b = leaf(work, 2.0, 3.0), leaf(work, 5.0, 7.0)

    class Spy(Product):
        @staticmethod
        def forward(xp, a, b):
            true(xp is np, "the first argument of forward is not numpy")
            true(isinstance(a, np.ndarray), "forward is given Tensors; it works on their arrays, x.data")
            return a * b

    y = work.engine.apply(Spy, a, b)
    true(y is not None, "apply returns None: is `return` missing?")
    true(not isinstance(y, np.ndarray), "the result is an array; wrap it in a Tensor")
    equal("2 · 5, 3 · 7", y.data, [10.0, 21.0])
    true(y.grad is None, "the result has a grad before any backward pass")


@of("apply")
def check_parameters(work: Work) -> None:
    """parameters, constants, and xp"""
    seen: list[Any] = []

    class Spy(Power):
        @staticmethod
        def forward(xp, x, *, n):
            seen.append(x)
            return xp.power(x, n)

    x = leaf(work, 2.0, 3.0)
    y = work.engine.apply(Spy, x, n=3)
    true(seen[0] is x.data, "forward is given a copy of the array; hand it the array itself")
    equal("x³ of [2, 3]", y.data, [8.0, 27.0])
    equal("x · 3", work.engine.apply(Product, x, 3.0).data, [6.0, 9.0])
    equal("3 · x", work.engine.apply(Product, 3.0, x).data, [6.0, 9.0])
    equal("x · an array", work.engine.apply(Product, x, np.array([1.0, 2.0])).data, [2.0, 6.0])


@of("apply")
def check_node(work: Work) -> None:
    """the node of the result"""
    a, b = leaf(work, 2.0), leaf(work, 3.0)
    y = work.engine.apply(Power, work.engine.apply(Product, a, b), n=2)
    true(y.node is not None, "the result of an op has no node; put Node(op, inputs, y, parameters) there")
    true(y.node.op is Power, "node.op is not the op")
    (inner,) = y.node.inputs
    true(not isinstance(inner, np.ndarray), "node.inputs holds arrays; the backward pass needs the Tensors, with nodes")
    true(
        len(inner.node.inputs) == 2 and inner.node.inputs[0] is a and inner.node.inputs[1] is b,
        "node.inputs of a · b is not (a, b), the Tensors as they were given",
    )
    true(
        isinstance(y.node.y, np.ndarray),
        "node.y is a Tensor: node and result would keep each other alive; keep the array",
    )
    equal("node.y", y.node.y, y.data)
    true(y.node.parameters == {"n": 2}, f"node.parameters is {y.node.parameters}, expected {{'n': 2}}")
    true(
        y.requires_grad,
        "the result does not require a gradient, though its inputs do: whoever uses it would not be recorded",
    )


@of("constants")
def check_constants(work: Work) -> None:
    """inputs that require no gradient"""
    x, c = leaf(work, 2.0), work.engine.Tensor([3.0])
    y = work.engine.apply(Product, c, 3.0)
    true(not y.requires_grad, "a product of constants requires a gradient; it does only if one of its inputs does")
    true(y.node is None, "a product of constants has a node, which keeps its inputs alive for nothing")
    for inputs in ((x, c), (c, x), (3.0, x), (x, np.ones(1))):
        y = work.engine.apply(Product, *inputs)
        true(
            y.requires_grad and y.node is not None,
            "a result is not recorded though one of its inputs requires a gradient: one is enough (any, not all)",
        )
        true(
            y.node.inputs[0] is inputs[0] and len(y.node.inputs) == 2,
            "constants are missing in node.inputs; backward needs all inputs, in their places",
        )


# ---- Order and backward ------------------------------------------------------------------------------------------


def chain(work: Work, length: int) -> Any:
    """Return the output of a chain of `length` products with 1."""
    x = leaf(work, 1.0)
    for _ in range(length):
        x = work.engine.apply(Product, x, 1.0)
    return x


def look_at_order(work: Work, output: Any, count: int) -> None:
    """Check that the learner's `backward_order` lists `count` nodes, each after all nodes that use its output."""
    try:
        order = list(work.engine.backward_order(output))
    except RecursionError:
        raise Wrong("a chain of 5,000 ops exceeds Python's limit of recursion; keep a stack of your own") from None
    place = {id(node): k for k, node in enumerate(order)}
    true(all(isinstance(node, work.engine.Node) for node in order), "the list holds something else than nodes")
    true(len(place) == len(order), "a node appears twice: it would be visited with a part of its gradient each time")
    true(
        order and order[0] is output.node,
        "the first node is not the output's own: are inputs before the nodes that use them?",
    )
    true(len(order) == count, f"{len(order)} nodes for {count}; every node that the output depends on is needed")
    for node in order:
        for x in node.inputs:
            used = getattr(x, "node", None)
            if used is not None and place[id(used)] < place[id(node)]:
                raise Wrong(
                    "a node comes before one that uses its result: its gradient is passed on before it is complete"
                )


@of("order")
def check_diamond(work: Work) -> None:
    """a chain and a diamond"""
    look_at_order(work, chain(work, 3), 3)
    a = chain(work, 1)
    b, c = work.engine.apply(Product, a, 2.0), work.engine.apply(Product, a, 3.0)
    look_at_order(work, work.engine.apply(Product, b, c), 4)


@of("order")
def check_long_and_short_way(work: Work) -> None:
    """a result that is used at once and late"""
    for turn in (1, -1):
        a = chain(work, 1)
        late = work.engine.apply(Product, work.engine.apply(Product, a, 2.0), 3.0)
        look_at_order(work, work.engine.apply(Product, *[a, late][::turn]), 4)


@of("order")
def check_size(work: Work) -> None:
    """5,000 ops in a row, and 2^25 paths"""
    look_at_order(work, chain(work, 5000), 5000)
    x = chain(work, 1)
    for _ in range(25):
        x = work.engine.apply(Product, x, x)
    look_at_order(work, x, 26)


@of("backward")
def check_chain(work: Work) -> None:
    """the chain rule along x³ · 5"""
    x = leaf(work, 2.0, 3.0)
    work.engine.backward(work.engine.apply(Product, work.engine.apply(Power, x, n=3), 5.0))
    told("the gradient of 5 x³ at [2, 3]", gradient_of("x", x), [60.0, 135.0], {
        "the factor of the first op is missing: each op multiplies the incoming gradient": [12.0, 27.0],
        "the gradient stops at the last op; pass it on to the node of its input": [5.0, 5.0],
        "the op is handed its input as y; y is its result": [15.0, 15.0],
    })  # fmt: skip


@of("backward")
def check_start(work: Work) -> None:
    """where the gradient starts"""
    x = leaf(work, 2.0, 3.0)
    work.engine.backward(work.engine.apply(Product, x, 5.0), np.array([1.0, 10.0]))
    told("the gradient of x, given that of 5 x as [1, 10]", gradient_of("x", x), [5.0, 50.0], {
        "the argument `gradient` is not used": [5.0, 5.0],
    })  # fmt: skip
    x = leaf(work, 2.0)
    x.backward()
    equal("the gradient of a leaf by itself", gradient_of("x", x), [1.0] if x.ndim else 1.0)


@of("backward")
def check_uses(work: Work) -> None:
    """a Tensor that is used twice"""
    apply, backward = work.engine.apply, work.engine.backward
    x = leaf(work, 3.0)
    backward(apply(Product, x, x))
    told("the gradient of x · x at 3", gradient_of("x", x), 6.0, {
        "one use overwrites the other; both contribute, the gradient is their sum": 3.0,
        "it is added up twice over": 12.0,
    })  # fmt: skip
    x = leaf(work, 3.0)
    a = apply(Product, x, 2.0)
    late = apply(Product, apply(Product, a, 5.0), 7.0)
    backward(apply(Sum2, a, late))
    told("the gradient of a + 35 a with a = 2 x", gradient_of("x", x), 72.0, {
        "only one use of `a` reaches x: the gradient of a result is the sum over all its uses, as that of a leaf": 2.0,
        "only the last use of `a` reaches x: the gradient of a result is the sum over all its uses": 70.0,
        "`a` is passed on twice, with a part of its gradient and with the whole: wait until it is complete": 74.0,
    })  # fmt: skip


@of("backward")
def check_what_gets_none(work: Work) -> None:
    """constants, None, and results"""
    apply = work.engine.apply
    x, c = leaf(work, 3.0, 4.0), work.engine.Tensor([2.0, 5.0])
    middle = apply(Product, x, c)
    y = apply(Pick, middle, 1)
    work.engine.backward(y)
    equal("the gradient of x", gradient_of("x", x), [0.0, 5.0])
    true(c.grad is None, "a constant has a gradient; only Tensors that require one get it")
    true(middle.grad is None and y.grad is None, "the result of an op has a grad; only leaves keep theirs")
    unused = leaf(work, 1.0)
    work.engine.backward(apply(Product, leaf(work, 1.0), 2.0))
    true(unused.grad is None, "a leaf that the output does not depend on has a gradient")


@of("leaves")
def check_second_pass(work: Work) -> None:
    """two backward passes"""
    x = leaf(work, 2.0)
    for factor in (3.0, 4.0):
        work.engine.backward(work.engine.apply(Product, x, factor))
    told("the gradient of x after 3 x and 4 x", gradient_of("x", x), 7.0, {
        "the second pass overwrites the first; it adds to the grad that is there": 4.0,
        "the second pass is lost": 3.0,
    })  # fmt: skip


@of("leaves")
def check_own_arrays(work: Work) -> None:
    """the arrays of gradients"""
    x, given = leaf(work, 2.0, 3.0), np.ones(2)
    work.engine.backward(work.engine.apply(Sum2, x, 1.0), given)
    g = gradient_of("x", x)
    g += 100
    told("the caller's `gradient` after a grad was changed in place", given, [1.0, 1.0], {
        "it changes too: the grad is the caller's array; a leaf needs one of its own": [101.0, 101.0],
    })  # fmt: skip
    a, b = leaf(work, 2.0, 3.0), leaf(work, 5.0, 7.0)
    work.engine.backward(work.engine.apply(Sum2, a, b))
    ga, gb = gradient_of("a", a), gradient_of("b", b)
    ga += 100
    told("the gradient of b after that of a was changed in place", gb, [1.0, 1.0], {
        "it changes too: a + b handed both the same array; a leaf needs an array of its own": [101.0, 101.0],
    })  # fmt: skip


@of("leaves")
def check_sums_in_place(work: Work) -> None:
    """sums that are made while others look at the array"""
    seen: list[tuple[np.ndarray, np.ndarray]] = []

    class Watch(Product):
        @staticmethod
        def backward(xp, g, y, a, b):
            seen.append((g, g.copy()))
            return g, g  # as an addition does

    apply = work.engine.apply
    x, z = leaf(work, 2.0), leaf(work, 3.0)
    y = apply(Watch, x, z)
    work.engine.backward(apply(Sum2, apply(Sum2, y, x), z))
    for name, each in (("x", x), ("z", z)):
        told(f"the gradient of {name} in (x + z) + x + z", gradient_of(name, each), 2.0, {
            "too much: a sum is made in an array that another gradient uses, too; add with + into a new one": 4.0,
            "much too much: a sum is made in an array that others use, too; add with + into a new one": 3.0,
        })  # fmt: skip
    for now, before in seen:
        true(
            np.array_equal(now, before),
            "a gradient that an op was given is changed in place later, by a sum that takes "
            "its array for its own; add with + into a new array",
        )


# ---- Broadcasting and modes --------------------------------------------------------------------------------------


def of_exercise(exercise: Any, name: str, adapt: Any) -> None:
    """Make the checks of an exercise those of a step.  adapt: from Work, what the exercise takes as an answer"""
    for key, check in vars(exercise).items():
        if key.startswith("check_"):

            def run(work: Work, check: Any = check) -> None:
                run_check(check, adapt(work), find(exercise.__name__.rpartition(".")[2]), exercise)

            run.__doc__ = check.__doc__
            of(name)(run)


of_exercise(broadcasting, "unbroadcast", lambda work: SimpleNamespace(unbroadcast=work.engine.unbroadcast))
of_exercise(
    central_differences,
    "numerical_gradient",
    lambda work: SimpleNamespace(numerical_gradient=work.engine.numerical_gradient),
)


@of("broadcasting")
def check_shapes(work: Work) -> None:
    """a matrix plus a row, times a number"""
    a, b, c = leaf(work, [[1.0, 2.0, 3.0]] * 2), leaf(work, 1.0, 2.0, 4.0), leaf(work, 3.0)
    y = work.engine.apply(Product, work.engine.apply(Sum2, a, b), c)
    work.engine.backward(y)
    for name, x, right in (("a", a, np.full((2, 3), 3.0)), ("b", b, [6.0, 6.0, 6.0]), ("c", c, 26.0)):
        g = gradient_of(name, x)
        true(
            g.shape == x.shape,
            f"the gradient of {name} has the shape {g.shape} of the result; {name} has {x.shape}: "
            "call unbroadcast before it goes on",
        )
        equal(f"the gradient of {name} in (a + b) · c", g, right)


@of("broadcasting")
def check_middle(work: Work) -> None:
    """a result that is broadcast later"""
    seen = []

    class Watch(Power):
        @staticmethod
        def backward(xp, g, y, x, *, n):
            seen.append(g.shape)
            return (g * n * y / x,)

    x = leaf(work, 1.0, 2.0, 4.0)
    work.engine.backward(work.engine.apply(Product, work.engine.apply(Watch, x, n=2), np.ones((5, 3))))
    true(
        seen == [(3,)],
        f"the op of x² is given a gradient of shape {seen[0]} for its result of shape (3,): undo the "
        "broadcasting for results as well, not for leaves alone",
    )
    equal("the gradient of x", gradient_of("x", x), [10.0, 20.0, 40.0])


@of("broadcasting")
def check_dtype(work: Work) -> None:
    """a float32 Tensor times a float64 array"""
    x = leaf(work, 1.0, 2.0, dtype=np.float32)
    work.engine.backward(work.engine.apply(Product, x, np.array([3.0, 4.0])))
    g = gradient_of("x", x)
    true(g.dtype == np.float32, f"the gradient of a float32 Tensor is {g.dtype}; give it the dtype of its input")


@of("broadcasting")
def check_wrong_shape(work: Work) -> None:
    """an op whose gradient has a wrong shape"""

    class Wrongly(Power):
        @staticmethod
        def backward(xp, g, y, x, *, n):
            return (g.sum(),)

    for axes, given in (("few", (2.0, 3.0)), ("one", (2.0, 3.0, 4.0))):
        x = leaf(work, *given)
        try:
            work.engine.backward(work.engine.apply(Wrongly, x, n=2))
        except RuntimeError as error:
            true("Wrongly" in str(error), f"the error does not name the op ({axes} axes): {error}")
            continue
        raise Wrong(
            "an op without broadcasts returned a gradient of shape () for an input of shape "
            f"{x.shape}, and no RuntimeError was raised: the mistake shows far from where it was made"
        )


@of("no_grad")
def check_off(work: Work) -> None:
    """inside, behind, nested, and after an exception"""
    apply, no_grad = work.engine.apply, work.engine.no_grad
    x = leaf(work, 2.0)

    def records() -> bool:
        return apply(Product, x, 3.0).node is not None

    with no_grad():
        y = apply(Product, x, 3.0)
        true(
            y.node is None and not y.requires_grad, "inside no_grad(), a result still has a node or requires a gradient"
        )
        equal("3 x inside no_grad()", y.data, 6.0)
        with no_grad():
            pass
        true(
            not records(),
            "an inner block switches recording on again at its end, inside the outer one: restore what was before",
        )
    true(records(), "behind the block, nothing is recorded any more")
    try:
        with no_grad():
            raise KeyError("of the block")
    except KeyError:
        pass
    else:
        raise Wrong("an exception in the block is swallowed: __exit__ must not return True")
    true(records(), "after an exception in the block, nothing is recorded any more")
    block = no_grad()
    with block, block:
        pass
    true(records(), "one no_grad() object in two blocks at once leaves recording switched off: remember each state")
