"""The presets of the paper's tables are its rows, written down here once more."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from additions.corpora.list_presets import presets
from minitf.config import PRESETS
from minitf.config.presets import NAMED
from minitf.model.parameters import Initializer
from minitf.model.transformer import Transformer
from minitf.system.process import run_command

# The columns of Table 3 in the paper's order; None: as base. PPL, BLEU, and parameters in millions where printed
COLUMNS = ("layers", "d_model", "d_ff", "heads", "d_k", "d_v", "dropout", "label_smoothing")
TABLE_3 = {
    "base": ((6, 512, 2048, 8, 64, 64, 0.1, 0.1), 4.92, 25.8, 65),
    "a-heads-1": ((None, None, None, 1, 512, 512, None, None), 5.29, 24.9, None),
    "a-heads-4": ((None, None, None, 4, 128, 128, None, None), 5.00, 25.5, None),
    "a-heads-16": ((None, None, None, 16, 32, 32, None, None), 4.91, 25.8, None),
    "a-heads-32": ((None, None, None, 32, 16, 16, None, None), 5.01, 25.4, None),
    "b-dk-16": ((None, None, None, None, 16, None, None, None), 5.16, 25.1, 58),
    "b-dk-32": ((None, None, None, None, 32, None, None, None), 5.01, 25.4, 60),
    "c-layers-2": ((2, None, None, None, None, None, None, None), 6.11, 23.7, 36),
    "c-layers-4": ((4, None, None, None, None, None, None, None), 5.19, 25.3, 50),
    "c-layers-8": ((8, None, None, None, None, None, None, None), 4.88, 25.5, 80),
    "c-d-model-256": ((None, 256, None, None, 32, 32, None, None), 5.75, 24.5, 28),
    "c-d-model-1024": ((None, 1024, None, None, 128, 128, None, None), 4.66, 26.0, 168),
    "c-d-ff-1024": ((None, None, 1024, None, None, None, None, None), 5.12, 25.4, 53),
    "c-d-ff-4096": ((None, None, 4096, None, None, None, None, None), 4.75, 26.2, 90),
    "d-dropout-0.0": ((None, None, None, None, None, None, 0.0, None), 5.77, 24.6, None),
    "d-dropout-0.2": ((None, None, None, None, None, None, 0.2, None), 4.95, 25.5, None),
    "d-smoothing-0.0": ((None, None, None, None, None, None, None, 0.0), 4.67, 25.3, None),
    "d-smoothing-0.2": ((None, None, None, None, None, None, None, 0.2), 5.47, 25.7, None),
    "e-learned-positions": ((None,) * 8, 4.92, 25.7, None),
    "big": ((6, 1024, 4096, 16, None, None, 0.3, None), 4.33, 26.4, 213),
}


def test_all_rows_are_there():
    tables = [name for name, preset in NAMED.items() if preset.group.startswith("Table")]
    assert tables == [*TABLE_2, *(f"table3-{row}" for row in TABLE_3)]


@pytest.mark.parametrize("row", TABLE_3)
def test_a_row_of_table_3(row):
    values, perplexity, bleu, millions = TABLE_3[row]
    preset = NAMED[f"table3-{row}"]
    model = preset.config.model
    found = (model.layers, model.d_model, model.d_ff, model.heads, model.head_d_k, model.head_d_v, model.dropout)
    for column, base, here, value in zip(
        COLUMNS, TABLE_3["base"][0], values, (*found, preset.config.optimizer.label_smoothing), strict=True
    ):
        assert value == (base if here is None else here), column
    assert (model.positions == "learned") == (row == "e-learned-positions")
    published = {"perplexity": perplexity, "bleu": bleu, "parameters": millions}
    assert preset.published == {name: value for name, value in published.items() if value is not None}
    assert preset.config.average_checkpoints == 1  # 6.2: no averaging
    assert preset.config.max_steps == (300_000 if row == "big" else 100_000)
    assert (preset.config.vocab_size, preset.config.data) == (37_000, "wmt14-en-de")


TABLE_2 = {  # model, language pair: subwords, dropout, checkpoints averaged, BLEU on newstest2014
    "table2-base-en-de": (512, "wmt14-en-de", 37_000, 0.1, 5, 27.3),
    "table2-big-en-de": (1024, "wmt14-en-de", 37_000, 0.3, 20, 28.4),
    "table2-base-en-fr": (512, "wmt14-en-fr", 32_000, 0.1, 5, 38.1),
    "table2-big-en-fr": (1024, "wmt14-en-fr", 32_000, 0.1, 20, 41.8),
}


@pytest.mark.parametrize("name", TABLE_2)
def test_a_row_of_table_2(name):
    preset = NAMED[name]
    c = preset.config
    found = (c.model.d_model, c.data, c.vocab_size, c.model.dropout, c.average_checkpoints, preset.published["bleu"])
    assert found == TABLE_2[name]


def test_each_preset_knows_its_name_and_folder():
    assert [*PRESETS] == ["tiny", "demo", "laptop", "small", "base", "big"]
    for name, preset in NAMED.items():
        assert preset.config.preset == preset.name == name
        assert preset.about
    assert len({preset.config.output for preset in NAMED.values()}) == len(NAMED)


def test_the_command_prints_the_list(capsys):
    assert run_command(presets, []) == 0
    printed = capsys.readouterr().out
    for name in NAMED:
        assert sum(line.split()[:1] == [name] for line in printed.splitlines()) >= 1, name
    (base,) = [line for line in printed.splitlines() if line.startswith("base ")]
    row = ["base", "63,082,496", "65 M", "9.5e+17", "4.92", "25.8", "the paper's base model"]
    assert re.split(r"\s{2,}", base) == row
    page = (Path(__file__).parents[3] / "docs" / "reproducing.md").read_text(encoding="utf-8")
    assert f"```text\n{printed}```" in page, "replace the list by the output of minitf presets"


# ---- What other toolkits do ----

SMALL = {"vocab_size": 17, "layers": 2, "d_model": 16, "heads": 4, "d_ff": 32}


def test_positions_counted_from_two():
    """Position p of a model that counts from 2 is position p + 2 of one that counts from 0."""
    from autograd import Tensor
    from minitf.model.transformer import Positions

    for kind in ("sinusoidal", "sinusoidal-concatenated", "learned"):
        model = replace(NAMED["base"].config.model, **SMALL, positions=kind, max_positions=9)
        zero, two = (Positions(replace(model, first_position=first), Initializer(0, np.float64)) for first in (0, 2))
        x = np.zeros((1, 4, 16))
        assert (two(Tensor(x)).numpy() == zero(Tensor(x), start=2).numpy()).all()
        assert (two(Tensor(x), start=1).numpy() == zero(Tensor(x), start=3).numpy()).all()


def test_no_biases_in_attention():
    model = Transformer(replace(NAMED["base"].config.model, **SMALL, attention_bias=False))
    names = list(model.named_parameters())
    assert "encoder.layers.0.feed_forward.up.bias" in names
    assert [name for name in names if "attention." in name and name.endswith("bias")] == []
    assert len([name for name in names if "attention." in name]) == 2 * 4 * 3


def test_smaller_queries_keys_and_values_at_the_start():
    base, fairseq = (
        Transformer(replace(NAMED[name].config.model, **SMALL), dtype=np.float64)
        for name in ("base", "fairseq-transformer-wmt-en-de")
    )
    for name, weight in base.named_parameters().items():
        factor = 0.5**0.5 if re.search(r"attention\.(query|key|value)\.weight", name) else 1.0
        np.testing.assert_allclose(fairseq.named_parameters()[name].data, factor * weight.data, rtol=1e-12)


def test_parsing_has_the_settings_of_section_6_3():
    config = NAMED["parsing-wsj"].config
    assert (config.model.layers, config.model.d_model, config.vocab_size) == (4, 1024, 16_000)
    for name in ("parsing-tiny", "parsing-small", "parsing-wsj"):
        config = NAMED[name].config
        assert (config.beam, config.alpha, config.max_extra_length) == (21, 0.3, 300)
