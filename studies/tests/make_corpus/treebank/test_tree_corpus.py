"""The generated treebank."""

import pytest

from additions.parsing.trees import clean
from minitf.errors import UserError
from studies.make_corpus.treebank import tree_corpus
from studies.make_corpus.treebank.tree_corpus import generate_treebank

pytestmark = pytest.mark.slow  # the texts that the grammar wrote are pinned by their hashes


def test_the_same_seed_the_same_trees():
    sizes = {"train_trees": 200, "valid_trees": 20, "test_trees": 30}
    one, same, other = generate_treebank(1, **sizes), generate_treebank(1, **sizes), generate_treebank(2, **sizes)
    assert one == same
    assert one != other
    assert (len(one.train), len(one.valid), len(one.test)) == (200, 20, 30)
    sentences = [tuple(clean(tree).words()) for tree in (*one.train, *one.valid, *one.test)]
    assert len({*sentences}) == 250
    assert max(map(len, sentences)) <= tree_corpus.MAX_WORDS


def test_more_than_there_is(monkeypatch):
    with pytest.raises(UserError, match="test_trees=-1 is negative"):
        generate_treebank(test_trees=-1)
    monkeypatch.setattr(tree_corpus, "MAX_WORDS", 2)
    monkeypatch.setattr(tree_corpus, "PATIENCE", 100)
    with pytest.raises(UserError, match=r"the grammar has no more sentences after .* of 20,000; ask for fewer"):
        generate_treebank(train_trees=20_000, valid_trees=0, test_trees=0)
