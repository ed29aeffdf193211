"""Properties of a whole encoder-decoder (sections 3 to 6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from additions.course.conformance.adapters import parts_of
from additions.course.conformance.attention import check_attention
from additions.course.conformance.calling import (
    Array,
    Library,
    called,
    check_parameters,
    difference,
    in_float64,
    library_for,
    library_of,
    repeatable,
    rounding,
    shared_array,
    to_numpy,
)  # fmt: skip
from additions.course.conformance.layer import check_layer
from additions.course.conformance.table import NotGiven, Table, Wrong
from additions.interchange.foreign_transformer import position_table

B, S, T = 2, 6, 5


@dataclass
class Parts:
    """The optional parts of a model that can be checked in addition to the logits; each may be None."""

    embed: Callable[..., Any] | None = None
    weights: Mapping[str, Any] | None = None
    attention: Callable[..., Any] | None = None
    encoder_layer: Callable[..., Any] | None = None
    loss: Callable[..., Any] | None = None
    start: Callable[..., Any] | None = None
    step: Callable[..., Any] | None = None
    parameters: Mapping[str, Any] | None = None
    gradients: Callable[..., Any] | None = None


def check_model(
    model: Any,
    vocab_size: int,
    *,
    pad: int = 0,
    label_smoothing: float = 0.1,
    mask: Any = None,
    library: Library | None = None,
    **parts: Any,
) -> Table:
    """Check model(source, target), or the methods of an object.

    Shapes: source int [B, S], target int [B, T], padded with `pad` -> logits [B, T, vocab_size] of the tokens that
        follow each target token

    model: a callable; a PyTorch module; a Transformer of this project; or an object with a method `logits`, or that is
        called, and any of the parts as attributes
    mask: what a mask means to the part `attention`; library: of the arrays, both as in `check_attention`
    parts:
        embed(ids [B, S]) -> [B, S, D], what enters the encoder: embeddings, their scale, positions
        weights: a mapping with "source_embedding" [V, D], "target_embedding" [V, D], "output" [V, D] or [D, V]
        attention(q, k, v, mask), as in `check_attention`; encoder_layer(x), as in `check_layer`
        loss(logits [N, V], targets [N]) -> the mean loss of the targets that are not `pad`, with `label_smoothing`
        start(source) -> a state, step(tokens [B], state) -> logits [B, V], or (logits, state): decoding with a cache
        parameters: a mapping of the model's float64 arrays, and gradients(source, target, g), which maps their names to
            the gradients of (g * logits).sum(); modules have both by themselves
    """
    if unknown := parts.keys() - {field.name for field in fields(Parts)}:
        raise TypeError(
            f"unknown part {sorted(unknown)[0]!r}; the parts are {', '.join(f.name for f in fields(Parts))}"
        )
    checks = _Checks(model, vocab_size, pad, label_smoothing, mask, library, parts)
    return Table.of(
        {
            "repeatable": lambda: repeatable(lambda: checks.logits(checks.source, checks.target)),
            "future": checks.future,
            "padding": checks.padding,
            "scale 1/√d_k": checks.attention_scale,
            "norm order": checks.norm_order,
            "residual": checks.residual,
            "embeddings · √d_model": checks.embedding_scale,
            "positions": checks.positions,
            "weight sharing": checks.sharing,
            "label smoothing": checks.smoothing,
            "cached = uncached": checks.cached,
            "gradients": checks.gradients,
        }
    )


class _Checks:
    """The properties of one model and its parts, each a method that returns what it found (section 3)."""

    def __init__(
        self,
        model: Any,
        vocab_size: int,
        pad: int,
        label_smoothing: float,
        mask: Any,
        library: Any,
        parts: dict[str, Any],
    ):
        self.given, self.vocab_size, self.pad, self.eps, self.mask = model, vocab_size, pad, label_smoothing, mask
        self.model = in_float64(model)
        own = parts_of(self.model, vocab_size)
        if _is_object(model):
            own |= {f.name: part for f in fields(Parts) if (part := getattr(model, f.name, None)) is not None}
        self.parts = Parts(**{**own, **parts})
        function = model.logits if _is_object(model) and hasattr(model, "logits") else self.model
        rng = np.random.default_rng(0)
        self.words = np.setdiff1d(np.arange(min(4, vocab_size // 2), vocab_size), [pad])
        if len(self.words) < 3:
            raise ValueError(f"vocab_size={vocab_size} is too small for this check; choose 8 or more")
        self.source, self.target = rng.choice(self.words, (B, S)), rng.choice(self.words, (B, T))
        self.library = library or library_for(function, self.source, self.target)
        self.function = called(function, self.library)

    def logits(self, source: Array, target: Array) -> Array:
        y = self.function(source, target)
        if y.shape != (*target.shape, self.vocab_size):
            raise Wrong(f"the logits have shape {y.shape}, expected {(*target.shape, self.vocab_size)}")
        return y

    def need(self, *names: str) -> Any:
        found = [getattr(self.parts, name) for name in names]
        if missing := [name for name, part in zip(names, found, strict=True) if part is None]:
            raise NotGiven(f"give {' and '.join(missing)}")
        return found if len(found) > 1 else found[0]

    def other(self, token: Any) -> int:
        """Another word."""
        return int(self.words[self.words != token][0])

    # ---- Masks ----

    def future(self) -> str:
        y = self.logits(self.source, self.target)
        seen: dict[int, float] = {}  # distance: largest change
        for s in range(1, T):
            target = self.target.copy()
            target[0, s] = self.other(target[0, s])
            changed = self.logits(self.source, target)
            for t in range(s):
                if off := difference(y[0, t], changed[0, t]):
                    seen[s - t] = max(seen.get(s - t, 0.0), off)
        if not seen:
            return "logits are exactly independent of later target tokens"
        largest = f"logits change by up to {max(seen.values()):.1e}"
        if [*seen] == [1]:
            raise Wrong(f"{largest} when the next target token changes: the causal mask is off by one, the token that "
                        "is to be predicted is seen")  # fmt: skip
        if max(seen.values()) <= rounding(y):
            raise Wrong(f"{largest} when later target tokens change: not exactly 0; is a masked weight small, not 0?")
        raise Wrong(f"{largest} when later target tokens change: the causal mask is missing, or lets them through")

    def padding(self) -> str:
        length = S - 2
        source = self.source.copy()
        source[0, length:] = self.pad
        padded, alone = self.logits(source, self.target)[:1], self.logits(source[:1, :length], self.target[:1])
        changed = source.copy()
        changed[0, 0] = self.other(changed[0, 0])
        if not difference(padded, self.logits(changed, self.target)[:1]):
            raise Wrong("the logits do not depend on the source at all")
        if (off := difference(padded, alone)) > rounding(padded):
            raise Wrong(f"logits change by {off:.1e} when the source is padded: is padding attended to, by the encoder "
                        "or by the decoder?")  # fmt: skip
        return "a padded source gives the logits of the source alone"

    # ---- Layers ----

    def attention_scale(self) -> str:
        table = check_attention(self.need("attention"), mask=self.mask)
        return _passed_on(next((row for row in table.rows if row.name == "scale 1/√d_k"), table.rows[0]))

    def _layer(self, name: str) -> str:
        layer = self.need("encoder_layer")
        width = np.shape(to_numpy(shared_array(self.need("weights")["source_embedding"])))[1]
        table = check_layer(layer, width)
        return _passed_on(next((row for row in table.rows if row.name == name), table.rows[0]))

    def norm_order(self) -> str:
        return self._layer("norm order")

    def residual(self) -> str:
        return self._layer("residual")

    # ---- Embeddings ----

    def _embedded(self) -> tuple[Array, Array, float]:
        """Return the encoder's input for two sentences, the matrix, and the factor on its rows."""
        embed, weights = self.need("embed", "weights")
        matrix = to_numpy(shared_array(weights["source_embedding"])).astype(np.float64)
        found = called(embed, library_of(embed) if library_of(embed) != "numpy" else self.library)(self.source)
        rows = matrix[self.source]  # [B, S, D]
        off, step = (found[0] - found[1]).ravel(), (rows[0] - rows[1]).ravel()  # without positions
        factor = float(off @ step / (step @ step))
        if np.abs(off - factor * step).max() > 1e-4 * np.abs(off).max():
            raise Wrong("what enters the encoder is not a factor times the rows of the matrix, plus positions")
        return found, rows, factor

    def embedding_scale(self) -> str:
        _, rows, factor = self._embedded()
        right = math.sqrt(rows.shape[-1])
        if abs(factor - right) < 1e-3 * right:
            return f"embeddings are multiplied by √{rows.shape[-1]}"
        if abs(factor - 1) < 1e-3:
            raise Wrong(
                f"embeddings are not multiplied by √d_model = {right:.4g}: beside the positions they are too small"
            )
        raise Wrong(f"embeddings are multiplied by {factor:.4g}, expected √d_model = {right:.4g}")

    def positions(self) -> str:
        if self.parts.embed is None or self.parts.weights is None:
            return self._positions_by_order()
        found, rows, factor = self._embedded()
        table = (found - factor * rows)[0]  # [S, D]
        near = 1e-3
        if np.abs(table).max() <= 1e-6 * np.abs(found).max():
            raise Wrong("nothing is added to the embeddings: there are no positions")
        for kind, what in KINDS.items():
            for first in (0, 1):
                expected = position_table(S + 1, table.shape[1], kind)[first : first + S]
                if np.abs(table - expected).max() <= near:
                    return what + (", from position 1 (the paper's first is not stated)" if first else "")
        for a in range(S):
            for b in range(a):
                if np.abs(table[a] - table[b]).max() <= 1e-6:
                    raise Wrong(f"positions {b} and {a} have the same encoding")
        return "not the paper's sinusoids, but all different, as learned positions are"

    def _positions_by_order(self) -> str:
        """Check that the order of the source matters: without positions, attention sees it as a set."""
        y = self.logits(self.source, self.target)
        if difference(y, self.logits(self.source[:, ::-1].copy(), self.target)) <= rounding(y):
            raise Wrong("the logits are the same for the source in reverse order: there are no positions")
        return "the order of the source counts (give embed and weights to look at the encoding)"

    def sharing(self) -> str:
        weights = self.need("weights")
        source, target, output = (
            shared_array(weights[name]) for name in ("source_embedding", "target_embedding", "output")
        )
        pairs = {
            "the source and target embeddings": (source, target),
            "the target embedding and the output": (target, output),
        }
        for what, (a, b) in pairs.items():
            if np.shares_memory(a, b):
                continue
            if a.size == b.size and a.shape[:1] == b.shape[:1] and np.array_equal(a, b):
                raise Wrong(f"{what} are equal, but two arrays: the first update makes them differ")
            raise Wrong(f"{what} are two matrices, in the paper they are one (section 3.4)")
        return "one matrix for both embeddings and the output"

    # ---- Loss and decoding ----

    def smoothing(self) -> str:
        loss = self.need("loss")
        rng = np.random.default_rng(2)
        logits, targets = rng.standard_normal((6, self.vocab_size)), rng.choice(self.words, 6)
        targets[4:] = self.pad
        owner = library_of(loss)
        found = float(called(loss, owner if owner != "numpy" else self.library)(logits, targets))
        if math.isclose(found, _loss(logits, targets, self.pad, self.eps), rel_tol=1e-6):
            return f"ε = {self.eps:g}, spread over all classes; padding does not count"
        for message, value in _other_losses(logits, targets, self.pad, self.eps).items():
            if math.isclose(found, value, rel_tol=1e-6):
                raise Wrong(message)
        raise Wrong(f"the loss is {found:.6g}, expected {_loss(logits, targets, self.pad, self.eps):.6g}")

    def cached(self) -> str:
        start, step = self.need("start", "step")
        state, worst = start(_own(self.source, self.library)), 0.0
        for t in range(T):
            result = step(_own(self.target[:, t], self.library), state)
            if isinstance(result, tuple):
                result, state = result
            y, full = to_numpy(result), self.logits(self.source, self.target[:, : t + 1])[:, -1]
            worst = max(worst, difference(y, full))
            if worst > max(rounding(full), rounding(y)):
                raise Wrong(f"at position {t}, cached logits differ by {worst:.1e} from those of the whole sequence")
        return f"within {worst:.0e} at {T} positions"

    def gradients(self) -> str:
        return check_parameters(self.model, self.library, self.function, self.parts, self.source, self.target)


KINDS = {
    "sinusoidal": "the paper's sinusoids",
    "sinusoidal-halves": "sinusoids, all sines before all cosines (the paper alternates them)",
    "sinusoidal-concatenated": "sinusoids of the first public code, all sines before all cosines",
}


def _is_object(model: Any) -> bool:
    """Return whether the model is an object with parts of its own: no function, and no module."""
    return library_of(model) == "numpy" and not hasattr(model, "__code__")


def _passed_on(row: Any) -> str:
    if row.outcome == "wrong":
        raise Wrong(row.detail)
    if row.outcome == "not given":
        raise NotGiven(row.detail)
    return row.detail


def _own(ids: Array, library: str) -> Any:
    if library != "torch":
        return ids
    import torch

    return torch.from_numpy(ids.copy())


def _loss(logits: Array, targets: Array, pad: int, eps: float, *, others: bool = False, divisor: int = 0) -> float:
    """Return the smoothed loss; `others`: ε is spread over the V - 1 other classes."""
    classes = logits.shape[1]
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    q = np.full(logits.shape, eps / (classes - 1 if others else classes))
    q[np.arange(len(targets)), targets] = 1 - eps if others else 1 - eps + eps / classes
    losses = -(q * log_p).sum(axis=1)[targets != pad]
    return float(losses.sum() / (divisor or len(losses)))


def _other_losses(logits: Array, targets: Array, pad: int, eps: float) -> dict[str, float]:
    return {
        "the labels are not smoothed": _loss(logits, targets, pad, 0.0),
        "ε is spread over the V - 1 other classes, in the paper's reference over all V": (
            _loss(logits, targets, pad, eps, others=True)
        ),
        "padding counts in the loss": _loss(logits, targets, -1, eps),
        "the sum is divided by all rows, padding included": _loss(logits, targets, pad, eps, divisor=len(targets)),
        "it is a sum, not a mean over tokens": _loss(logits, targets, pad, eps, divisor=1),
        "padding counts, and the labels are not smoothed": _loss(logits, targets, -1, 0.0),
    }
