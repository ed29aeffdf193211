"""Reference answers to the steps of engine.py; an answer may define again what an earlier one defined."""

import numpy as np


# ---- tensor ----
class Tensor:
    def __init__(self, data, requires_grad=False):
        self.data = np.asarray(data)
        self.requires_grad = requires_grad
        self.grad = None
        self.node = None

    @property
    def shape(self):
        return self.data.shape

    @property
    def ndim(self):
        return self.data.ndim

    @property
    def size(self):
        return self.data.size

    @property
    def dtype(self):
        return self.data.dtype

    def item(self):
        return self.data.item()


# ---- apply ----
class Node:
    def __init__(self, op, inputs, y, parameters):
        self.op, self.inputs, self.y, self.parameters = op, inputs, y, parameters


def arrays_of(inputs):
    return [x.data if isinstance(x, Tensor) else x for x in inputs]


def apply(op, *inputs, **parameters):
    output = Tensor(op.forward(np, *arrays_of(inputs), **parameters))
    output.requires_grad = True
    output.node = Node(op, inputs, output.data, parameters)
    return output


# ---- constants ----
def needs_gradient(x):
    return isinstance(x, Tensor) and x.requires_grad


def apply(op, *inputs, **parameters):
    output = Tensor(op.forward(np, *arrays_of(inputs), **parameters))
    if any(needs_gradient(x) for x in inputs):
        output.requires_grad = True
        output.node = Node(op, inputs, output.data, parameters)
    return output


# ---- order ----
def backward_order(output):
    finished, seen, stack = [], set(), [(output.node, False)]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            finished.append(node)
        elif node is not None and node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((x.node, False) for x in node.inputs if isinstance(x, Tensor))
    return finished[::-1]


# ---- backward ----
def backward(output, gradient=None):
    sums = {output.node or output: np.ones_like(output.data) if gradient is None else gradient}
    for node in backward_order(output):
        g = sums.pop(node)
        gradients = node.op.backward(np, g, node.y, *arrays_of(node.inputs), **node.parameters)
        for x, g_x in zip(node.inputs, gradients, strict=True):
            if needs_gradient(x) and g_x is not None:
                key = x.node or x
                sums[key] = sums[key] + g_x if key in sums else g_x
    for x, g in sums.items():
        x.grad = Tensor(g)


Tensor.backward = backward


# ---- leaves ----
def backward(output, gradient=None):
    sums = {output.node or output: np.ones_like(output.data) if gradient is None else gradient}
    for node in backward_order(output):
        g = sums.pop(node)
        gradients = node.op.backward(np, g, node.y, *arrays_of(node.inputs), **node.parameters)
        for x, g_x in zip(node.inputs, gradients, strict=True):
            if needs_gradient(x) and g_x is not None:
                key = x.node or x
                sums[key] = sums[key] + g_x if key in sums else g_x
    for x, g in sums.items():
        x.grad = Tensor(g.copy() if x.grad is None else x.grad.data + g)


Tensor.backward = backward


# ---- unbroadcast ----
def unbroadcast(g, shape):
    lead = g.ndim - len(shape)
    g = g.sum(axis=tuple(range(lead)))
    repeated = tuple(axis for axis, size in enumerate(shape) if size == 1)
    return g.sum(axis=repeated, keepdims=True)


# ---- broadcasting ----
def backward(output, gradient=None):
    sums = {output.node or output: np.ones_like(output.data) if gradient is None else gradient}
    for node in backward_order(output):
        g = sums.pop(node)
        gradients = node.op.backward(np, g, node.y, *arrays_of(node.inputs), **node.parameters)
        for x, g_x in zip(node.inputs, gradients, strict=True):
            if needs_gradient(x) and g_x is not None:
                if node.op.broadcasts:
                    g_x = unbroadcast(g_x, x.shape)
                if g_x.shape != x.shape:
                    raise RuntimeError(f"{node.op.__name__}: gradient of shape {g_x.shape} for shape {x.shape}")
                g_x = g_x.astype(x.dtype, copy=False)
                key = x.node or x
                sums[key] = sums[key] + g_x if key in sums else g_x
    for x, g in sums.items():
        x.grad = Tensor(g.copy() if x.grad is None else x.grad.data + g)


Tensor.backward = backward


# ---- no_grad ----
recording = True


class no_grad:
    def __init__(self):
        self.before = []

    def __enter__(self):
        global recording
        self.before.append(recording)
        recording = False

    def __exit__(self, *error):
        global recording
        recording = self.before.pop()


def apply(op, *inputs, **parameters):
    output = Tensor(op.forward(np, *arrays_of(inputs), **parameters))
    if recording and any(needs_gradient(x) for x in inputs):
        output.requires_grad = True
        output.node = Node(op, inputs, output.data, parameters)
    return output


# ---- numerical_gradient ----
def numerical_gradient(f, x, eps=1e-5):
    g = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[place] = eps
        g[place] = (f(x + step) - f(x - step)) / (2 * eps)
    return g
