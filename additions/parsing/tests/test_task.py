"""Training runs that learn to parse."""

import pytest

from additions.parsing.treebank import built_in_treebank
from tests.helpers.runs import call

pytestmark = pytest.mark.heavy


def test_trees_may_be_named_again_if_they_are_the_same(ground, tmp_path, capsys):
    treebank = built_in_treebank(train_trees=60, valid_trees=5, test_trees=5)
    trees = tmp_path / "mine.trees"
    trees.write_text("".join(f"{tree}\n" for tree in treebank.train))
    run = tmp_path / "run"
    small = ["--preset", "parsing-tiny", *ground.flags[9:], "--vocab-size", "400", "--max-length", "64"]
    flags = [*small, "--parsing.trees", str(trees), "--output", str(run), "--max-steps", "2"]
    assert call(flags) == 0
    moved = trees.rename(tmp_path / "moved.trees")
    assert call(["--resume", str(run), "--parsing.trees", str(moved)]) == 0
    moved.write_text("".join(moved.read_text().splitlines(keepends=True)[:-1]))
    again = moved.rename(tmp_path / "again.trees")
    assert call(["--resume", str(run), "--parsing.trees", str(again)]) == 2
    assert "trees are not those of the run" in capsys.readouterr().err
