"""Every op as a function of Tensors: one class an op, forward beside backward."""

from autograd.ops.activations import relu, tanh
from autograd.ops.elementwise import add, divide, exp, log, multiply, negative, sqrt, square, subtract
from autograd.ops.index import getitem, take
from autograd.ops.matmul import linear, matmul
from autograd.ops.reduce import mean, softmax, sum
from autograd.ops.shape import concatenate, reshape, swapaxes, transpose

__all__ = [
    "add",
    "concatenate",
    "divide",
    "exp",
    "getitem",
    "linear",
    "log",
    "matmul",
    "mean",
    "multiply",
    "negative",
    "relu",
    "reshape",
    "softmax",
    "sqrt",
    "square",
    "subtract",
    "sum",
    "swapaxes",
    "take",
    "tanh",
    "transpose",
]
