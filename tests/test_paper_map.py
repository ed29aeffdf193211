"""docs/paper-map.md points at code and tests that exist."""

import re
from pathlib import Path

import pytest

from minitf.config import OptimizerConfig
from minitf.training.optim import learning_rate
from tests.helpers.definitions import names_in

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8")
REFERENCES = sorted(set(re.findall(r"`([\w/.-]+\.py(?::[\w.]+)?)`", PAGE)) - {"file.py:name"})


def test_the_page_has_references():
    assert len(REFERENCES) > 60
    assert sum(reference.startswith("tests/") for reference in REFERENCES) > 30


@pytest.mark.parametrize("reference", REFERENCES)
def test_reference_exists(reference):
    path, _, name = reference.partition(":")
    assert (ROOT / path).is_file(), f"{path} does not exist"
    assert not name or name in names_in(path), f"{path} has no {name}"


def test_every_statement_says_where_and_how_it_is_shown():
    rows = [line.strip("|").split("|") for line in PAGE.splitlines() if re.match(r"\| \d", line)]
    assert len(rows) > 25
    for statement, done, shown in rows:
        assert ".py" in done, statement
        assert "tests/" in shown, statement


def test_equation_3():
    config = OptimizerConfig(warmup_steps=4000)
    for step in (1, 2, 3999, 4000, 4001, 100_000):
        assert learning_rate(step, 512, config) == pytest.approx(
            512**-0.5 * min(step**-0.5, step * 4000**-1.5), rel=1e-14
        )
    assert learning_rate(4000, 512, config) == pytest.approx(6.98771e-4, rel=1e-5)
