"""My engine: Tensors, the graph that ops leave behind, and the backward pass through it."""

import numpy as np

# ---- tensor: An array that may ask for a gradient (chapter 1) ----
# A Tensor holds an array in `data`. `requires_grad` says whether the gradient by it is wanted. `grad` is None until a
# backward pass puts a Tensor there. `node` is None in a leaf, which you made; in the result of an op it will be the
# node of the graph that says how the result was computed. `data` is the array itself that was handed in, not a copy:
# the optimizer will write into it, and all who hold it see that. Lists and numbers become arrays (np.asarray).


class Tensor:
    def __init__(self, data, requires_grad=False):
        raise NotImplementedError

    @property
    def shape(self):
        raise NotImplementedError

    @property
    def ndim(self):
        raise NotImplementedError

    @property
    def size(self):
        raise NotImplementedError

    @property
    def dtype(self):
        raise NotImplementedError

    def item(self):
        """The single element, as a Python number."""
        raise NotImplementedError


# ---- apply: Run an op, and note how the result came about (chapter 1) ----
# An op is a class with two pure functions of arrays, which ops.py will be full of; until then, yours runs ours:
#     forward(xp, *arrays, **parameters)          returns the array y; xp is the array module, numpy
#     backward(xp, g, y, *arrays, **parameters)   returns a tuple, for each input its gradient or None, given that of y
# apply(op, *inputs, **parameters) calls op.forward with the arrays of its inputs (numbers and arrays stay what they
# are) and returns a Tensor of the result. Its `node` is Node(op, inputs, y, parameters), with the inputs as they were
# given, and it requires a gradient, so that whoever uses it is recorded too.


class Node:
    """One call of an op."""

    def __init__(self, op, inputs, y, parameters):
        self.op, self.inputs, self.y, self.parameters = op, inputs, y, parameters


def apply(op, *inputs, **parameters):
    raise NotImplementedError


# ---- constants: A graph only where a gradient is wanted (chapter 1) ----
# Change `apply`, no new function is needed: if no input is a Tensor that requires a gradient, the result does not
# require one either and has no node, so that nothing is kept. One input that requires a gradient is enough.


# ---- order: Every node after all that use it (chapter 2) ----
# backward_order(output) is the list of all nodes that the Tensor `output` was computed through: its own first, and each
# after all nodes that use its result, because only then is its gradient complete; each node once. In
#     a = apply(...), b = apply(..., a), c = apply(..., a), d = apply(..., b, c)
# it is [d.node, c.node, b.node, a.node] or [d.node, b.node, c.node, a.node]. Leaves and constants have no node. Graphs
# may be deeper than Python's limit of recursion, and have many more paths than nodes.


def backward_order(output):
    raise NotImplementedError


# ---- backward: The chain rule, node by node (chapter 2) ----
# backward(output, gradient=None): go through backward_order(output). The gradient of `output` itself is the array
# `gradient`, or ones of its shape. Each node gets the complete gradient of its result, the sum over all its uses; its
# op's `backward` gives those of its inputs. Leaves that require a gradient get theirs, as a Tensor, in `grad`. Inputs
# that require none get none; a gradient that is None adds nothing. Results of ops need no `grad`.


def backward(output, gradient=None):
    raise NotImplementedError


Tensor.backward = backward


# ---- leaves: Gradients add up, and belong to their leaf (chapter 2) ----
# Change `backward`: a second backward pass adds to the `grad` that is there, which is how the gradients of several
# batches become one. And an op may hand the same array to two inputs, as a + b does with g: whoever then adds to one
# `grad` in place must not change another, nor the array that the caller handed in as `gradient`. An op that was given a
# gradient must find it as it was.


# ---- unbroadcast: Sum over what was repeated (chapter 2) ----
# In a + b with a [2, 3] and b [3], NumPy repeats b; every copy contributes to the gradient of b. unbroadcast(g, shape)
# returns the gradient of an array of `shape` that was repeated to the shape of g.


def unbroadcast(g, shape):
    raise NotImplementedError


# ---- broadcasting: The backward pass undoes it (chapter 2) ----
# Change `backward`: ops with `broadcasts = True` return gradients of the shape of the result. Before a gradient goes
# on, it must have the shape of its input. It must have the dtype of its input, too: a float32 model that multiplies by
# a float64 number would else learn in float64. Other ops than those that say `broadcasts` return the shape of the
# input; if one does not, raise a RuntimeError that names the op and both shapes.


# ---- no_grad: Nothing is recorded (chapter 2) ----
# Inside `with no_grad():`, results require no gradient and have no node, whatever their inputs are; behind it, all is
# as before it: also if the block raised an exception, and if it stood in another such block.


class no_grad:
    def __enter__(self):
        raise NotImplementedError

    def __exit__(self, *error):
        raise NotImplementedError


# ---- numerical_gradient: A second opinion (chapter 3) ----
# numerical_gradient(f, x, eps=1e-5): the gradient of the number f(x) by each element of the array x, from (f(x + eps) -
# f(x - eps)) / (2 eps), one element at a time. From here on you can check your gradients yourself.


def numerical_gradient(f, x, eps=1e-5):
    raise NotImplementedError
