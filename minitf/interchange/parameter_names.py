"""The names that fairseq gives our parameters, and with a prefix Hugging Face's Marian."""

from __future__ import annotations

import re

RENAMED = (
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
    ("encoder.norm.", "encoder.layer_norm."),
    ("decoder.norm.", "decoder.layer_norm."),
    ("source_embedding_norm.", "encoder.layernorm_embedding."),
    ("target_embedding_norm.", "decoder.layernorm_embedding."),
    ("source_embedding.", "encoder.embed_tokens."),
    ("target_embedding.", "decoder.embed_tokens."),
    ("source_positions.", "encoder.embed_positions."),
    ("target_positions.", "decoder.embed_positions."),
)


def pytorch_name(name: str) -> str:
    """encoder.layers.0.self_attention.query.weight -> encoder.layers.0.self_attn.q_proj.weight"""
    for ours, theirs in RENAMED:
        name = name.replace(ours, theirs)
    return name


# ---- Marian --------------------------------------------------------------------------------------------------------


PROJECTIONS = {"query": "q", "key": "k", "value": "v", "output": "o", "up": "1", "down": "2"}
SUBLAYERS = {"self_attention": "self", "cross_attention": "context", "feed_forward": "ffn"}
NORMED = {"self_attention": "self_Wo", "cross_attention": "context_Wo", "feed_forward": "ffn_ffn"}
LINEAR = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(\w+)\.(\w+)\.(weight|bias)")
NORM = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(\w+)_residual\.norm\.(weight|bias)")
NORM_PARTS = {"weight": "scale", "bias": "bias"}
SIDES = {"source": "encoder", "target": "decoder"}


def marian_name(name: str, is_pre: bool) -> str:
    """The name of a parameter inside or after the layers.

    Example: encoder.layers.0.self_attention.query.weight -> encoder_l1_self_Wq
    """
    if match := NORM.fullmatch(name):
        side, layer, sublayer, part = match.groups()
        return f"{side}_l{int(layer) + 1}_{NORMED[sublayer]}_ln_{NORM_PARTS[part]}{'_pre' if is_pre else ''}"
    if match := LINEAR.fullmatch(name):
        side, layer, sublayer, linear, part = match.groups()
        letter = {"weight": "W", "bias": "b"}[part]
        return f"{side}_l{int(layer) + 1}_{SUBLAYERS[sublayer]}_{letter}{PROJECTIONS[linear]}"
    side, _, part = name.split(".") if name.count(".") == 2 else ("", "", name)
    if side:  # encoder.norm.weight
        return f"{side}_top_ln_{NORM_PARTS[part]}"
    place, _, part = name.partition("_embedding_norm.")
    return f"{SIDES[place]}_emb_ln_{NORM_PARTS[part]}_pre"


def is_matrix(name: str) -> bool:
    """Whether Marian stores the transpose: the weights of linear layers, but not embeddings."""
    return bool((match := LINEAR.fullmatch(name)) and match[5] == "weight")
