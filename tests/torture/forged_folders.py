"""Run folders whose files were forged, in their bytes or in their meaning: a result or a sentence of every reader."""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from minitf.app import commands
from minitf.run.packing import pack_run
from minitf.storage import checkpoint_store, checkpoints
from minitf.storage.checkpoints import read_origin
from minitf.system.files import sha256_of
from tests.helpers.runs import Ground
from tests.torture.forged import NUMBERS, WORDS, run_all, started
from tests.torture.fuzz import SHORT, forge
from tests.torture.kills import Tally

AT_ONCE = 8  # folders in one process
VALUES: list[Any] = [*NUMBERS, *WORDS, None, True, False, [], {}, [1], [[]], {"a": 1}, -1.5, 1e308, "\0", "a\0b"]


def readers(run: Path, source: Path) -> list[list[Any]]:
    """The commands that read a run; the last one also writes in it."""
    to, texts = run.with_suffix(".out"), run / "data" / "texts"
    return [
        ["translate", run, "--input", source, "--output", to / "plain", *SHORT],
        ["translate", run, "--input", source, "--score", source, "--output", to / "scored", "--average", "3", *SHORT],
        ["translate", run, "--input", source, "--output", to / "best", "--weights", "best", "--nbest", "2", *SHORT],
        ["report", run, "--output", to / "page"],
        ["pack", run, "--output", to / "packed"],
        ["pack", run, "--resumable", "--output", to / "resumable"],
        ["export", run, to / "exported", "--format", "ctranslate2"],
        ["export", run, to / "plain-exported", "--format", "safetensors", "--average", "2"],
        ["translate", run, "--input", source, "--output", to / "int8", "--precision", "int8", *SHORT],
        ["pack", run, "--output", to / "packed-int8", "--precision", "int8"],
        ["statistics", texts / "valid.source", texts / "valid.target"],
        ["train", "--resume", run, "--max-steps", "10"],
    ]


def run_folders(ground: Ground, tally: Tally, count: int, draw: random.Random, halfway: Path) -> None:
    """Copies of a run, or of one packed in 8 bits, with one to three files forged, each with half of its readers."""
    in_int8 = ground.new()
    pack_run(halfway, in_int8, resumable=False, int8=True)
    with (ground.folder / "one-line").open("w") as file:
        file.write("the cat sees a house\n")
    for start in range(0, count, AT_ONCE):
        jobs: list[tuple[str, Callable[[], Any]]] = []
        folders = []
        for _ in range(min(AT_ONCE, count - start)):
            run = ground.new()
            shutil.copytree(draw.choice([halfway, halfway, halfway, in_int8]), run)
            run.with_suffix(".out").mkdir()
            done = "; ".join(harm(run, draw) for _ in range(draw.choice([1, 1, 2, 3])))
            folders.append(run)
            lines = readers(run, Path(file.name))
            for line in [*draw.sample(lines[:-1], 4), *lines[-1:]][:: draw.choice([1, -1])]:
                jobs.append((f"{' '.join(map(str, line))}: {done}", lambda line=line: started(commands.main, line)))
        run_all(ground, tally, jobs)
        for run in folders:
            shutil.rmtree(run, ignore_errors=True)
            shutil.rmtree(run.with_suffix(".out"), ignore_errors=True)


# ---- Harm --------------------------------------------------------------------------------------------------------

Harm = Callable[[Path, random.Random], str]


def harm(run: Path, draw: random.Random) -> str:
    """Forge one file of a run; return what was done."""
    path = draw.choice(sorted(path for path in run.rglob("*") if path.name != "prepare.lock"))
    name = str(path.relative_to(run))
    if not path.is_file() or not path.stat().st_size or path.stat().st_size > 10**8 or draw.random() < 0.15:
        return f"{name} {replace_by(path, draw)}"
    if draw.random() < 0.1:
        return f"{name} {change_bytes(path, draw)}"
    try:
        kind = path.name if path.name == "prepared.json" else path.suffix
        return f"{name} {FORGERS.get(kind, change_bytes)(path, draw)}"
    except Exception as error:  # what was forged before is not what the forger expects
        return f"{name} {change_bytes(path, draw)} ({type(error).__name__})"


def replace_by(path: Path, draw: random.Random) -> str:
    """Put another kind of file in the place of a file or folder."""
    kind = draw.choice(["gone", "folder", "pipe", "empty", "loop", "huge", "link", "device", "another"])
    siblings = [other for other in path.parent.iterdir() if other != path and other.is_file()]
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "empty":
        path.touch()
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "link":
        path.symlink_to(draw.choice(["..", "/etc/passwd", "/", "nowhere", "/dev/stdin"]))
    elif kind == "device":
        path.symlink_to(draw.choice(["/dev/zero", "/dev/null", "/dev/full", "/dev/tty"]))
    elif kind == "huge":
        with open(path, "wb") as file:
            file.truncate(10**9)
    elif kind == "another" and siblings:
        shutil.copy(draw.choice(siblings), path, follow_symlinks=False)
    return kind


def change_bytes(path: Path, draw: random.Random) -> str:
    data = bytearray(path.read_bytes())
    place = draw.randrange(len(data) + 1)
    data[place : place + draw.randrange(9)] = draw.randbytes(draw.randrange(9))
    path.write_bytes(data)
    return f"bytes at {place}"


def plausible(value: Any, draw: random.Random) -> Any:
    """Another value of the same type, such as somebody who edits a file would write; or one that nobody would give."""
    if draw.random() < 0.4:
        return draw.choice(VALUES)
    if isinstance(value, bool) or value is None:
        return draw.choice([True, False, None])
    if isinstance(value, int):
        return draw.choice([value + 1, value - 1, 2 * value, value // 2, 0, 1, -value, value + 10**6, float(value)])
    if isinstance(value, float):
        return draw.choice([value / 2, 2 * value, -value, 0.0, 1.0, 1e-9, 1e9, int(value)])
    if isinstance(value, str):
        return draw.choice([value[:-1], value + "x", value.upper(), "", value[::-1], value.replace("/", "/../")])
    if isinstance(value, list):
        return draw.choice([value[:-1], value[::-1], [*value, *value], [], [plausible(each, draw) for each in value]])
    return draw.choice([{}, {**value, "more": 1}, list(value), dict(list(value.items())[1:])])


def places_in(plain: Any) -> list[tuple[Any, Any]]:
    """(container, key) of every value inside a JSON value, at any depth."""
    items = (
        list(plain.items()) if isinstance(plain, dict) else list(enumerate(plain)) if isinstance(plain, list) else []
    )
    found = []
    for key, value in items:
        found += [(plain, key), *places_in(value)]
    return found


def change_one(plain: Any, draw: random.Random) -> str:
    """Replace, remove or add a value somewhere inside a JSON value, in place; return what was done."""
    container, key = draw.choice(places_in(plain))
    if draw.random() < 0.1:
        del container[key]
        return f"{key} removed"
    if isinstance(container, dict) and draw.random() < 0.05:
        container[draw.choice([str(key).upper(), "", "extra", "__class__"])] = 1
        return f"{key} added to"
    container[key] = plausible(container[key], draw)
    return f"{key}={str(container[key])[:60]!r}"


def forge_json(path: Path, draw: random.Random) -> str:
    plain = json.loads(path.read_bytes())
    done = [change_one(plain, draw) for _ in range(draw.choice([1, 1, 2]))]
    path.write_text(json.dumps(plain))
    return ", ".join(done)


def forge_prepared(path: Path, draw: random.Random) -> str:
    """Change the description of token ids, or the ids or offsets themselves and the digest that covers them."""
    about = json.loads(path.read_bytes())
    if draw.random() < 0.3:
        done = change_one(about, draw)
    else:
        name = draw.choice(sorted(about["sha256"]))
        if not (path.parent / name).is_file():
            raise ValueError(f"{name} was replaced before")
        dtype = about["dtype"] if name.endswith("ids") else "<i8"
        numbers = np.fromfile(path.parent / name, dtype)
        where = draw.choice([0, len(numbers) // 2, len(numbers) - 1])
        value = draw.choice([0, 1, 2, 3, int(numbers[where]) + 1, -1, 60_000, 2**15, 10**6, 2**40, -(2**60)])
        numbers[where] = np.array(value % (2**16 if dtype == "<u2" else 2**62)).astype(dtype)
        numbers.tofile(path.parent / name)
        about["sha256"][name] = sha256_of(path.parent / name)
        done = f"{name}[{where}]={value}"
    path.write_text(json.dumps(about))
    return done


def forge_log(path: Path, draw: random.Random) -> str:
    """Change values of records, their order or their number; or write records that nobody would."""
    records: list[Any] = [json.loads(line) for line in path.read_text().splitlines()]
    kind = draw.choice(["value", "value", "value", "order", "number", "other", "many"])
    if kind == "value":
        kind = ", ".join(change_one(draw.choice(records), draw) for _ in range(3))
    elif kind == "order":
        draw.shuffle(records)
    elif kind == "number":
        records = records[: draw.randrange(len(records))]
    elif kind == "many":
        records *= 300
    else:
        records = [forged_record(draw) for _ in range(3)]
        kind = str(records)[:200]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return kind


def forged_record(draw: random.Random) -> Any:
    names = ["step", "loss", "perplexity", "valid_loss", "bleu", "elapsed_s", "learning_rate", "epoch", "f1"]
    names += ["target_tokens_per_s", "valid_perplexity", "valid_bleu", "fill", "gradient_norm", "skipped_updates"]
    record = {name: draw.choice(VALUES) for name in draw.sample([*names, "signature"], 4)}
    return draw.choice([record, {"step": draw.randrange(9), **record}, {**record, "step": draw.choice(VALUES)}])


def forge_checkpoint(path: Path, draw: random.Random) -> str:
    """Change the state, the origin, a tensor or the header, under valid digests."""
    if draw.random() < 0.3:
        return forge_header(path, draw)
    arrays, state = checkpoints.load(path)
    origin = read_origin(path)
    kind = draw.choice(["state", "state", "origin", "origin", "tensor", "tensor", "name", "step"])
    if kind in ("state", "origin"):
        done = change_one(state if kind == "state" else origin, draw)
    elif kind == "tensor":
        name = draw.choice(sorted(arrays))
        arrays[name], done = forged_array(arrays[name], draw)
        done = f"{name} {done}"
    elif kind == "name":
        name, other = draw.sample(sorted(arrays), 2)
        arrays[name + draw.choice(["", "x"])] = arrays.pop(other)
        done = f"{other} as {name}"
    else:
        done = f"also step {(step := draw.choice([0, 1, 10, 10**8, 10**30]))}"
        path = path.with_name(f"step-{step:08d}.safetensors")
    checkpoint_store.save(path, arrays, state, origin)
    return f"{kind}: {done}"


def forged_array(array: np.ndarray, draw: random.Random) -> tuple[np.ndarray, str]:
    kind = draw.choice(["nan", "inf", "huge", "shape", "axis", "type", "short", "empty", "scalar"])
    if kind in ("nan", "inf", "huge"):
        changed = array.copy()
        changed.reshape(-1)[0] = {"nan": np.nan, "inf": np.inf, "huge": 1e30}[kind] if array.dtype.kind == "f" else 99
        return changed, kind
    if kind == "shape":
        return array.reshape(-1), kind
    if kind == "axis":
        return array[..., None], kind
    if kind == "type":
        return array.astype(draw.choice(["f2", "f8", "i1", "i4", "u1"])), kind
    if kind == "short":
        return array[:-1] if array.ndim else array, kind
    return (np.zeros((0, 3), array.dtype), kind) if kind == "empty" else (np.zeros((), array.dtype), kind)


def forge_header(path: Path, draw: random.Random) -> str:
    """Put a value that nobody would give in the place of the state, the origin, or the entry of a tensor."""
    data = path.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    name = draw.choice(["state", "origin", *header])
    if name in ("state", "origin"):
        text = draw.choice([json.dumps(draw.choice(VALUES)), "", "{", "[" * 9999])
        changes = {"__metadata__": {**header["__metadata__"], name: text}}
        what = f"{name}={text[:50]!r}"
    else:
        changes = {name: draw.choice([*VALUES, {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}])}
        what = f"{name}={str(changes[name])[:50]!r}"
    path.write_bytes(forge(data, changes, b""))
    return what


def forge_vocabulary(path: Path, draw: random.Random) -> str:
    """Exchange, rename, repeat or drop pieces of a sentencepiece model, or write the vocabulary of another program."""
    parts = fields_of(path.read_bytes())
    pieces = [index for index, (key, _) in enumerate(parts) if key == 0x0A]
    kind = draw.choice(["swap", "rename", "drop", "repeat", "none", "settings", "imported"])
    index = pieces[draw.choice([0, 1, 2, 3, 4, 100, 259, 260, len(pieces) - 1])]
    if kind == "swap":
        other = draw.choice(pieces)
        parts[index], parts[other] = parts[other], parts[index]
    elif kind == "rename":
        text = draw.choice(["", "\n", "a b", "<0x41>", "</s>", "▁", "x" * 70_000, "\x1b[31m", "\ud800"])
        score = struct.pack("<f", draw.choice([0.0, -1.0, 1e38, float("nan"), float("inf")]))
        name = text.encode(errors="surrogatepass")
        parts[index] = (
            0x0A,
            b"\x0a" + varint(len(name)) + name + b"\x15" + score + b"\x18" + varint(draw.randrange(8)),
        )
    elif kind == "drop":
        del parts[index]
    elif kind == "repeat":
        parts.insert(index, parts[index])
    elif kind == "none":
        parts = [part for part in parts if part[0] != 0x0A]
    elif kind == "settings":  # of training, and of normalization
        which = draw.choice([number for number, part in enumerate(parts) if part[0] != 0x0A])
        parts[which] = (parts[which][0], draw.randbytes(draw.randrange(40)))
    else:
        names = [f"piece{number}" for number in range(len(pieces))]
        plain = {"format": "minitf vocabulary", "version": 1, "target": None}
        plain["source"] = {"kind": draw.choice(["words", "characters", "sentencepiece"]), "pieces": names}
        change_one(plain, draw)
        path.with_suffix(".json").write_text(json.dumps(plain))
        return kind
    path.write_bytes(b"".join(varint(key) + varint(len(data)) + data for key, data in parts))
    return f"{kind} {index}"


def fields_of(data: bytes) -> list[tuple[int, bytes]]:
    """Split a message of protocol buffers whose fields all have a length: (key, content) of each."""
    found, place = [], 0
    while place < len(data):
        key, place = read_varint(data, place)
        length, place = read_varint(data, place)
        found.append((key, data[place : place + length]))
        place += length
    return found


def read_varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[place] & 127) << shift
        place, shift = place + 1, shift + 7
        if data[place - 1] < 128:
            return value, place


def varint(value: int) -> bytes:
    return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])


def forge_text(path: Path, draw: random.Random) -> str:
    """Drop, repeat or lengthen lines of a kept text."""
    lines = path.read_bytes().split(b"\n")
    kind = draw.choice(["fewer", "more", "long", "blank", "not UTF-8"])
    if kind == "fewer":
        lines = lines[:-2]
    elif kind == "more":
        lines += lines
    elif kind == "long":
        lines[0] = b"word " * 20_000
    elif kind == "blank":
        lines = [b"" for _ in lines]
    else:
        lines[-2:] = [b"\xff\xfe", b""]
    path.write_bytes(b"\n".join(lines))
    return kind


FORGERS: dict[str, Harm] = {
    ".json": forge_json,
    "prepared.json": forge_prepared,
    ".jsonl": forge_log,
    ".safetensors": forge_checkpoint,
    ".model": forge_vocabulary,
    ".source": forge_text,
    ".target": forge_text,
}
