"""`translate.py --attention`."""

import json
import re
import sys

import pytest

from minitf.app import translate
from minitf.system.process import run_command
from minitf.translation.translator import Translator

TEXT = "the cat sat on the mat.\n\n a tree!\n   \nthe bird sang\n"
SHORT = ["--max-extra-length", "5", "--quiet"]  # random weights seldom end a sentence


@pytest.fixture
def call(capfd, tmp_path, tiny_run):
    """Run the command line in this process on TEXT: (status, standard output, standard error)."""

    def run_here(*arguments, text=TEXT):
        source = tmp_path / "source.en"
        source.write_text(text, encoding="utf-8")
        flags = [str(each) for each in arguments if each is not None]
        status = run_command(translate.main, [str(tiny_run), "--input", str(source), *SHORT[:2], *flags])
        return status, *capfd.readouterr()

    return run_here


@pytest.fixture(scope="module")
def translator(tiny_run):
    return Translator.load(tiny_run, warn=lambda message: None)


def described(path):
    return json.loads(re.search(r'id="page">(.*?)</script>', path.read_text(encoding="utf-8"))[1])


def test_the_page_shows_the_translations(call, translator, tmp_path):
    path = tmp_path / "out.html"
    status, out, err = call("--attention", path, "--attention-lines", "2")
    assert status == 0
    assert out.count("\n") == 5
    assert err.splitlines()[-1] == f"attention of 2 of 3 lines: {path}"
    page = described(path)
    assert [each["label"] for each in page["sentences"]] == ["1: the cat sat on the mat.", "3: a tree!"]
    assert [each["target_text"] for each in page["sentences"]] == [out.splitlines()[0], out.splitlines()[2]]
    expected = translator.attention("a tree!", max_extra_length=5)
    assert tuple(page["sentences"][1]["source"]) == expected.source
    assert tuple(page["sentences"][1]["target_out"]) == expected.target_out


@pytest.mark.parametrize(
    "flags",
    [["--penalty", "fairseq"], ["--beta", "0", "--alpha", "2"], ["--sample", "--seed", "3"], ["--max-length", "2"]],
)
def test_the_page_shows_what_was_searched_for(call, tmp_path, flags):
    path = tmp_path / "out.html"
    status, out, _ = call("--attention", path, *flags, "--quiet")
    assert status == 0
    shown = [each["target_text"] for each in described(path)["sentences"]]
    assert shown == [line for line in out.splitlines() if line]


def test_a_very_large_page_is_told(call, tmp_path, monkeypatch):
    monkeypatch.setattr("additions.pages.attention_writer.LARGE", 1000)
    status, _, err = call("--attention", tmp_path / "out.html")
    assert status == 0
    assert "choose fewer --attention-lines" in err


def test_quiet(call, tmp_path):
    path = tmp_path / "out.html"
    status, _, err = call("--attention", path, "--quiet")
    assert (status, err) == (0, "")
    assert len(described(path)["sentences"]) == 3


def test_flags_choose_what_is_shown_first(call, tmp_path):
    path = tmp_path / "out.HTML"
    call("--attention", path, "--attention-kind", "encoder", "--attention-layer", "1", "--attention-head", "2")
    assert described(path)["start"] == {"sentence": 0, "kind": "encoder", "layer": 0, "head": 1}


def test_search_flags_apply(call, translator, tmp_path):
    path = tmp_path / "out.html"
    _, out, _ = call("--attention", path, "--beam", "1", "--max-extra-length", "2")
    assert [each["target_text"] for each in described(path)["sentences"]] == [out.splitlines()[i] for i in (0, 2, 4)]


def test_a_line_in_pieces_has_a_page_for_each(make_run, tmp_path, capfd):
    run = make_run(max_length=8, max_tokens_per_batch=64)
    path = tmp_path / "out.html"
    source = tmp_path / "source"
    source.write_text("the cat sat on the mat. the dog did not, and the bird sang!\n", encoding="utf-8")
    arguments = [str(run), "--input", str(source), "--attention", str(path), "--max-extra-length", "2"]
    assert run_command(translate.main, arguments) == 0
    sentences = described(path)["sentences"]
    assert len(sentences) > 2
    assert " ".join(each["target_text"] for each in sentences).split() == capfd.readouterr().out.split()
    assert {each["label"].partition(":")[0] for each in sentences} == {"1"}


def test_a_picture(call, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "out.png"
    status, _, err = call("--attention", path, "--attention-layer", "2")
    assert status == 0
    assert err.splitlines()[-1] == f"attention of 1 of 3 lines: {path}"
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--attention", "x.gif"], "attention=x.gif has an unknown suffix; choose one of .html, .png"),
        (["--attention", "x"], "has an unknown suffix"),
        (["--attention", "x.html", "--attention-layer", "3"], "attention_layer=3 is not among the model's 2"),
        (["--attention", "x.html", "--attention-head", "0"], "attention-head: '0'|attention_head=0"),
        (["--attention-layer", "1"], "attention_layer requires attention"),
        (["--attention-head", "1"], "attention_head requires attention"),
        (["--attention-lines", "20"], "attention_lines requires attention"),
        (["--attention-kind", "cross"], "attention_kind requires attention"),
    ],
)
def test_mistakes_are_told_before_anything_is_translated(call, flags, message):
    status, out, err = call(*flags)
    assert status == 2
    assert out == ""
    assert re.search(f"^error: .*({message})", err)


def test_without_matplotlib_it_is_told_before_anything_is_translated(call, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, out, err = call("--attention", tmp_path / "x.png")
    assert (status, out) == (2, "")
    assert "pip install '.[plot]'" in err


def test_the_translations_are_kept_when_the_page_cannot_be_written(call, tmp_path):
    output = tmp_path / "out.de"
    status, _, err = call("--output", output, "--attention", tmp_path / "nowhere" / "x.html")
    assert status == 2
    assert f"there is no directory {tmp_path / 'nowhere'}" in err
    assert output.read_text(encoding="utf-8").count("\n") == 5
    status, out, err = call("--attention", tmp_path / "x.html", text="\n \n")
    assert (status, out) == (2, "\n\n")
    assert "every line is blank" in err
