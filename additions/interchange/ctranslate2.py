"""CTranslate2's models: a folder of `model.bin`, `config.json` and vocabularies.

Source: ctranslate2/specs/{transformer_spec,attention_spec,common_spec}.py
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from additions.interchange.incoming import Arrays, ForeignModel, Options, foreign_model, positions_of
from additions.interchange.outgoing import (
    LearnedModel,
    Outgoing,
    penalty_notes,
    refuse_other_attention,
    starts_with_embedding,
)
from additions.interchange.parameter_names import SIDES, ctranslate2_name
from additions.interchange.stored_arrays import (
    BFLOAT16,
    MAX_RANK,
    Array,
    ModelFileError,
    SourceFile,
    Stored,
    StoredArray,
)
from additions.interchange.vocabularies import (
    Pieces,
    json_list,
    json_text,
    lines_of,
    place_of,
    sentencepiece_model,
    write_sentencepiece,
    write_text,
)
from minitf.config import TransformerConfig
from minitf.config.model import BOS, EOS, PAD, UNK
from minitf.errors import UserError
from minitf.system.files import atomic_write

MODEL_NAME, CONFIG_NAME = "model.bin", "config.json"
HEADS_BY_NAME = {"TransformerBase": 8, "TransformerBig": 16}
"""Models of before the number of heads was stored."""
ACTIVATIONS = {0: "relu", 2: "silu", 3: "gelu"}
INT16_SCALE = 1000.0
"""The scale of 16-bit weights in old files, which store no scale of any array."""
NORM_EPSILON = 1e-5
FLOATS = (BFLOAT16, np.float16, np.float32)

EMBEDDINGS = {
    "source": ("encoder/embeddings_0/weight", "encoder/embeddings/weight"),
    "target": ("decoder/embeddings/weight", "decoder/embeddings_0/weight"),
}
POSITIONS = {side: f"{theirs}/position_encodings/encodings" for side, theirs in SIDES.items()}
ZERO_START = "decoder/start_from_zero_embedding"
"""True for models of Marian alone, which all end a source with an end token."""
PROJECTION, BIAS = "decoder/projection/weight", "decoder/projection/bias"
WHOLE = {
    "projection": (PROJECTION,),
    "output_bias": (BIAS,),
    **{f"{side}_embedding.weight": names for side, names in EMBEDDINGS.items()},
    **{f"{side}_positions.weight": (name,) for side, name in POSITIONS.items()},
}
"""Parameters outside layers, and the names that their arrays may have."""
IGNORED = re.compile(r"(encoder|decoder)/(\w+|embeddings(_0)?/weight|position_encodings/encodings)|num_heads|.*_scale")
"""Arrays that hold options, are looked at only, or may be read under another name."""


def find_ctranslate2(path: Path) -> Path | None:
    """Return the folder of a model: `path`, or that of `model.bin`; None if no vocabularies lie beside it."""
    folder = path.parent if path.is_file() and path.name == MODEL_NAME else path
    return folder if (folder / MODEL_NAME).is_file() and any(folder.glob("*vocabulary*")) else None


def read_ctranslate2(folder: Path) -> ForeignModel:
    """Read a model of a Transformer.  Raises: ModelFileError for another architecture, naming the option"""
    with SourceFile(folder / MODEL_NAME) as file:
        content = read_content(file)
        arrays = Arrays(file.path, content.arrays)
        options = Options(file.path, _scalars(content, arrays))
        config = _config(folder)
        model = _architecture(arrays, options, content, config)
        paths = {side: _vocabulary(folder, side) for side in SIDES}
        names = {path: (json_list if path.suffix == ".json" else lines_of)(path) for path in {*paths.values()}}
        source, target = (_side(paths[side], names[paths[side]], side, config, arrays, model) for side in SIDES)
        stacks: dict[str, Array] = {}
        found = foreign_model(model, lambda name: _parameter(arrays, name, stacks), source, target, file.path, beam=4)
        arrays.refuse_rest(lambda name: name == PROJECTION or IGNORED.fullmatch(name) is not None)
        return found


def _config(folder: Path) -> Options:
    path = folder / CONFIG_NAME
    return Options.of_json(path) if path.is_file() else Options(path, {})


def _scalars(content: Content, arrays: Arrays) -> dict[str, Any]:
    """Return the options that the file stores as arrays of one number."""
    found = {}
    for name, array in content.arrays.items():
        if not array.shape or array.shape == (1,):
            arrays.used.add(name)
            found[name] = array.read().reshape(-1)[0].item()
    return found


# ---- Architecture ------------------------------------------------------------------------------------------------


def _architecture(arrays: Arrays, options: Options, content: Content, config: Options) -> TransformerConfig:
    if not content.name.startswith("Transformer") or "Decoder" in content.name or "Encoder" in content.name:
        raise ModelFileError(f"{arrays.path}: the model {content.name[:60]!r} is not supported; only Transformers are")
    _refuse_unsupported(options)
    is_pre = options.flag("decoder/pre_norm", options.flag("encoder/pre_norm", True))
    if options.flag("encoder/pre_norm", True) != options.flag("decoder/pre_norm", True):
        raise options.refused("encoder/pre_norm", "encoder and decoder must have the same order of norms")
    heads = options.number("num_heads", HEADS_BY_NAME.get(content.name, 8))
    activation = ACTIVATIONS.get(options.number("decoder/activation", options.number("encoder/activation", 0, 0), 0))
    if activation is None or options.values.get("encoder/activation") != options.values.get("decoder/activation"):
        raise options.refused("decoder/activation", "the activations are 0 (relu), 2 (swish) and 3 (gelu)")
    d_model = arrays.shape(*EMBEDDINGS["target"])[1]
    return TransformerConfig(
        encoder_layers=arrays.depth("encoder/layer_{}/ffn/linear_0/weight"),
        decoder_layers=arrays.depth("decoder/layer_{}/ffn/linear_0/weight"),
        d_model=d_model,
        d_ff=arrays.shape("encoder/layer_0/ffn/linear_0/weight")[0],
        heads=options.equal("encoder/num_heads", "decoder/num_heads", heads),
        activation=activation,  # type: ignore[arg-type]
        norm="pre" if is_pre else "post",
        norm_epsilon=config.values.get("layer_norm_epsilon") or NORM_EPSILON,
        embedding_norm="encoder/layernorm_embedding/gamma" in arrays,
        **_positions(arrays),
        scale_embeddings=_is_scaled(options, d_model),
        decoder_start=_decoder_start(options, config),
        # CTranslate2's converter of transformers' Marian models leaves the end token to their tokenizer
        source_eos=config.flag("add_source_eos") or options.flag(ZERO_START),
        share_embeddings=_sharing(arrays),
        output_bias=BIAS in arrays,
    )


def _refuse_unsupported(options: Options) -> None:
    """Refuse stored options that change the architecture; those known to change nothing are left out."""
    harmless = ("num_heads", "pre_norm", "activation", "alignment_layer", "alignment_heads", "embeddings_merge",
                "scale_embeddings", "start_from_zero_embedding", "scale_alibi", "weight_scale", "bias", "beta", "gamma",
                "alibi_use_positive_positions")  # fmt: skip
    options.refuse_set(*(name for name in options.values if name.rpartition("/")[2] not in harmless))


def _positions(arrays: Arrays) -> dict[str, Any]:
    """Return the kind of the stored table of positions; without a table, positions count from 1."""
    names = list(POSITIONS.values())
    if names[0] not in arrays and names[1] not in arrays:
        return {"positions": "sinusoidal-concatenated", "first_position": 1}
    return positions_of(arrays, *names)


def _is_scaled(options: Options, d_model: int) -> bool:
    """Return whether embeddings are multiplied by √d, which is stored as true, or as the factor."""
    scales = [options.values.get(f"{side}/scale_embeddings", True) for side in SIDES.values()]
    factors = [
        d_model**0.5 if scale is True or (scale == 1 and type(scale) is int) else float(scale or 1) for scale in scales
    ]
    for factor in factors:
        if factor != factors[0] or (abs(factor - d_model**0.5) > 1e-2 and factor != 1):
            raise options.refused(
                "decoder/scale_embeddings", "embeddings are multiplied by 1 or by the root of d_model"
            )
    return factors[0] != 1


def _decoder_start(options: Options, config: Options) -> Any:
    if options.flag(ZERO_START):
        return "zero"
    start, end = config.text("decoder_start_token", "<s>"), config.text("eos_token", "</s>")
    return "eos" if start == end else "bos"


def _sharing(arrays: Arrays) -> Any:
    """Return which of the three matrices are shared: aliases of one place in the file."""
    places = [arrays.arrays[arrays.find(*names)].offset for names in (*EMBEDDINGS.values(), (PROJECTION,))]  # type: ignore[attr-defined]
    source_target, target_output = places[0] == places[1], places[1] == places[2]
    if source_target:
        return "all" if target_output else "source-target"
    return "target-output" if target_output else "none"


# ---- Weights -----------------------------------------------------------------------------------------------------


def _parameter(arrays: Arrays, name: str, stacks: dict[str, Array]) -> Array | Stored:
    """Read what the file has for a parameter; parts of one array are views of it."""
    theirs, part, parts = (arrays.find(*WHOLE[name]), 0, 1) if name in WHOLE else ctranslate2_name(name)
    if parts == 1:
        stored = arrays.stored(theirs)
        return stored if stored.dtype in FLOATS else _dequantised(arrays, theirs)  # type: ignore[attr-defined]
    stack = stacks.pop(theirs, None)
    stack = _dequantised(arrays, theirs) if stack is None else stack
    if part < parts - 1:
        stacks[theirs] = stack
    if not stack.ndim or len(stack) % parts:
        raise ModelFileError(f"{arrays.path}: {theirs} of shape {list(stack.shape)} does not hold {parts} matrices")
    size = len(stack) // parts
    return stack[part * size : (part + 1) * size]


def _dequantised(arrays: Arrays, name: str) -> Array:
    """Return the numbers of an array: w = q / scale, with a scale for each row or one for all."""
    array = arrays.read(name)
    if array.dtype.kind == "f":
        return array
    scale_name = f"{name}_scale"
    if scale_name in arrays:
        scale = arrays.read(scale_name).astype(np.float32)
    elif array.dtype == np.int16 and not any(other.endswith("weight_scale") for other in arrays.arrays):
        scale = np.full(1, INT16_SCALE, np.float32)
    else:
        raise ModelFileError(f"{arrays.path}: {name} of type {array.dtype} has no {scale_name.rpartition('/')[2]}")
    if array.dtype.itemsize > 2 or scale.size not in (1, len(array)) or not (np.isfinite(scale).all() and scale.all()):
        raise ModelFileError(f"{arrays.path}: the scale of {name} does not fit its {len(array)} rows")
    weights = array.astype(np.float32)
    with np.errstate(all="ignore"):  # numbers that are not finite are refused later
        weights /= scale.reshape(-1, *[1] * (array.ndim - 1))
    return weights


# ---- Vocabularies ------------------------------------------------------------------------------------------------


def _side(path: Path, names: list[str], side: str, config: Options, arrays: Arrays, model: TransformerConfig) -> Pieces:
    """Return the vocabulary of source or target, with `<unk>` at its end where it has none, as CTranslate2 adds it."""
    rows = arrays.shape(*EMBEDDINGS[side])[0]
    unknown = config.text("unk_token", "<unk>")
    if len(names) < rows and unknown not in names:
        names = [*names, unknown]
    end = place_of(names, config.text("eos_token", "</s>"))
    if end is None:
        raise ModelFileError(f"{path} has no piece {config.text('eos_token', '</s>')!r}, which ends sentences")
    start = place_of(names, config.text("decoder_start_token", "<s>")) if model.decoder_start == "bos" else None
    start = place_of(names, config.text("bos_token", "<s>")) if start is None else start
    if start is None and side == "target" and model.decoder_start == "bos":
        raise ModelFileError(
            f"{path} has no piece {config.text('decoder_start_token', '<s>')!r}, which starts the decoder"
        )
    start = None if start == end else start
    pad = place_of(names, "<blank>", "<pad>")
    special = {PAD: pad if pad != start else None, UNK: place_of(names, unknown), BOS: start, EOS: end}
    models = (f"{side}.spm", f"{side}.model", "sentencepiece.model", "spm.model", "sentencepiece.bpe.model")
    return Pieces.of(names, special, sentencepiece_model(path.parent, *models), rows, path)


def _vocabulary(folder: Path, side: str) -> Path:
    """Return the file of the pieces of source or target."""
    names = [f"{name}_vocabulary{suffix}" for name in (side, "shared") for suffix in (".json", ".txt")]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise ModelFileError(f"{folder} has neither {side}_vocabulary nor shared_vocabulary, .json or .txt")


# ---- Export ------------------------------------------------------------------------------------------------------

SPECIFICATION, REVISION = "TransformerSpec", 7
TABLE_ROWS = 2048


def write_ctranslate2(learned: LearnedModel, folder: Path) -> list[str]:
    """Write model.bin, config.json, the vocabularies and the sentencepiece models.  Returns: notes for the user"""
    model = learned.model
    refuse_other_attention(model, "CTranslate2")
    if not model.source_eos and model.decoder_start == "zero":
        raise UserError("source_eos=false with decoder_start=zero is no model of Marian; use --format safetensors")
    outgoing = Outgoing.of(learned, (UNK,))
    arrays, aliases = _exported(outgoing)
    write_content(folder / MODEL_NAME, SPECIFICATION, REVISION, arrays, aliases)
    names = {side: outgoing.names(side) for side in SIDES}
    files = {"shared": names["target"]} if names["source"] == names["target"] else names
    for side, pieces in files.items():
        write_text(folder / f"{side}_vocabulary.json", json_text(pieces))
    begin = names["target"][outgoing.target.index(BOS)] if BOS in outgoing.target else "<s>"
    start = begin if starts_with_embedding(learned) else "</s>"
    config = {
        "add_source_bos": False, "add_source_eos": model.source_eos, "bos_token": begin, "eos_token": "</s>",
        "unk_token": "<unk>", "decoder_start_token": start, "layer_norm_epsilon": model.norm_epsilon,
    }  # fmt: skip
    write_text(folder / CONFIG_NAME, json_text(config))
    write_sentencepiece(learned.vocabulary, folder)
    search = f"beam_size={learned.config.beam}, length_penalty={learned.config.alpha:g}, min_decoding_length=0"
    notes = [f"CTranslate2's files hold no search settings; the run's are translate_batch(…, {search})"]
    return notes + penalty_notes(learned.config, "CTranslate2")


def _exported(outgoing: Outgoing) -> tuple[dict[str, Array], dict[str, str]]:
    """All arrays by name, and the other names of those that are shared."""
    model = outgoing.model
    parts: dict[str, dict[int, Array]] = {}
    for name in outgoing.parameters():
        if name not in WHOLE:
            theirs, part, _ = ctranslate2_name(name)
            parts.setdefault(theirs, {})[part] = outgoing.array(name)
    arrays = {
        name: found[0] if len(found) == 1 else np.concatenate([found[part] for part in sorted(found)])
        for name, found in parts.items()
    }
    for side, theirs in SIDES.items():
        arrays[POSITIONS[side]] = outgoing.positions(side, TABLE_ROWS)
        scalars = {
            "num_heads": np.int16(model.heads), "pre_norm": np.int8(model.norm == "pre"),
            "activation": np.int8({name: code for code, name in ACTIVATIONS.items()}[model.activation]),
            "scale_embeddings": np.float32(model.d_model**0.5 if model.scale_embeddings else 1),
        }  # fmt: skip
        arrays |= {f"{theirs}/{name}": np.asarray(value) for name, value in scalars.items()}
    zero = not starts_with_embedding(outgoing.learned) and model.decoder_start != "eos"
    for name, value in (("start_from_zero_embedding", np.int8(zero)), ("alignment_layer", np.int16(-1))):
        arrays[f"decoder/{name}"] = np.asarray(value)
    arrays |= {"encoder/embeddings_merge": np.asarray(np.int8(0)), "decoder/alignment_heads": np.asarray(np.int16(1))}
    bias = outgoing.bias(masked=True)
    if model.output_bias or bias.any():
        arrays[BIAS] = bias
    stored, aliases = outgoing.embeddings(EMBEDDINGS["source"][0], EMBEDDINGS["target"][0], PROJECTION)
    return arrays | stored, aliases


# ---- model.bin ---------------------------------------------------------------------------------------------------


VERSIONS = range(2, 7)
TYPES: dict[int, np.dtype[Any] | str] = {
    0: np.dtype("<f4"), 1: np.dtype("<i1"), 2: np.dtype("<i2"), 3: np.dtype("<i4"), 4: np.dtype("<f2"), 5: BFLOAT16,
}  # fmt: skip
TYPES_BY_SIZE = {1: TYPES[1], 2: TYPES[2], 4: TYPES[0]}
"""Before version 4 only the bytes of an item are given: int8, int16 and float32."""
MAX_ARRAYS = 100_000


@dataclass(frozen=True)
class Content:
    """The content of a `model.bin`."""

    version: int
    name: str
    revision: int
    arrays: dict[str, StoredArray]


def read_content(file: SourceFile) -> Content:
    """Read all but the data of the arrays.  Raises: ModelFileError for what the file cannot hold"""
    reader = _Reader(file)
    version = reader.number("I")
    if version not in VERSIONS:
        raise file.damaged(f"version {version} of CTranslate2's model.bin is not read, only 2 to 6")
    name, revision = reader.text(), reader.number("I")
    arrays: dict[str, StoredArray] = {}
    for _ in range(reader.count()):
        reader.add_array(arrays, version)
    if version >= 3:
        for _ in range(reader.count()):
            alias, of = reader.text(), reader.text()
            if of not in arrays or alias in arrays:
                raise file.damaged(f"{alias[:80]!r} is another name of {of[:80]!r}, which is impossible")
            arrays[alias] = arrays[of]
            if f"{of}_scale" in arrays:  # as CTranslate2's own reader does; its writer names the scale once
                arrays[f"{alias}_scale"] = arrays[f"{of}_scale"]
    if reader.place != file.size:
        raise file.damaged(f"it goes on after its last array, at byte {reader.place}")
    return Content(version, name, revision, arrays)


class _Reader:
    """A place in a file that moves on with what is read."""

    def __init__(self, file: SourceFile):
        self.file, self.place = file, 0

    def number(self, code: str) -> int:
        content = self.file.bytes(self.place, struct.calcsize("<" + code))
        self.place += len(content)
        return struct.unpack("<" + code, content)[0]

    def count(self) -> int:
        count = self.number("I")
        if count > MAX_ARRAYS:
            raise self.file.damaged(f"it claims {count} arrays")
        return count

    def text(self) -> str:
        length = self.number("H")
        content = self.file.bytes(self.place, length)
        self.place += length
        return content.rstrip(b"\0").decode("utf-8", "replace")

    def add_array(self, arrays: dict[str, StoredArray], version: int) -> None:
        name, rank = self.text(), self.number("B")
        if name in arrays or rank > MAX_RANK:
            raise self.file.damaged(f"its array {name[:80]!r} is there twice, or has {rank} dimensions")
        shape = tuple(self.number("I") for _ in range(rank))
        kind, size = self.number("B"), self.number("I")
        dtype = (TYPES if version >= 4 else TYPES_BY_SIZE).get(kind)
        if dtype is None:
            raise self.file.damaged(f"its array {name[:80]!r} is of type {kind}, which is not known")
        array = StoredArray(self.file, self.place, shape, dtype)
        if array.nbytes != (size if version >= 4 else size * kind):
            raise self.file.damaged(f"its array {name[:80]!r} of shape {list(shape)} has another number of bytes")
        arrays[name] = array
        self.place += array.nbytes


def write_content(
    path: Path, name: str, revision: int, arrays: Mapping[str, Array], aliases: Mapping[str, str]
) -> None:
    """Write version 6, completely or not at all; aliases: another name -> the name of its array."""
    kinds = {dtype: kind for kind, dtype in TYPES.items()}
    with atomic_write(path) as file:
        file.write(struct.pack("<I", 6) + _text(name) + struct.pack("<2I", revision, len(arrays)))
        for label, array in arrays.items():
            shape = struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)
            file.write(_text(label) + shape + struct.pack("<BI", kinds[array.dtype], array.nbytes))
            file.write(np.ascontiguousarray(array).data)
        file.write(struct.pack("<I", len(aliases)))
        for alias, label in aliases.items():
            file.write(_text(alias) + _text(label))


def _text(text: str) -> bytes:
    content = text.encode() + b"\0"
    return struct.pack("<H", len(content)) + content
