"""Cases of every layer: each is differentiated by its inputs and by all of its parameters at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import autograd as ag
from minitf.model.layers import Dropout, Embedding, FeedForward, LayerNorm, Linear
from minitf.model.transformer import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    MultiHeadAttention,
    Positions,
    Residual,
    padding_mask,
)
from tests.cases.checks import Case, Example
from tests.cases.modules import CONFIG, FF, VOCABULARY, D, Rng, cases, example_of, features, initializer, sentences


def _linear(rng: Rng) -> Example:
    module = Linear(D, 3, initializer(rng))
    return example_of(module, module, [features(rng, 3)], rng)


def _embedding(rng: Rng) -> Example:
    module, ids = Embedding(VOCABULARY, D, initializer(rng)), sentences(rng, 4)
    return example_of(module, lambda: module(ids), [], rng)


def _layer_norm(rng: Rng) -> Example:
    module = LayerNorm(D, 1e-6, initializer(rng))
    return example_of(module, module, [features(rng, 3)], rng)


def _dropout(rng: Rng) -> Example:
    module = Dropout(0.3)
    return example_of(module, module, [features(rng, 3)], rng)


def _positions(kind: Any) -> Callable[[Rng], Example]:
    def draw(rng: Rng) -> Example:
        module = Positions(replace(CONFIG, positions=kind, max_positions=5), initializer(rng))
        return example_of(module, lambda x: module(x, start=1), [features(rng, 3)], rng)

    return draw


def _feed_forward(activation: str) -> Callable[[Rng], Example]:
    def draw(rng: Rng) -> Example:
        module = FeedForward(D, FF, activation, 0.2, initializer(rng))
        return example_of(module, module, [features(rng, 2)], rng)

    return draw


def _attention(kind: str) -> Callable[[Rng], Example]:
    def draw(rng: Rng) -> Example:
        module = MultiHeadAttention(**replace(CONFIG, d_k=3, d_v=1).attention_arguments, init=initializer(rng))
        mask = padding_mask(sentences(rng, 3))
        if kind == "cross":  # queries of one sequence, keys and values of another
            return example_of(module, lambda x, m: module(x, m, m, mask), [features(rng, 2), features(rng, 3)], rng)
        if kind == "causal":
            return example_of(module, lambda x: module(x, x, x, is_causal=True), [features(rng, 3)], rng)
        if kind == "apart":
            inputs = [features(rng, 2), features(rng, 3), features(rng, 3)]
            return example_of(module, lambda q, k, v: module(q, k, v, mask), inputs, rng)
        mask = mask & (rng.random(mask.shape) < 0.5)  # also sentences of which nothing may be seen
        return example_of(module, lambda x: module(x, x, x, mask), [features(rng, 3)], rng)

    return draw


def _residual(norm: Any) -> Callable[[Rng], Example]:
    def draw(rng: Rng) -> Example:
        module = Residual(replace(CONFIG, norm=norm), initializer(rng))
        return example_of(module, lambda x: module(x, ag.tanh), [features(rng, 3)], rng)

    return draw


def _encoder(kind: type[EncoderLayer] | type[Encoder], norm: Any) -> Callable[[Rng], Example]:
    def draw(rng: Rng) -> Example:
        module, mask = kind(replace(CONFIG, norm=norm), initializer(rng)), padding_mask(sentences(rng, 3))
        return example_of(module, lambda x: module(x, mask), [features(rng, 3)], rng)

    return draw


def _decoder(kind: type[DecoderLayer] | type[Decoder], norm: Any) -> Callable[[Rng], Example]:
    def draw(rng: Rng) -> Example:
        module, mask = kind(replace(CONFIG, norm=norm), initializer(rng)), padding_mask(sentences(rng, 3))
        return example_of(module, lambda x, memory: module(x, memory, mask), [features(rng, 3), features(rng, 3)], rng)

    return draw


LAYERS: dict[str, list[Case]] = {
    "Linear": cases("Linear layer", {"with bias": _linear}),
    "Embedding": cases("Embedding layer", {"padded sentences": _embedding}),
    "LayerNorm": cases("LayerNorm layer", {"any rows": _layer_norm}),
    "Dropout": cases("Dropout layer", {"a fixed mask": _dropout}),
    "Positions": cases(
        "Positions", {kind: _positions(kind) for kind in ("sinusoidal", "sinusoidal-concatenated", "learned")}
    ),
    "FeedForward": cases("FeedForward", {kind: _feed_forward(kind) for kind in ("relu", "gelu", "silu")}),
    "MultiHeadAttention": cases(
        "MultiHeadAttention", {kind: _attention(kind) for kind in ("self", "causal", "cross", "apart")}
    ),
    "Residual": cases("Residual", {norm: _residual(norm) for norm in ("post", "pre")}),
    "EncoderLayer": cases("EncoderLayer", {norm: _encoder(EncoderLayer, norm) for norm in ("post", "pre")}, fast=True),
    "DecoderLayer": cases("DecoderLayer", {norm: _decoder(DecoderLayer, norm) for norm in ("post", "pre")}, fast=True),
    "Encoder": cases("Encoder", {norm: _encoder(Encoder, norm) for norm in ("post", "pre")}, fast=True),
    "Decoder": cases("Decoder", {norm: _decoder(Decoder, norm) for norm in ("post", "pre")}, fast=True),
}
