"""A gated recurrent unit as one op, with its backward pass through time (Table 1, recurrent layer)."""

from __future__ import annotations

from typing import Any

from autograd.backend import backend_of
from autograd.engine import Op, apply
from autograd.ops.attention import mask_array
from autograd.tensor import Tensor, TensorLike


def _sigmoid(xp: Any, x: Any) -> Any:
    return 0.5 * xp.tanh(0.5 * x) + 0.5  # no exponential that could overflow


class GRU(Op):
    """h_t = n + z (h_{t-1} - n), with r, z = σ(x_t + W h_{t-1} + b) and n = tanh(x_t + r (W h_{t-1} + b))

    Each of r, z and n has a third of the rows of x, W and b, in this order.  h before the first position is 0, and
    where `mask` is False h stays what it was.

    Shapes: x [..., T, 3 H], weight [3 H, H], bias [3 H]; mask bool [..., T] or None -> h [..., T, H]
    Saves:  weight; h, r, z, n and the third of W h + b that r multiplies, [T, ..., H] each; the mask
    Source: Cho et al. 2014, with the reset gate after the product, as in cuDNN and PyTorch
    """

    def forward(self, x, weight, bias, *, mask):
        xp, width = self.xp, weight.shape[1]
        steps = x.shape[-2]
        h = xp.zeros((steps + 1, *x.shape[:-2], width), xp.result_type(x, weight, bias))  # [1 + T, ..., H]
        r, z, n, recurrent = [xp.empty_like(h[1:]) for _ in range(4)]
        for t in range(steps):
            inputs, states = x[..., t, :], h[t] @ weight.T + bias  # [..., H] @ [H, 3 H]
            r[t] = _sigmoid(xp, inputs[..., :width] + states[..., :width])
            z[t] = _sigmoid(xp, inputs[..., width : 2 * width] + states[..., width : 2 * width])
            recurrent[t] = states[..., 2 * width :]
            n[t] = xp.tanh(inputs[..., 2 * width :] + r[t] * recurrent[t])
            h[t + 1] = n[t] + z[t] * (h[t] - n[t])
            if mask is not None:
                xp.copyto(h[t + 1], h[t], where=~mask[..., t, None])
        self.save(weight, h, r, z, n, recurrent, mask)
        return xp.ascontiguousarray(xp.moveaxis(h[1:], 0, -2))  # [T, ..., H] -> [..., T, H]

    def flops(self, inputs, outputs):
        """A position: 6 H² for W h and 14 H for the gates; backward 12 H² for both gradients of W h and 21 H."""
        width = inputs[1][1]
        n = 1
        for side in outputs[0]:
            n *= side
        return n * (6 * width + 14), n * (12 * width + 21) if any(self.needs_gradient) else 0

    def backward(self, g_y):
        xp = self.xp
        weight, h, r, z, n, recurrent, mask = self.saved
        g_x = xp.empty((*g_y.shape[:-1], len(weight)), h.dtype)
        g_states = xp.empty((len(r), *r.shape[1:-1], len(weight)), h.dtype)  # of W h + b: [T, ..., 3 H]
        g_next = xp.zeros_like(h[0])  # of h_t, through what comes after it
        for t in reversed(range(len(r))):
            g_h = g_y[..., t, :] + g_next
            g_moved = g_h if mask is None else g_h * mask[..., t, None]  # what a masked position passes on unchanged
            g_n = g_moved * (1 - z[t]) * (1 - n[t] * n[t])
            g_r = g_n * recurrent[t] * r[t] * (1 - r[t])
            g_z = g_moved * (h[t] - n[t]) * z[t] * (1 - z[t])
            g_x[..., t, :] = xp.concatenate([g_r, g_z, g_n], axis=-1)
            g_states[t] = xp.concatenate([g_r, g_z, g_n * r[t]], axis=-1)
            g_next = g_h - g_moved + g_moved * z[t] + g_states[t] @ weight  # [..., 3 H] @ [3 H, H]
        rows = g_states.reshape(-1, len(weight))
        return g_x, rows.T @ h[:-1].reshape(len(rows), weight.shape[1]), rows.sum(axis=0)


def gru(x: TensorLike, weight: TensorLike, bias: TensorLike, mask: TensorLike | None = None) -> Tensor:
    """The states of a gated recurrent unit that starts from 0.

    `x` holds the inputs' share of the three gates r, z and n: `linear(inputs, weight_ih, bias_ih)`.  `mask` is False at
    positions, such as padding, that leave the state as it was.

    Shapes: x [..., T, 3 H], weight [3 H, H], bias [3 H], mask bool broadcastable to [..., T] -> [..., T, H]
    Raises: ValueError for shapes that do not fit, TypeError for a mask that is not boolean.
    Source: Cho et al. 2014; PyTorch's torch.nn.GRU, whose weight_hh and bias_hh these are
    """
    x, weight, bias = [a if isinstance(a, Tensor) else Tensor(a) for a in (x, weight, bias)]
    width = weight.shape[-1]
    if weight.shape != (3 * width, width) or bias.shape != (3 * width,) or x.ndim < 2 or x.shape[-1] != 3 * width:
        raise ValueError(
            f"x has shape {x.shape}, weight {weight.shape}, bias {bias.shape}; expected [..., T, 3 H], [3 H, H], [3 H]"
        )
    mask = mask_array(x, mask, x.shape[:-1], "[..., T]")
    if mask is not None:
        mask = backend_of([x.data]).xp.broadcast_to(mask, x.shape[:-1])
    return apply(GRU, x, weight, bias, mask=mask)
