"""A checkpoint of fairseq, converted to safetensors, written key by key."""

import json

import numpy as np
import safetensors.numpy

D, HEADS, FF = 16, 4, 24
WORDS = {"en": ["the", "cat", "sat", "on@@", "ly"], "de": ["die", "Katze", "saß", "nur"]}
ARGS = {
    "arch": "transformer_wmt_en_de", "encoder_layers": 2, "decoder_layers": 1, "encoder_embed_dim": D,
    "decoder_embed_dim": D, "encoder_ffn_embed_dim": FF, "decoder_ffn_embed_dim": FF, "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS, "encoder_normalize_before": False, "decoder_normalize_before": False,
    "encoder_learned_pos": False, "decoder_learned_pos": False, "share_all_embeddings": False,
    "share_decoder_input_output_embed": True, "activation_fn": "relu", "dropout": 0.3, "max_source_positions": 1024,
    "source_lang": "en", "target_lang": "de", "adaptive_softmax_cutoff": None, "no_scale_embedding": False,
}  # fmt: skip


def rows(language):
    """Rows of an embedding: four special tokens, the words, and fairseq's fillers up to a multiple of 8."""
    return -(-(4 + len(WORDS[language])) // 8) * 8


def tensors(args, seed=0):
    """The tensors of a model by fairseq's names."""
    rng = np.random.default_rng(seed)
    found = {"encoder.version": np.ones(1), "encoder.embed_positions._float_tensor": np.ones(1)}

    def add(name, *shape):
        found[name] = rng.standard_normal(shape) * (0.3 if len(shape) > 1 else 0.1) + name.endswith("norm.weight")

    for side, language in (("encoder", "en"), ("decoder", "de")):
        add(f"{side}.embed_tokens.weight", rows(language), D)
        if args[f"{side}_learned_pos"]:
            add(f"{side}.embed_positions.weight", 40, D)
        for layer in range(args[f"{side}_layers"]):
            place = f"{side}.layers.{layer}"
            for attention in ("self_attn", "encoder_attn")[: 1 + (side == "decoder")]:
                for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    add(f"{place}.{attention}.{part}.weight", D, D)
                    add(f"{place}.{attention}.{part}.bias", D)
                add(f"{place}.{attention}_layer_norm.weight", D)
                add(f"{place}.{attention}_layer_norm.bias", D)
            for name, shape in (("fc1", (FF, D)), ("fc2", (D, FF))):
                add(f"{place}.{name}.weight", *shape)
                add(f"{place}.{name}.bias", shape[0])
            add(f"{place}.final_layer_norm.weight", D)
            add(f"{place}.final_layer_norm.bias", D)
        if args[f"{side}_normalize_before"]:
            add(f"{side}.layer_norm.weight", D)
            add(f"{side}.layer_norm.bias", D)
    found["decoder.output_projection.weight"] = found["decoder.embed_tokens.weight"]
    if not args["share_decoder_input_output_embed"]:
        add("decoder.output_projection.weight", rows("de"), D)
    return found


def write_fairseq(folder, args, *, as_cfg=False, model=None):
    """A converted checkpoint with its dictionaries; return its path."""
    folder.mkdir(exist_ok=True)
    model = {name: array.astype(np.float32) for name, array in (model or tensors(args)).items()}
    about = {"args": args, "cfg": None}
    if as_cfg:
        about = {
            "args": None,
            "cfg": {"_name": None, "model": args, "task": {"source_lang": "en", "target_lang": "de"}},
        }
    safetensors.numpy.save_file(model, folder / "model.safetensors", {"fairseq": json.dumps(about)})
    for language, words in WORDS.items():
        (folder / f"dict.{language}.txt").write_text("".join(f"{word} {99 - i}\n" for i, word in enumerate(words)))
    return folder / "model.safetensors"
