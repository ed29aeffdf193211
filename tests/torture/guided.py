"""Coverage-guided fuzzing: each reader of untrusted bytes is given inputs that reach more and more of its code.

    make fuzz MINUTES=60
    python -m tests.torture.guided --minutes 60 --only 'marian|pickle'

A reader gives a result or a UserError. Anything else, 10 seconds for an input, or a gigabyte of memory is a finding,
whose input is kept in `tests/torture/found/READER`, where `test_guided.py` tries it with every run of the tests.

Needs atheris.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np

from additions.interchange.formats import read_foreign, write_foreign
from additions.interchange.tests.fairseq_model import ARGS, write_fairseq
from additions.interchange.tests.foreign_files import write_ctranslate2, write_intgemm
from additions.interchange.tests.foreign_models import learned_model
from additions.pages.learning_curves import LogSeries
from additions.pages.run_page import FINISHED, run_page
from additions.pages.tests.pages import records
from minitf.config import PRESETS
from minitf.data.lexical_table import LexicalTable
from minitf.data.piece_vocabulary import VocabularyPair
from minitf.data.prepared import PreparedCorpus, prepare
from minitf.data.vocabulary import Vocabulary
from minitf.errors import UserError
from minitf.storage import checkpoint_store, checkpoints
from minitf.storage.log import read_log
from minitf.storage.run_directory import load_config, save_config
from minitf.training.state import TrainState
from tests.helpers.runs import check

FOUND = Path(__file__).with_name("found")
SLOWEST_S, MOST_MIB = 10, 1024
FIELDS = {"decoder_start": "zero", "masked_tokens": (0, 2), "output_bias": True, "positions": "sinusoidal-halves"}


# ---- Readers -----------------------------------------------------------------------------------------------------


class Target(NamedTuple):
    """A reader of one file, which is written with each input.

    seeds: inputs that are valid; wrap: what makes a file of an input, where one of any bytes would only fail a checksum
    """

    path: Path
    read: Callable[[], object]
    seeds: list[bytes]
    wrap: Callable[[bytes], bytes] = bytes

    def try_input(self, data: bytes) -> bool:
        """Read an input; return whether it is accepted.  Raises: whatever is not a UserError"""
        self.path.write_bytes(self.wrap(data))
        try:
            self.read()
        except UserError as error:
            check("\n" not in str(error), f"an error of several lines: {error}")
            return False
        return True


def config(folder: Path) -> Target:
    path = folder / "config.json"
    save_config(path, PRESETS["base"])
    return Target(path, lambda: load_config(path), [path.read_bytes()])


def log(folder: Path) -> Target:
    path = folder / "log.jsonl"

    def read() -> None:
        log = LogSeries(path)
        log.read_on()
        check(len(run_page(log, PRESETS["tiny"], "x", FINISHED)) < 250_000, "a page that grows")
        read_log(path)

    lines = [repr(record).replace("'", '"') for record in records(300)]
    return Target(path, read, ["".join(f"{line}\n" for line in lines[:count]).encode() for count in (1, 3, 18)])


def checkpoint(folder: Path) -> Target:
    path = folder / "step-00000001.safetensors"
    arrays = {"model.a": np.arange(6, dtype=np.float32).reshape(2, 3), "optimizer.m.a": np.ones(5), "b": np.array(3)}
    checkpoint_store.save(path, arrays, TrainState(step=1).to_plain())
    whole = path.read_bytes()
    digest_at = whole.index(b'"sha256":"') + 10

    def signed(data: bytes) -> bytes:
        """A file with the length of the header and its digest as they should be."""
        end = data.rfind(b"}") + 1  # no number of the seed has this byte
        text = data[:end] + b" " * (-end % 8)
        data = len(text).to_bytes(8, "little") + text + data[end:].lstrip(b" ")
        if len(text) < digest_at + 64:
            return data
        blank = data[:digest_at] + b"0" * 64 + data[digest_at + 64 : 8 + len(text)]
        return data[:digest_at] + hashlib.sha256(blank).hexdigest().encode() + data[digest_at + 64 :]

    def read() -> None:
        _, state = checkpoints.load(path)
        TrainState.from_plain(state)
        checkpoints.average([path], "model.")

    return Target(path, read, [whole[8:]], signed)


def vocabulary(folder: Path) -> Target:
    path = folder / "vocabulary.model"
    Vocabulary.train(["the cat sat on the mat", "die Katze saß auf der Matte"] * 9, 290, path)

    def read() -> None:
        found = Vocabulary.load(path)
        found.decode(found.encode(["the cat ß"]))

    return Target(path, read, [path.read_bytes()])


def pieces(folder: Path) -> Target:
    path = folder / "vocabulary.json"
    learned_model().vocabulary.save(path)
    return Target(path, lambda: VocabularyPair.load(path).target.encode(["die Katze x"]), [path.read_bytes()])


def shortlist(folder: Path) -> Target:
    path, words = folder / "lex.s2t", learned_model().vocabulary
    return Target(path, lambda: LexicalTable.read(path, words), [b"die the 0.5\nKatze cat 0.25\n"])


def prepared(folder: Path) -> Target:
    for name, text in (("s", "the cat\nthe dog sat\n"), ("t", "die Katze\nder Hund saß\n")):
        (folder / name).write_text(text)
    prepare(folder / "s", folder / "t", learned_model().vocabulary, folder / "data")
    path = folder / "data" / "prepared.json"
    return Target(path, lambda: PreparedCorpus.load(folder / "data"), [path.read_bytes()])


def foreign(program: str, file: str) -> Callable[[Path], Target]:
    """A file of another program's model; the others stay valid."""

    def make(folder: Path) -> Target:
        place = folder / program
        write_foreign(learned_model(norm_epsilon=1e-5, **FIELDS), place, program)
        path = place / file
        if file == "generation_config.json":  # read where config.json does not say
            options = json.loads((place / "config.json").read_bytes())
            (place / "config.json").write_text(json.dumps({**options, "bad_words_ids": None}))
        seeds = [path.read_bytes()]
        if file == "model.bin":  # a small one too, for the whole one is mostly numbers
            write_ctranslate2(path, {"encoder/num_heads": np.array(4, np.int8)}, aliases={"a": "encoder/num_heads"})
            seeds.append(path.read_bytes())
        return Target(path, lambda: read_foreign(place), seeds)

    return make


def npy(folder: Path) -> Target:
    """A member of Marian's `model.npz`, whose checksum is right."""
    place = folder / "marian"
    write_foreign(learned_model(norm_epsilon=1e-5, **FIELDS), place, "marian")
    path, name = place / "model.npz", "encoder_l1_self_bq.npy"
    members = members_of(path)
    return Target(path, lambda: read_foreign(place), [members[name]], lambda data: zip_of({**members, name: data}))


def members_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def zip_of(members: Mapping[str, bytes]) -> bytes:
    whole = BytesIO()
    with zipfile.ZipFile(whole, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return whole.getvalue()


def intgemm(folder: Path) -> Target:
    place = folder / "marian"
    write_foreign(learned_model(norm_epsilon=1e-5, **FIELDS), place, "marian")
    with np.load(place / "model.npz") as found:
        write_intgemm(place / "model.intgemm.alphas.bin", dict(found))
    (place / "model.npz").unlink()
    path = place / "model.intgemm.alphas.bin"
    return Target(path, lambda: read_foreign(path), [path.read_bytes()])


def pickle(folder: Path) -> Target:
    """The pickle in a file of PyTorch."""
    path = write_fairseq(folder, ARGS)
    members = members_of(path)

    def packed(data: bytes) -> bytes:
        return zip_of({**members, "archive/data.pkl": data})

    return Target(path, lambda: read_foreign(path), [members["archive/data.pkl"]], packed)


def torch_legacy(folder: Path) -> Target:
    path = write_fairseq(folder, ARGS, legacy=True)
    return Target(path, lambda: read_foreign(path), [path.read_bytes()])


def dictionary(folder: Path) -> Target:
    model, path = write_fairseq(folder, ARGS), folder / "dict.de.txt"
    return Target(path, lambda: read_foreign(model), [path.read_bytes()])


READERS: dict[str, Callable[[Path], Target]] = {
    "config": config, "log": log, "checkpoint": checkpoint, "vocabulary": vocabulary, "pieces": pieces,
    "shortlist": shortlist, "prepared": prepared, "npy": npy, "intgemm": intgemm, "pickle": pickle,
    "torch-legacy": torch_legacy, "dictionary": dictionary,
    **{
        f"{program}-{file.replace('.', '-')}": foreign(program, file)
        for program, files in {
            "marian": ("model.npz", "vocab.yml", "decoder.yml"),
            "huggingface": ("config.json", "generation_config.json", "vocab.json", "model.safetensors"),
            "ctranslate2": ("model.bin", "config.json", "shared_vocabulary.json"),
        }.items()
        for file in files
    },
}  # fmt: skip


# ---- With atheris ------------------------------------------------------------------------------------------------


WORDS = [
    "-",
    "-1",
    "0",
    "1e308",
    "-1e308",
    "5e-324",
    "1.5",
    str(2**63),
    "9" * 400,
    '"nan"',
    '"-inf"',
    "NaN",
    "null",
    "true",
]
WORDS += [
    "[",
    "]",
    "[[[[[[[[",
    "{",
    "}",
    "[]",
    "{}",
    '""',
    ",",
    ":",
    '"a":',
    "\\ud800",
    "\n",
    "- ",
    "&a ",
    "*a ",
    "!!x ",
    "\x80",
]
"""Put into inputs here and there, beside what libFuzzer makes up."""
START = """
import atheris, sys
with atheris.instrument_imports(include=["minitf"]):
    from tests.torture import guided
guided.fuzz_here(sys.argv[1], sys.argv[2:])
"""


def fuzz(name: str, seconds: int, seed: int) -> int:
    """Fuzz a reader in a process of its own; print a row, keep what is found, and return the number of findings."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-c", START, name, f"-max_total_time={seconds}"]
        words += [f"-timeout={SLOWEST_S}", f"-rss_limit_mb={MOST_MIB}", f"-seed={seed}", "-print_final_stats=1"]
        words += [f"-artifact_prefix={folder}/found-", "-max_len=65536", f"-dict={folder}/words", f"{folder}/corpus"]
        (Path(folder) / "corpus").mkdir()
        quoted = ("".join(f"\\x{byte:02x}" for byte in word.encode("latin-1")) for word in WORDS)
        Path(folder, "words").write_text("".join(f'"{word}"\n' for word in quoted))
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
        said = done.stdout + done.stderr
        inputs = re.findall(r"number_of_executed_units: *(\d+)|^#(\d+)", said, re.MULTILINE)
        covered = re.findall(r"cov: (\d+)", said)
        found = sorted(Path(folder).glob("found-*"))
        for each in found:
            kept = FOUND / name / each.name.removeprefix("found-")
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(each.read_bytes())
        failed = bool(found) or done.returncode != 0
        count = max((int(one or other) for one, other in inputs), default=0)
        print(f"{name:34} {count:9,} {covered[-1] if covered else '-':>7} {int(failed):8}", flush=True)
        if failed:
            print(said[max(0, said.find("Uncaught Python exception")) :][:2000], said[-1000:], sep="\n…\n")
        return int(failed)


def fuzz_here(name: str, words: list[str]) -> None:
    """Run libFuzzer in this process, which it ends."""
    import atheris

    with tempfile.TemporaryDirectory() as folder:
        target = READERS[name](Path(folder))
        for number, seed in enumerate(target.seeds):
            Path(words[-1], f"seed-{number}").write_bytes(seed)
        atheris.Setup([name, *words], lambda data: target.try_input(data) and None)
        atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.guided", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="for all readers together")
    parser.add_argument("--only", default="", help="only readers whose name matches this regular expression")
    parser.add_argument("--seed", type=int, default=1, help="seed of libFuzzer")
    given = parser.parse_args()
    names = [name for name in READERS if re.search(given.only, name)]
    print(f"{'reader':34} {'inputs':>9} {'covered':>7} {'findings':>8}")
    seconds = max(1, round(60 * given.minutes / len(names)))
    return int(sum(fuzz(name, seconds, given.seed) for name in names) > 0)


if __name__ == "__main__":
    sys.exit(main())
