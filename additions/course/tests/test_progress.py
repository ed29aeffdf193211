"""The file of a student's progress, and what is done about a damaged one."""

import json

import pytest

from additions.course.exercise import ALL, find
from additions.course.progress import FILE_NAME, Progress
from minitf.errors import UserError


def test_progress_is_kept_in_the_folder(tmp_path):
    progress = Progress(tmp_path)
    progress.set(find("7"), "started")
    progress.set(find("7"), "solved")
    progress.set(find("7"), "started")  # it stays solved
    assert [progress.next_hint(find("8")) for _ in range(4)] == [1, 2, 3, 3]
    again = Progress(tmp_path)
    assert again.states == {"7": "solved"}
    assert again.hints == {"8": 3}


def test_the_next_one_is_after_the_last_and_then_from_the_first(tmp_path):
    progress = Progress(tmp_path)
    assert progress.next_unsolved().label == "1"
    assert progress.next_unsolved(after=find("7")).label == "8"
    assert progress.next_unsolved(after=find("bug-12")).label == "1"
    progress.states = dict.fromkeys(ALL, "solved")
    assert progress.next_unsolved() is None


GOOD = {"format": "minitf learn 1", "states": {"7": "solved"}, "hints": {}}


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{", '{"a": 1}', "\x00\xff", '{"states": {}, "hints": {}}',
        *[json.dumps({**GOOD, **change}) for change in (
            {"format": 2}, {"states": []}, {"states": {"99": "solved"}}, {"states": {"7": "half"}}, {"hints": None},
            {"hints": {"7": "x"}}, {"hints": {"7": -1}}, {"hints": {"7": True}}, {"states": {"7": ["solved"]}},
        )],
    ],
)  # fmt: skip
def test_a_damaged_or_foreign_file_is_refused_in_one_sentence(tmp_path, text):
    (tmp_path / FILE_NAME).write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match=FILE_NAME) as refused:
        Progress(tmp_path)
    assert "\n" not in str(refused.value)
