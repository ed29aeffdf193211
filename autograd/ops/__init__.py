"""Every op as a function of Tensors: one class an op, forward beside backward."""
# ruff: noqa: F403, F405  (a function is exported by its name in the list below, and nowhere else)

from autograd.ops.activations import *
from autograd.ops.arithmetic import *
from autograd.ops.attention import *
from autograd.ops.choose import *
from autograd.ops.elementwise import *
from autograd.ops.index import *
from autograd.ops.join import *
from autograd.ops.local import *
from autograd.ops.nn import *
from autograd.ops.products import *
from autograd.ops.recurrent import *
from autograd.ops.reduce import *
from autograd.ops.shape import *

__all__ = [
    "abs",
    "add",
    "additive_attention",
    "argmax",
    "argmin",
    "astype",
    "broadcast_to",
    "clip",
    "clone",
    "concatenate",
    "cos",
    "cross_entropy",
    "cumsum",
    "diagonal",
    "divide",
    "dropout",
    "einsum",
    "embedding",
    "erf",
    "exp",
    "expand_dims",
    "expm1",
    "gelu",
    "getitem",
    "gru",
    "index_add",
    "layer_norm",
    "linear",
    "local_attention",
    "log",
    "log1p",
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
    "prod",
    "reciprocal",
    "relu",
    "remainder",
    "repeat",
    "reshape",
    "scaled_dot_product_attention",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "softmax",
    "softplus",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "subtract",
    "sum",
    "swapaxes",
    "take",
    "take_along_axis",
    "tanh",
    "topk",
    "transpose",
    "tril",
    "triu",
    "var",
    "where",
]
