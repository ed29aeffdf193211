"""A run that learns to parse, from a treebank to trees, through train.py and translate.py."""

import json
import re
import shutil
from pathlib import Path

import pytest

from additions.parsing.aligned_text import held_out_count, pieces_of_tokens
from additions.parsing.linearise import linearise
from additions.parsing.parser import Parser, words_of
from additions.parsing.treebank import built_in_treebank
from additions.parsing.trees import clean, read_trees
from autograd.fast.threads import _Process
from minitf.app import train, translate
from minitf.data.text import read_lines
from minitf.data.vocabulary import Vocabulary
from minitf.errors import UserError
from minitf.system.process import run_command
from minitf.translation.translator import Translator

TINY = (
    *("--preset", "parsing-tiny", "--model.layers", "1", "--model.d-model", "16", "--model.heads", "2"),
    *("--model.d-ff", "32", "--vocab-size", "500", "--max-steps", "4", "--save-every", "2", "--valid-every", "2"),
    *("--beam", "2", "--max-extra-length", "20", "--threads", "1"),
)


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    """40 trees with traces and function tags, and one without a word."""
    path = tmp_path_factory.mktemp("treebank") / "trees.mrg"
    trees = [str(tree) for tree in built_in_treebank(train_trees=40, valid_trees=0, test_trees=0).train]
    path.write_text("\n".join([*trees[:20], "( (S (NP (-NONE- *))))", *trees[20:]]) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(treebank, tmp_path_factory):
    """A run of four steps on them."""
    before = _Process.threads, _Process.pool
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert run_command(train.main, [*TINY, "--parsing.trees", str(treebank), "--output", str(folder)]) == 0
    _Process.threads, _Process.pool = before
    return folder


def lines(path):
    return list(read_lines(path))


def test_the_texts_of_a_run(run, treebank):
    folder = run / "data" / "treebank"
    cleaned = [tree for tree in map(clean, read_trees(treebank)) if tree is not None]
    assert held_out_count(40) == 2
    for split, trees in (("train", cleaned[:36]), ("valid", cleaned[36:38]), ("test", cleaned[38:])):
        assert lines(folder / f"{split}.trees") == [str(tree) for tree in trees]
        assert lines(folder / f"{split}.words") == [" ".join(tree.words()) for tree in trees]
        assert lines(folder / f"{split}.tokens") == [" ".join(linearise(tree)) for tree in trees]


def test_common_tokens_are_one_piece_and_all_come_back(run):
    vocabulary = Vocabulary.load(run / "vocabulary.model")
    tokens = run / "data" / "treebank" / "train.tokens"
    pieces = pieces_of_tokens(tokens, most=200)
    common = [piece for piece in pieces if piece[0] == " "]
    assert len(common) > 40
    assert "(S" in pieces
    assert ")" in pieces
    assert vocabulary.encode(common) == [[place] for place in range(4, 4 + len(common))]
    assert vocabulary.decode(vocabulary.encode(lines(tokens))) == lines(tokens)


def test_the_score_at_the_end(run):
    hypotheses = lines(run / "test.hypotheses")
    gold = lines(run / "data" / "treebank" / "test.trees")
    (score,) = [record for record in map(json.loads, lines(run / "log.jsonl")) if "f1" in record]
    assert score["step"] == 4
    assert 0 <= score["f1"] <= 100
    assert score["repaired"] == 2  # a model that has learned nothing makes no trees
    for tree, right in zip(hypotheses, gold, strict=True):
        assert re.findall(r" ([^\s()]+)\)", tree) == re.findall(r" ([^\s()]+)\)", right)


def test_the_command_line_parses(run, tmp_path, capsys):
    sentences = ["the teacher sleeps .", "", "  a (small)  house "]
    (tmp_path / "in").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    (tmp_path / "out").write_text("old")
    argv = [str(run), "--input", str(tmp_path / "in"), "--output", str(tmp_path / "out"), "--threads", "1"]
    assert run_command(translate.main, argv) == 0
    first, blank, second = lines(tmp_path / "out")
    assert re.findall(r" ([^\s()]+)\)", first) == ["the", "teacher", "sleeps", "."]
    assert blank == ""
    assert re.findall(r" ([^\s()]+)\)", second) == ["a", "-LRB-small-RRB-", "house"]
    assert "2 of 2 outputs were not trees and were repaired" in capsys.readouterr().err


def test_the_command_line_scores_trees(run, tmp_path, capsys):
    folder = run / "data" / "treebank"
    argv = [str(run), "--input", str(folder / "test.words"), "--output", str(tmp_path / "out"), "--threads", "1"]
    gold = tmp_path / "gold"
    gold.write_text("\n".join(f"( {tree.removeprefix('(TOP ')}" for tree in lines(folder / "test.trees")) + "\n")
    assert run_command(translate.main, [*argv, "--reference", str(gold)]) == 0
    printed = capsys.readouterr().out
    assert "Number of sentence        =      2" in printed
    assert "Bracketing FMeasure" in printed
    gold.write_text("(S (NN a)) (S (NN b))\n(S (NN a))\n")
    assert run_command(translate.main, [*argv, "--reference", str(gold)]) == 2
    assert "line 1 of the gold trees holds 2 trees" in capsys.readouterr().err


class Oracle:
    """A translator that knows the answers."""

    def __init__(self, answers):
        self.answers = answers

    def translate(self, sentences, **options):
        return [self.answers[sentence] for sentence in sentences]

    def translate_stream(self, sentences, **options):
        return (self.answers[sentence] for sentence in sentences)


@pytest.mark.parametrize("form", ["joined", "symbols"])
def test_what_a_good_translator_says_is_the_tree(treebank, form):
    trees = [tree for tree in map(clean, read_trees(treebank)) if tree is not None]
    sentences = [" ".join(tree.words()) for tree in trees]
    answers = {words: " ".join(linearise(tree, "pos", form)) for words, tree in zip(sentences, trees, strict=True)}
    parser = Parser(Oracle(answers | {"": ""}))
    assert parser.parse([*sentences, ""]) == [*trees, None]
    assert list(parser.translate_stream(["", *sentences])) == ["", *map(str, trees)]
    assert (parser.parsed, parser.repaired) == (80, 0)
    assert parser.summary() == "0 of 80 outputs were not trees"
    parser = Parser(Oracle({"a": "(S(DT)"}))
    parser.parse(["a"])
    assert parser.summary() == "1 of 1 outputs were not trees and were repaired: 1 unclosed"


def test_words_of_a_sentence():
    assert words_of(" a\u00a0b  c(d)\n") == ["a\u00a0b", "c-LRB-d-RRB-"]
    assert words_of(["a", "", "("]) == ["a", "-LRB-"]
    assert words_of("") == []


def test_one_sentence_has_one_tree():
    parser = Parser(Oracle({"a": "(S(DT)", "": ""}))
    assert parser.parse("a") == parser.parse(["a"])[0]
    assert parser.parse("") is None


def test_a_run_goes_on(run, tmp_path):
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    shutil.rmtree(copy / "data" / "treebank")  # made again from the trees
    assert run_command(train.main, ["--resume", str(copy), "--max-steps", "5"]) == 0
    assert lines(copy / "data" / "treebank" / "test.trees") == lines(run / "data" / "treebank" / "test.trees")


def test_held_out_trees_of_their_own(treebank, tmp_path):
    argv = [*TINY, "--parsing.trees", str(treebank), "--parsing.test-trees", str(treebank)]
    argv += ["--parsing.form", "symbols", "--parsing.tags", "xx", "--output", str(tmp_path / "run")]
    assert run_command(train.main, argv) == 0
    folder = tmp_path / "run" / "data" / "treebank"
    assert [len(lines(folder / f"{split}.trees")) for split in ("train", "valid", "test")] == [38, 2, 40]
    assert "(XX)" in lines(folder / "train.tokens")[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(S (NN a)", "line 1: the bracket opened in line 1 is never closed"),
        ("(S (-NONE- *))", "contains no tree with a word"),
        ("(S (NN a)) (S (NN b))", "the treebank has 2 trees, of which none can be held out"),
        (None, "No such file"),
    ],
)
def test_a_treebank_that_cannot_be_used(tmp_path, capsys, text, message):
    path = tmp_path / "trees.mrg"
    if text is not None:
        path.write_text(text + "\n")
    output = tmp_path / "run"
    assert run_command(train.main, [*TINY, "--parsing.trees", str(path), "--output", str(output)]) == 2
    assert message in capsys.readouterr().err
    assert not (output / "log.jsonl").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--preset", "parsing-tiny", "--train", "a", "b"], "task=parsing has data of its own; omit train"),
        (["--parsing.trees", "a"], "--parsing.trees is of parsing, but the run learns translation"),
        (["--preset", "parsing-tiny", "--parsing.test-trees", "a"], "test_trees is given without trees"),
        (["--preset", "parsing-tiny", "--valid-metric", "bleu"], "valid_metric=bleu scores translations; choose loss"),
    ],
)
def test_settings_that_do_not_go_together(flags, message, capsys):
    assert run_command(train.main, flags) == 2
    assert message in capsys.readouterr().err


def test_a_run_that_translates_is_no_parser(tiny_run):
    with pytest.raises(UserError, match="was trained to translate, not to parse"):
        Parser.load(tiny_run)
    assert isinstance(Translator.load(tiny_run), Translator)
