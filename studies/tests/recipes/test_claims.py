"""studies/recipes/claims.py: rules, intervals, and that every claim can be measured and is written down."""

import json
import math

import pytest

from minitf.errors import UserError
from studies.tests.load_recipes import load_recipe
from tests.helpers.marks import parametrize_some

load_recipe("compared_layers")
load_recipe("train_fields")
load_recipe("resumable")
load_recipe("table_1")
load_recipe("paper_claims")
claims = load_recipe("claims")
claim = claims.importlib.import_module("paper_claims.claim")
RESULTS = claims.resumable.ROOT / "docs" / "claims.json"
CERTAIN = {
    *("causal-decoder", "softmax-gradient", "cost-of-heads", "encoder-attends-to-all", "position-wise", "order-blind"),
    *("relative-positions", "sequential-operations", "path-self-attention", "path-convolution", "path-restricted"),
    *("path-dilated", "schedule", "smoothing-unsure", "early-termination", "parameters-differences"),
}
"""Claims that hold at any size: what fails them is a fault of the code."""
runs = claims.importlib.import_module("paper_claims.runs")


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(1.0, 2.0, "holds"), (-2.0, -1.0, "does not hold"), (-1.0, 1.0, "not at this scale"), (0.0, 0.0, "holds")],
)
def test_the_interval_decides(low, high, verdict):
    figure = claim.Figure((low + high) / 2, low, high, "")
    assert claim.Rule("a difference", lowest=0).verdict(figure) == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-1.0, 1.0, "holds"),
        (1.5, 3.0, "does not hold"),
        (-2.0, 2.0, "not at this scale"),
        (0.5, 1.5, "not at this scale"),
    ],
)
def test_equal_means_within_the_range(low, high, verdict):
    assert claim.Rule("a difference", -1, 1).verdict(claim.Figure(0.0, low, high, "")) == verdict


def test_the_interval_of_three_seeds_is_students():
    figure = claim.sampled([1.0, 2.0, 3.0])
    assert (figure.low, figure.high) == pytest.approx((2 - 4.303 / math.sqrt(3), 2 + 4.303 / math.sqrt(3)))


def test_one_seed_decides_nothing():
    assert claim.Rule("a difference", lowest=0).verdict(claim.sampled([5.0])) == "not at this scale"


def test_an_unknown_claim():
    with pytest.raises(UserError, match="there is no claim 'nothing'"):
        claim.chosen(["nothing"])


FEW = [name for name in claim.CLAIMS if name in ("causal-decoder", "schedule")]
"""Some that take no time."""


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore:no translation ended")  # by a model of a few updates
@parametrize_some("names", [FEW, list(claim.CLAIMS)], ids=["few", "all"])
def test_claims_in_small(tmp_path, capsys, names):
    """All verdicts are printed and written; a second call measures nothing and writes the same page."""
    results = tmp_path / "claims.json"
    command = ["--quick", "--output", str(tmp_path / "runs"), "--results", str(results), *names]
    assert claims.main(command) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in printed] == names
    page = (tmp_path / "claims.md").read_text(encoding="utf-8")
    kept = json.loads(results.read_text(encoding="utf-8"))
    assert list(kept) == names
    for name in names:
        assert f"\n### {name}\n" in page
        assert claim.CLAIMS[name].sentence in page
        assert claim.CLAIMS[name].done
    if len(names) == len(claim.CLAIMS):
        folders = [*(tmp_path / "runs").iterdir(), *(tmp_path / "runs" / "curvature").iterdir()]
        assert {path.name for path in folders if path.is_dir()} >= set(runs.VARIANTS)
    changed = {**kept, "schedule": {**kept["schedule"], "value": 0.5, "low": 0.4, "high": 0.6}}
    results.write_text(json.dumps(changed), encoding="utf-8")
    assert claims.main(command) == 0
    assert "0.5 (0.4 to 0.6)" in capsys.readouterr().out
    certain = {name for name in names if name in CERTAIN and claims.verdict(claim.CLAIMS[name], kept) == "holds"}
    assert certain == CERTAIN & {*names}


def test_the_page_is_that_of_the_results():
    """Verdicts follow from the results that are kept: none is edited by hand."""
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert claims.page(results) == RESULTS.with_suffix(".md").read_text(encoding="utf-8")
    assert set(results) <= set(claim.CLAIMS)
