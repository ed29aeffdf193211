"""studies/recipes/europarl.py, on a corpus of a moment."""

import gzip
import re

import numpy as np

from minitf.app import train
from minitf.data.text import read_lines
from minitf.system.process import run_command
from studies.tests.load_recipes import load_recipe
from tests.helpers.runs import FLAGS, write_corpus

resumable = load_recipe("resumable")
load_recipe("summary")
europarl = load_recipe("europarl")
PAIRS = [(f"source {i}", f"target {i}") for i in range(40)]


def write_gzip(folder, pairs):
    for side, language in enumerate(("en", "fr")):
        with gzip.open(folder / f"train.{language}.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{pair[side]}\n" for pair in pairs)
    return [folder / f"train.{language}.gz" for language in ("en", "fr")]


def test_no_held_out_sentence_occurs_before(tmp_path, monkeypatch):
    monkeypatch.setattr(europarl, "LAST", 8)
    monkeypatch.setattr(europarl, "HELD_OUT", 3)
    last = [("source 3", "other"), *(2 * [("new 1", "first"), ("new 1", "second")]), ("a", "A"), ("b", "B"), ("c", "C")]
    europarl.hold_out(write_gzip(tmp_path, [*PAIRS, *last]), tmp_path / "texts")
    found = {
        split: list(zip(*map(read_lines, europarl.paths_of(tmp_path / "texts", split)), strict=True))
        for split in europarl.SPLITS
    }
    assert found == {"train": PAIRS, "valid": [("new 1", "first"), ("a", "A"), ("b", "B")], "test": [("c", "C")]}


def test_trained_scored_and_written(tmp_path, capsys, monkeypatch):
    """A second call trains nothing and writes the same."""
    write_corpus(tmp_path)
    corpus = list(zip(read_lines(tmp_path / "train.en"), read_lines(tmp_path / "train.de"), strict=True))
    write_gzip(tmp_path, corpus)
    monkeypatch.setattr(europarl, "LAST", 40)
    monkeypatch.setattr(europarl, "HELD_OUT", 15)
    calls = []

    def call_train(argv):
        calls.append(argv)
        return run_command(train.main, argv)

    monkeypatch.setattr(resumable, "call_train", call_train)
    page, news = tmp_path / "page.md", [str(tmp_path / f"test.{language}") for language in ("en", "de")]
    command = ["--texts", str(tmp_path), "--output", str(tmp_path / "run"), "--newstest", *news, "--write", str(page)]
    command += [*FLAGS, "--seed", "1", "--max-steps", "4", "--valid-every", "2"]
    page.write_text("no mark\n")
    assert run_command(europarl.main, command) == 2
    assert "has no lines <!-- europarl.py -->" in capsys.readouterr().err
    assert not calls
    page.write_text("Before.\n<!-- europarl.py -->\n<!-- end of europarl.py -->\nAfter.\n")
    assert run_command(europarl.main, command) == 0
    written = page.read_text()
    sources, translated = (list(read_lines(tmp_path / name)) for name in ("run-texts/test.en", "run/test.hypotheses"))
    first = np.random.default_rng(1).permutation(len(sources))[0]
    assert f"- {sources[first]}\\\n  → {translated[first]}\\\n" in written
    assert written.count("\n  → ") == min(10, len(sources))
    assert [line.split(" | ")[0] for line in written.splitlines() if line.startswith(("| 2", "| 4"))] == ["| 2", "| 4"]
    scores = [line for line in written.splitlines() if line.startswith(("| held-out Europarl, ", "| newstest2013, 4 "))]
    assert [len(re.split(r"(?<!\\)\|", line)) for line in scores] == [5, 5]  # the bars of the signature end no cell
    assert written.startswith("Before.\n")
    assert written.endswith("\nAfter.\n")
    capsys.readouterr()
    assert run_command(europarl.main, command) == 0
    assert len(calls) == 1
    assert page.read_text() == written
