"""`minitf attention`."""

import json
import re
import sys

import pytest

from additions.pages import sentence_attention
from additions.pages.commands import attention
from minitf.system.process import run_command
from minitf.translation.translator import Translator

TEXT = "the cat sat on the mat.\n\n a tree!\n   \nthe bird sang\n"


@pytest.fixture
def call(capfd, tmp_path, make_run):
    """Run the command in this process on TEXT: (status, standard output, standard error)."""
    run = make_run(max_extra_length=5)  # random weights seldom end a sentence

    def run_here(*arguments, text=TEXT, path=run):
        source = tmp_path / "source.en"
        source.write_text(text, encoding="utf-8")
        status = run_command(attention, list(map(str, [path, "--input", source, "--output", *arguments])))
        return status, *capfd.readouterr()

    run_here.run = run
    return run_here


def described(path):
    return json.loads(re.search(r'id="page">(.*?)</script>', path.read_text(encoding="utf-8"))[1])


def test_the_page_shows_the_translations(call, tmp_path):
    path = tmp_path / "out.html"
    status, out, _ = call(path, "--lines", "2")
    assert (status, out) == (0, f"attention of 2 of 3 lines: {path}\n")
    page = described(path)
    translator = Translator.load(call.run, warn=lambda message: None)
    assert [each["label"] for each in page["sentences"]] == ["1: the cat sat on the mat.", "3: a tree!"]
    found = translator.translate(["the cat sat on the mat.", "a tree!"])
    assert [each["target_text"] for each in page["sentences"]] == found
    expected = sentence_attention.attention(translator, "a tree!")
    assert tuple(page["sentences"][1]["source"]) == expected.source
    assert tuple(page["sentences"][1]["target_out"]) == expected.target_out


def test_a_very_large_page_is_told(call, tmp_path, monkeypatch):
    monkeypatch.setattr("additions.pages.attention_writer.LARGE", 1000)
    status, _, err = call(tmp_path / "out.html")
    assert status == 0
    assert "choose fewer --lines" in err


def test_flags_choose_what_is_shown_first(call, tmp_path):
    path = tmp_path / "out.HTML"
    call(path, "--kind", "encoder", "--layer", "1", "--head", "2")
    assert described(path)["start"] == {"sentence": 0, "kind": "encoder", "layer": 0, "head": 1}


def test_a_line_in_pieces_has_a_page_for_each(call, make_run, tmp_path):
    run = make_run(max_length=8, max_tokens_per_batch=64, max_extra_length=2)
    text = "the cat sat on the mat. the dog did not, and the bird sang!\n"
    assert call(tmp_path / "out.html", text=text, path=run)[0] == 0
    sentences = described(tmp_path / "out.html")["sentences"]
    assert len(sentences) > 2
    assert {each["label"].partition(":")[0] for each in sentences} == {"1"}


def test_a_picture(call, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "out.png"
    status, out, _ = call(path, "--layer", "2")
    assert (status, out) == (0, f"attention of 1 of 3 lines: {path}\n")
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["x.gif"], "output=x.gif has an unknown suffix; choose one of .html, .png"),
        (["x"], "has an unknown suffix"),
        (["x.html", "--layer", "3"], "layer=3 is not among the model's 2"),
        (["x.html", "--head", "0"], "head=0"),
        (["x.html", "--kind", "own"], "invalid choice: 'own'"),
    ],
)
def test_mistakes_are_told(call, flags, message):
    status, out, err = call(*flags)
    assert (status, out) == (2, "")
    assert re.search(f"^error: .*({message})", err)


def test_without_matplotlib_it_is_told(call, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, out, err = call(tmp_path / "x.png")
    assert (status, out) == (2, "")
    assert "pip install '.[plot]'" in err


def test_pages_that_cannot_be_written(call, tmp_path):
    status, _, err = call(tmp_path / "nowhere" / "x.html")
    assert status == 2
    assert "No such file or directory" in err
    status, _, err = call(tmp_path / "x.html", text="\n \n")
    assert status == 2
    assert "every line is blank" in err
