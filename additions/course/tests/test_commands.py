"""`minitf learn`, as a student uses it."""

import os
from types import SimpleNamespace

import pytest

from additions.course import build_command
from additions.course.exercise import ALL, find
from additions.course.path.steps import STEPS
from additions.course.tests.learner.walk import ANSWERS
from minitf.__main__ import run
from minitf.system.process import run_command


@pytest.fixture
def learn(tmp_path, monkeypatch, capfd):
    """Call the command in an empty folder; return its exit status and what it printed."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        status = run_command(run, ["learn", *words])
        printed = capfd.readouterr()
        return status, printed.out + printed.err

    return call


def test_it_lists_all_exercises(learn):
    status, text = learn()
    assert status == 0
    for exercise in ALL.values():
        assert f" {exercise.label}  {exercise.kind:<7}  {exercise.title}\n" in text
    assert text.endswith("0 of 42 solved; next: minitf learn start 1\n")
    assert learn("list") == (status, text)


@pytest.mark.look
@pytest.mark.heavy
def test_an_exercise_from_start_to_end(learn, tmp_path):
    status, text = learn("start", "1")
    path = tmp_path / "01_tape.py"
    assert status == 0
    assert path.read_text(encoding="utf-8") == find("1").starter
    assert text.startswith("01_tape.py: A tape")
    status, text = learn("check", "1")
    assert status == 1
    assert "backward is not written yet (line " in text
    assert [learn("hint", "1")[1][:11] for _ in range(4)] == [
        "hint 1 of 3",
        "hint 2 of 3",
        "hint 3 of 3",
        "hint 3 of 3",
    ]
    path.write_text(find("1").solution.replace("+=", "="), encoding="utf-8")
    status, text = learn("check")  # the next unsolved one
    assert status == 1
    assert "  right  a chain" in text
    assert "is overwritten, where contributions are to add up" in text.replace("\n", " ")
    path.write_text(find("1").solution, encoding="utf-8")
    assert learn("check", "1")[1].endswith("solved; next: minitf learn start 2\n")
    assert "✓      1  build    A tape" in learn()[1]


def test_work_is_not_overwritten_without_force(learn, tmp_path):
    learn("start", "7")
    (tmp_path / "07_matmul.py").write_text("my work")
    status, text = learn("start", "7")
    assert (status, (tmp_path / "07_matmul.py").read_text()) == (2, "my work")
    assert text == (
        "error: 07_matmul.py exists and may contain your answer; --force replaces it with the original file\n"
    )
    assert learn("start", "7", "--force")[0] == 0
    assert (tmp_path / "07_matmul.py").read_text(encoding="utf-8") == find("7").starter


@pytest.mark.heavy
def test_a_bug_is_found_by_mending_it_and_its_reason_is_told_then(learn, tmp_path):
    learn("start", "bug-3")
    status, text = learn("check", "bug-3")
    assert (status, "the symptom is still there" in text) == (1, True)
    assert not any(word in text for word in ("count", "len("))  # words of the line
    path = tmp_path / "bug_03_padding_mean.py"
    path.write_text(find("bug-3").solution, encoding="utf-8")
    text = learn("check", "bug-3")[1]
    assert "half of padding halves loss and gradient" in text.replace("\n", " ")
    assert text.endswith("solved; next: minitf learn start bug-4\n")
    path.write_bytes(b"\xff\xfe")
    assert "is not UTF-8 text" in learn("check", "bug-3")[1]


@pytest.mark.parametrize("label", ["9", "bug-9"])
def test_a_solution_is_shown(learn, label):
    status, text = learn("solution", label)
    assert status == 0
    assert find(label).solution.splitlines()[find(label).wrong_line - 1 if label == "bug-9" else -1].strip() in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["chekc", "1"], "chekc is not an action; did you mean check?; choose list, start, check, hint, solution"),
        (["check", "5"], "05_freeing.py is missing; minitf learn start 5 writes it"),
        (["start", "77"], "there is no exercise 77"),
        (["list", "3"], "list takes no exercise; minitf learn start N writes the file of exercise N"),
        (["start", "1", "--folder", "file"], "file"),
        (["check", "1", "--seconds", "0"], "--seconds 0 is not a number above 0"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(learn, tmp_path, words, message):
    (tmp_path / "file").write_text("")
    status, text = learn(*words)
    assert status == 2
    assert text.startswith("error: ")
    assert message in text
    assert text.count("\n") == 1


def test_a_damaged_progress_file_is_one_sentence(learn, tmp_path):
    (tmp_path / "minitf-learn.json").write_text("{")
    status, text = learn()
    assert (status, text.count("\n")) == (2, 1)


@pytest.mark.heavy
def test_the_path_hands_out_step_after_step(learn, tmp_path):
    status, text = learn("build", "mine")
    first, second = STEPS[:2]
    path = tmp_path / "mine" / "engine.py"
    assert status == 0
    assert f"step 1 of {len(STEPS)}: {first.title}" in text
    assert path.read_text(encoding="utf-8").endswith(first.given)
    status, text = learn("build", "mine")
    assert status == 1
    assert "__init__ is not written yet (line " in text
    path.write_text(path.read_text(encoding="utf-8") + ANSWERS[first.name], encoding="utf-8")
    status, text = learn("build", "mine")
    assert status == 0
    assert f"step 2 of {len(STEPS)}: {second.title}" in text
    assert path.read_text(encoding="utf-8").endswith(second.given)
    assert learn("build", "mine", "--step", first.name)[0] == 0
    assert learn("build", "mine", "--step", "5")[1].startswith("error: step 5. ")
    assert learn("build", "mine", "--step", "x")[1].startswith("error: there is no step x; choose 1 to ")


@pytest.mark.heavy
def test_watch_checks_again_when_the_file_is_saved(learn, tmp_path, monkeypatch):
    learn("start", "1")
    path = tmp_path / "01_tape.py"

    def save(seconds):
        path.write_text(find("1").solution, encoding="utf-8")
        os.utime(path, ns=(0, 1))

    monkeypatch.setattr(build_command, "time", SimpleNamespace(sleep=save))
    status, text = learn("check", "1", "--watch")
    assert status == 0
    assert text.index("is not written yet") < text.index("waiting for a file to be saved") < text.index("solved")
    assert learn("start", "2", "--watch")[1].startswith("error: --watch is only for check")
