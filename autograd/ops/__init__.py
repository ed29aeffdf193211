"""Every op as a function of Tensors: one class an op, forward beside backward."""

from autograd.ops.activations import relu, tanh
from autograd.ops.attention import scaled_dot_product_attention
from autograd.ops.elementwise import add, divide, exp, log, multiply, negative, sqrt, square, subtract
from autograd.ops.index import getitem, take
from autograd.ops.loss import cross_entropy
from autograd.ops.matmul import linear, matmul
from autograd.ops.nn import dropout, dropout_add_layer_norm, embedding, layer_norm
from autograd.ops.reduce import mean, softmax, sum
from autograd.ops.shape import concatenate, reshape, swapaxes, transpose

__all__ = [
    "add",
    "concatenate",
    "cross_entropy",
    "divide",
    "dropout",
    "dropout_add_layer_norm",
    "embedding",
    "exp",
    "getitem",
    "layer_norm",
    "linear",
    "log",
    "matmul",
    "mean",
    "multiply",
    "negative",
    "relu",
    "reshape",
    "scaled_dot_product_attention",
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
