"""A run that learns to parse, from a treebank to trees, through minitf parse and minitf train."""

import io
import json
import re
import shutil
from pathlib import Path

import pytest

from additions.parsing.aligned_text import held_out_count, pieces_of_tokens
from additions.parsing.commands import parse
from additions.parsing.linearise import linearise
from additions.parsing.parser import Parser, words_of
from additions.parsing.treebank import built_in_treebank
from additions.parsing.trees import clean, read_trees
from autograd.fast.threads import _Process
from minitf.app import train
from minitf.data.text import read_lines
from minitf.data.vocabulary import Vocabulary
from minitf.errors import UserError
from minitf.storage.checkpoints import load
from minitf.storage.run_directory import CONFIG_NAME
from minitf.system.process import run_command

TINY = (
    *("--preset", "parsing-tiny", "--model.layers", "1", "--model.d-model", "16", "--model.heads", "2"),
    *("--model.d-ff", "32", "--max-steps", "4", "--save-every", "2", "--valid-every", "2"),
    *("--beam", "2", "--max-extra-length", "20", "--threads", "1"),
)


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    """40 trees with traces and function tags, and one without a word."""
    path = tmp_path_factory.mktemp("treebank") / "trees.mrg"
    trees = [str(tree) for tree in built_in_treebank(train_trees=40, valid_trees=0, test_trees=0).train]
    path.write_text("\n".join([*trees[:20], "( (S (NP (-NONE- *))))", *trees[20:]]) + "\n", encoding="utf-8")
    return path


def prepare(treebank, folder, *words):
    return run_command(parse, ["prepare", str(folder), "--trees", str(treebank), "--vocab-size", "500", *words])


@pytest.fixture(scope="module")
def folder(treebank, tmp_path_factory):
    """What is made of them to learn from."""
    folder = tmp_path_factory.mktemp("prepared")
    assert prepare(treebank, folder) == 0
    return folder


@pytest.fixture(scope="module")
def run(folder, tmp_path_factory):
    """A run of four steps on them."""
    before = _Process.threads, _Process.pool
    run = tmp_path_factory.mktemp("runs") / "run"
    texts = [str(folder / f"{split}.{side}") for split in ("train", "valid") for side in ("words", "tokens")]
    given = ["--train", *texts[:2], "--valid", *texts[2:], "--vocabulary", str(folder / "vocabulary.model")]
    assert run_command(train.main, [*TINY, *given, "--output", str(run)]) == 0
    _Process.threads, _Process.pool = before
    return run


def lines(path):
    return list(read_lines(path))


def test_the_texts_of_a_treebank(folder, treebank):
    cleaned = [tree for tree in map(clean, read_trees(treebank)) if tree is not None]
    assert held_out_count(40) == 2
    for split, trees in (("train", cleaned[:36]), ("valid", cleaned[36:38]), ("test", cleaned[38:])):
        assert lines(folder / f"{split}.trees") == [str(tree) for tree in trees]
        assert lines(folder / f"{split}.words") == [" ".join(tree.words()) for tree in trees]
        assert lines(folder / f"{split}.tokens") == [" ".join(linearise(tree)) for tree in trees]


def test_common_tokens_are_one_piece_and_all_come_back(folder):
    vocabulary = Vocabulary.load(folder / "vocabulary.model")
    tokens = folder / "train.tokens"
    pieces = pieces_of_tokens(tokens, most=200)
    common = [piece for piece in pieces if piece[0] == " "]
    assert len(common) > 40
    assert "(S" in pieces
    assert ")" in pieces
    assert vocabulary.encode(common) == [[place] for place in range(4, 4 + len(common))]
    assert vocabulary.decode(vocabulary.encode(lines(tokens))) == lines(tokens)


def test_sentences_are_parsed(run, capsys, monkeypatch):
    sentences = ["the teacher sleeps .", "", "  a (small)  house "]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(sentences).encode() + b"\n")))
    assert run_command(parse, ["trees", str(run), "--threads", "1"]) == 0
    printed = capsys.readouterr()
    first, blank, second = printed.out.splitlines()
    assert re.findall(r" ([^\s()]+)\)", first) == ["the", "teacher", "sleeps", "."]
    assert blank == ""
    assert re.findall(r" ([^\s()]+)\)", second) == ["a", "-LRB-small-RRB-", "house"]
    assert "2 of 2 outputs were not trees and were repaired" in printed.err


def test_the_test_sentences_are_scored(run, folder, tmp_path, capsys):
    argv = ["test", str(run), str(folder), "--output", str(tmp_path / "out"), "--threads", "1"]
    assert run_command(parse, argv) == 0
    assert re.search(r"F1 [\d.]+ \(recall .* 2 of 2 outputs were not trees", capsys.readouterr().out)
    for tree, right in zip(lines(tmp_path / "out"), lines(folder / "test.trees"), strict=True):
        assert re.findall(r" ([^\s()]+)\)", tree) == re.findall(r" ([^\s()]+)\)", right)


def test_gold_trees_have_a_line_each():
    with pytest.raises(UserError, match="line 1 of the gold trees holds 2 trees"):
        Parser(Oracle({})).score(["(S (NN a)) (S (NN b))"], ["(S (NN a))"])


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


def test_a_run_of_an_earlier_version_goes_on_and_says_how_it_parses(run, folder, tmp_path, capsys):
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    shutil.copytree(folder, copy / "data" / "treebank")
    plain = json.loads((copy / CONFIG_NAME).read_text())
    for name in ("train", "valid", "vocabulary"):
        plain[name] = None
    (copy / CONFIG_NAME).write_text(json.dumps(plain | {"task": "parsing", "parsing": {"trees": None, "tags": "pos"}}))
    assert run_command(train.main, ["--resume", str(copy), "--max-steps", "5"]) == 0
    assert "minitf parse trees" in capsys.readouterr().err
    assert run_command(train.main, ["--resume", str(run), "--max-steps", "5"]) == 0
    new, old = (load(each / "checkpoints" / "step-00000005.safetensors", "model.")[0] for each in (copy, run))
    assert all((new[name] == old[name]).all() for name in old)


def test_held_out_trees_of_their_own(treebank, tmp_path):
    assert prepare(treebank, tmp_path, "--test-trees", str(treebank), "--form", "symbols", "--tags", "xx") == 0
    assert [len(lines(tmp_path / f"{split}.trees")) for split in ("train", "valid", "test")] == [38, 2, 40]
    assert "(XX)" in lines(tmp_path / "train.tokens")[0]


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
    assert prepare(path, tmp_path / "out") == 2
    assert message in capsys.readouterr().err


def test_held_out_trees_need_trees(tmp_path, capsys):
    assert run_command(parse, ["prepare", str(tmp_path), "--test-trees", "a"]) == 2
    assert "--test-trees is given without --trees" in capsys.readouterr().err
