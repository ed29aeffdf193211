"""`make torture` in a minute: a few of each of its trials, and that it would notice what it looks for."""

import itertools
import random

import pytest

from autograd import random as dropout_masks
from autograd.fast import cpu_kernels
from minitf.app.command_line import flags_of
from minitf.config import RunConfig, TranslateConfig
from minitf.data.batches import Batches
from minitf.data.text import lines_of
from minitf.storage.checkpoints import Reader
from minitf.storage.log import RunLog
from minitf.training.optim import Adam
from minitf.translation.translator import Translator
from tests.helpers.marks import parametrize_some
from tests.torture import (
    careless,
    compiled,
    faults,
    folders,
    forged,
    forged_folders,
    fuzz,
    kills,
    listeners,
    slippery,
    soak,
    strangers,
    streams,
)
from tests.torture.__main__ import exit_status, report, row, stop_starting, stop_translating, write
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
    cpu_kernels().set_threads(1)


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
    kills.kill_at_random(ground, tally, 2, draw, command=False)


@pytest.mark.slow  # what is killed is the same; only the start of Python comes on top
def test_random_kills_of_the_command(ground, tally, draw):
    kills.kill_at_random(ground, tally, 1, draw, command=True)


@pytest.mark.slow  # test_compiled.py has full and empty caches, and the other tests here the kills
def test_kills_with_compiled_kernels(ground, tally, draw):
    pytest.importorskip("numba", reason="needs Numba")
    compiled.kill_compiled(ground, tally, 2, draw)


def test_kills_at_operations(ground, tally, draw, operations):
    for deed in (kills.die, kills.die_halfway):
        kills.kill_at(ground, tally, draw.randint(1, operations), deed)


@pytest.mark.slow  # test_train.py has one signal of each kind, and test_kills_at_operations the places
def test_signals_at_operations(ground, tally, draw, operations):
    for number, first in zip(draw.sample(range(1, operations + 1), 3), kills.SIGNALS, strict=True):
        kills.stop_at(ground, tally, number, first, draw.choice([None, 1]))


def test_signals_at_imports(ground, tally, draw, halfway):
    stop_translating(ground, tally, halfway, 0.003, draw)


@pytest.mark.slow  # what catches the signal is the same
def test_signals_at_imports_of_training(ground, tally, draw):
    stop_starting(ground, tally, 0.001, draw)


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
    faults.no_permission(ground, tally, halfway, ["", "checkpoints"])
    if faults.can_mount(ground):
        faults.full_disk(ground, tally, draw, 1, 2 * faults.checkpoint_bytes(halfway))
        faults.read_only_disk(ground, tally, halfway)


def test_two_runs(ground, tally, halfway):
    faults.two_runs_on_one_folder(ground, tally, halfway)


@pytest.mark.slow  # test_mixed_and_edited_folders has what such a run finds
def test_another_run_in_its_place(ground, tally, draw, halfway, operations):
    for fate in folders.FATES:
        folders.another_run_in_its_place(ground, tally, halfway, draw.randint(10, operations), fate)


def test_mixed_and_edited_folders(ground, tally, halfway):
    folders.mixed_checkpoints_are_refused(ground, tally, halfway)
    folders.old_checkpoints_are_used(ground, tally, halfway)


@pytest.mark.slow  # test_models.py has links in what is packed, and test_files.py those that are written through
def test_links(ground, tally, halfway):
    folders.links_lead_nowhere(ground, tally, halfway, folders.LINKED[:3])


@pytest.mark.slow  # test_messages.py has what commands say of careless input
def test_careless_commands(ground, tally, halfway):
    careless.commands_end_in_a_sentence(ground, tally, halfway, every=5)


def test_pipes_and_devices_as_files(ground, tally, halfway):
    streams.every_option_ends(ground, tally, halfway, every=18)


def test_every_option_that_names_a_file_is_tried():
    words = {word for option in streams.options() for word in option.words}
    for flag in (*flags_of(RunConfig), *flags_of(TranslateConfig)):
        if "Path" in str(flag.field.type) and not flag.field.metadata["positional"]:
            assert flag.name in words


@pytest.mark.slow  # test_pipes_and_devices_as_files has pipes in the place of files
def test_pipes_in_a_run(ground, tally, halfway):
    careless.pipes_are_not_waited_for(ground, tally, halfway, careless.PIPES[:1])


def test_forged_folders_and_command_lines(ground, tally, draw, halfway):
    forged.command_lines(ground, tally, 12, draw, halfway)
    forged_folders.run_folders(ground, tally, 2, draw, halfway)


def test_streams(ground, tally):
    faults.nobody_listens(ground, tally, faults.ENDINGS[:2])


@pytest.mark.slow  # test_streams has the ends of a run's
def test_streams_of_every_command(ground, tally, halfway):
    listeners.every_command_ends(ground, tally, halfway, every=29)


def test_strangers_at_the_door_of_rank_0(tally, draw):
    strangers.strangers_are_ignored(tally, 300, draw)


# ---- File systems and clocks that misbehave ----------------------------------------------------------------------

needs_library = pytest.mark.skipif(bool(slippery.why_not()), reason=slippery.why_not())


@needs_library
@parametrize_some("part", slippery.PARTS, keep=[slippery.PARTS.index("power failure: what was not flushed is lost")])
def test_file_systems_that_misbehave(ground, tally, halfway, part):
    (counted,) = slippery.tried(ground, halfway, [part], 1, SEED)
    assert counted.tried
    tally.add(counted)


@needs_library
def test_large_allocations_that_fail(ground, tally, halfway):
    """One, or all from there on, of each command; the run goes on to the same bits, the output is the same."""
    (counted,) = slippery.tried(ground, halfway, [slippery.ALLOCATIONS], len(slippery.COMMANDS), SEED)
    assert counted.tried == len(slippery.COMMANDS)
    tally.add(counted)


@needs_library
@pytest.mark.parametrize(
    ("part", "spoilt"),
    [
        pytest.param(slippery.LOCKS, "without_owner", marks=pytest.mark.slow),
        pytest.param("renames that are visible late", "by_listing", marks=pytest.mark.slow),
        pytest.param("power failure: what was not flushed is lost", "without_flush", marks=pytest.mark.slow),
        pytest.param("quota, full disk or I/O error at a call", "without_errors", marks=pytest.mark.slow),
        pytest.param(slippery.ALLOCATIONS, "without_sentence", marks=pytest.mark.slow),
    ],
)
def test_it_notices_what_file_systems_do(ground, halfway, part, spoilt):
    trials = 70 if spoilt == "by_listing" else 12  # a late listing does harm at few of the calls
    (counted,) = slippery.tried(ground, halfway, [part], trials, SEED, spoilt)
    assert counted.lost


@needs_library
@pytest.mark.slow
def test_a_short_soak(tmp_path, tally):
    tally.add(soak.tried(tmp_path, 24, SEED))


@needs_library
@pytest.mark.slow
def test_the_soak_notices_forgotten_moments(tmp_path):
    lost = soak.tried(tmp_path, 24, SEED, "--spoilt", "without_moments").lost
    assert any("differs in " in each for each in lost)


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
    fuzz.command_lines(tally, 10, draw)
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
    monkeypatch.setattr("minitf.system.portable.fcntl.flock", lambda descriptor, operation: None)
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
    def splitting(stream, name, errors):
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
