"""The checkpoints of a run survive crashes, and their mean is the mean."""

import os

import numpy as np
import pytest

from minitf.errors import UserError
from minitf.storage.checkpoints import Checkpoints, DamagedCheckpointError, average, save, with_prefix
from minitf.training.resuming import load_latest


def arrays_of(step):
    rng = np.random.default_rng(step)
    weights = {"weight": rng.normal(size=(3, 4)).astype(np.float32), "bias": rng.normal(size=4).astype(np.float32)}
    moments = {"m.weight": rng.normal(size=(3, 4)).astype(np.float32)}
    return with_prefix("model.", weights) | with_prefix("optimizer.", moments)


def filled(folder, steps, keep=9):
    store = Checkpoints(folder, keep=keep)
    for step in steps:
        store.save(step, arrays_of(step), {"step": step})
    return store


def flip(path, place=-1):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def cut(path, place=100):
    path.write_bytes(path.read_bytes()[:place])


def no_warning(message):
    raise AssertionError(message)


# ---- Kept ----


def test_the_last_are_kept_by_number_and_not_by_name_or_time(tmp_path):
    store = filled(tmp_path, [99_999_999, 7, 100_000_000, 100_000_001], keep=3)
    assert store.steps() == [99_999_999, 100_000_000, 100_000_001]
    assert store.last(2) == [store.path(100_000_000), store.path(100_000_001)]
    assert store.last(9) == [store.path(step) for step in store.steps()]


def saved(store, step, on_schedule):
    store.save(step, arrays_of(step), {"step": step, "on_schedule": on_schedule})
    return store.steps()


def test_what_was_saved_in_passing_goes_and_is_not_counted(tmp_path):
    """A run stopped at 27 and 33 keeps, by 40, what a run that was not stopped keeps."""
    store = Checkpoints(tmp_path, keep=2)
    assert saved(store, 10, True) == [10]
    assert saved(store, 20, True) == [10, 20]
    assert saved(store, 27, False) == [20, 27]  # it is the newest: it may be all that a stopped run has
    assert saved(store, 28, False) == [20, 28]
    assert saved(store, 30, True) == [20, 30]
    assert saved(store, 33, False) == [30, 33]
    assert saved(store, 40, True) == [30, 40]


def test_what_a_killed_process_did_not_come_to_delete_goes_on_opening(tmp_path):
    filled(tmp_path, [1, 2, 3, 4], keep=4)
    load_latest(Checkpoints(tmp_path), no_warning)
    assert Checkpoints(tmp_path).steps() == [1, 2, 3, 4]  # a reader deletes nothing
    store = Checkpoints(tmp_path, keep=2)
    assert store.steps() == [1, 2, 3, 4]  # and nothing goes before the newest is known to be good
    load_latest(store, no_warning)
    assert store.steps() == [3, 4]


def test_nothing_is_deleted_before_the_new_one_is_safe(tmp_path, monkeypatch):
    store = filled(tmp_path, [1, 2], keep=2)

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    for step in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, fail)
            with pytest.raises(UserError, match=r"cannot write .*\(1 MiB\): No space left on device; free some"):
                store.save(3, arrays_of(3), {"step": 3})
        assert store.steps() == [1, 2]
        assert sorted(os.listdir(tmp_path)) == ["step-00000001.safetensors", "step-00000002.safetensors"]
    assert load_latest(store, no_warning)[1] == {"step": 2}


def test_a_store_for_reading_changes_nothing(tmp_path):
    folder = tmp_path / "none"
    reader = Checkpoints(folder)
    assert (reader.steps(), load_latest(reader, no_warning), reader.last(5)) == ([], None, [])
    assert not folder.exists()
    filled(folder, [1, 2])
    (folder / ".step-00000003.safetensors.0123abcd.partial").write_text("a process is writing this")
    flip(reader.path(2))
    before = sorted(os.listdir(folder))
    assert load_latest(Checkpoints(folder), lambda message: None)[1] == {"step": 1}
    assert sorted(os.listdir(folder)) == before


# ---- Found again ----


@pytest.mark.parametrize("damage", [flip, cut, lambda path: path.write_bytes(b"")], ids=["flipped", "cut", "empty"])
def test_the_last_whole_one_is_used_and_damaged_ones_are_told_and_set_aside(tmp_path, damage):
    store = filled(tmp_path, [1, 2, 3], keep=3)
    damage(store.path(2))
    damage(store.path(3))
    told = []
    assert load_latest(store, told.append)[1] == {"step": 1}
    assert [f"step-0000000{n}.safetensors is damaged: " in each for n, each in zip((3, 2), told, strict=True)] == [
        True
    ] * 2
    assert store.steps() == [1]
    assert store.path(3).with_name("step-00000003.safetensors.damaged").exists()
    store.save(2, arrays_of(2), {"step": 2})
    assert load_latest(store, no_warning)[1] == {"step": 2}


def test_a_file_that_may_not_be_read_is_no_damaged_file(tmp_path, monkeypatch):
    """Going back to an older one would hide a wrong permission."""
    store = filled(tmp_path, [1, 2])

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(UserError, match=r"cannot read the checkpoint .*: Permission denied; check") as caught:
        load_latest(store, no_warning)
    assert not isinstance(caught.value, DamagedCheckpointError)


# ---- Averaged ----


def test_the_mean_of_the_weights(tmp_path):
    store = filled(tmp_path, [1, 2, 3])
    found = average(store.last(3))
    assert set(found) == {"weight", "bias"}
    for name, array in found.items():
        each = [arrays_of(step)["model." + name].astype(np.float64) for step in (1, 2, 3)]
        np.testing.assert_array_equal(array, (sum(each) / 3).astype(np.float32))
        assert array.dtype == np.float32


def test_the_mean_is_summed_in_float64(tmp_path):
    """In float32, 1 + 2⁻²⁴ + … would stay 1: what each small value adds is rounded away."""
    count = 64
    values = [1.0] + [2.0**-24] * (count - 1)
    for step, value in enumerate(values):
        save(tmp_path / str(step), {"model.w": np.array([value], np.float32)}, {})
    found = average([tmp_path / str(step) for step in range(count)])["w"]
    assert found[0] == np.float32(sum(values) / count)
    assert found[0] != np.float32(1 / count)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (
            {"model.a": np.zeros(3)},
            r"model.a is F64 \[2\] in .*1, but F64 \[3\] in .*2; average checkpoints of one run",
        ),
        ({"model.a": np.zeros(2, np.float32)}, r"F64 \[2\] in .*1, but F32 \[2\]"),
        ({"model.b": np.zeros(2)}, r"model.a is F64 \[2\] in .*1, but missing in .*2"),
        ({"model.a": np.zeros(2), "model.b": np.zeros(2)}, r"model.b is missing in .*1, but F64 \[2\] in .*2"),
        ({"a": np.zeros(2)}, "2 has no tensor whose name begins with 'model.'"),
    ],
)
def test_unlike_checkpoints_have_no_mean(tmp_path, second, message):
    save(tmp_path / "1", {"model.a": np.zeros(2)}, {})
    save(tmp_path / "2", second, {})
    with pytest.raises(UserError, match=message):
        average([tmp_path / "1", tmp_path / "2"])


def test_a_damaged_one_spoils_the_mean_and_is_named(tmp_path):
    store = filled(tmp_path, [1, 2, 3])
    content = bytearray(store.path(2).read_bytes())
    content[content.index(arrays_of(2)["model.bias"].tobytes())] ^= 1
    store.path(2).write_bytes(content)
    with pytest.raises(DamagedCheckpointError, match=r"step-00000002.safetensors is damaged: the bytes of model.bias"):
        average(store.last(3))
