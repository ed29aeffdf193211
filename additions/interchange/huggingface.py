"""Hugging Face's Marian models: a folder of `config.json`, `model.safetensors`, `vocab.json`, `source.spm` and
`target.spm`. Source: transformers, models/marian/modeling_marian.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from additions.interchange.incoming import Arrays, ForeignModel, Options, foreign_model, positions_of
from additions.interchange.outgoing import (
    ADDED,
    LearnedModel,
    Outgoing,
    penalty_notes,
    refuse_fields,
    refuse_other_attention,
    starts_with_embedding,
    with_halves,
)
from additions.interchange.parameter_names import pytorch_name
from additions.interchange.stored_arrays import (
    Array,
    ModelFileError,
    SourceFile,
    Stored,
    refused_pickle,
    safetensors_arrays,
    write_safetensors,
)
from additions.interchange.vocabularies import (
    Pieces,
    json_ids,
    json_text,
    place_of,
    sentencepiece_model,
    write_sentencepiece,
    write_text,
)
from minitf.config import TransformerConfig
from minitf.config.model import BOS, EOS, PAD, UNK
from minitf.errors import UserError

CONFIG_NAME, GENERATION_NAME = "config.json", "generation_config.json"
WEIGHTS_NAME, PICKLE_NAME = "model.safetensors", "pytorch_model.bin"
CONVERT = (
    "import torch; from safetensors.torch import save_file; "
    'weights = torch.load("pytorch_model.bin", weights_only=True); '
    'save_file({name: array.clone() for name, array in weights.items()}, "model.safetensors")'
)
NORM_EPSILON = 1e-5
"""PyTorch's default, which Hugging Face's class uses; Marian itself has 1e-6."""
SHARED = "model.shared.weight"
ENCODER, DECODER = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
HEAD = "lm_head.weight"
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
BIAS = "final_logits_bias"


def find_huggingface(folder: Path) -> Path | None:
    """Return the folder, if it holds configuration and weights of a model of Hugging Face."""
    has_weights = any((folder / name).is_file() for name in (WEIGHTS_NAME, PICKLE_NAME))
    return folder if has_weights and (folder / CONFIG_NAME).is_file() else None


def read_huggingface(folder: Path) -> ForeignModel:
    """Read a Marian model.  Raises: ModelFileError for another architecture, naming the option"""
    options, search = Options.of_json(folder / CONFIG_NAME), _search(folder)
    with _open_arrays(folder) as arrays:
        masked = _forbidden(search)
        model = _architecture(arrays, options, masked)
        source, target = _vocabularies(folder, options, arrays)
        found = foreign_model(
            model,
            lambda name: _parameter(arrays, name, model.share_embeddings),
            source,
            target,
            arrays.path,
            masked=masked,
            beam=search.number("num_beams", 4, at_most=1000),
            alpha=search.real("length_penalty", 1.0),
            max_length=options.number("max_position_embeddings", 512),
        )
        arrays.refuse_rest(lambda name: name in (SHARED, ENCODER, DECODER, HEAD, BIAS, *POSITIONS))
        return found


@contextmanager
def _open_arrays(folder: Path) -> Iterator[Arrays]:
    path = folder / WEIGHTS_NAME
    if not path.is_file():
        raise refused_pickle(folder / PICKLE_NAME, CONVERT)
    with SourceFile(path) as file:
        yield Arrays(path, safetensors_arrays(file))


def _search(folder: Path) -> Options:
    """The settings of the search: those of generation_config.json, else those of config.json, as before version 5."""
    config, path = Options.of_json(folder / CONFIG_NAME), folder / GENERATION_NAME
    own = Options.of_json(path).values if path.is_file() else {}
    return Options(path if own else config.path, {**config.values, **{k: v for k, v in own.items() if v is not None}})


def _architecture(arrays: Arrays, options: Options, masked: list[int]) -> TransformerConfig:
    options.require("model_type", "marian", advice="only Marian models of Hugging Face are supported")
    options.refuse_set("normalize_before", "normalize_embedding", "add_final_layer_norm", "extra_pos_embeddings")
    embedding = arrays.shape(SHARED, ENCODER, DECODER, HEAD)
    return TransformerConfig(
        encoder_layers=options.number("encoder_layers", 12),
        decoder_layers=options.number("decoder_layers", 12),
        d_model=embedding[1],
        d_ff=options.equal("encoder_ffn_dim", "decoder_ffn_dim", 4096),
        heads=options.equal("encoder_attention_heads", "decoder_attention_heads", 16),
        activation=options.activation("activation_function", "gelu"),
        norm_epsilon=NORM_EPSILON,
        **_positions(arrays, embedding[1]),
        scale_embeddings=options.flag("scale_embedding"),
        decoder_start="bos" if _start(options) != options.number("eos_token_id", 0, 0) else "eos",
        share_embeddings=_sharing(options, arrays),
        output_bias=_has_bias(arrays, masked),
        dropout=options.fraction("dropout", 0.1),
        attention_dropout=options.fraction("attention_dropout"),
        activation_dropout=options.fraction("activation_dropout"),
    )


def _positions(arrays: Arrays, d_model: int) -> dict[str, Any]:
    """Sinusoids, unless the file has a table of others."""
    stored = [name for name in POSITIONS if name in arrays]
    if not stored or arrays.shape(stored[0])[1] != d_model:
        return {"positions": "sinusoidal-halves"}
    return positions_of(arrays, *stored)


def _start(options: Options) -> int:
    pad = options.number("pad_token_id", 58_100, at_least=0)
    return options.number("decoder_start_token_id", pad, at_least=0)


def _sharing(options: Options, arrays: Arrays) -> Any:
    """Return which matrices are shared: as the options say, but newer versions need `tie_word_embeddings`, too."""
    is_shared = options.flag("share_encoder_decoder_embeddings", True)
    if options.flag("tie_word_embeddings", True):
        return "all" if is_shared else "target-output"
    if HEAD not in arrays:
        raise options.refused("tie_word_embeddings", f"{arrays.path} has no {HEAD}")
    is_stored_twice = ENCODER in arrays and DECODER in arrays
    if is_shared and (not is_stored_twice or np.array_equal(arrays.read(ENCODER), arrays.read(DECODER))):
        return "source-target"
    return "none"


def _parameter(arrays: Arrays, name: str, sharing: str) -> Array | Stored:
    """Read what the file has for a parameter of ours; of tied matrices it may hold any."""
    tied = {"all": (SHARED, ENCODER, DECODER, HEAD), "source-target": (SHARED, ENCODER, DECODER)}
    if name == "source_embedding.weight":
        return arrays.stored(*tied.get(sharing, (ENCODER,)))
    if name == "target_embedding.weight":
        return arrays.stored(*((DECODER, HEAD) if sharing == "target-output" else (DECODER,)))
    if name == "projection":
        return arrays.stored(HEAD)
    if name == "output_bias":
        return arrays.read(BIAS).reshape(-1)
    return arrays.stored("model." + pytorch_name(name))


def _has_bias(arrays: Arrays, masked: list[int]) -> bool:
    """Whether any token that is written has a bias: the class stores zeros for a model without."""
    return BIAS in arrays and not {*np.flatnonzero(arrays.read(BIAS)).tolist()} <= {*masked}


def _forbidden(search: Options) -> list[int]:
    """Tokens that generation never writes: `bad_words_ids` of one token each, usually the padding."""
    found = search.values.get("bad_words_ids")
    words = found if isinstance(found, list) else []
    return [word[0] for word in words if isinstance(word, list) and len(word) == 1 and type(word[0]) is int]


def _vocabularies(folder: Path, options: Options, arrays: Arrays) -> tuple[Pieces, Pieces]:
    """Return the pieces of source and target: ids of `vocab.json`, text through `source.spm` and `target.spm`."""
    if not (folder / "vocab.json").is_file():
        raise ModelFileError(f"{folder} has no vocab.json, which maps text to tokens; put it beside the model")
    names = json_ids(folder / "vocab.json")
    own = folder / "target_vocab.json"
    sides = []
    for side, matrix, listed in (
        ("source", ENCODER, names),
        ("target", DECODER, json_ids(own) if own.is_file() else names),
    ):
        rows = arrays.shape(matrix, SHARED, HEAD)[0]
        special, model = _special(options, listed, rows), sentencepiece_model(folder, f"{side}.spm")
        sides.append(Pieces.of(listed, special, model, rows, folder / "vocab.json"))
    return sides[0], sides[1]


def _special(options: Options, names: list[str], rows: int) -> dict[int, int | None]:
    """Return the ids of special tokens; the token that starts the decoder, usually the padding, is our BOS."""
    end, start, pad = options.number("eos_token_id", 0, at_least=0), _start(options), options.values.get("pad_token_id")
    for name, value in (("eos_token_id", end), ("decoder_start_token_id", start)):
        if value >= rows:
            raise options.refused(name, f"the model has {rows} tokens")
    taken = {end, start}
    pad = pad if type(pad) is int and pad not in taken and 0 <= pad < rows else None
    unknown = place_of(names, "<unk>")
    return {
        PAD: pad,
        UNK: unknown if unknown not in (*taken, pad) else None,
        BOS: start if start != end else None,
        EOS: end,
    }


# ---- Export ------------------------------------------------------------------------------------------------------


def write_huggingface(learned: LearnedModel, folder: Path) -> list[str]:
    """Write config.json, model.safetensors and the tokenizer's files.  Returns: notes for the user

    Raises: UserError for what the class MarianMTModel does not have
    """
    learned = with_halves(learned)
    refuse_other_attention(learned.model, "Hugging Face's class")
    lacking = {"norm": "pre", "embedding_norm": True, "source_eos": False}
    refuse_fields(learned.model, lacking, "Hugging Face's Marian", "use --format ctranslate2")
    outgoing, pad = _arranged(learned)
    arrays = _exported(outgoing)
    write_safetensors(folder / WEIGHTS_NAME, arrays, {"format": "pt"})
    for name, value in _configs(outgoing, pad).items():
        write_text(folder / name, json_text(value))
    names = {side: {name: index for index, name in enumerate(outgoing.names(side))} for side in ("source", "target")}
    write_text(folder / "vocab.json", json_text(names["source"]))
    if not outgoing.is_shared:
        write_text(folder / "target_vocab.json", json_text(names["target"]))
    notes = []
    if not write_sentencepiece(learned.vocabulary, folder):
        notes.append(
            "its vocabulary is not a sentencepiece model, so Hugging Face's tokenizer cannot segment text for it"
        )
    notes += penalty_notes(learned.config, "Hugging Face's search")
    if learned.model.decoder_start == "eos" or starts_with_embedding(learned) or not outgoing.is_shared:
        notes.append(
            "CTranslate2's converter of transformers models starts every decoder with a zero vector and reads one "
            "vocabulary, and this model needs others; use --format ctranslate2 for CTranslate2"
        )
    if any(name in POSITIONS for name in arrays):
        notes.append(
            "its positions are not those that Hugging Face's class computes: the class reads them from "
            "model.safetensors, and its save_pretrained leaves them out; keep this file"
        )
    if learned.model.norm_epsilon != NORM_EPSILON:
        notes.append(
            f"Hugging Face's class adds {NORM_EPSILON} to variances, the run {learned.model.norm_epsilon}, so that its "
            "numbers differ a little"
        )
    return notes


def _arranged(learned: LearnedModel) -> tuple[Outgoing, int]:
    """The pieces in the order of Hugging Face, with a row of zeros if one is needed, and the place of the padding."""
    outgoing = Outgoing.of(learned, (EOS, UNK))
    orders, is_one = (outgoing.source, outgoing.target), outgoing.is_shared
    start = {"zero": ADDED, "eos": EOS, "bos": BOS if starts_with_embedding(learned) or BOS in orders[1] else ADDED}
    token = start[learned.model.decoder_start]
    padding = PAD if all(PAD in order for order in orders) and token != ADDED else (BOS if token == BOS else ADDED)
    place = len(orders[0]) - (padding in orders[0]) if is_one else 2
    arranged = []
    for order in orders:
        rest = [index for index in order if index != padding]
        arranged.append([*rest[:place], padding if padding in order else ADDED, *rest[place:]])
    return Outgoing(learned, *arranged), place


def _exported(outgoing: Outgoing) -> dict[str, Array]:
    model = outgoing.model
    arrays = {
        "model." + pytorch_name(name): outgoing.array(name) for name in outgoing.parameters() if "positions" not in name
    }
    source, target = (SHARED, SHARED) if model.share_embeddings == "all" else (ENCODER, DECODER)
    stored, aliases = outgoing.embeddings(source, target, HEAD)
    arrays |= stored
    if model.share_embeddings == "source-target":
        arrays[target] = arrays[aliases[target]]
    arrays[BIAS] = outgoing.bias(masked=False)[None]
    if model.positions != "sinusoidal-halves" or model.first_position:
        for side, name in zip(("source", "target"), POSITIONS, strict=True):
            arrays[name] = outgoing.positions(side, outgoing.learned.config.max_length)
    return arrays


def _configs(outgoing: Outgoing, pad: int) -> dict[str, dict[str, Any]]:
    """config.json, generation_config.json and tokenizer_config.json."""
    model = outgoing.model
    learned_rows = model.max_positions - model.first_position
    is_bos = model.decoder_start == "bos" and BOS in outgoing.target
    start = 0 if model.decoder_start == "eos" else outgoing.target.index(BOS) if is_bos else pad
    never = [place for place, index in enumerate(outgoing.target) if index == ADDED or index in model.masked_tokens]
    tokens = {"decoder_start_token_id": start, "eos_token_id": 0, "pad_token_id": pad, "forced_eos_token_id": 0}
    longest = learned_rows if model.positions == "learned" else outgoing.learned.config.max_length
    generation = {
        "num_beams": outgoing.learned.config.beam,
        "length_penalty": outgoing.learned.config.alpha,
        "max_length": longest,  # generate() stops after 20 tokens without
        **({"bad_words_ids": [[each] for each in never]} if never else {}),
    }
    config = {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "vocab_size": len(outgoing.source),
        "decoder_vocab_size": len(outgoing.target),
        "d_model": model.d_model,
        "encoder_layers": model.encoder_depth,
        "decoder_layers": model.decoder_depth,
        "encoder_attention_heads": model.heads,
        "decoder_attention_heads": model.heads,
        "encoder_ffn_dim": model.d_ff,
        "decoder_ffn_dim": model.d_ff,
        "activation_function": model.activation,
        "scale_embedding": model.scale_embeddings,
        "max_position_embeddings": longest,
        "share_encoder_decoder_embeddings": model.share_embeddings == "all",
        "tie_word_embeddings": model.share_embeddings in ("all", "target-output"),
        "dropout": model.dropout,
        "attention_dropout": model.attention_dropout,
        "activation_dropout": model.activation_dropout,
        "is_encoder_decoder": True,
        "static_position_embeddings": True,
        "torch_dtype": "float32",
        **tokens,
    }
    tokenizer = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": not outgoing.is_shared, "source_lang": None,
                 "pad_token": outgoing.names("target")[pad],
                 "target_lang": None, "model_max_length": longest}  # fmt: skip
    return {
        CONFIG_NAME: config,
        GENERATION_NAME: {**tokens, **generation},
        "tokenizer_config.json": tokenizer,
    }


# ---- The Hub -----------------------------------------------------------------------------------------------------


PREFIX = "hf:"
FILES = [
    "config.json", "generation_config.json", "model.safetensors", "vocab.json", "target_vocab.json", "source.spm",
    "target.spm",
]  # fmt: skip
NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*(@[\w.-]+)?", re.ASCII)


def downloaded(source: str) -> Path:
    """Return the folder of `hf:OWNER/NAME` or `hf:OWNER/NAME@REVISION`, downloaded or from the Hub's cache.

    The environment variables of huggingface_hub apply: HF_ENDPOINT, HF_HOME, HF_TOKEN, HF_HUB_OFFLINE.

    Raises: UserError without huggingface_hub, for a name that is none, and where the download fails
    """
    name = source.removeprefix(PREFIX)
    if not NAME.fullmatch(name):
        raise UserError(
            f"{source!r} is not the name of a model on the Hub; write hf:OWNER/NAME, such as "
            "hf:Helsinki-NLP/opus-mt-en-de"
        )
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise UserError(
            f"{source} is downloaded with huggingface_hub, which is not installed; run pip install huggingface_hub, "
            "or pip install '.[hub]' in this project's directory"
        ) from None
    repository, _, revision = name.partition("@")
    try:
        folder = Path(snapshot_download(repository, revision=revision or None, allow_patterns=FILES))
    except Exception as error:  # of the network and of the server, of many classes
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"cannot download {name}: {reason or type(error).__name__}; check the name and the connection"
        ) from error
    if not (folder / WEIGHTS_NAME).is_file():
        raise UserError(
            f"{name} has no {WEIGHTS_NAME}; its authors, or the Hub's conversion, can add one, or convert its pickle "
            "as docs/models.md describes"
        )
    return folder
