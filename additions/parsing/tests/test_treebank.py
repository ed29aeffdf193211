import hashlib

import pytest

from additions.parsing.treebank import built_in_treebank, write_treebank
from additions.parsing.trees import read_trees
from minitf.errors import UserError

FEW = {"train_trees": 200, "valid_trees": 20, "test_trees": 30}


@pytest.mark.slow
def test_the_treebank_is_that_of_the_published_figures():
    treebank = built_in_treebank()
    lines = "".join(f"{tree}\n" for tree in (*treebank.valid, *treebank.test, *treebank.train))
    assert hashlib.sha256(lines.encode()).hexdigest().startswith("67c3de3c3d19b292")


@pytest.mark.heavy
def test_more_trees_than_there_are():
    with pytest.raises(UserError, match="valid_trees=501 is more than the 500 that are built in"):
        built_in_treebank(**{**FEW, "valid_trees": 501})
    with pytest.raises(UserError, match="test_trees=-1 is negative"):
        built_in_treebank(**{**FEW, "test_trees": -1})


def test_traces_and_function_tags_are_there_to_be_cleaned():
    shown = " ".join(map(str, built_in_treebank(train_trees=300, valid_trees=0, test_trees=0).train))
    for part in ("(-NONE- *T*-1)", "(-NONE- *PRO*)", "(NP-SBJ ", "(PP-LOC ", "(WHNP-1 "):
        assert part in shown
    assert "/" not in shown


def test_written_trees(tmp_path):
    few = built_in_treebank(**FEW)
    write_treebank(tmp_path / "new", few)
    for part in ("train", "valid", "test"):
        assert list(read_trees(tmp_path / "new" / f"{part}.mrg")) == getattr(few, part)


def test_sizes():
    few = built_in_treebank(**FEW)
    assert (len(few.train), len(few.valid), len(few.test)) == (200, 20, 30)
