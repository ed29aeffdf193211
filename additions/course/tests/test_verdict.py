"""An answer is checked in a process of its own, which may end, hang, claim to be right or use up the memory."""

import os
import sys

import pytest

from additions.course.exercise import find
from additions.course.verdict import judge_file


@pytest.mark.heavy
def test_a_file_is_checked_in_another_process(tmp_path, capfd):
    path = tmp_path / "answer.py"
    path.write_text(find("1").solution + "print('hello')\n", encoding="utf-8-sig")  # as editors on Windows write it
    assert judge_file(find("1"), path).is_right
    assert capfd.readouterr().out == "hello\n"
    path.write_text("import os\nos._exit(0)\n")
    assert judge_file(find("1"), path).message == "the answer ended the program that checks it, with status 0"
    path.write_text("import signal\nsignal.setitimer(signal.ITIMER_REAL, 0)\nimport time\ntime.sleep(60)\n")
    verdict = judge_file(find("1"), path, limit_s=0.1, grace_s=1)
    assert verdict.message == "the answer did not end within 0.1 s, and was stopped"


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Judge a text as the answer to exercise 1, from its folder."""
    monkeypatch.chdir(tmp_path)

    def judged(text, **limits):
        (tmp_path / "answer.py").write_text(text)
        return judge_file(find("1"), tmp_path / "answer.py", **limits)

    return judged


@pytest.mark.heavy
def test_nothing_is_imported_from_the_folder_of_an_answer(check, tmp_path, monkeypatch):
    """An entry of PYTHONPATH that is empty or relative is within the working directory."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "other"), "", ".", "/nowhere"]))
    for name in ("numpy", "json", "warnings", "minitf", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text(f"open('{name} was imported', 'w')\nraise SystemExit(3)\n")
    assert check(find("1").solution).is_right
    assert not list(tmp_path.glob("*imported"))


WRITE = """\
import atexit, json, os

def write(text):
    for descriptor in range(1, 64):
        try:
            os.write(descriptor, text.encode())
        except OSError:
            pass

claim = json.dumps({"passed": ["all"], "failed": "", "message": ""})
"""
FORGERIES = {
    "write(claim)\n": "and wrote to the pipe reserved for the verdict",
    "write(claim), os._exit(0)\n": "and wrote to the pipe reserved for the verdict",
    "atexit.register(write, '{')\n": "is not written yet",
}


@pytest.mark.heavy
@pytest.mark.parametrize("way", FORGERIES, ids=["before the verdict", "instead of it", "after it"])
def test_an_answer_cannot_write_its_own_verdict(check, way):
    verdict = check(WRITE + way + find("1").starter)
    assert FORGERIES[way] in verdict.message


@pytest.mark.heavy
def test_a_copy_of_the_process_gives_no_verdict(check):
    verdict = check("import os, time\nif os.fork(): time.sleep(2), os._exit(0)\n" + find("1").solution)
    assert verdict.message == "the answer ended the program that checks it, with status 0"


@pytest.mark.heavy
def test_processes_that_an_answer_starts_end_with_it(check, tmp_path):
    """The time limit is that of the answer, whose copies might go on for ever; the right one ends them too."""
    pipe = tmp_path / "pipe"  # it ends when the last process that holds it has ended
    os.mkfifo(pipe)
    start = f"import os, time\npipe = open({str(pipe)!r}, 'w')\nprint('begun', file=pipe, flush=True)\n"
    start += "if os.fork() == 0:\n    time.sleep(20)\n    print('alive', file=pipe, flush=True)\n    os._exit(0)\n"
    unlimited = "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0)\n"
    with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), encoding="utf-8") as held:
        os.set_blocking(held.fileno(), True)
        assert check(start + find("1").solution).is_right
        assert held.read() == "begun\n"
        for grace_s in (1, 4, 16):  # on a busy machine, a process takes long to begin
            message = check(f"{unlimited}{start}time.sleep(60)\n", limit_s=0.1, grace_s=grace_s).message
            assert "did not end within 0.1 s" in message
            if said := held.read():
                break
    assert said == "begun\n"


@pytest.mark.heavy
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says how much memory a process has")
@pytest.mark.parametrize(
    "text",
    ["import numpy\nx = numpy.ones(10**10)\n", "x = []\nwhile True: x.append(bytes(10**5))\n", "x = 'x' * 10**10\n"],
    ids=["array", "objects", "text"],
)
def test_the_memory_of_an_answer_is_limited(check, text):
    message = check(text).message
    assert message.startswith("line 2 needs" if "\n" in text[:-1] else "line 1 needs")
    assert "more than 1,024 MiB of memory" in message
