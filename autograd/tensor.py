"""Tensor: an array, its gradient, and the op that made it.

Other modules attach methods, which attached.pyi lists: `engine` adds `backward`, `ops` operators and the methods of
NumPy arrays, `unrecorded` comparisons, changes in place and hooks, which a backward pass calls with gradients.
"""

from __future__ import annotations

import itertools
import math
import threading
import warnings
from collections.abc import Callable, Sequence
from sys import getrefcount, modules
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy import add, ndarray

from autograd.backend import CPU, Backend, as_array, backend_of, is_floating
from autograd.modes import current_modes, is_grad_enabled

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from autograd.attached import Tensor as Attached
else:
    Attached = object

__all__ = ["Tensor"]

TensorLike: TypeAlias = (
    "Tensor | np.ndarray[Any, Any] | np.generic | float | Sequence[float] | Sequence[Sequence[float]]"
)
"""The input of an op: a Tensor, which may get a gradient, or an array, number or list, which gets none."""
TensorOrArray: TypeAlias = "Tensor | np.ndarray[Any, Any]"
"""The input of an op that reads shapes first.  Arrays of CuPy, which has no types, pass everywhere."""


Edge: TypeAlias = Any  # to a node's first output, the `Op`; to a leaf, the Tensor; to another output, (`Op`, index)
Array = Any  # numpy.ndarray or cupy.ndarray

clock = itertools.count(1)
"""The order in which nodes are made and arrays are changed in place."""


class Tensor(Attached):
    """A multi-dimensional array that records the ops applied to it, so that gradients can be computed.

    `data` is a NumPy or CuPy array (lists and scalars become NumPy arrays, an array is not copied).  A Tensor created
    by the user with `requires_grad=True` is a leaf: `backward()` on a result adds to its `grad`, a Tensor of the same
    shape and dtype.

    Raises: TypeError for requires_grad=True with data that is not floating point.
    """

    __slots__ = ("__weakref__", "_edge", "_grad", "data", "grad_hooks", "hooks")
    data: Any
    _grad: Tensor | None
    hooks: Any  # `Hooks`, or None
    grad_hooks: list[Callable] | None
    _edge: Any  # of a constant, None; of a leaf, `Leaf`; else the node that made it, with an index but for output 0

    def __init__(self, data: TensorLike, requires_grad: bool = False, dtype: DTypeLike | None = None):
        if isinstance(data, Tensor):
            data._warn_of_lost_graph("Tensor(x) has no graph; write x.clone(), or x.detach() if no gradient is wanted")
            data = data.data
        self.data = as_array(data, dtype)
        self._edge = self._grad = self.hooks = self.grad_hooks = None
        self.requires_grad = requires_grad

    # ---- Attributes ----

    @property
    def op(self) -> Any:
        """The `Op`, a node of the graph, that made this Tensor; None for a leaf."""
        edge = self._edge[0] if isinstance(self._edge, tuple) else self._edge
        return None if edge is Leaf else edge

    @property
    def index(self) -> int:
        """The number of this Tensor among the outputs of `op`."""
        return self._edge[1] if isinstance(self._edge, tuple) else 0

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are computed for this Tensor."""
        return self._edge is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value and not is_floating(self.data.dtype):
            raise TypeError(
                f"only floating-point Tensors can require a gradient, this one is {self.data.dtype}; "
                "convert it first, for example Tensor(x, dtype='float32')"
            )
        if self.op is None:
            self._edge = Leaf if value else None
        elif not value:
            raise RuntimeError(
                "requires_grad=False on the result of an op would cut the graph behind it; "
                "write y = y.detach() to go on without a gradient"
            )

    @property
    def is_leaf(self) -> bool:
        """Whether this Tensor was created by the user and not by an op."""
        return self.op is None

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        return self.data.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.data.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.data.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self.data.dtype

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        text = repr(self.data)
        inner = text[text.find("(") + 1 : text.rfind(")")] if "(" in text else text
        made = f", op={type(self.op).__name__}" if self.op is not None else ""
        return f"Tensor({inner}{made}{', requires_grad=True' if self.requires_grad and self.op is None else ''})"

    # ---- Conversions ----

    def numpy(self) -> NDArray[Any]:
        """The data as a NumPy array: the same memory on the CPU, a copy from a GPU."""
        return self.data if isinstance(self.data, np.ndarray) else self.data.get()

    __array_ufunc__: Any = None  # `array * x` calls `x.__rmul__(array)`

    def item(self) -> Any:
        """The element of a Tensor of size 1, as a Python number."""
        return self.data.item()

    def detach(self) -> Tensor:
        """A Tensor of the same data without a graph; ops that saved the data still notice in-place changes."""
        return new_tensor(self.data)

    def _warn_of_lost_graph(self, what: str) -> None:
        if self._edge is not None and is_grad_enabled():
            warnings.warn(f"x requires a gradient, and {what}", stacklevel=3)

    def __bool__(self) -> bool:
        return bool(self.data)

    # ---- Gradients ----

    @property
    def grad(self) -> Tensor | None:
        """The sum of the gradients that backward passes have added, None before the first.

        Raises: on assignment, TypeError for anything but a Tensor or None; ValueError for another shape or dtype
        """
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"grad must be a Tensor or None, found {type(value).__name__}; write Tensor(g)")
            if (value.shape, value.dtype) != (self.shape, self.dtype):
                raise ValueError(
                    f"grad must have the shape and dtype of its Tensor, {self.shape} {self.dtype}; "
                    f"found {value.shape} {value.dtype}"
                )
        self._grad = value

    def zero_grad(self) -> None:
        """Set `grad` to None."""
        self.grad = None


class Leaf:
    """In the place of the node that made a Tensor: a user made it, and wants its gradient."""


_blank = object.__new__


def new_tensor(data: Any, edge: Any = None) -> Tensor:
    """A Tensor of an array, without the constructor's checks."""
    tensor = _blank(Tensor)
    tensor.data, tensor._edge = data, edge
    tensor._grad = tensor.hooks = tensor.grad_hooks = None
    return tensor


def note_change(array: Any) -> None:
    """Tell observers that elements of an array have been changed in place."""
    for call in current_modes().events.after_change:
        call(array)


def attach(**methods: Any) -> None:
    """Add methods to Tensor: the ops are defined in modules that import it."""
    for name, method in methods.items():
        setattr(Tensor, name, method)


# ---- The graph: what edges lead to, and what it keeps of an array ----


class ArraySpec:
    """Shape and dtype of an array that a backward pass does not read."""

    __slots__ = ("dtype", "shape")
    shape: tuple[int, ...]
    dtype: Any

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"backward reads an array of shape {self.shape} that `reads` of its op does not name")

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


for _name in ("len", "getitem", "eq", "ne", "lt", "le", "gt", "ge", "add", "mul", "rmul", "neg", "pow"):
    setattr(ArraySpec, f"__{_name}__", ArraySpec.__array__)  # what an array has


def make_spec(shape: tuple[int, ...], dtype: Any) -> ArraySpec:
    """An `ArraySpec`, in half the time that a constructor takes."""
    spec = ArraySpec()
    spec.shape, spec.dtype = shape, dtype
    return spec


def edge_of(x: Tensor) -> Edge:
    """Return the edge that leads to a Tensor: to the op that made it, or to the leaf itself."""
    return x if x._edge is None or x._edge is Leaf else x._edge


def split(edge: Edge) -> tuple[Any, int]:
    """Return the op or leaf that an edge leads to, and the number of its output."""
    return edge if isinstance(edge, tuple) else (edge, 0)


def specs_of(edges: Sequence[Edge | None]) -> list[Any]:
    """Shape and dtype of the output, or of the leaf, that each edge leads to; None for None."""
    specs: list[Any] = []
    for edge in edges:
        if isinstance(edge, Tensor):
            specs.append(make_spec(edge.data.shape, edge.data.dtype))
        elif type(edge) is tuple:
            specs.append(edge[0].output_specs[edge[1]])
        else:
            specs.append(None if edge is None else edge.output_specs[0])
    return specs


# ---- Gradients on their way back to Tensors ----

_accumulating = threading.Lock()
_one = [np.empty(0)]
ONE_OWNER = getrefcount(_one[0])  # of an object that only a list refers to, whatever this interpreter counts


def starting_gradient(output: Tensor, gradient: Any, recorded: bool) -> Any:
    """The gradient of `output` that a backward pass starts from: `gradient`, or 1 for a single element.

    An array; if the pass is recorded, a Tensor, with the graph of `gradient`.

    Raises: RuntimeError if `output` has no graph, or several elements and no `gradient`; ValueError on a wrong shape.
    """
    if not output.requires_grad:
        raise RuntimeError(
            "backward() of a Tensor that does not depend on any Tensor with requires_grad=True: set it on the inputs; "
            "if this Tensor is a gradient, compute it with create_graph=True"
        )
    xp = backend_of([output.data]).xp
    if gradient is None:
        if output.size != 1:
            raise RuntimeError(
                f"backward() without a gradient needs a single element, this Tensor has shape {output.shape}; "
                "reduce it (for example .sum()) or pass gradient="
            )
        gradient = xp.ones(output.shape, output.dtype)
    g = gradient.data if isinstance(gradient, Tensor) else as_array(gradient)
    if g.dtype.kind == "c":
        raise TypeError(f"gradient is complex, the Tensor is {output.dtype}; its imaginary part would be lost")
    g = xp.asarray(g, dtype=output.dtype)
    if g.shape != output.shape:
        raise ValueError(f"gradient has shape {g.shape}, the Tensor has shape {output.shape}; they must be equal")
    if recorded:
        return gradient.astype(output.dtype) if isinstance(gradient, Tensor) else new_tensor(g)
    return g


class GradientSums:
    """The gradients that have arrived along each edge so far in one backward pass, summed.

    An array is added to in place if nothing but this object refers to it, and it is not a view.  In a recorded pass
    gradients are Tensors, whose sums are recorded, too.
    """

    def __init__(self, arrivals: dict[Any, int], wanted: Sequence[Tensor] | None, recorded: bool = False):
        self.sums: dict[Edge, Any] = {}
        self.arrivals = arrivals  # gradients that each leaf still waits for
        self.targets = None if wanted is None else {edge_of(x) for x in wanted}  # whose gradients are captured
        self.captured: dict[Edge, Tensor] = {}  # complete gradients of the targets
        self.recorded = recorded

    def awaits(self, edge: Edge | None) -> bool:
        """Whether the pass follows an edge: it leads to what is wanted, if anything is."""
        return edge is not None and (self.targets is None or split(edge)[0] in self.arrivals)

    def add(self, edges: Sequence[Edge | None], gradients: list[Any]) -> None:
        """Move gradients out of the list and add each to what has come along its edge; None counts as 0."""
        sums, arrivals, targets = self.sums, self.arrivals, self.targets
        for edge in edges:
            g = gradients.pop(0)
            if edge is None or (targets is not None and not self.awaits(edge)):
                continue
            if type(g) is not ndarray and hasattr(g, "add_to"):  # see `Later` in autograd/fast/ops.py
                g = g.add_to(sums[edge]) if self.owns(edge) else g.dense()
            if g is None:
                pass
            elif edge not in sums:
                sums[edge] = g
            elif self.recorded:
                sums[edge] = sums[edge] + g
            elif self.owns(edge):
                add(sums[edge], g, sums[edge])
            else:
                added = add(sums[edge], g)
                sums[edge] = np.asarray(added) if isinstance(added, np.generic) else added  # NumPy's sums of 0-d arrays
                del added  # or `sums` would not own it
                for call in current_modes().events.after_allocation:
                    call(sums[edge])
            g = None  # so that `sums` alone refers to the array, and a leaf keeps it without a copy
            if isinstance(edge, Tensor):
                arrivals[edge] -= 1
                if not arrivals[edge]:  # complete: no node left to visit leads to this leaf
                    self.finish(edge)

    def owns(self, edge: Edge) -> bool:
        """Whether a sum may be changed in place: it is an array, not a view, and only `sums` refers to it."""
        sums = self.sums
        return edge in sums and getrefcount(sums[edge]) == ONE_OWNER and not self.recorded and sums[edge].base is None

    def take(self, node: Any) -> list[Any]:
        """The complete gradients of a node's outputs; zeros for an output that is not used."""
        specs = node.output_specs
        if self.recorded or self.targets is not None or node.hooks or len(specs) > 1:
            found = []
            for i, spec in enumerate(specs):
                g, _ = self._complete((node, i) if i else node, spec, node.backend, (node.hooks or {}).get(i))
                found.append(g if self.recorded else g.data)
            return found
        g = self.sums.pop(node, None)
        return [node.xp.zeros(specs[0].shape, specs[0].dtype) if g is None else g]

    def _complete(self, edge: Edge, spec: ArraySpec, backend: Backend, hooks: Any) -> tuple[Tensor, bool]:
        """Take the total gradient, zeros if nothing has arrived, through its hooks; capture it if it is wanted.

        Returns it, and whether nothing else refers to its array.
        """
        owned = self.owns(edge) and not hooks  # a hook may keep the array
        g = self.sums.pop(edge, None)
        g = backend.xp.zeros(spec.shape, spec.dtype) if g is None else g
        g = g if isinstance(g, Tensor) else new_tensor(g)
        if hooks:
            g = hooks.run(g)
        if self.targets and edge in self.targets:
            self.captured[edge] = self._kept(g, owned)
        return g, owned

    def finish(self, leaf: Tensor) -> None:
        """Run the hooks of a leaf whose gradient is complete, then capture the gradient or add it to `leaf.grad`."""
        backend = CPU if "cupy" not in modules else backend_of([leaf.data])
        g, owned = self._complete(leaf, leaf.data, backend, leaf.hooks)
        for call in current_modes().events.after_leaf:
            call(leaf, g.data)
        if self.targets is not None:
            return
        with _accumulating:  # threads may share a leaf
            if self.recorded:  # a copy: a later pass may add to it in place
                leaf.grad = g.clone() if leaf.grad is None else leaf.grad + g
            elif leaf.grad is None:
                leaf.grad = self._kept(g, owned)
            else:
                leaf.grad.data[...] += g.data
                note_change(leaf.grad.data)
        for grad_hook in list(leaf.grad_hooks or ()):
            grad_hook(leaf)

    def _kept(self, g: Tensor, owned: bool) -> Tensor:
        """A gradient for the user to keep: a copy if anything else may refer to its array."""
        return g if owned or self.recorded else new_tensor(g.data.copy())


# ---- Arguments of ops: what they may be, and as what they are taken ----


def number(name: str, x: Any) -> float:
    """`x` as a Python number.  Raises: TypeError for a Tensor, whose gradient would be lost"""
    if isinstance(x, Tensor):
        raise TypeError(f"{name} must be a number, found a Tensor, which would get no gradient; write {name}.item()")
    return float(x)


def tensors(**named: Any) -> list[Tensor]:
    """The arguments as Tensors: lists and arrays as constants.

    Raises: TypeError for None
    """
    for name, x in named.items():
        if x is None:
            raise TypeError(f"{name} must be a Tensor or an array, found None")
    return [x if isinstance(x, Tensor) else new_tensor(as_array(x)) for x in named.values()]


def refuse_list(axis: Any) -> None:
    """Raises: TypeError if `axis` is a list: several axes are a tuple, as in NumPy"""
    if isinstance(axis, list):
        raise TypeError(f"axis={axis} is a list; write a tuple, axis={tuple(axis)}")


def array_of(x: Any) -> Any:
    """The array of a Tensor, or `x` as an array."""
    return x.data if isinstance(x, Tensor) else as_array(x)
