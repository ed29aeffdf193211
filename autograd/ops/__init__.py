"""Every op as a function of Tensors: one class an op, forward beside backward."""
# ruff: noqa: F403, F405  (a function is exported by its name in the list below, and nowhere else)

from autograd.ops.activations import *
from autograd.ops.attention import *
from autograd.ops.choose import *
from autograd.ops.elementwise import *
from autograd.ops.index import *
from autograd.ops.local import *
from autograd.ops.loss import *
from autograd.ops.nn import *
from autograd.ops.products import *
from autograd.ops.recurrent import *
from autograd.ops.reduce import *
from autograd.ops.shape import *

__all__ = [
    "abs",
    "add",
    "additive_attention",
    "astype",
    "broadcast_to",
    "clip",
    "concatenate",
    "cross_entropy",
    "divide",
    "dropout",
    "dropout_add_layer_norm",
    "einsum",
    "embedding",
    "exp",
    "expand_dims",
    "gelu",
    "getitem",
    "gru",
    "layer_norm",
    "linear",
    "linear_cross_entropy",
    "local_attention",
    "log",
    "log_softmax",
    "logsumexp",
    "masked_fill",
    "matmul",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "multiply",
    "negative",
    "pad",
    "power",
    "reciprocal",
    "relu",
    "reshape",
    "scaled_dot_product_attention",
    "sigmoid",
    "silu",
    "softmax",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "subtract",
    "sum",
    "swapaxes",
    "take",
    "tanh",
    "transpose",
    "var",
    "where",
]
