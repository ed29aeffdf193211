"""`minitf pack`."""

import shutil

import pytest

from additions.interchange.commands import pack
from minitf.app.translate import main as translate
from minitf.storage.checkpoints import Checkpoints
from minitf.storage.run_directory import load_config, save_config
from minitf.system.process import run_command
from minitf.translation.translator import Translator
from tests.helpers.marks import parametrize_some
from tests.helpers.runs import call

pytestmark = pytest.mark.heavy


@pytest.fixture
def run(ground, tmp_path):
    run = tmp_path / "run"
    assert call([*ground.flags, "--output", str(run), "--max-steps", "9"]) == 0
    return run


def pack_command(*words):
    return run_command(pack, list(map(str, words)))


@parametrize_some("weights", ["average", "best", "moving-average"])
def test_a_packed_run_translates_as_the_run_does(run, tmp_path, capsys, weights):
    config = load_config(run / "config.json")
    save_config(run / "config.json", type(config)(**{**vars(config), "weights": weights}))
    expected = Translator.load(run).model.named_parameters()
    place = tmp_path / "new" / "packed"
    assert pack_command(run, "--output", place) == 0
    step = Checkpoints(run / "checkpoints").steps("best")[-1] if weights == "best" else 9
    assert sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()) == [
        f"checkpoints/step-{step:08d}.safetensors",
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


def test_what_cannot_be_packed_is_refused(run, tmp_path, capsys):
    assert pack_command(run, "--output", tmp_path / "packed") == 0
    assert pack_command(run, "--output", tmp_path / "packed") == 2
    assert "packed already exists and is not an empty directory; give a new one" in capsys.readouterr().err
    assert call(["--resume", str(tmp_path / "packed")]) == 2
    assert "was imported, or packed for translation, and has no optimizer state" in capsys.readouterr().err
    for path in (run / "checkpoints").iterdir():
        path.unlink()
    assert pack_command(run) == 2
    assert "has no checkpoint yet" in capsys.readouterr().err
    assert pack_command(tmp_path / "nowhere") == 2
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
