"""A packed run: translates as the run does, or continues with its bits, and holds no more than that takes."""

import shutil

import pytest

from minitf.app import pack, translate
from minitf.app.cli import run_command
from minitf.storage.checkpoint import CheckpointStore
from minitf.storage.config_file import load_config, save_config
from minitf.translation.translator import Translator
from tests.helpers.runs import call, differences, fingerprint, write_corpus


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
    return run_command(pack.main, list(map(str, words)))


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
    assert run_command(translate.main, [str(place), *files, "--quiet"]) == 0


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


def test_it_takes_held_out_texts_along_that_the_run_has_not_kept(ground, halfway, run, tmp_path):
    shutil.rmtree(run / "data" / "texts")
    assert pack_command(run, "--resumable", "--output", tmp_path / "packed") == 0
    assert len(list((tmp_path / "packed" / "data" / "texts").iterdir())) == 4


def test_what_cannot_be_packed_is_refused(run, tmp_path, capsys):
    assert pack_command(run, "--output", tmp_path / "packed") == 0
    assert pack_command(run, "--output", tmp_path / "packed") == 2
    assert "packed already exists; delete it, or give another --output" in capsys.readouterr().err
    assert call(["--resume", str(tmp_path / "packed")]) == 2
    assert "packed was packed to translate and holds no state of the optimizer" in capsys.readouterr().err
    for path in (run / "checkpoints").iterdir():
        path.unlink()
    for words in ([], ["--resumable"]):
        assert pack_command(run, *words) == 2
        assert "has no checkpoint yet" in capsys.readouterr().err
    assert pack_command(tmp_path / "nowhere") == 2
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
