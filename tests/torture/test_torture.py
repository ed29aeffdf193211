"""`make torture` in a minute: a few of each of its trials, and that it would notice what it looks for."""

import itertools
import random

import pytest

from autograd import random as dropout_masks
from autograd.fast import set_threads
from minitf.data.batches import Batches
from minitf.data.text import lines_of
from minitf.storage.checkpoints import Reader
from minitf.storage.log import RunLog
from minitf.training.optim import Adam
from minitf.translation.translator import Translator
from tests.torture import faults, fuzz, kills
from tests.torture.__main__ import exit_status, report, row, write
from tests.torture.kills import Tally

pytestmark = pytest.mark.heavy
SEED = 20


@pytest.fixture
def draw():
    return random.Random(SEED)


@pytest.fixture
def tally():
    """Nothing may be lost by the end of a test."""
    counted = Tally("test")
    yield counted
    assert counted.lost == []
    assert counted.tried == counted.survived > 0


@pytest.fixture(autouse=True)
def one_thread():
    set_threads(1)


@pytest.fixture(scope="session")
def halfway(ground):
    return faults.make_halfway(ground)


@pytest.fixture(scope="session")
def operations(ground):
    return kills.count_operations(ground)


@pytest.fixture(scope="session")
def model(halfway):
    return (halfway / "vocabulary.model").read_bytes()


# ---- Processes ---------------------------------------------------------------------------------------------------


@pytest.mark.slow  # test_kills_at_operations has the places
def test_random_kills(ground, tally, draw):
    kills.kill_at_random(ground, tally, 2, draw)


def test_kills_at_operations(ground, tally, draw, operations):
    for deed in (kills.die, kills.die_halfway):
        kills.kill_at(ground, tally, draw.randint(1, operations), deed)


@pytest.mark.slow  # test_train.py has one signal of each kind, and test_kills_at_operations the places
def test_signals_at_operations(ground, tally, draw, operations):
    for number, first in zip(draw.sample(range(1, operations + 1), 3), kills.SIGNALS, strict=True):
        kills.stop_at(ground, tally, number, first, draw.choice([None, 1]))


def test_failures_of_operations(ground, tally, draw, operations):
    for number in draw.sample(range(1, operations + 1), 3):
        kills.fail_at(ground, tally, number, draw.choice(kills.FAILURES), for_good=draw.random() < 0.5)


# ---- Files, disks, streams ---------------------------------------------------------------------------------------


def test_damaged_checkpoints(ground, tally, draw, halfway):
    faults.flips_are_found(ground, tally, halfway, draw, share=0.01)
    faults.cuts_are_found(ground, tally, halfway, every=15)
    faults.damaged_is_survived(ground, tally, halfway, draw, trials=1)
    faults.all_damaged_is_told(ground, tally, halfway)


@pytest.mark.slow  # test_damaged_checkpoints has the files that matter most
def test_other_damage(ground, tally, draw, halfway):
    faults.other_damage_is_survived(ground, tally, halfway, draw, every=3)
    faults.what_cannot_be_mended_is_told(ground, tally, halfway, draw, trials=1)


@pytest.mark.slow  # test_failures_of_operations has what the system says of such disks
def test_full_and_closed_disks(ground, tally, draw, halfway):
    faults.full_disk_by_limit(ground, tally, draw, 1, faults.checkpoint_bytes(halfway))
    if faults.can_mount(ground):
        faults.full_disk(ground, tally, draw, 1, 2 * faults.checkpoint_bytes(halfway))
        faults.read_only_disk(ground, tally, halfway)


def test_two_runs(ground, tally, halfway):
    faults.two_runs_on_one_folder(ground, tally, halfway)


def test_streams(ground, tally):
    faults.nobody_listens(ground, tally, faults.ENDINGS[:2])


# ---- Hostile input -----------------------------------------------------------------------------------------------


def test_hostile_texts(tmp_path, tally, draw):
    fuzz.text_files(tmp_path, tally, 60, draw)
    fuzz.pairs_and_streams(tmp_path, tally, 10, draw)


def test_hostile_vocabularies(tmp_path, tally, draw, model):
    fuzz.vocabularies(tmp_path, tally, 20, draw, model)
    fuzz.round_trips(tally, 20, draw, model)
    fuzz.learning(tmp_path, tally, 4, draw)
    fuzz.prepared(tmp_path, tally, 10, draw, model)


def test_hostile_files_of_a_run(tmp_path, tally, draw):
    fuzz.damaged_files(tmp_path, tally, 20, draw)
    fuzz.configurations(tmp_path, tally, 20, draw)
    fuzz.logs(tmp_path, tally, 20, draw)


def test_hostile_lines_to_translate(tally, draw, halfway):
    fuzz.translations(tally, 8, draw, halfway)
    fuzz.translate_commands(tally, 4, draw, halfway)


# ---- The torture itself ------------------------------------------------------------------------------------------


def lost_of(trial, *arguments):
    counted = Tally("test")
    trial(counted, *arguments)
    assert counted.tried == counted.survived + len(counted.lost)
    return counted.lost


def forgetting(ground, operations):
    """What is lost by a run that is killed late and resumed, in a program that has been spoilt."""
    return lost_of(lambda tally: kills.kill_at(ground, tally, operations * 3 // 4))


def test_it_notices_forgotten_moments(monkeypatch, ground, operations):
    monkeypatch.setattr(Adam, "load_state", lambda optimizer, steps, arrays: None)
    (lost,) = forgetting(ground, operations)
    assert "differs in " in lost


@pytest.mark.slow
def test_it_notices_a_forgotten_place_in_the_data(monkeypatch, ground, operations):
    monkeypatch.setattr(Batches, "restore", lambda batches, state: None)
    (lost,) = forgetting(ground, operations)
    assert "differs in " in lost


@pytest.mark.slow
def test_it_notices_dropout_that_starts_anew(monkeypatch, ground, operations):
    begin_step, seen = dropout_masks.begin_step, []

    def count_from_one(step, *place):
        if step not in seen:
            seen.append(step)
        begin_step(len(seen), *place)

    monkeypatch.setattr(dropout_masks, "begin_step", count_from_one)
    (lost,) = forgetting(ground, operations)
    assert "differs in " in lost


@pytest.mark.slow  # dozens of kills until one falls between a line of the log and its checkpoint
def test_it_notices_a_log_that_is_not_cut(monkeypatch, ground):
    monkeypatch.setattr(RunLog, "truncate_to", lambda log, offset, warn: None)
    for number in itertools.count(120):  # until a line of the log came after the last checkpoint
        lost = lost_of(lambda tally, number=number: kills.kill_at(ground, tally, number))
        if lost:
            break
    assert "log.jsonl" in lost[0]


def test_it_notices_a_checkpoint_that_is_not_checked(monkeypatch, ground, halfway, draw):
    regions = faults.regions
    monkeypatch.setattr(faults, "regions", lambda path: itertools.islice(regions(path), 12))  # ten are tensors
    monkeypatch.setattr(Reader, "_check", lambda reader, name, array: None)
    lost = lost_of(lambda tally: faults.flips_are_found(ground, tally, halfway, draw, share=0))
    assert len(lost) > 2
    assert all("not found" in each for each in lost)


def test_it_notices_a_lock_that_does_not_hold(monkeypatch, ground, halfway):
    monkeypatch.setattr("filelock.FileLock.acquire", lambda lock, timeout: None)
    lost = lost_of(lambda tally: faults.two_runs_on_one_folder(ground, tally, halfway))
    assert any("--resume" in each for each in lost)


def test_it_notices_a_traceback(monkeypatch, ground, halfway):
    def broken(reader, file):
        raise ZeroDivisionError

    monkeypatch.setattr(Reader, "_read_header", broken)
    (lost,) = lost_of(lambda tally: faults.all_damaged_is_told(ground, tally, halfway))
    assert "ZeroDivisionError" in lost


def test_it_notices_a_line_that_is_not_translated(monkeypatch, draw, halfway):
    stream = Translator.translate_stream
    monkeypatch.setattr(
        Translator, "translate_stream", lambda self, lines, **options: filter(None, stream(self, lines, **options))
    )
    (lost,) = lost_of(lambda tally: fuzz.translations(tally, 20, draw, halfway))
    assert "lines for" in lost


def test_it_notices_lines_cut_at_the_wrong_places(monkeypatch, tmp_path, draw):
    def splitting(stream, name):
        return iter(stream.read().decode("utf-8", "replace").splitlines())

    monkeypatch.setattr("minitf.data.text.lines_of", splitting)
    (lost,) = lost_of(lambda tally: fuzz.text_files(tmp_path, tally, 200, draw))
    assert "LostError" in lost
    monkeypatch.setattr("minitf.data.text.lines_of", lines_of)


def test_a_loss_stands_in_the_table():
    counted = Tally("x")
    with counted.trial("a"):
        pass
    with counted.trial("b"):
        raise AssertionError("gone")
    assert counted.lost == ["x, b: gone"]
    assert row(counted).split()[:4] == ["x", "2", "1", "1"]
    assert exit_status([Tally("y", tried=3, survived=3), counted]) == 1
    assert exit_status([Tally("y", tried=3, survived=3)]) == 0
    assert exit_status([Tally("never tried")]) == 1


def test_the_page_gets_the_table_of_the_last_run(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Before\n\n## The last run\n\nold\n")
    write(page, report([Tally("y", tried=3, survived=3), Tally("z", tried=2, survived=1)], 7, 60.0))
    text = page.read_text()
    assert text.startswith("# Before\n\n## The last run\n\n```\nfault ")
    assert "old" not in text
    rows = [line.split()[:4] for line in text.splitlines()]
    assert ["y", "3", "3", "0"] in rows
    assert ["all", "5", "4", "1"] in rows
    assert "(seed 7)" in text
