"""Every op as a function of Tensors: one class an op, forward beside backward."""

from autograd.ops.elementwise import add, multiply, tanh

__all__ = ["add", "multiply", "tanh"]
