"""studies/recipes/tatoeba.py, on a corpus of a moment."""

import numpy as np
import pytest

from minitf.app import train
from minitf.data.text import read_lines
from minitf.system.process import run_command
from studies.tests.load_recipes import load_recipe
from tests.helpers.runs import FLAGS, write_corpus

resumable = load_recipe("resumable")
load_recipe("summary")
tatoeba = load_recipe("tatoeba")
MARKS = {way: (f"<!-- tatoeba.py {way} -->\n", f"<!-- end of tatoeba.py {way} -->\n") for way in ("en-de", "de-en")}


@pytest.mark.heavy
def test_both_directions_on_one_page(tmp_path, capsys, monkeypatch):
    """Cut by English sentence, trained, scored, written; a second call prints and writes the same without training."""
    write_corpus(tmp_path)
    calls = []

    def call_train(argv):
        calls.append(argv)
        return run_command(train.main, argv)

    monkeypatch.setattr(resumable, "call_train", call_train)
    page = tmp_path / "page.md"
    common = ["--texts", str(tmp_path), "--held-out", "12", "--write", str(page), *FLAGS]
    common += ["--max-steps", "4", "--valid-every", "2"]
    commands = {way: [*common, "--output", str(tmp_path / way)] for way in MARKS}
    commands["de-en"].append("--reverse")
    page.write_text("Before.\n" + "".join(MARKS["en-de"]))
    assert run_command(tatoeba.main, commands["de-en"]) == 2
    assert "has no lines <!-- tatoeba.py de-en -->" in capsys.readouterr().err
    assert not calls
    page.write_text("Before.\n" + "Between.\n".join(map("".join, MARKS.values())) + "After.\n")
    blocks = {}
    for way, command in commands.items():
        assert run_command(tatoeba.main, command) == 0
        begin, end = MARKS[way]
        blocks[way] = page.read_text().partition(begin)[2].partition(end)[0]
        assert capsys.readouterr().out.endswith(blocks[way][1:-1])
    written = page.read_text()
    assert written == "Before.\n" + "Between.\n".join(blocks[way].join(MARKS[way]) for way in MARKS) + "After.\n"
    for way, block in blocks.items():
        source, target = way.split("-")
        texts = {
            (split, side): list(read_lines(tmp_path / f"{way}-texts" / f"{split}.{side}"))
            for split in ("train", "valid", "test")
            for side in (source, target)
        }
        assert not {*texts["train", "en"]} & {*texts["test", "en"], *texts["valid", "en"]}
        final = resumable.final_score(tmp_path / way)
        signature = final["signature"].replace("|", "\\|")
        assert f"\n| held-out Tatoeba, 12 pairs | **{final['bleu']:.2f}** | `{signature}` |\n" in block
        assert "\nAfter 4 updates in 0 minutes." in block
        curve = [line.split(" | ")[0] for line in block.splitlines() if line.startswith(("| 2", "| 4"))]
        assert curve == ["| 2", "| 4"]
        translated = list(read_lines(tmp_path / way / "test.hypotheses"))
        drawn = np.random.default_rng(1).permutation(12)[:10]
        rows = [(texts["test", source][i], translated[i], texts["test", target][i]) for i in drawn]
        assert block.endswith("\n\n" + "".join("- {}\\\n  → {}\\\n  {}\n".format(*row) for row in rows) + "\n")
    assert run_command(tatoeba.main, commands["en-de"]) == 0
    assert len(calls) == 2
    assert page.read_text() == written
