"""Fuzzing: thousands of hostile inputs for every loader and for translation.

The only accepted outcomes are a result and a UserError. Any other exception, a hang or a lost line is a failure, which
Hypothesis reduces to a small example.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import struct
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stderr, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from minitf.app import translate
from minitf.app.translate_text import StdinLines
from minitf.config import PRESETS
from minitf.data.prepared import PreparedCorpus, prepare
from minitf.data.text import lines_of, normalise, read_lines, read_pairs
from minitf.data.vocabulary import Vocabulary
from minitf.errors import UserError
from minitf.storage import checkpoint_store, checkpoints
from minitf.storage.log import RunLog, read_log
from minitf.storage.run_directory import load_config, save_config
from minitf.system.process import run_command
from minitf.training.state import TrainState
from minitf.translation.translator import Translator
from tests.helpers.runs import check
from tests.torture.hostile import BYTES, JSON, LINE, TEXT, damaged, number_of_lines
from tests.torture.kills import Tally

SLOW_S = 20.0
"""CPU time far above that of any input here: an input that takes longer counts as a hang."""

# ---- Trials ------------------------------------------------------------------------------------------------------


def survive(tally: Tally, examples: int, draw: random.Random, strategy: Any, trial: Callable[[Any], None]) -> None:
    """Call `trial` with examples of a strategy; record the smallest that fails."""

    @seed(draw.randrange(2**32))
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def every(example: Any) -> None:
        tally.tried += 1
        start = time.process_time()  # not elapsed time: other programs may use the processor
        trial(example)
        took_s = time.process_time() - start
        check(took_s < SLOW_S, f"it took {took_s:.0f} s")

    start = time.perf_counter()
    try:
        every()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        notes = " ".join(getattr(error, "__notes__", []))
        tally.lost.append(f"{tally.name}: {type(error).__name__}: {error} {notes}"[:2000])
    tally.survived = tally.tried - len(tally.lost)
    tally.seconds += time.perf_counter() - start


def text_files(folder: Path, tally: Tally, examples: int, draw: random.Random) -> None:
    """Text files: as many lines as line ends, or an error that names the file and the line."""
    path = folder / "text"

    def trial(data: bytes) -> None:
        path.write_bytes(data)
        try:
            lines = list(read_lines(path))
        except UserError as error:
            check(str(error).startswith(str(path)) and "line " in str(error), f"no place: {error}")
            try:
                data.decode()
            except UnicodeDecodeError as reason:
                # lines are decoded one by one, so a character cut by a line end is named where the line ends
                check(data[: reason.start].count(b"\n") + 1 == line_in(str(error)), f"another line: {error}")
            else:
                raise
        else:
            check(len(lines) == number_of_lines(data), f"{len(lines)} lines")
            check("\n" not in "".join(lines), "a line end in a line")

    survive(tally, examples, draw, BYTES, trial)


def line_in(message: str) -> int:
    """The number of the line that a message names."""
    return int(message.partition("line ")[2].partition(":")[0].replace(",", ""))


def pairs_and_streams(folder: Path, tally: Tally, examples: int, draw: random.Random) -> None:
    """Two files side by side, compressed ones, and a stream that arrives in pieces."""
    source, target, packed = folder / "s", folder / "t", folder / "p.gz"

    def trial(example: tuple[bytes, bytes, int, bytes]) -> None:
        one, two, cut, junk = example
        one, two = (each.decode(errors="replace").encode() for each in (one, two))
        source.write_bytes(one)
        target.write_bytes(two)
        counts = number_of_lines(one), number_of_lines(two)
        try:
            pairs = list(read_pairs(source, target))
        except UserError:
            check(counts[0] != counts[1] or 0 in counts, "refused without a reason")
        else:
            check(counts == (len(pairs), len(pairs)), f"{len(pairs)} pairs of {counts} lines")
        packed.write_bytes(gzip.compress(one)[:cut] + junk)
        try:
            list(read_lines(packed))
        except UserError as error:
            check(str(packed) in str(error), f"no name: {error}")
        check(list(arriving(one, draw)) == list(lines_of(io.BytesIO(one), "it")), "a stream is read otherwise")

    survive(tally, examples, draw, st.tuples(BYTES, BYTES, st.integers(0, 200), st.binary(max_size=9)), trial)


def arriving(data: bytes, draw: random.Random) -> list[str]:
    """The lines of standard input, from a pipe that gives the bytes little by little."""
    reader, writer = os.pipe()
    lines = StdinLines(reader)
    found = []
    stream = lines_of(lines, "it")
    for begin in range(0, len(data), size := draw.choice([1, 3, 100])):
        os.write(writer, data[begin : begin + size])
        while not lines.must_wait():
            found.append(next(stream))
    os.close(writer)
    found += stream
    os.close(reader)
    return found


def vocabularies(folder: Path, tally: Tally, examples: int, draw: random.Random, model: bytes) -> None:
    """Damaged vocabularies are refused, or give one line for each line."""

    def trial(example: tuple[bytes, str]) -> None:
        data, line = example
        path = folder / "vocabulary.model"
        path.write_bytes(data)
        try:
            vocabulary = Vocabulary.load(path)
        except UserError as error:
            check(str(path) in str(error), f"no name: {error}")
            return
        (ids,) = vocabulary.encode([line])
        (text,) = vocabulary.decode([ids])
        check("\n" not in text, "a line end in a translation")

    survive(tally, examples, draw, st.tuples(damaged(model) | st.binary(max_size=200), LINE), trial)


def round_trips(tally: Tally, examples: int, draw: random.Random, model: bytes) -> None:
    """Text to ids and back gives the same text, whatever its characters."""
    vocabulary = Vocabulary(model)

    def trial(lines: list[str]) -> None:
        check(vocabulary.decode(vocabulary.encode(lines)) == [normalise(line) for line in lines], "text was changed")

    survive(tally, examples, draw, st.lists(TEXT, max_size=5), trial)


def learning(folder: Path, tally: Tally, examples: int, draw: random.Random) -> None:
    """A vocabulary is learned from any text and encodes it without loss, or an error says why it cannot be."""

    def trial(example: tuple[list[str], int]) -> None:
        lines, size = example
        path = folder / "learned.model"
        path.unlink(missing_ok=True)
        try:
            vocabulary = Vocabulary.train(lines, size, path)
        except UserError:
            check(not path.exists(), "a model in spite of an error")
            return
        check(len(vocabulary) == size, f"{len(vocabulary)} pieces and not {size}")
        check(vocabulary.decode(vocabulary.encode(lines)) == [normalise(line) for line in lines], "text was changed")

    survive(tally, examples, draw, st.tuples(st.lists(TEXT, max_size=20), st.integers(0, 400)), trial)


def prepared(folder: Path, tally: Tally, examples: int, draw: random.Random, model: bytes) -> None:
    """Damaged token ids are never used: they are refused, or prepared again where the text is at hand."""
    source, target, place = folder / "source", folder / "target", folder / "prepared"
    source.write_text("the cat\nthe dog sat\n")
    target.write_text("die Katze\nder Hund sitzt\n")
    vocabulary = Vocabulary(model)
    whole = prepare(source, target, vocabulary, place)
    expected = content(whole)
    files = {path: path.read_bytes() for path in sorted(place.iterdir()) if path.suffix != ".lock"}

    def trial(example: tuple[Path, bytes]) -> None:
        path, data = example
        path.write_bytes(data)
        try:
            found = content(PreparedCorpus.load(place))
        except UserError:
            pass
        else:
            check(found == expected, "other ids")
        check(content(prepare(source, target, vocabulary, place)) == expected, "prepared again, with other ids")

    one = st.sampled_from(list(files)).flatmap(lambda path: st.tuples(st.just(path), damaged(files[path])))
    document = json.loads((place / "prepared.json").read_bytes())
    other = st.dictionaries(st.sampled_from(list(document)), JSON, max_size=3).map(
        lambda new: (place / "prepared.json", json.dumps({**document, **new}).encode())
    )
    survive(tally, examples, draw, one | other, trial)


def content(corpus: PreparedCorpus) -> list[list[int]]:
    return [ids.tolist() for i in range(len(corpus)) for ids in (corpus.source[i], corpus.target[i])]


def damaged_files(folder: Path, tally: Tally, examples: int, draw: random.Random) -> None:
    """A damaged checkpoint gives what was saved or is refused; so does a forged header under a valid digest."""
    path = folder / "step-00000001.safetensors"
    arrays = {"model.a": np.arange(6, dtype=np.float32).reshape(2, 3), "optimizer.m.a": np.ones(5), "b": np.array(3)}
    checkpoint_store.save(path, arrays, TrainState(step=1).to_plain())
    whole = path.read_bytes()

    def trial(data: bytes) -> None:
        path.write_bytes(data)
        try:
            found, state = checkpoints.load(path)
        except checkpoints.CheckpointError as error:
            check(str(path) in str(error), f"no name: {error}")
            return
        if data == whole:
            check(all((found[name] == array).all() for name, array in arrays.items()), "other numbers")
        try:
            TrainState.from_plain(state)
        except UserError:
            check(data != whole, "refused as it was saved")
        with suppress(UserError):
            checkpoints.average([path], "")

    forged = st.builds(
        forge,
        st.just(whole),
        st.dictionaries(st.text(max_size=9) | st.sampled_from(["model.a", "b", "__metadata__"]), JSON, max_size=3),
        st.binary(max_size=40),
    )
    survive(tally, examples, draw, damaged(whole) | st.binary(max_size=300) | forged, trial)


def forge(whole: bytes, changes: dict[str, Any], data: bytes) -> bytes:
    """A checkpoint file with a changed header and a valid digest."""
    import hashlib

    (length,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8 : 8 + length])
    metadata = header["__metadata__"]
    header |= changes
    opening = b'{"__metadata__":{"minitf_checkpoint":"1","sha256":"'
    if isinstance(header.get("__metadata__"), dict):
        header["__metadata__"] = {**metadata, **header["__metadata__"], "sha256": "0" * 64}
    try:
        text = json.dumps(header, separators=(",", ":")).encode()
    except ValueError:
        return whole
    text += b" " * (-len(text) % 8)
    start = struct.pack("<Q", len(text))
    digest = hashlib.sha256(start + text).hexdigest().encode()
    return start + text[: len(opening)] + digest + text[len(opening) + 64 :] + (data or whole[8 + length :])


def configurations(folder: Path, tally: Tally, examples: int, draw: random.Random) -> None:
    """Any file gives a configuration that can be saved and read again, or a UserError."""
    path = folder / "config.json"
    save_config(path, PRESETS["tiny"])
    whole = path.read_bytes()
    document = json.loads(whole)
    inner = [*document, *document["model"], *document["optimizer"]]

    def trial(data: bytes) -> None:
        path.write_bytes(data)
        try:
            config = load_config(path)
        except UserError as error:
            check(str(path) in str(error), f"no name: {error}")
            return
        save_config(path, config)
        check(load_config(path) == config, "read otherwise than written")

    def nested(new: dict[str, Any]) -> bytes:
        section = draw.choice([None, "model", "optimizer"])
        changed = {**document, **new} if section is None else {**document, section: {**document[section], **new}}
        return json.dumps(changed).encode()

    files = damaged(whole) | BYTES | st.dictionaries(st.sampled_from(inner), JSON, max_size=3).map(nested)
    survive(tally, examples, draw, files, trial)


def logs(folder: Path, tally: Tally, examples: int, draw: random.Random) -> None:
    """A log with any content can be opened, appended to, truncated to its old length, and read or refused."""
    path = folder / "log.jsonl"

    def trial(data: bytes) -> None:
        path.write_bytes(data)
        with RunLog(path) as log:
            begin = log.offset
            log.append({"step": 1})
            log.append({"step": 2})
            log.truncate_to(begin, lambda message: check(False, message))
        whole = data[: data.rfind(b"\n") + 1]
        check(path.read_bytes() == whole, "whole lines were changed")
        try:
            check(len(read_log(path)) == whole.count(b"\n"), "lines are missing")
        except UserError as error:
            check(str(path) in str(error), f"no name: {error}")

    lines = st.lists(st.builds(lambda value: json.dumps(value).encode() + b"\n", JSON) | BYTES, max_size=5).map(
        b"".join
    )
    survive(tally, examples, draw, lines, trial)


# ---- Translation -------------------------------------------------------------------------------------------------


def short_translator(run: Path) -> Translator:
    """The translator of a run, limited to few words a line: their number matters here, not the words."""
    translator = Translator.load(run, warn=lambda message: None)
    translator.search = replace(translator.search, beam=2, max_extra_length=1)
    return translator


def translations(tally: Tally, examples: int, draw: random.Random, run: Path) -> None:
    """N lines in, N lines out, each the translation of its own line."""
    translator = short_translator(run)
    known: dict[str, str] = {}

    def trial(lines: list[str]) -> None:
        found = list(translator.translate_stream(lines, must_wait=lambda: draw.random() < 0.3))
        check(len(found) == len(lines), f"{len(found)} lines for {len(lines)}")
        for line, translation in zip(lines, found, strict=True):
            check("\n" not in translation, "a line end in a translation")
            check(bool(normalise(line)) or not translation, "something for nothing")
            if len(known) < 50:
                known.setdefault(line, translator.translate([line])[0])
            check(known.get(line, translation) == translation, "not the translation of its line")

    survive(tally, examples, draw, st.lists(LINE, max_size=5), trial)


def translate_commands(tally: Tally, examples: int, draw: random.Random, run: Path) -> None:
    """translate.py in this process, from file to file."""
    with tempfile.TemporaryDirectory() as name:
        source, output = Path(name) / "in", Path(name) / "out"

        def trial(data: bytes) -> None:
            source.write_bytes(data)
            output.unlink(missing_ok=True)
            argv = [str(run), "--input", str(source), "--output", str(output), *SHORT]
            with redirect_stderr(io.StringIO()) as said:
                status = run_command(translate.main, argv)
            if status == 0:
                check(number_of_lines(output.read_bytes()) == number_of_lines(data), "lines are lost")
            else:
                check(status == 2 and not output.exists(), f"{status}: {said.getvalue()}")
                check(said.getvalue().count("error: ") == 1, said.getvalue())

        survive(tally, examples, draw, BYTES, trial)


SHORT = ["--max-extra-length", "1", "--beam", "1", "--threads", "1", "--quiet"]
