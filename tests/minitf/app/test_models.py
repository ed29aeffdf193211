"""`minitf pack`."""

import json
import shutil

import pytest

from minitf.app.models import pack
from minitf.app.translate import main as translate
from minitf.storage.checkpoint_store import CheckpointStore
from minitf.storage.run_directory import load_config, save_config
from minitf.system.process import run_command
from minitf.translation.translator import Translator
from tests.helpers.runs import call, differences, fingerprint, write_corpus

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def halfway(ground, tmp_path_factory):
    """A run that was ended at step 9, and the folder of its texts."""
    texts = tmp_path_factory.mktemp("texts")
    run = tmp_path_factory.mktemp("halfway") / "run"
    assert call([*write_corpus(texts), *ground.flags[9:], "--output", str(run), "--max-steps", "9"]) == 0
    return run, texts


@pytest.fixture
def run(halfway, tmp_path):
    return shutil.copytree(halfway[0], tmp_path / "run")


def pack_command(*words):
    return run_command(pack, list(map(str, words)))


@pytest.mark.parametrize("weights", ["average", "best", "moving-average"])
def test_a_packed_run_translates_as_the_run_does(run, tmp_path, capsys, weights):
    config = load_config(run / "config.json")
    save_config(run / "config.json", type(config)(**{**vars(config), "weights": weights}))
    expected = Translator.load(run).model.named_parameters()
    place = tmp_path / "new" / "packed"
    assert pack_command(run, "--output", place) == 0
    assert sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()) == [
        f"checkpoints/{'step-00000009' if weights != 'best' else 'step-' + best_name(run)}.safetensors",
        "config.json",
        "vocabulary.model",
    ]
    out = capsys.readouterr().out
    assert f"{place}: " in out
    assert f"minitf translate {place}" in out
    shutil.rmtree(run)
    packed = Translator.load(place).model.named_parameters()
    assert packed.keys() == expected.keys()
    assert all((packed[name].data == expected[name].data).all() for name in expected)
    (tmp_path / "in.txt").write_text("the cat\n")
    files = ["--input", str(tmp_path / "in.txt"), "--output", str(tmp_path / "out.txt")]
    assert run_command(translate, [str(place), *files, "--quiet"]) == 0


def best_name(run):
    return f"{CheckpointStore(run / 'checkpoints').best_step():08d}"


def test_a_resumable_one_continues_with_the_same_bits_and_without_the_texts(ground, halfway, run, tmp_path, capsys):
    texts = halfway[1].rename(tmp_path / "away")  # nothing is where the configuration says
    try:
        assert pack_command(run, "--resumable") == 0
        place = tmp_path / "run-packed"
        assert f"train --resume {place}" in capsys.readouterr().out
        shutil.rmtree(run)
        assert call(["--resume", str(place), "--max-steps", "13"]) == 0
        assert differences(fingerprint(place), ground.expected) == []
    finally:
        texts.rename(halfway[1])


def test_it_takes_the_best_weights_along_that_the_checkpoint_refers_to(run, tmp_path):
    """Weights of a later validation may be there too, of which the checkpoint does not know yet."""
    store = CheckpointStore(run / "checkpoints")
    shutil.copy(store.best_path(store.best_step()), store.best_path(10))
    names = sorted(path.name for path in store.folder.glob("best-*"))
    assert pack_command(run, "--resumable", "--output", tmp_path / "packed") == 0
    assert sorted(path.name for path in (tmp_path / "packed" / "checkpoints").glob("best-*")) == names
    assert len(names) > 1


def test_it_takes_a_validation_text_along_that_the_run_has_not_kept(ground, halfway, run, tmp_path, capsys):
    shutil.rmtree(run / "data" / "texts")
    assert pack_command(run, "--resumable", "--output", tmp_path / "packed") == 0
    kept = tmp_path / "packed" / "data" / "texts"
    assert sorted(path.name for path in kept.iterdir()) == ["valid.source", "valid.target"]
    assert "warning: the run has no copy of its test text; resume it with --test " in capsys.readouterr().err


def test_a_file_that_a_forged_configuration_names_is_not_taken_along(run, tmp_path):
    shutil.rmtree(run / "data" / "texts")
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    plain = json.loads((run / "config.json").read_text())
    plain["valid"] = plain["test"] = [str(secret), str(secret)]
    (run / "config.json").write_text(json.dumps(plain))
    assert pack_command(run, "--resumable", "--output", tmp_path / "packed") == 0
    assert all(b"secret\n" not in path.read_bytes() for path in (tmp_path / "packed").rglob("*") if path.is_file())


def test_what_cannot_be_packed_is_refused(run, tmp_path, capsys):
    assert pack_command(run, "--output", tmp_path / "packed") == 0
    assert pack_command(run, "--output", tmp_path / "packed") == 2
    assert "packed already exists and is not an empty directory; give a new one" in capsys.readouterr().err
    assert call(["--resume", str(tmp_path / "packed")]) == 2
    assert "packed was packed for translation and has no optimizer state" in capsys.readouterr().err
    for path in (run / "checkpoints").iterdir():
        path.unlink()
    for words in ([], ["--resumable"]):
        assert pack_command(run, *words) == 2
        assert "has no checkpoint yet" in capsys.readouterr().err
    assert pack_command(tmp_path / "nowhere") == 2
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
