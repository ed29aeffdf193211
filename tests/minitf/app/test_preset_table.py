"""`minitf presets`."""

import re
from pathlib import Path

import pytest

from minitf.app.preset_table import list_presets, operations_papers_way
from minitf.app.presets import presets
from minitf.config.presets import NAMED
from minitf.model.counting import training_flops
from minitf.system.process import run_command


def test_the_command_prints_the_list(capsys):
    assert run_command(presets, []) == 0
    assert capsys.readouterr().out == list_presets() + "\n"


def test_the_list_names_every_preset_with_its_figures():
    lines = list_presets().splitlines()
    for name in NAMED:
        assert sum(line.split()[:1] == [name] for line in lines) >= 1, name
    (base,) = [line for line in lines if line.startswith("base ")]
    assert re.split(r"\s{2,}", base)[1:] == [
        "63,082,496",
        "65 M",
        "9.5e+17",
        "3.3e+18",
        "4.92",
        "25.8",
        "the paper's base model",
    ]
    assert "  table3-b-dk-16             -7.1 M, printed -7 M" in lines
    (recipe,) = [line for line in lines if line.startswith("multi30k-transformer-tiny ")]
    assert "41.02" in recipe
    assert "~" in recipe  # the paper names no time


def test_the_documentation_shows_the_list_as_it_is():
    page = (Path(__file__).parents[3] / "docs" / "reproducing.md").read_text(encoding="utf-8")
    assert f"```text\n{list_presets()}\n```" in page, "replace the list by the output of minitf presets"


def test_operations_without_a_time_are_scaled_by_what_is_counted():
    half = NAMED["table3-c-layers-2"]
    ratio = training_flops(half.config) / training_flops(NAMED["base"].config)
    assert operations_papers_way(half) == (pytest.approx(12 * 3600 * 8 * 9.5e12 * ratio), False)
    assert 0.5 < ratio < 0.6  # the embeddings stay
