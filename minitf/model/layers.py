"""The building blocks: Module, Linear, Embedding, LayerNorm, Dropout, FeedForward (sections 3.3, 3.4, 5.4)."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from typing import Any, Self, cast

import numpy as np

import autograd as ag
from autograd import Tensor
from autograd.backend import Backend, backend_of, get_backend
from minitf.model.parameters import PROCESS, Initializer, Parameter, load_parameters, read_arrays, write_arrays

__all__ = ["Dropout", "Embedding", "FeedForward", "LayerNorm", "Linear", "Module"]

variants: dict[type[Module], dict[str, Any]] = {}
"""Classes in place of a part where a field of the configuration has another value than the paper's: variants.py's.

{part: {field: class, or {value: class}, or a function that returns the class}}
"""


class Module:
    """Base class of networks and their parts: parameters and modules are attributes, or in lists, tuples or dicts."""

    training = True

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """A module of this class, or of the variant of it that the configuration asks for (see variants.py)."""
        config = args[0] if args else kwargs.get("config")
        for field, others in variants.get(cls, {}).items() if config is not None else ():
            if (value := getattr(config, field)) != getattr(type(config), field):
                variant = others.get(value, cls) if isinstance(others, dict) else others
                return cast(Self, object.__new__(variant if isinstance(variant, type) else variant()))
        return object.__new__(cls)

    def __setattr__(self, name: str, value: Any) -> None:
        new = _with_items([(name, value)]) if name not in vars(self) else ()  # a parameter may be replaced
        for place, each in new:
            if type(each) is Tensor and each.requires_grad and each.is_leaf:
                raise TypeError(f"{place} is a Tensor that requires a gradient; make it a Parameter to train it")
        super().__setattr__(name, value)

    def children(self) -> Iterator[tuple[str, Module]]:
        """The direct submodules with their names, in the order of assignment."""
        for name, value in _with_items(vars(self).items()):
            if isinstance(value, Module):
                yield name, value

    def modules(self) -> Iterator[Module]:
        """This module and all modules in it."""
        yield self
        for _, child in self.children():
            yield from child.modules()

    def named_parameters(self) -> dict[str, Parameter]:
        """All parameters by dotted name, in the order of assignment; a shared one once, by its first name."""
        named: dict[str, Parameter] = {}
        self._collect("", named, set())
        return named

    def _collect(self, prefix: str, named: dict[str, Parameter], seen: set[int]) -> None:
        for name, value in _with_items(vars(self).items()):
            if isinstance(value, Parameter) and id(value) not in seen:
                seen.add(id(value))
                named[prefix + name] = value
        for name, child in self.children():
            child._collect(f"{prefix}{name}.", named, seen)

    def parameters(self) -> list[Parameter]:
        """All parameters, as `named_parameters` orders them."""
        return list(self.named_parameters().values())

    def parameter_count(self) -> int:
        """The number of trained values."""
        return sum(p.size for p in self.parameters())

    def train(self, training: bool = True) -> Self:
        """Switch dropout on (or off) in this module and its submodules."""
        self.training = training
        for _, child in self.children():
            child.train(training)
        return self

    def eval(self) -> Self:
        """Switch dropout off in this module and its submodules."""
        return self.train(False)

    @property
    def backend(self) -> Backend:
        """The backend of the device of the parameters."""
        return backend_of([p.data for p in self.parameters()[:1]])

    def to(self, device: str) -> Self:
        """Move all parameters to a device: "cpu", "cuda", "cuda:1", …. Make the optimizer afterwards.

        Raises: ValueError for a device that this installation cannot use.
        """
        backend = get_backend(device)
        for parameter in self.parameters():
            parameter.data = backend.asarray(parameter.numpy())
            parameter.grad = None
        return self

    def load_parameters(self, arrays: dict[str, np.ndarray], *, copy: bool = True) -> None:
        """Copy `arrays` into the parameters of the same names.

        copy: False makes the arrays themselves the parameters' data, where they have its type and can be written

        Raises: ValueError if names or shapes differ; the message has the first few.
        """
        load_parameters(self.named_parameters(), arrays, copy=copy)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the parameters to a file of the safetensors format, by their names.  Raises: UserError if it cannot"""
        write_arrays(path, {name: p.numpy() for name, p in self.named_parameters().items()})

    def load(self, path: str | os.PathLike[str]) -> None:
        """Copy the parameters of a file that `save` wrote into those of the same names.

        Raises: UserError if the file cannot be read; ValueError if names or shapes differ
        """
        self.load_parameters(read_arrays(path))


def _with_items(attributes: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Attributes with their names; in place of a list, tuple or dict, its items: "layers.0", "layers.1", …"""
    for name, value in attributes:
        if isinstance(value, list | tuple | dict):
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            yield from _with_items((f"{name}.{key}", item) for key, item in pairs)
        else:
            yield name, value


class Linear(Module):
    """y = x Wᵀ + b, or without b.  Shapes: x [..., n_in] -> [..., n_out]"""

    def __init__(self, n_in: int, n_out: int, init: Initializer = PROCESS, *, bias: bool = True, gain: float = 1.0):
        self.weight = init.glorot_uniform(n_out, n_in, gain)
        self.bias = init.zeros(n_out) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        return ag.linear(x, self.weight, self.bias)


class Embedding(Module):
    """y = √d_model · weight[ids] (section 3.4), or weight[ids].  Shapes: ids int [B, T] -> [B, T, D]"""

    def __init__(self, vocab_size: int, d_model: int, init: Initializer = PROCESS, *, scaled: bool = True):
        self.weight = init.normal(vocab_size, d_model)
        self.scale = math.sqrt(d_model) if scaled else 1.0

    def __call__(self, ids: Any) -> Tensor:
        return ag.embedding(ids, self.weight) * self.scale


class LayerNorm(Module):
    """Layer normalisation of the last axis (section 3.1).  Shapes: x [..., D] -> [..., D]"""

    def __init__(self, d_model: int, eps: float = 1e-6, init: Initializer = PROCESS):
        self.weight = init.ones(d_model)
        self.bias = init.zeros(d_model)
        self.eps = eps

    def __call__(self, x: Tensor) -> Tensor:
        return ag.layer_norm(x, self.weight, self.bias, eps=self.eps)


class Dropout(Module):
    """Zero elements with probability p while training (section 5.4)."""

    def __init__(self, p: float):
        self.p = p

    def __call__(self, x: Tensor) -> Tensor:
        return ag.dropout(x, self.p, self.training)


class FeedForward(Module):
    """activation(x W₁ + b₁) W₂ + b₂, the same at every position (section 3.3, equation 2).

    Shapes: x [..., D] -> [..., D], through [..., F]
    """

    def __init__(
        self, d_model: int, d_ff: int, activation: str = "relu", dropout: float = 0.0, init: Initializer = PROCESS
    ):
        self.up = Linear(d_model, d_ff, init)
        self.activation = getattr(ag, activation)  # "relu", "gelu" and "silu" name ops
        self.dropout = Dropout(dropout)
        self.down = Linear(d_ff, d_model, init)

    def __call__(self, x: Tensor) -> Tensor:
        return self.down(self.dropout(self.activation(self.up(x))))
