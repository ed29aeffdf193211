"""A log of complete lines, whatever happens while one is written."""

import math
import os
import resource
import tracemalloc

import numpy as np
import pytest

from additions.pages.run_log import MAX_LINE_BYTES, read_log
from minitf.errors import UserError
from minitf.training.state import RunLog


def no_warning(message):
    raise AssertionError(message)


@pytest.fixture
def log(tmp_path):
    with RunLog(tmp_path / "log.jsonl") as opened:
        yield opened


def test_lines_are_appended_and_read(log):
    log.append({"step": 1, "loss": 0.1, "text": "ü\n"})
    with RunLog(log.path) as again:
        again.append({"step": 2})
    assert read_log(log.path) == [{"step": 1, "loss": 0.1, "text": "ü\n"}, {"step": 2}]
    assert log.path.read_bytes().count(b"\n") == 2


def test_numbers_that_json_lacks_can_be_read_back(log):
    log.append({"loss": math.nan, "norms": [math.inf, -math.inf, np.float64("nan"), 1.5]})
    (record,) = read_log(log.path)
    assert record == {"loss": "nan", "norms": ["inf", "-inf", "nan", 1.5]}
    assert math.isnan(float(record["loss"]))


def test_the_log_goes_back_to_where_a_checkpoint_was(log):
    offsets = [log.offset]
    for step in range(3):
        log.append({"step": step})
        offsets.append(log.offset)
    log.truncate_to(offsets[2], no_warning)
    log.append({"step": "again"})
    assert read_log(log.path) == [{"step": 0}, {"step": 1}, {"step": "again"}]
    log.truncate_to(0, no_warning)
    assert log.path.read_bytes() == b""


def test_a_log_that_lost_lines_is_told_and_kept(log):
    log.append({"step": 1})
    size = log.offset
    told = []
    log.truncate_to(size + 5, told.append)
    assert told == [f"{log.path} has {size} bytes, but had {size + 5} at the checkpoint: some of its lines are lost"]
    assert read_log(log.path) == [{"step": 1}]


def test_an_edited_log_is_refused(log):
    log.append({"step": 1})
    log.append({"step": 2})
    before = log.path.read_bytes()
    with pytest.raises(UserError, match="no end of line at byte 5: it was edited"):
        log.truncate_to(5, no_warning)
    assert log.path.read_bytes() == before


@pytest.mark.parametrize("half", ['{"step', '{"step": 2}', "x" * MAX_LINE_BYTES])
def test_half_a_line_of_a_killed_process(log, half):
    log.append({"step": 1})
    with open(log.path, "a") as file:
        file.write(half)
    assert read_log(log.path) == [{"step": 1}]  # the writer may be about to end it
    with RunLog(log.path) as again:
        again.append({"step": 3})
    assert read_log(log.path) == [{"step": 1}, {"step": 3}]


@pytest.mark.parametrize("end", ["", '"}\n{"step": 3}\n'])
def test_a_line_that_no_run_writes_is_named_and_not_read_whole(tmp_path, end):
    path = tmp_path / "a"
    path.write_text('{"step": 1}\n{"note": "' + "x" * MAX_LINE_BYTES + end)
    os.truncate(path, 2**30)  # sparse
    tracemalloc.start()
    with pytest.raises(UserError, match="a, line 2: it has more than 65,536 bytes, which no run writes; remove the"):
        read_log(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20


def test_a_full_disk_leaves_whole_lines(log):
    log.append({"step": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.offset + 4, hard))  # stands in for a full disk
    try:
        with pytest.raises(UserError, match=r"cannot write .*log.jsonl: File too large; increase the limit"):
            log.append({"step": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert log.path.read_bytes() == b'{"step": 1}\n'


@pytest.mark.parametrize(
    ("line", "message"), [("{", "line 2: Expecting"), ("[1]", "line 2: it is not an object"), ("", "line 2: Expecting")]
)
def test_a_line_that_is_no_record_is_named(tmp_path, line, message):
    (tmp_path / "a").write_text('{"step": 1}\n' + line + "\n")
    with pytest.raises(UserError, match=f"a, {message}"):
        read_log(tmp_path / "a")


def test_a_log_that_is_another_file_too_is_not_changed(log, tmp_path):
    log.append({"step": 1})
    os.link(log.path, tmp_path / "backup")
    with pytest.raises(UserError, match=r"has another name \(a hard link\), whose content would change"):
        RunLog(log.path)
