"""recipes/tatoeba.py, on a corpus of a moment."""

from minitf.app import train
from minitf.app.cli import run_command
from minitf.data.text import read_lines
from tests.helpers.recipes import load_recipe
from tests.helpers.runs import FLAGS, write_corpus

resumable = load_recipe("resumable")
tatoeba = load_recipe("tatoeba")


def test_a_run_back_to_english(tmp_path, capsys, monkeypatch):
    """Cut by English sentence, trained, scored, shown; a second call shows the same without training."""
    write_corpus(tmp_path)
    calls = []

    def call_train(argv):
        calls.append(argv)
        return run_command(train.main, argv)

    monkeypatch.setattr(resumable, "call_train", call_train)
    command = ["--texts", str(tmp_path), "--output", str(tmp_path / "run"), "--reverse", "--held-out", "12"]
    command += [*FLAGS, "--max-steps", "2"]
    assert run_command(tatoeba.main, command) == 0
    shown = capsys.readouterr().out
    english = {split: set(read_lines(tmp_path / "run-texts" / f"{split}.en")) for split in ("train", "valid", "test")}
    assert not english["train"] & english["test"]
    assert not english["train"] & english["valid"]
    german, translated = (
        list(read_lines(p)) for p in (tmp_path / "run-texts/test.de", tmp_path / "run/test.hypotheses")
    )
    assert shown.partition("BLEU ")[2].count("\n  → ") == 10
    assert f"\n{german[0]}\n  → {translated[0]}\n" in shown
    assert run_command(tatoeba.main, command) == 0
    assert len(calls) == 1
    assert capsys.readouterr().out.strip() in shown
