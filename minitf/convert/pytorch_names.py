"""The names that fairseq gives our parameters, and with a prefix Hugging Face's Marian."""

from __future__ import annotations

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
