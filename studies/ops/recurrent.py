"""A gated recurrent unit as one op, with its backward pass through time (Table 1, recurrent layer)."""

from __future__ import annotations

import math

from autograd.backend import backend_of
from autograd.engine import Op, apply
from autograd.ops.nn import mask_array
from autograd.tensor import Tensor, TensorLike


class GRU(Op):
    """h_t = n + z (h_{t-1} - n), with r, z = σ(x_t + W h_{t-1} + b) and n = tanh(x_t + r (W h_{t-1} + b))

    Each of r, z and n has a third of the rows of x, W and b, in this order.  h before the first position is 0, and
    where `mask` is False h stays what it was.

    Shapes: x [..., T, 3 H], weight [3 H, H], bias [3 H]; mask bool [..., T] or None -> h [..., T, H]
    Source: Cho et al. 2014, with the reset gate after the product, as in cuDNN and PyTorch
    """

    reads = "x weight bias y"

    @staticmethod
    def forward(xp, x, weight, bias, *, mask):
        y = xp.empty((*x.shape[:-1], weight.shape[1]), xp.result_type(x, weight, bias))
        h = xp.zeros((*x.shape[:-2], weight.shape[1]), y.dtype)  # [..., H]
        for t in range(x.shape[-2]):
            _, z, n, _ = GRU.gates(xp, x[..., t, :], h, weight, bias)
            new = n + z * (h - n)
            h = new if mask is None else xp.where(mask[..., t, None], new, h)
            y[..., t, :] = h
        return y

    @staticmethod
    def backward(xp, g, y, x, weight, bias, *, mask):
        h = xp.concatenate([xp.zeros_like(y[..., :1, :]), y[..., :-1, :]], axis=-2)  # before each position
        r, z, n, recurrent = GRU.gates(xp, x, h, weight, bias)  # [..., T, H] each
        slope_n = (1 - z) * (1 - n * n)
        slope_r, slope_z = slope_n * recurrent * r * (1 - r), (h - n) * z * (1 - z)
        of_states = xp.concatenate([slope_r, slope_z, slope_n * r], axis=-1)  # slopes of h in W h + b: [..., T, 3 H]
        g_new = []  # of h, where it is not what it was
        g_next = xp.zeros((*x.shape[:-2], y.shape[-1]), y.dtype)  # of h_t, through what comes after it
        for t in reversed(range(x.shape[-2])):
            g_h = g[..., t, :] + g_next
            g_t = g_h if mask is None else g_h * mask[..., t, None]
            g_states = xp.concatenate([g_t, g_t, g_t], axis=-1) * of_states[..., t, :]
            g_next = g_h - g_t + g_t * z[..., t, :] + g_states @ weight  # [..., 3 H] @ [3 H, H]
            g_new.append(g_t)
        g_new = xp.stack(g_new[::-1], axis=-2) if g_new else xp.zeros_like(y)
        g_states = (xp.concatenate([g_new, g_new, g_new], axis=-1) * of_states).reshape(-1, len(weight))
        g_x = xp.concatenate([g_new * slope_r, g_new * slope_z, g_new * slope_n], axis=-1)
        return g_x, g_states.T @ h.reshape(-1, weight.shape[1]), g_states.sum(axis=0)  # [3 H, T] @ [T, H]

    @staticmethod
    def gates(xp, x, h, weight, bias):
        """r, z, n, and the third of W h + b that r multiplies.  Shapes: x [..., 3 H], h [..., H] -> [..., H] each"""
        x_r, x_z, x_n = xp.split(x, 3, axis=-1)
        h_r, h_z, h_n = xp.split(h @ weight.T + bias, 3, axis=-1)  # [..., H] @ [H, 3 H]
        r, z = [0.5 * xp.tanh(0.5 * a) + 0.5 for a in (x_r + h_r, x_z + h_z)]  # σ(a), which cannot overflow
        return r, z, xp.tanh(x_n + r * h_n), h_n

    def flops(self, inputs, outputs):
        """A position: 6 H² for W h and 14 H for the gates; backward 12 H² for both gradients of W h and 21 H, again."""
        width, n = inputs[1][1], math.prod(outputs[0])
        return n * (6 * width + 14), n * (18 * width + 35) if any(self.needs_gradient) else 0


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
