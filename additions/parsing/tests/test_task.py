"""Training runs that learn to parse."""

import pytest

from additions.parsing.treebank import built_in_treebank
from tests.helpers.runs import call

pytestmark = pytest.mark.heavy


def test_a_run_needs_no_trees_but_its_own(ground, tmp_path, capsys):
    treebank = built_in_treebank(train_trees=60, valid_trees=5, test_trees=5)
    trees = tmp_path / "mine.trees"
    trees.write_text("".join(f"{tree}\n" for tree in treebank.train))
    run = tmp_path / "run"
    small = ["--preset", "parsing-tiny", *ground.flags[9:], "--vocab-size", "400", "--max-length", "64"]
    flags = [*small, "--parsing.trees", str(trees), "--output", str(run), "--max-steps", "2"]
    assert call(flags) == 0
    trees.unlink()
    assert call(["--resume", str(run), "--max-steps", "3"]) == 0
    assert call(["--resume", str(run), "--parsing.trees", str(tmp_path / "others")]) == 2
    assert "--parsing.trees" in capsys.readouterr().err
