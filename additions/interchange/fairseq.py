"""fairseq's models: `model.safetensors`, converted from `model.pt`, beside `dict.SOURCE.txt` and `dict.TARGET.txt`.

fairseq saves pickles, which are not read. CONVERT writes the tensors, and the options as JSON, to a file without code.

Source: fairseq, models/transformer and modules/transformer_layer.py; ctranslate2/converters/fairseq.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from additions.interchange.incoming import Arrays, ForeignModel, Options, foreign_model, only_file
from additions.interchange.parameter_names import SIDES, pytorch_name
from additions.interchange.stored_arrays import (
    Array,
    ModelFileError,
    SourceFile,
    Stored,
    refused_pickle,
    safetensors_arrays,
    safetensors_header,
)
from additions.interchange.vocabularies import Pieces, dict_txt, sentencepiece_model
from minitf.config import TransformerConfig
from minitf.config.model import BOS, EOS, PAD, UNK
from minitf.system.files import parse_json_object

ENCODER, DECODER = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"
OUTPUT = ("decoder.output_projection.weight", "decoder.embed_out")
POSITIONS = ("encoder.embed_positions.weight", "decoder.embed_positions.weight")
PADDING = 1
"""fairseq's id of padding; the first position is the next number."""
NORM_EPSILON = 1e-5
SPECIAL: dict[int, int | None] = {PAD: PADDING, UNK: 3, BOS: 0, EOS: 2}
UNSUPPORTED = (
    "adaptive_softmax_cutoff", "adaptive_input", "no_token_positional_embeddings", "no_cross_attention",
    "cross_self_attention", "character_embeddings", "encoder_layers_to_keep", "decoder_layers_to_keep",
    "tie_adaptive_weights", "no_decoder_final_norm",
)  # fmt: skip


CONVERT = (
    "import json, torch; from safetensors.torch import save_file; "
    'found = torch.load("{name}", weights_only=False); '
    'save_file({{name: array.clone() for name, array in found["model"].items()}}, "model.safetensors", '
    '{{"fairseq": json.dumps({{key: found.get(key) for key in ("args", "cfg")}}, '
    'default=lambda each: dict(each) if hasattr(each, "keys") else vars(each))}})'
)
"""What makes `model.safetensors` of a checkpoint; `weights_only=False` runs code that a checkpoint holds."""


def find_fairseq(path: Path) -> Path | None:
    """Return the file of a model: `path`, or the only one in a folder with dictionaries; None if there is none."""
    if path.is_file():
        return path if path.suffix in (".pt", ".safetensors") else None
    converted = path / "model.safetensors"
    if converted.is_file() and any(path.glob("dict*.txt")):
        return converted
    return only_file(path, sorted(path.glob("*.pt")), ("model.pt", "checkpoint_best.pt"))


def read_fairseq(path: Path) -> ForeignModel:
    """Read a translation model.  Raises: ModelFileError for a pickle, and another architecture, naming the option"""
    if path.suffix == ".pt":
        raise refused_pickle(path, CONVERT.format(name=path.name))
    with SourceFile(path) as file:
        about = safetensors_header(file)[0].get("__metadata__")
        text = about.get("fairseq") if isinstance(about, dict) else None
        if not isinstance(text, str):
            raise file.damaged('it has no options under "fairseq"; convert the checkpoint as docs/models.md describes')
        try:
            content = parse_json_object(text)
        except ValueError as error:
            raise file.damaged(f"its options are damaged: {error}") from None
        arrays = Arrays(path, safetensors_arrays(file))
        options = Options(path, _options(content))
        model = _architecture(arrays, options)
        source, target = _vocabularies(path.parent, options, arrays)
        longest = options.number("max_source_positions", 1024)
        found = foreign_model(
            model, lambda name: _parameter(arrays, name), source, target, path, beam=5, max_length=longest
        )
        arrays.refuse_rest(_is_ignored)
        return found


def _options(content: dict[Any, Any]) -> dict[str, Any]:
    """Return the options of the model: those under "args", or under "cfg" in "model".

    Those of newer versions, such as `encoder: {layers: 6}`, get their older names.
    """
    found = _attributes(content.get("args"))
    if found is None and (cfg := _attributes(content.get("cfg"))) is not None:
        model = _attributes(cfg.get("model"))
        found = None if model is None else {**(_attributes(cfg.get("task")) or {}), **model}
    if found is None:
        raise ModelFileError('the checkpoint has no options under "args" or "cfg"; give one that fairseq saved')
    flat = {name: value for name, value in found.items() if isinstance(name, str)}
    for side in SIDES.values():
        for name, value in (_attributes(flat.pop(side, None)) or {}).items():
            flat[f"{side}_{name}"] = value
    return flat


def _attributes(value: Any) -> dict[Any, Any] | None:
    """Return a dict; None for anything else."""
    return value if isinstance(value, dict) else None


def _architecture(arrays: Arrays, options: Options) -> TransformerConfig:
    arch = options.text("arch", options.text("_name", "transformer"))
    if not arch.startswith(("transformer", "vaswani")) or "lm" in arch:
        name = "arch" if "arch" in options.values else "_name"
        raise options.refused(name, "only fairseq's translation Transformers are supported")
    options.refuse_set(*UNSUPPORTED)
    is_pre = options.flag("encoder_normalize_before")
    if options.flag("decoder_normalize_before") != is_pre:
        raise options.refused("decoder_normalize_before", "encoder and decoder must have the same order of norms")
    d_model = arrays.shape(ENCODER)[1]
    if options.equal("encoder_embed_dim", "decoder_embed_dim", d_model) != d_model:
        raise options.refused("encoder_embed_dim", f"the file has embeddings of width {d_model}")
    return TransformerConfig(
        encoder_layers=arrays.depth("encoder.layers.{}.fc1.weight"),
        decoder_layers=arrays.depth("decoder.layers.{}.fc1.weight"),
        d_model=d_model,
        d_ff=arrays.shape("encoder.layers.0.fc1.weight")[0],
        heads=options.equal("encoder_attention_heads", "decoder_attention_heads", 8),
        activation=options.activation("activation_fn", "relu"),
        norm="pre" if is_pre else "post",
        norm_epsilon=NORM_EPSILON,
        embedding_norm=options.flag("layernorm_embedding"),
        first_position=PADDING + 1,
        **_positions(arrays, options),
        scale_embeddings=not options.flag("no_scale_embedding"),
        decoder_start="eos",
        share_embeddings=_sharing(arrays, options),
        dropout=options.fraction("dropout", 0.1),
        attention_dropout=options.fraction("attention_dropout"),
        activation_dropout=options.fraction("activation_dropout"),
    )


def _positions(arrays: Arrays, options: Options) -> dict[str, Any]:
    """Sinusoids, or a learned table, whose first two rows are never used."""
    learned = [options.flag(f"{side}_learned_pos") for side in SIDES.values()]
    if learned[0] != learned[1]:
        raise options.refused("decoder_learned_pos", "encoder and decoder must have the same positions")
    if not learned[0]:
        return {"positions": "sinusoidal-concatenated"}
    return {"positions": "learned", "max_positions": min(arrays.shape(name)[0] for name in POSITIONS)}


def _sharing(arrays: Arrays, options: Options) -> Any:
    """Return which matrices are shared, according to the options; a shared output is stored again or not at all."""
    if options.flag("share_all_embeddings"):
        return "all"
    if options.flag("share_decoder_input_output_embed"):
        return "target-output"
    arrays.find(*OUTPUT)
    return "none"


def _parameter(arrays: Arrays, name: str) -> Array | Stored:
    if name == "projection":
        return arrays.stored(*OUTPUT)
    found = pytorch_name(name)
    if found in POSITIONS:
        return arrays.read(found)[: min(arrays.shape(each)[0] for each in POSITIONS)]
    return arrays.stored(found)


def _is_ignored(name: str) -> bool:
    """Arrays that carry nothing: versions, tables of sinusoids, and the matrices that are shared."""
    return name.endswith((".version", "._float_tensor")) or name in (ENCODER, DECODER, *OUTPUT, *POSITIONS)


def _vocabularies(folder: Path, options: Options, arrays: Arrays) -> tuple[Pieces, Pieces]:
    sides = []
    for side, name in (("source", ENCODER), ("target", DECODER)):
        path = _dictionary(folder, options, side)
        names, rows = dict_txt(path), arrays.shape(name)[0]
        if len(names) < rows < len(names) + 8:  # fairseq fills up to a multiple of 8
            names += [f"madeupword{index:04}" for index in range(rows - len(names))]
        models = ("sentencepiece.bpe.model", "spm.model", "sentencepiece.model", f"spm_{side}.model", f"{side}.spm")
        sides.append(Pieces.of(names, SPECIAL, sentencepiece_model(folder, *models), rows, path))
    return sides[0], sides[1]


def _dictionary(folder: Path, options: Options, side: str) -> Path:
    """`dict.de.txt` of the language that the options name; with two files and no names, in the order of the model."""
    language = options.text(f"{side}_lang")
    named = folder / f"dict.{language}.txt"
    if language.replace("_", "").isalnum() and named.is_file():
        return named
    found = sorted(folder.glob("dict*.txt"))
    if len(found) == 1:
        return found[0]
    raise ModelFileError(
        f"{folder} has {len(found)} files dict.*.txt, none of which is that of {side}_lang={language!r}; put the "
        "dictionaries of fairseq beside the model"
    )
