"""Every op as a function of Tensors: one class an op, forward beside backward."""
# ruff: noqa: F403, F405  (a function is exported by its name in the list below, and nowhere else)

from autograd.ops.activations import *
from autograd.ops.arithmetic import *
from autograd.ops.choose import *
from autograd.ops.elementwise import *
from autograd.ops.index import *
from autograd.ops.nn import *
from autograd.ops.products import *
from autograd.ops.reduce import *
from autograd.ops.shape import *
from autograd.tensor import Tensor, attach

__all__ = [
    "abs", "add", "argmax", "argmin", "astype", "broadcast_to", "clip", "clone", "concatenate", "cos", "cross_entropy",
    "cumsum", "diagonal", "divide", "dot", "dropout", "einsum", "embedding", "erf", "exp", "expand_dims", "expm1",
    "flip", "gelu", "getitem", "index_add", "layer_norm", "leaky_relu", "linear", "log", "log1p", "log2", "log_softmax",
    "logsumexp", "masked_fill", "matmul", "max", "maximum", "mean", "min", "minimum", "multiply", "negative", "outer",
    "pad", "power", "prod", "reciprocal", "relu", "remainder", "repeat", "reshape", "roll",
    "scaled_dot_product_attention", "sigmoid", "sign", "silu", "sin", "softmax", "softplus", "sort", "split", "sqrt",
    "square", "squeeze", "stack", "std", "subtract", "sum", "swapaxes", "take", "take_along_axis", "tan", "tanh",
    "tile", "topk", "transpose", "tril", "triu", "var", "where",
]  # fmt: skip

for _name in __all__:  # x.relu() is relu(x): every function of an array is a method, if there is none of its name
    if globals()[_name].__code__.co_varnames[0] in ("x", "a") and not hasattr(Tensor, _name):
        attach(**{_name: globals()[_name]})
