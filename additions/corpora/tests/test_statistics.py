"""What is counted of a corpus, and that the advice that follows can be taken."""

import os

import pytest

from additions.corpora.commands import split, statistics
from additions.corpora.statistics import corpus_statistics, render, suggested_preset
from minitf.corpora.built_in import built_in_corpus
from minitf.system.process import run_command
from tests.helpers.runs import call

PAIRS = [
    ("a b c", "x y"),
    ("a b c", "x y"),  # again
    ("", "x"),
    ("same here", "same here"),
    ("w " * 101, "v " * 90),
    ("one two", "1 2 3 4 5 6 7"),
    ("one", "1 2 3 4 5"),  # short sentences may differ that much
    ("a b c", "z"),
]


def write(folder, pairs, name="c"):
    paths = folder / f"{name}.en", folder / f"{name}.de"
    for side, path in enumerate(paths):
        path.write_text("".join(pair[side] + "\n" for pair in pairs))
    return paths


def test_counts(tmp_path):
    found = corpus_statistics(*write(tmp_path, PAIRS))
    assert (found.pairs, found.distinct_pairs, found.distinct_sources, found.distinct_targets) == (8, 7, 6, 7)
    assert found.source.words == [3, 3, 0, 2, 101, 2, 1, 3]
    assert found.source.distinct_words == {"a", "b", "c", "same", "here", "w", "one", "two"}
    assert found.faults == {
        "repeat an earlier pair": (1, 2),
        "have an empty side": (1, 3),
        "have two equal sides": (1, 4),
        "have a side of more than 100 words": (1, 5),
        "have one side more than 3 times as long as the other": (1, 6),
    }
    text = render(found)
    assert "8 pairs, 7 of them distinct" in text
    assert "1 have an empty side, the first on line 3" in text
    assert max(map(len, text.splitlines()[:-1])) <= 120


def faults_in(*paths):
    return {fault: count for fault, (count, _) in corpus_statistics(*paths).faults.items()}


@pytest.mark.heavy
def test_swapped_pairs_a_table_and_one_text_twice_are_noticed(tmp_path):
    pairs = [*dict.fromkeys(built_in_corpus(train_pairs=2_000, valid_pairs=0, test_pairs=0).train)]
    some = [pair[::-1] if i % 5 == 0 else pair for i, pair in enumerate(pairs)]
    others = faults_in(*write(tmp_path, pairs))
    assert "have their languages swapped" not in others
    found = faults_in(*write(tmp_path, some))
    wanted = sum(i % 5 == 0 and one != other for i, (one, other) in enumerate(some))
    assert found.keys() - others == {"have their languages swapped"}
    assert 0.8 * wanted < found["have their languages swapped"] <= wanted
    table = tmp_path / "c.en-de.tsv"
    table.write_text("".join("\t".join([*pair, "0.9"]) + "\n" for pair in some))
    assert faults_in(table, None) == found
    assert f"minitf split {table} --clean" in render(corpus_statistics(table, None))
    _, target = write(tmp_path, pairs)
    assert any("tab" in fault for fault in faults_in(table, target))
    assert "both sides are the same text" in render(corpus_statistics(target, target))


def test_more_text_gets_a_larger_model_and_vocabulary():
    assert "few pairs" in suggested_preset(4_999)[1]
    names = [suggested_preset(pairs)[0] for pairs in (5_000, 199_999, 200_000, 499_999, 500_000)]
    assert names == [f"--preset {name}" for name in ("laptop", "laptop", "small", "small", "base")]


def test_leaks_are_refused(tmp_path, capsys):
    paths = write(tmp_path, PAIRS)
    clean, leak = write(tmp_path, [("d e", "u")], "clean"), write(tmp_path, [("A  b C", "u"), ("q", "r")], "leak")
    command = [*map(str, paths), "--held-out", *map(str, clean)]
    assert run_command(statistics, command) == 0
    assert run_command(statistics, [*command, "--held-out", *map(str, leak)]) == 2
    err = capsys.readouterr().err
    assert f"error: 1 of 2 sentences of {leak[0]} are also in {paths[0]}, the first on line 1: 'a b c'" in err


def of_latin_words(count):
    words = [chr(97 + i) * (2 + j) for i in range(20) for j in range(3)]
    return [
        (f"{words[i % 60]} {words[i * 7 % 53]} {i}", f"{words[i * 11 % 59]} {i} und {words[i % 60]}")
        for i in range(count)
    ]


def of_chinese_characters(count):
    """Sentences without spaces: many characters, each line a word."""
    return [("".join(chr(0x4E00 + (i * 37 + j * j) % 2000) for j in range(9)), f"line {i}") for i in range(count)]


@pytest.mark.parametrize("pairs", [of_latin_words(120), of_latin_words(900), of_chinese_characters(600)])
def test_the_suggested_commands_work(tmp_path, capsys, monkeypatch, pairs):
    """From a corpus of any size to a training run, by the commands that are printed."""
    paths = write(tmp_path, pairs)
    monkeypatch.chdir(tmp_path)
    assert run_command(statistics, [path.name for path in paths]) == 0
    command = capsys.readouterr().out.splitlines()[-1].split()
    assert command[:2] == ["minitf", "split"]
    assert run_command(split, command[2:]) == 0
    command = capsys.readouterr().out.splitlines()[-1].split()
    assert command[:2] == ["minitf", "train"]
    small = ["--model.d-model", "16", "--model.d-ff", "16", "--model.layers", "1", "--max-steps", "1", "--beam", "1"]
    assert call([*command[2:], *small, "--max-extra-length", "2", "--max-tokens-per-batch", "256"]) == 0


def test_a_corpus_that_can_be_read_only_once_is_not_compared_with_held_out_text(tmp_path, capsys):
    """Read again, it would be empty, and every held-out sentence would seem to be new."""
    _, target = write(tmp_path, PAIRS)
    reading, writing = os.pipe()
    os.write(writing, "".join(f"{source}\n" for source, _ in PAIRS).encode())
    os.close(writing)
    command = [f"/dev/fd/{reading}", str(target)]
    try:
        assert run_command(statistics, [*command, "--held-out", str(target), str(target)]) == 2
        assert "is a pipe or device, but a corpus is read more than once" in capsys.readouterr().err
        assert run_command(statistics, command) == 0
    finally:
        os.close(reading)
