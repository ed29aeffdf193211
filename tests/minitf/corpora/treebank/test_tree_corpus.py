"""The generated treebank."""

import hashlib

import pytest

from minitf.corpora.treebank import generate_treebank, tree_corpus, write_treebank
from minitf.errors import UserError
from minitf.evaluation.trees import clean, read_trees


def test_the_same_seed_the_same_trees():
    sizes = {"train_trees": 200, "valid_trees": 20, "test_trees": 30}
    one, same, other = generate_treebank(1, **sizes), generate_treebank(1, **sizes), generate_treebank(2, **sizes)
    assert one == same
    assert one != other
    assert (len(one.train), len(one.valid), len(one.test)) == (200, 20, 30)
    sentences = [tuple(clean(tree).words()) for tree in (*one.train, *one.valid, *one.test)]
    assert len({*sentences}) == 250
    assert max(map(len, sentences)) <= tree_corpus.MAX_WORDS


def test_the_default_treebank_begins_as_that_of_the_published_figures():
    """Fewer trees of the same seed are the first ones of the default treebank."""
    trees = generate_treebank(train_trees=500, valid_trees=500, test_trees=1000)
    lines = "".join(f"{tree}\n" for tree in (*trees.valid, *trees.test, *trees.train))
    assert hashlib.sha256(lines.encode()).hexdigest().startswith("b8722b02191b4747")


def test_traces_and_function_tags_are_there_to_be_cleaned():
    drawn = " ".join(map(str, generate_treebank(train_trees=300, valid_trees=0, test_trees=0).train))
    for part in ("(-NONE- *T*-1)", "(-NONE- *PRO*)", "(NP-SBJ ", "(PP-LOC ", "(WHNP-1 "):
        assert part in drawn
    assert "/" not in drawn


def test_writing(tmp_path):
    made = generate_treebank(train_trees=20, valid_trees=3, test_trees=4)
    write_treebank(tmp_path / "new", made)
    for split in ("train", "valid", "test"):
        assert list(read_trees(tmp_path / "new" / f"{split}.mrg")) == getattr(made, split)


def test_more_than_there_is(monkeypatch):
    with pytest.raises(UserError, match="test_trees=-1 is negative"):
        generate_treebank(test_trees=-1)
    monkeypatch.setattr(tree_corpus, "MAX_WORDS", 2)
    monkeypatch.setattr(tree_corpus, "PATIENCE", 100)
    with pytest.raises(UserError, match=r"the grammar has no more sentences after .* of 20,000; ask for fewer"):
        generate_treebank(train_trees=20_000, valid_trees=0, test_trees=0)
