"""A corpus cut in three: exact numbers, nothing on two sides, the same cut for the same seed."""

import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from additions.corpora.commands import split
from additions.corpora.splitting import groups_of, key_of, refuse_overlap, split_corpus, split_pairs
from minitf.corpora.built_in import Splits
from minitf.data.text import read_lines, read_pairs
from minitf.errors import UserError
from minitf.system.process import run_command

WORDS = st.sampled_from(["a", "A ", "b", "c", "d  d", "d d", "e", "f", "g", "h", "i"])


@pytest.mark.heavy
@given(st.lists(st.tuples(WORDS, WORDS), max_size=40), st.integers(0, 6), st.integers(0, 6), st.integers(0, 3))
@settings(max_examples=200, deadline=None)
@pytest.mark.parametrize("by", ["source", "both"])
def test_every_pair_is_in_one_part_and_no_sentence_in_two(by, pairs, valid, test, seed):
    try:
        splits = split_pairs(pairs, valid=valid, test=test, seed=seed, by=by)
    except UserError:
        assert len(groups_of(pairs, by)) < valid + test + 3 or max(map(len, groups_of(pairs, by))) > 1
        return
    assert 0 <= valid - len(splits.valid) <= 2
    assert 0 <= test - len(splits.test) <= 2
    assert Counter(splits.train + splits.valid + splits.test) == Counter(pairs)
    for side in range(2 if by == "both" else 1):
        keys = [{key_of(pair[side]) for pair in part} for part in vars(splits).values()]
        assert sum(map(len, keys)) == len(set.union(*keys))


@pytest.mark.heavy
@given(st.lists(st.tuples(st.integers(0, 12).map(str), st.integers(0, 12).map(str)), max_size=20))
@settings(max_examples=200, deadline=None)
def test_groups_are_what_shared_sentences_connect(pairs):
    """Against a search that visits all pairs again until nothing changes."""
    group = list(range(len(pairs)))
    changed = True
    while changed:
        changed = False
        for i, one in enumerate(pairs):
            for j, two in enumerate(pairs):
                if group[i] > group[j] and (one[0] == two[0] or one[1] == two[1]):
                    group[i], changed = group[j], True
    expected = [[i for i in range(len(pairs)) if group[i] == first] for first in sorted(set(group))]
    assert groups_of(pairs, "both") == expected


def test_a_seed_is_a_cut_and_another_seed_another():
    pairs = [(f"s {i // 2}", f"t {i}") for i in range(2_000)]
    one, same, other = (split_pairs(pairs, valid=100, test=100, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert set(one.test) != set(other.test)
    assert one.train == sorted(one.train, key=pairs.index)  # in the corpus's order


def test_a_part_may_be_a_little_smaller_so_that_nothing_is_cut():
    pairs = [(f"s {i // 3}", f"t {i}") for i in range(3_000)]
    splits = split_pairs(pairs, valid=100, test=1_000)
    assert (len(splits.valid), len(splits.test), len(splits.train)) == (99, 999, 1_902)
    with pytest.raises(UserError, match="no pairs remain for training: all 3 pairs are held out"):
        split_pairs([("a", "x"), ("b", "y"), ("c", "z")], valid=1, test=2)
    with pytest.raises(UserError, match="only 0 of 2 pairs can be held out for test"):
        split_pairs(pairs, valid=0, test=2)
    with pytest.raises(UserError, match=r"only 10 of 100 .* or --by source"):
        split_pairs(
            [("a", f"t {i}") for i in range(500)] + [(f"b {i}", f"u {i}") for i in range(10)],
            valid=0,
            test=100,
            by="both",
        )


@pytest.mark.heavy
def test_time_is_linear():
    """A chain of pairs that are all tied together is the worst case of the groups."""
    seconds = []
    for count in (20_000, 80_000):
        pairs = [(f"s {i // 2}", f"t {(i + 1) // 2}") for i in range(count)] + [(f"u {i}", f"v {i}") for i in range(10)]
        start = time.process_time()
        split_pairs(pairs, valid=5, test=5, by="both")
        seconds.append(time.process_time() - start)
    assert seconds[1] < 4 * 3 * seconds[0]


def test_an_overlap_is_refused_with_the_sentence():
    splits = Splits(train=[("a b", "x")], valid=[("c", "X")], test=[("A  b", "y")])
    with pytest.raises(UserError, match=r"the source 'A {2}b' is in both train and test"):
        refuse_overlap(splits)
    with pytest.raises(UserError, match="the target 'X' is in both train and valid"):
        refuse_overlap(Splits(splits.train, splits.valid, []), by="both")


# ---- The command -------------------------------------------------------------------------------------------------


def run(*words):
    return run_command(split, list(map(str, words)))


@pytest.fixture
def corpus(tmp_path):
    pairs = [(f"source {i // 2}", f"target {i}") for i in range(100)] + [("", "nothing"), ("alone", "target 3")]
    paths = tmp_path / "mine.en", tmp_path / "mine.de"
    for side, path in enumerate(paths):
        path.write_text("".join(pair[side] + "\n" for pair in pairs))
    return paths


def test_the_command_writes_aligned_files_and_says_what_it_did(corpus, tmp_path, capsys):
    assert run(*corpus, "--valid", 11, "--test", 8, "--output", tmp_path / "new" / "split") == 0
    out = capsys.readouterr().out
    assert f"{tmp_path / 'new' / 'split'}: 82 training, 11 validation, 8 test pairs\n" in out
    assert "1 of 102 pairs removed: they have an empty side" in out
    known = set(read_pairs(*corpus))
    counts = {}
    for name in ("train", "valid", "test"):
        found = list(read_pairs(*(tmp_path / "new" / "split" / f"{name}.{suffix}" for suffix in ("en", "de"))))
        assert set(found) <= known
        counts[name] = len(found)
    assert counts == {"train": 82, "valid": 11, "test": 8}
    command = out.splitlines()[-1]
    assert command.startswith(f"    minitf train --train {tmp_path / 'new' / 'split' / 'train.en'} ")
    assert "--preset laptop" in command


def test_a_small_corpus_keeps_most_of_its_pairs_for_training(corpus, tmp_path, capsys):
    assert run(*corpus, "--output", tmp_path / "split") == 0
    assert "97 training, 2 validation, 2 test pairs\n" in capsys.readouterr().out


def test_what_cannot_be_cut_is_refused(corpus, tmp_path, capsys):
    folder = tmp_path / "split"
    for words, message in (
        (["--valid", 60, "--test", 60], "only 42 of 60 pairs can be held out for valid"),
        (["--valid", -1], "valid=-1 is negative"),
    ):
        assert run(*corpus, "--output", folder, *words) == 2
        assert message in capsys.readouterr().err
    assert not folder.exists()
    assert run(*corpus, "--output", folder, "--valid", 0, "--test", 2) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["test.de", "test.en", "train.de", "train.en"]
    assert run(*corpus, "--output", folder, "--valid", 0, "--test", 2) == 2
    assert f"{folder / 'train.en'} already exists" in capsys.readouterr().err
    (tmp_path / "short.de").write_text("one\n")
    assert run(corpus[0], tmp_path / "short.de", "--output", tmp_path / "other") == 2
    assert "has 102 lines but" in capsys.readouterr().err


def test_targets_that_training_has_too_are_counted(tmp_path, capsys):
    paths = tmp_path / "a.txt", tmp_path / "b.txt"
    paths[0].write_text("".join(f"source {i}\n" for i in range(50)))
    paths[1].write_text("".join(f"target {i % 25}\n" for i in range(50)))
    report = split_corpus(*paths, tmp_path / "one", valid=5, test=5)
    assert report.targets_in_train > 0
    assert [path.name for path in report.paths["train"]] == ["train.source", "train.target"]
    assert split_corpus(*paths, tmp_path / "two", valid=4, test=4, by="both").targets_in_train == 0
    assert len(list(read_lines(tmp_path / "two" / "valid.target"))) == 4


def test_a_corpus_is_cleaned_and_each_rule_is_counted(tmp_path, capsys):
    pairs = [(f"the {i} house of {i}", f"das {i} Haus von {i}") for i in range(1_000)]
    wrong = [("", "x"), pairs[0], ("same here", "same here"), ("w " * 101, "v " * 90), ("one two", "1 2 3 4 5 6 7")]
    wrong += [("das Haus von gestern", "the house of yesterday")]
    table = tmp_path / "mine.en-de.tsv"
    table.write_text("".join(f"{source}\t{target}\n" for source, target in [*pairs, *wrong]), "utf-8")
    command = [str(table), "--valid", "10", "--test", "10", "--output", str(tmp_path / "split")]
    assert run_command(split, [*command, "--clean"]) == 0
    said = capsys.readouterr().out
    assert "980 training, 10 validation, 10 test pairs" in said
    for fault in ("have an empty side", "repeat an earlier pair", "have two equal sides", "more than 100 words",
                  "more than 3 times as long", "have their languages swapped"):  # fmt: skip
        (line,) = (line for line in said.splitlines() if fault in line)
        assert line.split()[:3] == ["1", "of", "1,006"]
    parts = ([tmp_path / "split" / f"{name}.{side}" for side in ("en", "de")] for name in ("train", "valid", "test"))
    assert {pair for part in parts for pair in read_pairs(*part)} == {*pairs}
    assert run_command(split, [*command[:-1], str(tmp_path / "whole")]) == 0
    assert "985 training, 10 validation, 10 test pairs" in capsys.readouterr().out
    table.write_text("no tab\n")
    assert run_command(split, [*command[:-1], str(tmp_path / "none")]) == 2
    assert "line 1 has no tab; give two texts" in capsys.readouterr().err
