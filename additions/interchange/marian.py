"""Marian's models: `model.npz`, or the browsers' `model.intgemm.alphas.bin`, beside its vocabularies.

Marian's own decoder computes the positions with the exponent i / (d/2 - 1); CTranslate2 and Hugging Face read the same
file with 2i / d. Source: marian-dev, src/models/transformer.h and src/common/config_parser.cpp
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from additions.interchange.incoming import Arrays, ForeignModel, Options, foreign_model, only_file
from additions.interchange.marian_binary import binary_arrays
from additions.interchange.outgoing import (
    LearnedModel,
    Outgoing,
    penalty_notes,
    refuse_fields,
    refuse_other_attention,
    starts_with_embedding,
    with_halves,
)
from additions.interchange.parameter_names import is_linear, marian_name
from additions.interchange.stored_arrays import Array, ModelFileError, SourceFile, Stored, npz_arrays, read_text
from additions.interchange.vocabularies import (
    Pieces,
    place_of,
    sentencepiece_model,
    sentencepiece_pieces,
    unquoted,
    write_sentencepiece,
    write_text,
    yaml_ids,
    yaml_text,
)
from minitf.config import TransformerConfig
from minitf.config.model import BOS, EOS, PAD, UNK
from minitf.errors import UserError
from minitf.system.files import atomic_write

CONFIG = "special:model.yml"
EMBEDDINGS = {"source": ("encoder_Wemb", "Wemb"), "target": ("decoder_Wemb", "Wemb")}
OUTPUT = ("decoder_ff_logit_out_Wt", "decoder_ff_logit_out_W")
OUTPUT_BIAS = "decoder_ff_logit_out_b"
NORMS = {("", "dan", ""): "post", ("n", "da", "n"): "pre"}
NORM_EPSILON = 1e-6
MAX_YAML_BYTES = 2**20


def find_marian(path: Path) -> Path | None:
    """Return the file of weights: `path` itself, or the only one in a folder; None if there is none."""
    if path.is_file():
        return path if path.suffix == ".npz" or path.name.endswith(".intgemm.alphas.bin") else None
    usual = ("model.npz", *_listed(_decoder_config(path).get("models")))
    return only_file(path, [*path.glob("*.npz"), *path.glob("*.intgemm*.bin")], usual)


def read_marian(path: Path, positions: str | None = None) -> ForeignModel:
    """Read a model of Marian.

    positions: "sinusoidal-concatenated" as Marian computes them; "sinusoidal-halves" as CTranslate2 and Hugging Face do
    """
    with SourceFile(path) as file:
        arrays = Arrays(path, npz_arrays(file) if path.suffix == ".npz" else binary_arrays(file))
        options = Options(path, _config(arrays))
        model = _architecture(arrays, options, positions)
        source, target = _vocabularies(path.parent, options, arrays)
        search = _search(path.parent)
        is_pre = model.norm == "pre"
        found = foreign_model(model, lambda name: _parameter(arrays, name, is_pre), source, target, path, **search)
        arrays.refuse_rest(lambda name: name.startswith("special:") or name.endswith("_QuantMultA"))
        return found


# ---- Configuration -----------------------------------------------------------------------------------------------


def _config(arrays: Arrays) -> dict[str, Any]:
    if CONFIG not in arrays or np.prod(arrays.arrays[CONFIG].shape) > MAX_YAML_BYTES:
        raise ModelFileError(f"{arrays.path} has no configuration {CONFIG}; give a model that Marian saved")
    return parse_yaml(arrays.read(CONFIG).tobytes().rstrip(b"\0").decode("utf-8", "replace"))


def parse_yaml(text: str) -> dict[str, Any]:
    """Return the options of a flat YAML text: `name: value`, and lists in brackets or a line an item."""
    values: dict[str, Any] = {}
    name = ""
    for line in text.split("\n"):
        if match := re.match(r"([\w-]+):(?:\s+(.*))?$", line.rstrip()):
            name, content = match[1], (match[2] or "").strip()
            values[name] = _value(content) if content else []
        elif (match := re.match(r"\s*-\s+(.*)$", line.rstrip())) and isinstance(values.get(name), list):
            values[name].append(_value(match[1].strip()))
    return values


def _value(text: str) -> Any:
    if text.startswith("[") and text.endswith("]"):
        return [_scalar(each.strip()) for each in text[1:-1].split(",") if each.strip()]
    return _scalar(text)


def _scalar(text: str) -> Any:
    if text in ("true", "false", "null", "~"):
        return {"true": True, "false": False}.get(text)
    if re.fullmatch(r"-?\d{1,18}", text):
        return int(text)
    if re.fullmatch(r"-?\d{1,18}(\.\d{0,18})?(e[-+]?\d{1,3})?", text, re.IGNORECASE):
        return float(text)
    return unquoted(text)


def _architecture(arrays: Arrays, options: Options, positions: Any) -> TransformerConfig:
    """Return the configuration of the model; what we do not have is refused by the name of its option."""
    options.require("type", "transformer", advice="only Transformers are supported")
    options.require(
        "transformer-decoder-autoreg",
        None,
        "self-attention",
        advice="recurrent decoders are not supported, such as SSRU, which most models for browsers have",
    )
    options.refuse_set("transformer-no-projection", "transformer-no-affine", "transformer-no-bias", "lemma-dim-emb")
    options.require("transformer-postprocess-emb", None, "", "d", "n", "nd")
    norm: Any = _norm(options)
    if options.require("transformer-ffn-activation", None, "relu", "swish", advice="choose relu or swish") is None:
        options.values = {**options.values, "transformer-ffn-activation": "swish"}
    shapes = {name: arrays.shape(*EMBEDDINGS[name]) for name in EMBEDDINGS}
    layers = {side: arrays.depth(f"{side}_l{{}}_ffn_W1", 1) for side in ("encoder", "decoder")}
    _refuse_tied_layers(options, layers)
    learned = "Wpos" in arrays
    return TransformerConfig(
        encoder_layers=layers["encoder"],
        decoder_layers=layers["decoder"],
        d_model=shapes["target"][1],
        d_ff=arrays.shape("encoder_l1_ffn_W1")[1],
        heads=options.number("transformer-heads", 8),
        activation=options.activation("transformer-ffn-activation", "swish"),
        norm=norm,
        norm_epsilon=NORM_EPSILON,
        embedding_norm="n" in options.text("transformer-postprocess-emb"),
        positions="learned" if learned else positions or "sinusoidal-concatenated",
        max_positions=arrays.shape("Wpos")[0] if learned else 1024,
        scale_embeddings=not learned,
        decoder_start="zero",
        source_eos=True,
        share_embeddings=_sharing(arrays),
        output_bias=OUTPUT_BIAS in arrays,
        dropout=options.fraction("transformer-dropout"),
    )


def _norm(options: Options) -> str:
    """Return the order of the norms: "post" or "pre"."""
    names = ("transformer-preprocess", "transformer-postprocess", "transformer-postprocess-top")
    found = tuple(options.text(name, default) for name, default in zip(names, ("", "dan", ""), strict=True))
    if found not in NORMS:
        expected = next(order for order in NORMS if ("n" in found[0]) == ("n" in order[0]))
        wrong = next(name for name, value, other in zip(names, found, expected, strict=True) if value != other)
        raise options.refused(wrong, 'the orders are "", "dan", "" (post-norm) and "n", "da", "n" (pre-norm)')
    return NORMS[found]


def _refuse_tied_layers(options: Options, layers: dict[str, int]) -> None:
    tied = options.values.get("transformer-tied-layers")
    if tied and tied != list(range(1, max(layers.values()) + 1)):
        raise options.refused("transformer-tied-layers", "layers that share weights are not supported")
    for side, name in (("encoder", "enc-depth"), ("decoder", "dec-depth")):
        if options.number(name, layers[side]) != layers[side]:
            raise options.refused(name, f"the file has {layers[side]} layers")


def _sharing(arrays: Arrays) -> Any:
    has_output = any(name in arrays for name in OUTPUT)
    if "Wemb" in arrays:
        return "source-target" if has_output else "all"
    return "none" if has_output else "target-output"


# ---- Weights -----------------------------------------------------------------------------------------------------


def _parameter(arrays: Arrays, name: str, is_pre: bool) -> Array | Stored:
    """Read what Marian has for a parameter of ours."""
    if name.endswith("_embedding.weight"):
        return arrays.stored(*EMBEDDINGS[name.partition("_")[0]])
    if name.endswith("_positions.weight"):
        return arrays.read("Wpos")
    if name == "projection":
        found = arrays.find(*OUTPUT)
        return arrays.stored(found) if found == OUTPUT[0] else arrays.read(found).T
    if name == "output_bias":
        return arrays.read(OUTPUT_BIAS).reshape(-1)
    found = marian_name(name, is_pre)
    if "_ln_" in found:  # the suffix `_pre` is missing from some files, and stands in some where it is not expected
        found = arrays.find(found, found.removesuffix("_pre"), f"{found}_pre")
    array = arrays.read(found)
    return array.T if is_linear(name) else array.reshape(-1)


# ---- Vocabularies ------------------------------------------------------------------------------------------------


def _decoder_config(folder: Path) -> dict[str, Any]:
    """Return the options of `decoder.yml`, which OPUS-MT packs beside a model."""
    path = folder / "decoder.yml"
    return parse_yaml(read_text(path)) if path.is_file() else {}


def _search(folder: Path) -> dict[str, Any]:
    """The settings of the search that decoder.yml holds; OPUS-MT's where there is none."""
    found = _decoder_config(folder)
    options = Options(folder / "decoder.yml", found)
    options.refuse_set("word-penalty")
    return {
        "beam": options.number("beam-size", 12 if found else 6, at_most=1000),
        "alpha": options.real("normalize", 0.0 if found else 1.0),
    }


def _listed(values: Any) -> list[str]:
    """Return the names of files that an option lists, without their folders: no path in a file is followed."""
    listed = values if isinstance(values, list) else []
    return [re.split(r"[/\\]", each)[-1] for each in listed if isinstance(each, str)]


def _vocabularies(folder: Path, options: Options, arrays: Arrays) -> tuple[Pieces, Pieces]:
    """Return the vocabularies of source and target, as many pieces as their embeddings have rows."""
    listed = [_listed(each.get("vocabs")) for each in (_decoder_config(folder), options.values)]
    files = _pair(folder, listed, (".yml", ".spm"), r"vocab")
    if files is None:
        raise ModelFileError(f"{folder} has no vocabulary, such as vocab.yml or vocab.spm; put it beside the model")
    models = _pair(folder, [], (".spm",), r"source|target|vocab|src|trg|tgt") if files[0].suffix == ".yml" else None
    names = {file: _names(file) for file in {*files}}
    sides = []
    for file, model, matrix in zip(files, models or files, EMBEDDINGS.values(), strict=True):
        end = place_of(names[file], "</s>")
        if end is None:
            raise ModelFileError(f"{file} has no piece </s>, which ends every sentence of Marian")
        special = {PAD: None, UNK: place_of(names[file], "<unk>"), BOS: None, EOS: end}
        content = sentencepiece_model(folder, model.name) if model.suffix == ".spm" else b""
        sides.append(Pieces.of(names[file], special, content, arrays.shape(*matrix)[0], file))
    return sides[0], sides[1]


def _names(path: Path) -> list[str]:
    """Return the pieces of a vocabulary, in the order of their ids."""
    if path.suffix == ".spm":
        return sentencepiece_pieces(sentencepiece_model(path.parent, path.name), path)
    return yaml_ids(path)


def _pair(
    folder: Path, listed: Sequence[list[str]], suffixes: tuple[str, ...], pattern: str
) -> tuple[Path, Path] | None:
    """Return the files of source and target in a folder: those listed, else by name; one file may serve both."""
    for names in listed:
        paths = [folder / name for name in names if name.endswith(suffixes)]
        if paths and all(path.is_file() for path in paths):
            return paths[0], paths[-1]
    for suffix in suffixes:
        found = sorted(path for path in folder.glob(f"*{suffix}") if re.search(pattern, path.name))
        source = [path for path in found if re.search(r"src|source", path.name)]
        target = [path for path in found if re.search(r"trg|tgt|target", path.name)]
        if len(source) == 1 and len(target) == 1:
            return source[0], target[0]
        if len(found) == 1:
            return found[0], found[0]
        if len(found) > 1:
            shown = ", ".join(path.name for path in found[:4])
            raise ModelFileError(
                f"{folder} has several vocabularies ({shown}); put src and trg into the names of two of them"
            )
    return None


# ---- Export ------------------------------------------------------------------------------------------------------

FIXED = {
    "type": "transformer", "transformer-decoder-autoreg": "self-attention", "transformer-no-projection": False,
    "transformer-guided-alignment-layer": "last", "transformer-ffn-depth": 2, "transformer-tied-layers": [],
    "transformer-train-position-embeddings": False, "transformer-pool": False, "transformer-decoder-dim-ffn": 0,
    "transformer-dim-aan": 2048, "transformer-aan-depth": 2, "transformer-aan-activation": "swish",
    "transformer-aan-nogate": False, "output-omit-bias": False, "lemma-dim-emb": 0, "input-types": [],
    "ulr": False, "ulr-dim-emb": 0, "skip": False, "layer-normalization": False, "version": "v1.12.0",
}  # fmt: skip

OTHER_POSITIONS = (
    "its positions are those that CTranslate2 and Hugging Face compute for a model of Marian; Marian itself computes "
    "others, which a run has with --set model.positions=sinusoidal-concatenated"
)


def write_marian(learned: LearnedModel, folder: Path) -> list[str]:
    """Write model.npz, decoder.yml and the vocabularies.  Returns: notes for the user

    Raises: UserError for what Marian does not have
    """
    learned = with_halves(learned)
    model = learned.model
    _refuse_what_marian_lacks(learned)
    outgoing = Outgoing.of(learned, (EOS, UNK))
    arrays = _exported(outgoing)
    arrays[CONFIG] = np.frombuffer(yaml_of(_marian_options(outgoing)).encode() + b"\0", np.int8)
    with atomic_write(folder / "model.npz") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    names = ("vocab.yml", "vocab.yml") if outgoing.is_shared else ("vocab.src.yml", "vocab.trg.yml")
    for side, name in zip(EMBEDDINGS, names, strict=True):
        write_text(folder / name, yaml_text(outgoing.names(side)))
    decoder = {"models": ["model.npz"], "vocabs": list(names), "beam-size": learned.config.beam}
    decoder["normalize"] = learned.config.alpha
    write_text(folder / "decoder.yml", "relative-paths: true\n" + yaml_of(decoder))
    write_sentencepiece(learned.vocabulary, folder)
    notes = [OTHER_POSITIONS] if model.positions == "sinusoidal-halves" else []
    return notes + penalty_notes(learned.config, "Marian's search")


def _refuse_what_marian_lacks(learned: LearnedModel) -> None:
    model = learned.model
    refuse_other_attention(model, "Marian")
    advice = "choose another --format, or train without it"
    zero = "--set model.decoder_start=zero --set model.positions=sinusoidal-concatenated"
    if starts_with_embedding(learned) or model.decoder_start == "eos":
        start = f"decoder_start={model.decoder_start}"
        raise UserError(f"{start} starts the decoder with an embedding, Marian with a zero vector; train with {zero}")
    lacking = {"positions": "learned", "activation": "gelu", "scale_embeddings": False, "source_eos": False}
    refuse_fields(model, lacking, "Marian", advice)
    if model.first_position:
        raise UserError(f"first_position={model.first_position} is not the 0 of Marian; {advice}")


def _exported(outgoing: Outgoing) -> dict[str, Array]:
    model, is_pre = outgoing.model, outgoing.model.norm == "pre"
    arrays = {}
    for name in outgoing.parameters():
        array = outgoing.array(name)
        arrays[marian_name(name, is_pre)] = array.T if is_linear(name) else array[None]
    source, target = ("Wemb", "Wemb") if model.ties_source else (EMBEDDINGS["source"][0], EMBEDDINGS["target"][0])
    arrays |= outgoing.embeddings(source, target, OUTPUT[0])[0]
    if model.share_embeddings == "target-output":  # CTranslate2 looks for it
        arrays[OUTPUT[0]] = arrays[target]
    arrays[OUTPUT_BIAS] = outgoing.bias(masked=True)[None]
    return {name: np.ascontiguousarray(array, np.float32) for name, array in arrays.items()}


def _marian_options(outgoing: Outgoing) -> dict[str, Any]:
    model, sharing = outgoing.model, outgoing.model.share_embeddings
    pre, post, top = next(names for names, norm in NORMS.items() if norm == model.norm)
    return {
        **FIXED,
        "dim-emb": model.d_model,
        "dim-vocabs": [len(outgoing.source), len(outgoing.target)],
        "enc-depth": model.encoder_depth,
        "dec-depth": model.decoder_depth,
        "transformer-heads": model.heads,
        "transformer-dim-ffn": model.d_ff,
        "transformer-ffn-activation": {"silu": "swish"}.get(model.activation, model.activation),
        "transformer-preprocess": pre,
        "transformer-postprocess": post,
        "transformer-postprocess-top": top,
        "transformer-postprocess-emb": "nd" if model.embedding_norm else "d",
        "tied-embeddings": sharing == "target-output",
        "tied-embeddings-src": sharing == "source-target",
        "tied-embeddings-all": sharing == "all",
        "max-length": outgoing.learned.config.max_length,
    }


def yaml_of(values: dict[str, Any]) -> str:
    """Options as a flat YAML text, of which JSON is a part."""
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in values.items())
