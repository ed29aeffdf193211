"""`minitf bleu`: the scores of sacreBLEU, with their signatures."""

import pytest

from minitf.app.score import main
from minitf.evaluation.metrics import bleu, chrf
from minitf.system.process import run_command

REFERENCES = ["Ein Mann in der U-Bahn-Station liest, was er mag.", "Zwei Hunde spielen im Schnee vor dem Haus."]
HYPOTHESES = ["Ein Mann in der U-Bahn-Haltestelle liest, was er will.", "zwei Hunde spielen im Schnee vor dem Haus."]


@pytest.fixture
def files(tmp_path):
    for name, lines in (("h", HYPOTHESES), ("r", REFERENCES)):
        (tmp_path / name).write_text("".join(line + "\n" for line in lines))
    return [str(tmp_path / "h"), str(tmp_path / "r")]


def test_scores_and_signatures(files, capsys):
    assert run_command(main, files) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        str(bleu(HYPOTHESES, REFERENCES)),
        str(chrf(HYPOTHESES, REFERENCES)),
        "exact match 0.0 % of 2 lines",
    ]
    assert "case:mixed" in printed[0]
    assert run_command(main, [*files, "--lowercase", "--tokenize", "char"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == str(bleu(HYPOTHESES, REFERENCES, lowercase=True, tokenize="char"))


def test_what_cannot_be_scored(files, tmp_path, capsys):
    (tmp_path / "short").write_text("one line\n")
    assert run_command(main, [files[0], str(tmp_path / "short")]) == 2
    assert "error: there are 2 translations but 1 reference lines" in capsys.readouterr().err
    assert run_command(main, [files[0], str(tmp_path / "absent")]) == 2
    assert "error: cannot read" in capsys.readouterr().err
