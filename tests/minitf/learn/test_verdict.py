"""An answer is checked in a process of its own, which may end or hang."""

import pytest

from minitf.learn.exercise import find
from minitf.learn.verdict import judge_file


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
