"""Loops that Numba compiles: the kernels of compiled.py for blocks of rows, in float32 and contiguous.

Each computes in one pass, or in two over a row that the first has left in the cache, what NumPy computes in ten.  A
result of a row depends on that row alone, so that threads may divide the rows.

Sums may be reordered; that there is no NaN or ∞ is never assumed.  A kernel that calls another contains its code.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autograd.fast.compiling import bits_of, compiled, compiled_inside, multiply_add

Array = Any
f4 = np.float32

LOG2_E = f4(1.4426950408889634)
LN2_HIGH, LN2_LOW = f4(0.693359375), f4(-2.12194440e-4)  # whose sum is ln 2; n · LN2_HIGH is exact for |n| < 2^15
SMALLEST = f4(-87.33)  # whose exponential is just a normal number
PART = 256  # elements of a row that are summed in float32, before float64 takes over
OUTPUTS_AT_A_TIME = 4  # rows of the weights of a product of few rows; the last ones are computed in another order


@compiled
def exp(x: Any) -> Any:
    """e^x for x ≤ 0, to 2^-23 of its value; 0 for less than SMALLEST, NaN for NaN.

    x = n ln 2 + r with |r| ≤ ln 2 / 2; e^r by the polynomial of Cephes' expf, 2^n by its bits.
    """
    z = x if x > SMALLEST else SMALLEST
    n = np.floor(z * LOG2_E + f4(0.5))
    r = multiply_add(n, -LN2_LOW, multiply_add(n, -LN2_HIGH, z))
    y = f4(1.9875691500e-4)
    y = multiply_add(y, r, f4(1.3981999507e-3))
    y = multiply_add(y, r, f4(8.3334519073e-3))
    y = multiply_add(y, r, f4(4.1665795894e-2))
    y = multiply_add(y, r, f4(1.6666665459e-1))
    y = multiply_add(y, r, f4(5.0000001201e-1))
    y = multiply_add(y, r * r, r) + f4(1)
    y = y * bits_of(np.int32((np.int32(n) + np.int32(127)) << np.int32(23)))
    return y if x >= SMALLEST else (f4(0) if x < SMALLEST else x)


@compiled_inside
def largest(row: Array) -> Any:
    """Return the largest number of a row; a NaN may count as larger or smaller than all.  Shapes: row [N]

    The bits of a float are ordered as integers are, of negative ones the other way round, and their maxima in vectors.
    """
    top = np.int32(-(2**31))
    for i in range(row.size):
        bits = bits_of(row[i])
        ordered = np.int32(bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF)))
        top = ordered if ordered > top else top
    return bits_of(np.int32(top ^ ((top >> np.int32(31)) & np.int32(0x7FFFFFFF))))


# ---- Elements ----


@compiled
def add_bias_(y: Array, bias: Array, relu: Any) -> None:
    """y + bias, or max(y + bias, 0).  Shapes: y [N, D] (overwritten), bias [D]"""
    least = f4(0) if relu else f4(-np.inf)
    for i in range(y.shape[0]):
        for d in range(y.shape[1]):
            total = y[i, d] + bias[d]
            y[i, d] = least if total < least else total  # NaN stays


@compiled
def relu_backward_sum(g_y: Array, y: Array, infinity: Any, g_x: Array, g_bias: Array) -> None:
    """g_x = g_y where 0 < y ≤ infinity, else 0; g_bias = Σ over the rows.

    Shapes: g_y, g_x [N, D]; y int [N, D], the bits of floating-point numbers; g_bias [D]
    """
    g_bias[:] = 0
    for i in range(y.shape[0]):
        for d in range(y.shape[1]):
            g = g_y[i, d] if 0 < y[i, d] <= infinity else f4(0)
            g_x[i, d] = g
            g_bias[d] += g


@compiled
def adam_(
    parameter: Array, gradient: Array, m: Array, v: Array, step_size: Any, rest1: Any, rest2: Any, eps: Any, scale: Any
) -> None:
    """Adam of one array, with rest1 = 1 - β₁ and rest2 = 1 - β₂.  Shapes: [N], all but the gradient overwritten"""
    for i in range(parameter.size):
        g = gradient[i] * scale
        m_i = m[i] + rest1 * (g - m[i])
        v_i = v[i] + rest2 * (g * g - v[i])
        m[i], v[i] = m_i, v_i
        parameter[i] -= step_size * (m_i / (np.sqrt(v_i) + eps))


# ---- Products of few rows ----


@compiled
def linear_of_few(x: Array, weight: Array, bias: Array, relu: Any, y: Array) -> None:
    """x Wᵀ + bias, or max(x Wᵀ + bias, 0).

    Two rows of x are multiplied with four rows of the weights at a time: eight sums for six numbers read.

    Shapes: x [R, in], weight [out, in], bias [out] or [0] for none, y [R, out] (written)
    """
    rows, n_out = y.shape
    n_in, pairs, fours = x.shape[1], rows - rows % 2, n_out - n_out % OUTPUTS_AT_A_TIME
    for o in range(0, fours, OUTPUTS_AT_A_TIME):
        w0, w1, w2, w3 = weight[o], weight[o + 1], weight[o + 2], weight[o + 3]
        for r in range(0, pairs, 2):
            here, there = x[r], x[r + 1]
            y0, y1, y2, y3 = f4(0), f4(0), f4(0), f4(0)
            z0, z1, z2, z3 = f4(0), f4(0), f4(0), f4(0)
            for i in range(n_in):
                y0 += here[i] * w0[i]
                y1 += here[i] * w1[i]
                y2 += here[i] * w2[i]
                y3 += here[i] * w3[i]
                z0 += there[i] * w0[i]
                z1 += there[i] * w1[i]
                z2 += there[i] * w2[i]
                z3 += there[i] * w3[i]
            y[r, o], y[r, o + 1], y[r, o + 2], y[r, o + 3] = y0, y1, y2, y3
            y[r + 1, o], y[r + 1, o + 1], y[r + 1, o + 2], y[r + 1, o + 3] = z0, z1, z2, z3
        for r in range(pairs, rows):
            here = x[r]
            y0, y1, y2, y3 = f4(0), f4(0), f4(0), f4(0)
            for i in range(n_in):
                y0 += here[i] * w0[i]
                y1 += here[i] * w1[i]
                y2 += here[i] * w2[i]
                y3 += here[i] * w3[i]
            y[r, o], y[r, o + 1], y[r, o + 2], y[r, o + 3] = y0, y1, y2, y3
    for o in range(fours, n_out):
        w0 = weight[o]
        for r in range(rows):
            here, y0 = x[r], f4(0)
            for i in range(n_in):
                y0 += here[i] * w0[i]
            y[r, o] = y0
    least = f4(0) if relu else f4(-np.inf)
    for r in range(rows):
        for o in range(n_out):
            shifted = y[r, o] + bias[o] if bias.size else y[r, o]
            y[r, o] = least if shifted < least else shifted


# ---- Layer normalisation ----


@compiled
def layer_norm(
    x: Array, residual: Array, keep: Array, scale: Any, weight: Array, bias: Array, eps: Any, y: Array,
    normalised: Array, inverse_std: Array,
) -> None:  # fmt: skip
    """Layer norm of residual + dropout(x), or without a residual, of x.

    Shapes: x, y, x̂ [N, D], residual [N, D] or [0, D], keep bool [N, D] or [0, D], weight, bias [D], 1/σ [N, 1]
    """
    width = f4(x.shape[1])
    for i in range(x.shape[0]):
        if keep.size:
            for d in range(x.shape[1]):
                y[i, d] = x[i, d] * (scale * f4(keep[i, d])) + residual[i, d]
        elif residual.size:
            for d in range(x.shape[1]):
                y[i, d] = x[i, d] + residual[i, d]
        else:
            for d in range(x.shape[1]):  # y[i] = x[i] would call other compiled functions, to raise errors
                y[i, d] = x[i, d]
        total, normal = y[i], normalised[i]
        mean = f4(0)
        for d in range(total.size):
            mean += total[d]
        mean /= width
        variance = f4(0)
        for d in range(total.size):
            centred = total[d] - mean
            normal[d] = centred
            variance += centred * centred
        inverse = f4(1) / np.sqrt(variance / width + eps)
        if variance > np.finfo(np.float32).max:  # squares of numbers from 1e19 on are beyond float32
            wide = 0.0
            for d in range(total.size):
                wide += np.float64(normal[d]) ** 2
            inverse = f4(1 / np.sqrt(wide / total.size + np.float64(eps)))
        for d in range(total.size):
            normal[d] *= inverse
            total[d] = normal[d] * weight[d] + bias[d]
        inverse_std[i, 0] = inverse


@compiled
def layer_norm_backward(
    g_y: Array, normalised: Array, inverse_std: Array, weight: Array, g_x: Array, g_weight: Array, g_bias: Array
) -> None:
    """Shapes: as in numpy_training.py; g_x, g_weight and g_bias are written"""
    width = f4(g_y.shape[1])
    g_weight[:] = 0
    g_bias[:] = 0
    for i in range(g_y.shape[0]):
        mean, along_x = f4(0), f4(0)
        for d in range(g_y.shape[1]):
            g, x = g_y[i, d], normalised[i, d]
            g_weight[d] += g * x
            g_bias[d] += g
            mean += g * weight[d]
            along_x += g * weight[d] * x
        mean /= width
        along_x /= width
        factor = inverse_std[i, 0]
        for d in range(g_y.shape[1]):
            g_x[i, d] = (g_y[i, d] * weight[d] - mean - normalised[i, d] * along_x) * factor


@compiled
def scale_and_shift(normalised: Array, weight: Array, bias: Array, y: Array) -> None:
    """Shapes: x̂, y [N, D], weight, bias [D]"""
    for i in range(y.shape[0]):
        for d in range(y.shape[1]):
            y[i, d] = normalised[i, d] * weight[d] + bias[d]


# ---- Embedding ----


@compiled
def add_rows_(total: Array, indices: Array, rows: Array) -> None:
    """total[indices[i]] += rows[i], in this order.  Shapes: total [V, D], indices int [N], rows [N, D]"""
    for i in range(indices.size):
        place = indices[i]
        for d in range(rows.shape[1]):
            total[place, d] += rows[i, d]


# ---- Attention ----


@compiled
def softmax_row_(row: Array, allowed: Array, masked: bool, scale: Any) -> None:
    """softmax(scale · row) where `allowed`, else 0; all 0 if nothing is.

    Without a mask, a row of -∞ alone becomes NaN, as it must come from numbers that have diverged.

    Shapes: row [S] (overwritten), allowed bool [S]
    """
    for j in range(row.size):
        row[j] = row[j] * scale if allowed[j] else f4(-np.inf)
    top = largest(row)
    if masked and top == f4(-np.inf) and not np.isnan(row).any():
        row[:] = 0
        return
    total = f4(0)
    for j in range(row.size):
        e = exp(row[j] - top)
        row[j] = e
        total += e
    inverse = f4(1) / total
    for j in range(row.size):
        row[j] *= inverse


@compiled
def softmax_(scores: Array, mask: Array, masked: bool, scale: Any) -> None:
    """`softmax_row_` of each row.

    Shapes: scores [B, H, T, S] (overwritten), mask bool [B or 1, H or 1, T or 1, S]
    """
    for b in range(scores.shape[0]):
        for h in range(scores.shape[1]):
            of_head = mask[b if mask.shape[0] > 1 else 0, h if mask.shape[1] > 1 else 0]
            for t in range(scores.shape[2]):
                softmax_row_(scores[b, h, t], of_head[t if mask.shape[2] > 1 else 0], masked, scale)


@compiled
def softmax_backward_(g_p: Array, p: Array, scale: Any) -> None:
    """scale · p · (g_p - Σ g_p · p).  Shapes: g_p [N, S] (overwritten), p [N, S]"""
    for i in range(g_p.shape[0]):
        total = f4(0)
        for j in range(g_p.shape[1]):
            total += g_p[i, j] * p[i, j]
        for j in range(g_p.shape[1]):
            g_p[i, j] = (g_p[i, j] - total) * p[i, j] * scale


# ---- Cross-entropy and search ----


@compiled
def cross_entropy_(logits: Array, targets: Array, smoothing: Any, loss: Array, nll: Array) -> None:
    """Losses of rows; the logits become gradients.  Shapes: logits [N, V], targets int [N], loss, nll [N] (written)"""
    classes = logits.shape[1]
    even = f4(smoothing / classes)
    for n in range(logits.shape[0]):
        row = logits[n]
        top = largest(row)
        at_target = row[targets[n]] - top
        total: Any = 0.0
        shifted_total: Any = 0.0
        for start in range(0, classes, PART):
            part, part_total, part_shifted = row[start : start + PART], f4(0), f4(0)
            for i in range(part.size):
                shifted = part[i] - top
                part[i] = exp(shifted)
                part_total += part[i]
                part_shifted += shifted
            total += part_total
            shifted_total += part_shifted
        log_total = math.log(total)
        nll[n] = row_loss = log_total - at_target
        if smoothing > 0 and row_loss < math.inf:
            row_loss = (1 - smoothing) * row_loss + smoothing * (log_total - shifted_total / classes)
        loss[n] = row_loss
        inverse = f4(1 / total)
        for i in range(classes):
            row[i] = row[i] * inverse - even
        row[targets[n]] -= f4(1 - smoothing)


@compiled_inside
def select_largest(row: Array, barred: Array, ids: Array, values: Array) -> Any:
    """Find the largest numbers of a row that are not barred, equal ones by id; return the largest of all.

    Shapes: row [V], barred bool [V]; written: ids int [C], values [C]; at least C are not barred
    """
    count, found, top = ids.size, 0, f4(-np.inf)
    for start in range(0, row.size, PART):
        part = row[start : start + PART]
        most = largest(part)
        top = most if most > top else top
        if found == count and not most > values[count - 1]:
            continue  # nothing here is among the largest
        for i in range(part.size):
            x = part[i]
            if barred[start + i] or (found == count and not x > values[count - 1]):
                continue
            place = found if found < count else count - 1
            while place > 0 and x > values[place - 1]:
                values[place], ids[place] = values[place - 1], ids[place - 1]
                place -= 1
            values[place], ids[place] = x, start + i
            found += 1 if found < count else 0
    return top


@compiled
def largest_of_rows(logits: Array, barred: Array, ids: Array, values: Array, log_total: Array) -> None:
    """`select_largest` of each row, and ln Σ exp of it.

    Shapes: logits [R, V], barred bool [V]; written: ids int [R, C], values [R, C], log_total [R] float64
    """
    for r in range(logits.shape[0]):
        total: Any = 0.0
        row = logits[r]
        top = select_largest(row, barred, ids[r], values[r])
        for start in range(0, row.size, PART):
            part, part_total = row[start : start + PART], f4(0)
            for i in range(part.size):
                part_total += exp(part[i] - top)
            total += part_total
        log_total[r] = top + math.log(total)
