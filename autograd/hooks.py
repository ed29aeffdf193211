"""Hooks: functions that a backward pass calls with the gradients of given Tensors."""

from __future__ import annotations

import weakref
from collections.abc import Callable

from autograd.tensor import Tensor, attach

Hook = Callable[[Tensor], Tensor | None]


class Hooks(list[Hook]):
    """The hooks of one Tensor, in the order in which they were registered."""

    def run(self, g: Tensor) -> Tensor:
        """Pass a gradient through the hooks; the result has its shape and dtype.

        Raises: TypeError for a hook that returns neither an array nor None, ValueError for another shape
        """
        for hook in list(self):
            replaced = hook(g)
            if replaced is None:
                continue
            if not hasattr(replaced, "shape"):
                raise TypeError(
                    f"a gradient hook returned {type(replaced).__name__}; return a Tensor, an array or None"
                )
            new = replaced if isinstance(replaced, Tensor) else Tensor(replaced)
            if new.shape != g.shape:
                raise ValueError(f"a gradient hook returned shape {new.shape} for a gradient of shape {g.shape}")
            g = new if new.dtype == g.dtype else new.astype(g.dtype)
        return g


def register_hook(self: Tensor, hook: Hook) -> Callable[[], None]:
    """Call `hook(gradient)` when the gradient of this Tensor is complete; a returned Tensor replaces it.

    Returns a function that removes the hook.  Raises: RuntimeError for a Tensor that does not require a gradient
    """
    if not self.requires_grad:
        raise RuntimeError("register_hook on a Tensor that does not require a gradient would never be called")
    if self.op is None:
        hooks = self.hooks = Hooks() if self.hooks is None else self.hooks
    else:
        self.op.hooks = self.op.hooks if self.op.hooks is not None else {}
        hooks = self.op.hooks.setdefault(self.index, Hooks())
    hooks.append(hook)
    return lambda: hooks.remove(hook)


def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> Callable[[], None]:
    """Call `hook(self)` when a backward pass has added the complete gradient of this leaf to its `grad`.

    Other leaves may not have theirs yet.  Returns a function that removes the hook.
    Raises: RuntimeError for anything but a leaf that requires a gradient
    """
    if not (self.requires_grad and self.op is None):
        raise RuntimeError("only a leaf that requires a gradient accumulates one in its grad; use register_hook")
    hooks = self.grad_hooks = self.grad_hooks if self.grad_hooks is not None else []
    hooks.append(hook)
    return lambda: hooks.remove(hook)


def retain_grad(self: Tensor) -> None:
    """Add the gradient of this intermediate Tensor to its `grad`, too."""
    if self.op is None:
        return
    retained = (self.op.hooks or {}).get(self.index, ())
    if any(getattr(hook, "retains", None) == self.index for hook in retained):  # it is retained already
        return
    reference = weakref.ref(self)  # the node must not refer to its own output: that would be a cycle

    def keep(gradient: Tensor) -> None:
        tensor = reference()
        if tensor is not None:
            total = gradient.data if tensor.grad is None else tensor.grad.data + gradient.data
            tensor.grad = Tensor(total.copy())

    keep.retains = self.index  # type: ignore[attr-defined]
    self.register_hook(keep)


attach(
    register_hook=register_hook,
    register_post_accumulate_grad_hook=register_post_accumulate_grad_hook,
    retain_grad=retain_grad,
)
