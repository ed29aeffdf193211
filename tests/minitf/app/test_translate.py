"""The command line as a person or a pipeline meets it."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

import pytest

from minitf.app import translate
from minitf.app.translate import TranslateConfig
from minitf.decoding.search import BeamSearchConfig
from minitf.evaluation.metrics import bleu
from minitf.system.process import run_command
from minitf.translation.translator import Translator
from tests.helpers.marks import parametrize_some
from tests.helpers.runs import Child

pytestmark = pytest.mark.heavy

PROGRAM = Path(__file__).parents[3] / "translate.py"
LINES = ["the cat sat on the mat.", "", "ein Haus, ein Baum", "   ", "a tree!", "der Hund"]
TEXT = "".join(line + "\n" for line in LINES).encode()
SHORT = ["--max-extra-length", "5"]  # random weights seldom end a sentence
PATIENCE_S = 60


def run(*arguments, stdin=b"", **options):
    command = [sys.executable, "-W", "error", PROGRAM, *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=PATIENCE_S, **options)


def answer(*arguments, stdin=b"", terminal=None):
    """`run` in a fork of this process, which has imported everything already; on a terminal, a file descriptor."""
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as errors:
        source.write(stdin)
        source.seek(0)

        def work():
            os.dup2(source.fileno(), 0)
            os.dup2(errors.fileno() if terminal is None else terminal, 2)
            sys.stdin, sys.stderr = open(0, closefd=False), open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
            return run_command(translate.main, [str(each) for each in arguments])

        child = Child(work)
        status = child.wait(PATIENCE_S)
        if status is None:
            os.kill(child.pid, signal.SIGKILL)
            status = child.wait()
        errors.seek(0)
        return subprocess.CompletedProcess(arguments, status, child.said().encode(), errors.read())


@pytest.fixture(scope="module")
def expected(tiny_run):
    """What the library says to LINES."""
    translator = Translator.load(tiny_run, warn=lambda message: None)
    return translator.translate(LINES, max_extra_length=5)


@pytest.fixture
def call(capfd):
    """Run the command line in this process: (status, standard output, standard error)."""

    def run_here(*arguments):
        status = run_command(translate.main, [str(each) for each in arguments])
        return status, *capfd.readouterr()

    return run_here


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source.en"
    path.write_bytes(TEXT)
    return path


def test_a_sentence_is_given_on_the_command_line(tiny_run, expected, call):
    assert call(tiny_run, *SHORT, "--text", LINES[0])[:2] == (0, f"{expected[0]}\n")
    status, out, err = call(tiny_run, LINES[0])
    assert (status, out) == (2, "")
    assert err == f"error: unexpected argument {LINES[0]!r}; --help lists all flags\n"


# ---- Lines -------------------------------------------------------------------------------------------------------


def test_standard_input_to_standard_output_line_for_line(tiny_run, expected):
    done = run(tiny_run, *SHORT, stdin=TEXT)
    assert done.returncode == 0
    assert done.stdout.decode().split("\n") == [*expected, ""]
    assert len(expected) == len(LINES)
    assert b"truncated" in done.stderr
    assert answer(tiny_run, *SHORT, "--quiet", stdin=TEXT).stderr == b""


@parametrize_some(
    ("stdin", "count"),
    [(b"", 0), (b"a\x0bb\xc2\x85c\n", 1), (b"\n", 1), (b"a", 1), (b"a\n\n", 2), (b"a\r\nb\r\n", 2)],
    keep=2,
)
def test_as_many_lines_out_as_in(tiny_run, stdin, count):
    done = answer(tiny_run, *SHORT, stdin=stdin)
    assert done.returncode == 0
    assert done.stdout.count(b"\n") == count
    assert len(done.stdout.split(b"\n")) == count + 1


def test_lines_are_answered_as_they_arrive(tiny_run, expected):
    command = [sys.executable, PROGRAM, str(tiny_run), *SHORT, "--quiet"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for line, answer in zip(LINES[:3], expected, strict=False):
            process.stdin.write(line.encode() + b"\nhalf a line")
            process.stdin.flush()
            assert select.select([process.stdout], [], [], PATIENCE_S)[0], "no answer while the input is open"
            assert process.stdout.readline().decode() == answer + "\n"
            process.stdin.write(b"\n")  # the half line ends
            process.stdin.flush()
            process.stdout.readline()
        process.stdin.write(LINES[4].encode())  # no line end
        process.stdin.close()
        assert process.stdout.read().decode() == expected[4] + "\n"
    assert process.returncode == 0


def test_files_in_and_out(tiny_run, expected, source, tmp_path, call):
    output = tmp_path / "output.de"
    status, out, err = call(tiny_run, *SHORT, "--quiet", "--input", source, "--output", output)
    assert (status, out, err) == (0, "", "")
    assert output.read_bytes().decode().split("\n") == [*expected, ""]
    status, out, _ = call(tiny_run, *SHORT, "--quiet", "--input", source)
    assert out.split("\n") == [*expected, ""]
    assert sorted(tmp_path.iterdir()) == [output, source]


# ---- Options -----------------------------------------------------------------------------------------------------


def test_flags_do_what_the_library_does(tiny_run, source, call):
    translator = Translator.load(tiny_run, warn=lambda message: None, average=1)
    flags = ["--average", "1", "--max-tokens-per-batch", "9", "--threads", "1"]
    status, out, _ = call(tiny_run, "--input", source, "--quiet", *SHORT, *flags)
    assert status == 0
    assert out.splitlines() == translator.translate(LINES, max_extra_length=5)


def test_search_flags_reach_the_search(make_run, source, call, searches):
    path = make_run(beam=3, alpha=0.8, max_extra_length=4)
    call(path, "--input", source, "--quiet")
    call(path, "--input", source, "--quiet", "--beam", "2", "--alpha", "0", "--max-extra-length", "1")
    assert searches == [
        BeamSearchConfig(beam=3, alpha=0.8, max_extra_length=4),
        BeamSearchConfig(beam=2, alpha=0.0, max_extra_length=1),
    ]


def test_scores_stand_beside_the_translations_never_among_them(tiny_run, expected, source, tmp_path, call):
    reference = tmp_path / "right.de"
    right = [*expected[:-1], "etwas anderes"]
    reference.write_text("".join(line + "\n" for line in right), encoding="utf-8")
    score = bleu(expected, right)
    flags = [tiny_run, *SHORT, "--quiet", "--input", source, "--reference", reference]

    status, out, err = call(*flags)
    assert status == 0
    assert out.split("\n") == [*expected, ""]
    assert err.splitlines()[0] == str(score)
    assert score.signature in err
    assert err.splitlines()[1].startswith("chrF ")
    assert err.splitlines()[2] == "exact match 83.3 % of 6 lines"

    status, out, err_to_file = call(*flags, "--output", tmp_path / "output.de")
    assert (status, out, err_to_file) == (0, err, "")


def test_scores_of_standard_input(tiny_run, expected, tmp_path):
    reference = tmp_path / "right.de"
    reference.write_text("".join(line + "\n" for line in expected), encoding="utf-8")
    done = answer(tiny_run, *SHORT, "--quiet", "--reference", reference, stdin=TEXT)
    assert done.returncode == 0
    assert b"exact match 100.0 % of 6 lines" in done.stderr
    done = answer(tiny_run, *SHORT, "--quiet", "--reference", reference, stdin=TEXT + b"more\n")
    assert done.returncode == 2
    assert done.stdout.count(b"\n") == 7  # the translations are not lost
    assert done.stderr.decode().startswith("error: there are 7 translations but 6 reference lines")


def test_a_progress_bar_only_where_someone_watches(tiny_run, source, tmp_path):
    for flags, shown in [([], True), (["--quiet"], False)]:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        flags = [*SHORT, "--input", source, "--output", tmp_path / "out", *flags]
        assert answer(tiny_run, *flags, terminal=theirs).returncode == 0
        os.close(theirs)
        seen = b""
        while True:
            try:
                data = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not data:
                break
            seen += data
        os.close(ours)
        assert (b"6/6" in seen) == shown
        assert (b"\nwarning: no translation ended" in seen.replace(b"\r", b"\n")) == shown
    assert b"6/6" not in answer(tiny_run, *SHORT, "--input", source).stderr


# ---- Bad input ---------------------------------------------------------------------------------------------------


def assert_one_error(done, *words):
    assert done.returncode == 2
    text = done.stderr.decode()
    assert text.startswith("error: ")
    assert text.count("\n") == 1
    for word in words:
        assert word in text


def test_errors_are_one_sentence_without_a_traceback(tiny_run, tmp_path, source):
    assert_one_error(answer(), "RUN")
    assert_one_error(answer(tmp_path / "nowhere"), "nowhere is not a directory")
    assert_one_error(answer(tmp_path), "contains no run")
    assert_one_error(answer(tiny_run, "--input", tmp_path / "nothing.en"), "nothing.en: No such file")
    assert_one_error(answer(tiny_run, "--input", tmp_path), "Is a directory")
    assert_one_error(answer(tiny_run, "--beam", "0", stdin=TEXT), "beam=0")
    assert_one_error(answer(tiny_run, "--output", tmp_path / "no" / "out", "--quiet", stdin=TEXT), "cannot write")
    assert_one_error(answer(tiny_run, "--reference", tmp_path / "nothing.de", stdin=TEXT), "nothing.de: No such file")


@pytest.mark.parametrize(("closing", "words"), [("<&-", "standard input is closed"), (">&-", "it was closed when")])
def test_what_is_closed_is_named(tiny_run, closing, words):
    command = ["sh", "-c", f'exec "$0" "$@" {closing}', sys.executable, PROGRAM, tiny_run, *SHORT, "--quiet"]
    assert_one_error(subprocess.run(command, input=TEXT, capture_output=True, timeout=PATIENCE_S), words)


@pytest.mark.parametrize("name", ["input", "reference", "score"])
def test_an_output_replaces_nothing_that_is_read(tmp_path, call, name):
    (tmp_path / "a").write_text("a\n")
    (tmp_path / "b").symlink_to("a")
    status, _, err = call("run", f"--{name}", tmp_path / "a", "--output", tmp_path / "b")
    assert (status, f"b would replace the file of {name}" in err) == (2, True)


def test_an_output_may_be_a_pipe(tiny_run, expected):
    done = run(tiny_run, *SHORT, "--quiet", "--output", "/dev/stdout", stdin=TEXT)
    assert done.stdout.decode().split("\n") == [*expected, ""]


def test_bytes_that_are_not_utf8_stop(tiny_run):
    done = answer(tiny_run, *SHORT, "--quiet", stdin=b"the cat\na \xff tree\nthe dog\n")
    assert_one_error(done, "standard input, line 2", "0xff", "iconv -c")
    assert done.stdout.count(b"\n") == 1  # the line before it


def test_a_signal_ends_quietly_and_leaves_no_file(tiny_run, tmp_path):
    command = [sys.executable, PROGRAM, str(tiny_run), "--output", str(tmp_path / "output.de")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not list(tmp_path.iterdir()):  # the output has been begun
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.stderr.read() == b"terminated\n"
    assert process.returncode == 143
    assert list(tmp_path.iterdir()) == []


# ---- Lists, scores -------------------------------------------------------------------------------------------------


def test_n_best_lists_name_the_line_and_both_numbers(tiny_run, source, call):
    status, out, _ = call(tiny_run, "--input", source, "--quiet", *SHORT, "--nbest", "3", "--beam", "3")
    assert status == 0
    found = Translator.load(tiny_run, warn=lambda message: None).translate_nbest(LINES, max_extra_length=5, beam=3)
    expected = [
        f"{number} ||| {each.text} ||| {each.log_probability:.8g} ||| {each.score:.8g}"
        for number, translations in enumerate(found)
        for each in translations
    ]
    assert out.splitlines() == expected


def test_json_lines_hold_what_the_library_gives(tiny_run, source, call):
    _, out, _ = call(tiny_run, "--input", source, "--quiet", *SHORT, "--format", "jsonl")
    objects = [json.loads(line) for line in out.splitlines()]
    translator = Translator.load(tiny_run, warn=lambda message: None)
    found = translator.translate_nbest(LINES, max_extra_length=5, n_best=1)
    assert [each["line"] for each in objects] == [1, 2, 3, 4, 5, 6]
    for each, (best,) in zip(objects, found, strict=True):
        (about,) = each["translations"]
        assert about["text"] == best.text
        assert about["score"] == pytest.approx(best.score, rel=1e-5)
        assert len(about["tokens"]) == sum(len(target) for _, target in best.parts)


def test_given_translations_are_scored_and_not_changed(tiny_run, source, tmp_path, call):
    given = tmp_path / "given.de"
    given.write_text("eine Katze\n\nein Haus\n\nein Baum\nder Hund\n", encoding="utf-8")
    _, out, _ = call(tiny_run, "--input", source, "--quiet", "--score", given)
    translator = Translator.load(tiny_run)
    expected = translator.score(list(zip(LINES, given.read_text(encoding="utf-8").split("\n"), strict=False)))
    rows = [[float(number) for number in line.split("\t")] for line in out.splitlines()]
    assert rows[1] == rows[3] == [0, 0]
    for row, each in zip(rows, expected, strict=True):
        assert row == pytest.approx([each.log_probability, each.score], rel=1e-5)
    given.write_text("eine Katze\n", encoding="utf-8")
    status, _, err = call(tiny_run, "--input", source, "--quiet", "--score", given)
    assert status == 2
    assert "has 6 lines but" in err


@pytest.mark.parametrize("flags", [["--nbest", "2"], ["--reference", "r"]])
def test_scoring_excludes_what_makes_translations(tiny_run, flags, call):
    status, _, err = call(tiny_run, "--score", "given.de", *flags)
    assert status == 2
    assert "score" in err
    assert "cannot be combined" in err


@pytest.mark.parametrize(("name", "count"), [("reference", 1), ("reference", 2), ("reference", 10**9), ("score", 3)])
def test_texts_beside_the_input_may_be_pipes_even_without_end(tiny_run, tmp_path, call, name, count):
    (tmp_path / "in").write_text("the cat\nthe dog\n")
    with subprocess.Popen(["sh", "-c", f"yes 'die Katze' | head -n {count}"], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        given = [f"--{name}", f"/dev/fd/{writer.stdout.fileno()}"]
        status, _, said = call(tiny_run, "--input", tmp_path / "in", *given, "--max-extra-length", "20")
        writer.stdout.close()
    assert status == (0 if count == 2 else 2)
    found = "1" if count == 1 else "more"
    assert count == 2 or f"in has 2 lines but {given[1]} has {found}; give one line for each line" in said


# ---- A person at a terminal --------------------------------------------------------------------------------------


def on_terminal(typed, *arguments, environment=()):
    """What a terminal shows of a translation whose lines are typed one after the other, each at a prompt."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [sys.executable, PROGRAM, *map(str, arguments)],
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        env={**os.environ, "TERM": "xterm", **dict(environment)},
    )  # fmt: skip
    os.close(theirs)
    seen, typed = b"", list(typed)
    while True:
        if not select.select([ours], [], [], PATIENCE_S)[0]:
            process.kill()
            pytest.fail(f"nothing more came: {seen!r}")
        try:
            data = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        seen += data
        if typed and seen.endswith(b"> "):
            os.write(ours, typed.pop(0))
            seen += b"|"  # what follows is not the same prompt
    os.close(ours)
    return process.wait(), seen.decode()


def test_a_terminal_has_a_prompt_line_editing_and_a_history(tiny_run):
    once, twice = Translator.load(tiny_run, warn=lambda message: None).translate(
        ["a tree", "a trees"], max_extra_length=5
    )
    up, left = b"\x1b[A", b"\x1b[D"
    typed = [b"a tre" + left * 2 + b"\x06\x06e\n", up + b"s\n", b"\x04"]
    status, seen = on_terminal(typed, tiny_run, *SHORT, environment={"INPUTRC": "/dev/null"}.items())
    assert status == 0
    assert seen.startswith(
        "type one sentence per line; arrow keys edit the line and recall earlier ones; Ctrl-D or Ctrl-C quits"
    )
    answers = [line.strip() for line in seen.replace("\x1b[?2004l", "").replace("\r", "\n").split("\n")]
    assert once in answers
    assert twice in answers
    assert seen.count("> |") == 3


def test_compiled_kernels_are_chosen_by_the_size_of_the_file_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(translate, "find_spec", lambda name: name)
    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(b"x" * (translate.COMPILED_FROM_BYTES - 1))
    large.write_bytes(b"x" * translate.COMPILED_FROM_BYTES)

    def chosen(**settings):
        return translate.kernels_for(TranslateConfig(run=tmp_path, **settings))

    assert [chosen(input=path) for path in (small, large, tmp_path, tmp_path / "none")] == [
        "numpy",
        "numba",
        *["numpy"] * 2,
    ]
    for path, kernels in ((small, "numpy"), (large, "numba")):
        with path.open() as file:
            monkeypatch.setattr(sys, "stdin", file)
            assert chosen() == kernels
            assert chosen(text="x") == "numpy"
    for other in ({"kernels": "numpy"}, {"precision": "float64"}, {"device": "cuda"}, {"plain": True}):
        assert chosen(input=large, **other) == "numpy"
    assert chosen(input=small, kernels="numba") == "numba"
    monkeypatch.setattr(translate, "find_spec", lambda name: None)
    assert chosen(input=large) == "numpy"
