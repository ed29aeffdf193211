"""The grammar, and the treebank that is drawn from it."""

import pytest

from minitf.app import parse as command
from minitf.app.cli import run_command
from minitf.corpora.draw import Draw
from minitf.corpora.treebank import generate_treebank, write_treebank
from minitf.corpora.treebank import random_tree as drawing
from minitf.corpora.treebank import trees as treebank
from minitf.corpora.treebank.random_tree import START, lexicon, plural, rules, spelled
from minitf.errors import UserError
from minitf.parsing.trees import Tree, clean, read_trees


def test_every_symbol_can_be_drawn_and_is_defined_once():
    reached, waiting = set(), [START]
    while waiting:
        symbol = waiting.pop()
        if symbol not in reached:
            reached.add(symbol)
            assert (symbol in rules()) != (symbol in lexicon()), symbol
            waiting += {child for choice in rules().get(symbol, ()) for child in choice}
    written = {*rules(), *(symbol for symbol in lexicon() if not symbol.startswith("NNS/"))}
    forms = {symbol for symbol in written if symbol.startswith("VP/gap.")}  # {v} makes some that no sentence needs
    assert written - reached <= forms


@pytest.mark.parametrize("symbol", ["S/plain", "VP/VBD", "NP", "np/person.pl"])
def test_what_is_drawn_has_one_tree(monkeypatch, symbol):
    """With one word of each kind only, phrases repeat: those of the same words must have the same tree."""
    few = {symbol: words[:1] for symbol, words in lexicon().items()}
    monkeypatch.setattr(drawing, "lexicon", lambda: few)
    found = {}
    repeated = 0
    draw = Draw(3)
    for _ in range(5_000):
        tree = clean(Tree("", tuple(drawing._expand(symbol, draw))))
        words = tuple(tree.words())
        repeated += words in found
        assert found.setdefault(words, tree) == tree
    assert repeated > 50


def test_the_past_of_a_verb_is_not_its_infinitive():
    for symbol, words in lexicon().items():
        if symbol.startswith("VBD/") and symbol.replace("VBD/", "VB/") in lexicon():
            assert not {*words} & {*lexicon()[symbol.replace("VBD/", "VB/")]}, symbol


def test_the_same_seed_the_same_trees():
    sizes = {"train_trees": 200, "valid_trees": 20, "test_trees": 30}
    one, same, other = generate_treebank(1, **sizes), generate_treebank(1, **sizes), generate_treebank(2, **sizes)
    assert one == same
    assert one != other
    assert (len(one.train), len(one.valid), len(one.test)) == (200, 20, 30)
    sentences = [tuple(clean(tree).words()) for tree in (*one.train, *one.valid, *one.test)]
    assert len({*sentences}) == 250
    assert max(map(len, sentences)) <= treebank.MAX_WORDS


def test_traces_and_function_tags_are_there_to_be_cleaned():
    drawn = " ".join(map(str, generate_treebank(train_trees=300, valid_trees=0, test_trees=0).train))
    for part in ("(-NONE- *T*-1)", "(-NONE- *PRO*)", "(NP-SBJ ", "(PP-LOC ", "(WHNP-1 "):
        assert part in drawn
    assert "/" not in drawn


def test_spelling():
    assert spelled(["a", "old", "man", "and", "a", "man"]) == ["An", "old", "man", "and", "a", "man"]
    assert spelled(["``", "he", "a"]) == ["``", "He", "a"]
    assert [plural(noun) for noun in ("box", "library", "boy", "woman", "match", "key")] == [
        *("boxes", "libraries", "boys"),
        *("women", "matches", "keys"),
    ]


def test_writing(tmp_path):
    made = generate_treebank(train_trees=20, valid_trees=3, test_trees=4)
    write_treebank(tmp_path / "new", made)
    for split in ("train", "valid", "test"):
        assert list(read_trees(tmp_path / "new" / f"{split}.mrg")) == getattr(made, split)


def test_more_than_there_is(monkeypatch):
    with pytest.raises(UserError, match="test_trees=-1 is negative"):
        generate_treebank(test_trees=-1)
    monkeypatch.setattr(treebank, "MAX_WORDS", 2)
    monkeypatch.setattr(treebank, "PATIENCE", 100)
    with pytest.raises(UserError, match=r"the grammar has no more sentences after .* of 20,000; ask for fewer"):
        generate_treebank(train_trees=20_000, valid_trees=0, test_trees=0)


def test_commands(tmp_path, capsys):
    sizes = ["--train-trees", "5", "--valid-trees", "2", "--test-trees", "3", "--show", "1"]
    assert run_command(command.main, ["treebank", str(tmp_path), *sizes]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{tmp_path}: 5 training, 2 validation, 3 test trees\n\n(TOP (")
    gold = str(tmp_path / "test.mrg")
    assert run_command(command.main, ["evalb", gold, gold, "--summary"]) == 0
    assert "Bracketing FMeasure       = 100.00" in capsys.readouterr().out
    assert run_command(command.main, ["evalb", gold, str(tmp_path / "train.mrg")]) == 2
    assert "the test trees go on after line 3" in capsys.readouterr().err
