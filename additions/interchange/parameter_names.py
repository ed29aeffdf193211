"""Other programs' names for the parameters of a `Transformer`.

Source: fairseq, modules/transformer_layer.py; marian-dev, src/models/transformer.h; ctranslate2/specs/attention_spec.py
"""

from __future__ import annotations

import re

SIDES = {"source": "encoder", "target": "decoder"}
IN_LAYER = re.compile(
    r"(encoder|decoder)\.layers\.(\d+)\.(self_attention|cross_attention|feed_forward)(?:_residual)?\.(\w+)\.(\w+)"
)
"""Groups: side, number, sub-layer, linear layer or "norm", weight or bias."""
NORM = re.compile(r"(encoder|decoder)\.norm\.(\w+)")
EMBEDDING_NORM = re.compile(r"(source|target)_embedding_norm\.(\w+)")


def is_linear(name: str) -> bool:
    """Return whether a parameter is the matrix of a linear layer in a layer, which some programs store transposed."""
    match = IN_LAYER.fullmatch(name)
    return match is not None and match[4] != "norm" and match[5] == "weight"


# ---- fairseq, and with a prefix Hugging Face ---------------------------------------------------------------------

PYTORCH = (
    ("self_attention_residual.norm", "self_attn_layer_norm"),
    ("cross_attention_residual.norm", "encoder_attn_layer_norm"),
    ("feed_forward_residual.norm", "final_layer_norm"),
    ("self_attention.", "self_attn."),
    ("cross_attention.", "encoder_attn."),
    (".query.", ".q_proj."),
    (".key.", ".k_proj."),
    (".value.", ".v_proj."),
    (".output.", ".out_proj."),
    ("feed_forward.up", "fc1"),
    ("feed_forward.down", "fc2"),
    (".norm.", ".layer_norm."),
    ("source_", "encoder."),
    ("target_", "decoder."),
    ("embedding_norm.", "layernorm_embedding."),
    (".embedding.", ".embed_tokens."),
    (".positions.", ".embed_positions."),
)


def pytorch_name(name: str) -> str:
    """encoder.layers.0.self_attention.query.weight -> encoder.layers.0.self_attn.q_proj.weight"""
    for ours, theirs in PYTORCH:
        name = name.replace(ours, theirs)
    return name


# ---- Marian ------------------------------------------------------------------------------------------------------

MARIAN = {"self_attention": "self", "cross_attention": "context", "feed_forward": "ffn"}
MARIAN_LINEAR = {"query": "q", "key": "k", "value": "v", "output": "o", "up": "1", "down": "2"}
MARIAN_NORM = {"weight": "scale", "bias": "bias"}


def marian_name(name: str, is_pre: bool) -> str:
    """encoder.layers.0.self_attention.query.weight -> encoder_l1_self_Wq; inside or after the layers."""
    if match := IN_LAYER.fullmatch(name):
        side, layer, sublayer, linear, part = match.groups()
        begin = f"{side}_l{int(layer) + 1}_{MARIAN[sublayer]}"
        if linear != "norm":
            return f"{begin}_{part[0].replace('w', 'W')}{MARIAN_LINEAR[linear]}"
        last = "ffn" if sublayer == "feed_forward" else "Wo"
        return f"{begin}_{last}_ln_{MARIAN_NORM[part]}{'_pre' if is_pre else ''}"
    if match := NORM.fullmatch(name):
        return f"{match[1]}_top_ln_{MARIAN_NORM[match[2]]}"
    match = EMBEDDING_NORM.fullmatch(name)
    assert match is not None
    return f"{SIDES[match[1]]}_emb_ln_{MARIAN_NORM[match[2]]}_pre"


# ---- CTranslate2 -------------------------------------------------------------------------------------------------

CTRANSLATE2 = {"self_attention": "self_attention", "cross_attention": "attention", "feed_forward": "ffn"}
CTRANSLATE2_NORM = {"weight": "gamma", "bias": "beta"}
CTRANSLATE2_LINEAR = {
    ("self_attention", "query"): (0, 0, 3),
    ("self_attention", "key"): (0, 1, 3),
    ("self_attention", "value"): (0, 2, 3),
    ("self_attention", "output"): (1, 0, 1),
    ("cross_attention", "query"): (0, 0, 1),
    ("cross_attention", "key"): (1, 0, 2),
    ("cross_attention", "value"): (1, 1, 2),
    ("cross_attention", "output"): (2, 0, 1),
    ("feed_forward", "up"): (0, 0, 1),
    ("feed_forward", "down"): (1, 0, 1),
}
"""The linear layer that holds a projection, and which part of how many it is."""


def ctranslate2_name(name: str) -> tuple[str, int, int]:
    """The array that holds a parameter inside or after the layers, which part of its rows, and of how many parts.

    Example: encoder.layers.0.self_attention.key.weight -> encoder/layer_0/self_attention/linear_0/weight, 1, 3
    """
    if match := IN_LAYER.fullmatch(name):
        side, layer, sublayer, linear, part = match.groups()
        begin = f"{side}/layer_{layer}/{CTRANSLATE2[sublayer]}"
        if linear == "norm":
            return f"{begin}/layer_norm/{CTRANSLATE2_NORM[part]}", 0, 1
        number, which, parts = CTRANSLATE2_LINEAR[sublayer, linear]
        return f"{begin}/linear_{number}/{part}", which, parts
    if match := NORM.fullmatch(name):
        return f"{match[1]}/layer_norm/{CTRANSLATE2_NORM[match[2]]}", 0, 1
    match = EMBEDDING_NORM.fullmatch(name)
    assert match is not None
    return f"{SIDES[match[1]]}/layernorm_embedding/{CTRANSLATE2_NORM[match[2]]}", 0, 1
