"""The book: its contents, and the meaning of each field in its reference."""

import re
import runpy
from dataclasses import fields
from pathlib import Path

import pytest

from minitf import OptimizerConfig, RunConfig, TransformerConfig

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - {"index.md"}
CHAPTERS = sorted((DOCS / "book").glob("[0-9][0-9]-*.md"))


def test_every_page_is_in_the_table_of_contents():
    linked = re.findall(r"\]\(([^):#]+\.md)\)", (DOCS / "index.md").read_text("utf-8"))
    assert PAGES - set(linked) == set()
    assert len(linked) == len(set(linked))


def test_every_chapter_ends_with_its_exercises_and_each_has_one_place():
    exercises = pytest.importorskip("additions.course.exercise", reason="the course is not here").ALL
    listed = []
    for chapter in CHAPTERS:
        end = chapter.read_text("utf-8").partition("\n## Exercises\n")[2]
        found = re.findall(r"^- ([\w-]+): (.+)$", end, re.MULTILINE)
        judged_elsewhere = chapter.name == "14-one-file.md"  # by the tests of the file
        assert found or judged_elsewhere, f"{chapter.name} has no exercise"
        listed += found
    assert len(CHAPTERS) == 14
    assert sorted(listed) == sorted((each.label, each.title) for each in exercises.values())


def test_the_reference_says_what_each_field_of_a_configuration_means():
    pytest.importorskip("sphinx", reason="sphinx is not installed: `make book` installs the extra `docs`")
    reference = runpy.run_path(str(DOCS / "book/extension/reference.py"))
    for config in (TransformerConfig, OptimizerConfig, RunConfig):
        lines = config.__doc__.splitlines()
        reference["convert_docstring"](None, "class", config.__name__, config, {}, lines)
        told = {line.split(":")[1] for line in lines if line.startswith(":")}
        assert told >= {each.name for each in fields(config) if "help" in each.metadata}
        assert len(told) > 5
