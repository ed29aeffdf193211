"""A run needs no text but its own copies and token ids: with the same bits, wherever the texts are."""

import gzip
import re
import shutil
from dataclasses import replace

import pytest

from minitf.config import PRESETS
from minitf.data.vocabulary import load_vocabulary
from minitf.run import start as run_texts
from minitf.run.start import tell_memory
from tests.helpers.runs import call, differences, fingerprint, write_corpus

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def trained(ground, tmp_path_factory):
    """A folder of texts and a run."""
    folder = tmp_path_factory.mktemp("begun")
    (folder / "texts").mkdir()
    flags = write_corpus(folder / "texts")
    assert call([*flags, *ground.flags[9:], "--output", str(folder / "run"), "--max-steps", "9"]) == 0
    return folder


@pytest.fixture
def begun(trained, tmp_path):
    """A folder of texts, and a run on them that was ended at step 9."""
    for name in ("texts", "run"):
        shutil.copytree(trained / name, tmp_path / name)
    config = tmp_path / "run" / "config.json"
    config.write_text(config.read_text().replace(str(trained), str(tmp_path)))
    return tmp_path / "texts", tmp_path / "run"


def resume(run, *more):
    return call(["--resume", str(run), "--max-steps", "13", *map(str, more)])


def as_never_moved(ground, run):
    return differences(fingerprint(run), ground.expected) == []


@pytest.mark.parametrize("change", ["gone", "edited"])
def test_texts_that_are_gone_or_edited_change_no_bit(ground, begun, tmp_path, change):
    texts, run = begun
    if change == "gone":
        shutil.rmtree(texts)
    else:
        for path in texts.iterdir():
            path.write_text("other words\n")
    moved = run.rename(tmp_path / "elsewhere")
    assert resume(moved) == 0
    assert as_never_moved(ground, moved)


def test_without_copies_a_text_that_is_gone_is_named(begun, capsys):
    texts, run = begun
    shutil.rmtree(run / "data" / "texts")
    (texts / "valid.en").unlink()
    assert resume(run) == 2
    assert f"cannot read {texts / 'valid.en'}: No such file" in capsys.readouterr().err


def test_compressed_texts_are_kept_as_they_are(begun, ground, tmp_path):
    texts, _ = begun
    flags = []
    for split in ("train", "valid", "test"):
        for side in ("en", "de"):
            content = (texts / f"{split}.{side}").read_bytes()
            (texts / f"{split}.{side}.gz").write_bytes(gzip.compress(content))
        flags += [f"--{split}", str(texts / f"{split}.en.gz"), str(texts / f"{split}.de.gz")]
    run = tmp_path / "compressed"
    assert call([*flags, *ground.flags[9:], "--output", str(run), "--max-steps", "9"]) == 0
    shutil.rmtree(texts)
    assert resume(run) == 0
    assert (run / "test.hypotheses").exists()


def test_held_out_texts_that_change_while_the_run_trains_change_no_score(ground, tmp_path, monkeypatch):
    (tmp_path / "texts").mkdir()
    run, held_out = tmp_path / "run", [tmp_path / "texts" / f"{split}.de" for split in ("valid", "test")]
    keep = run_texts.keep_held_out

    def keep_and_change(texts, directory):
        kept = keep(texts, directory)
        for path in held_out:
            path.write_text("other words\n" * len(path.read_text().splitlines()))
        return kept

    monkeypatch.setattr(run_texts, "keep_held_out", keep_and_change)
    flags = [*write_corpus(tmp_path / "texts"), *ground.flags[9:], "--output", str(run), "--max-steps", "13"]
    assert call(flags) == 0
    assert as_never_moved(ground, run)


def test_a_small_text_has_the_vocabulary_that_its_words_allow(ground, tmp_path, capsys):
    flags = ground.flags[ground.flags.index("--vocab-size") + 2 :]
    text = [*ground.flags[: ground.flags.index("--vocab-size")], "--vocab-size", "50000"]
    run = tmp_path / "run"
    assert call([*text, *flags, "--max-steps", "1", "--output", str(run)]) == 0
    said = re.search(r"the words of the training text allow ([\d,]+) subwords", capsys.readouterr().err)
    assert len(load_vocabulary(run / "vocabulary.model")) == int(said[1].replace(",", ""))


@pytest.mark.parametrize("available", [1, 2**50, None])
def test_memory_is_told_before_it_is_taken(monkeypatch, available):
    said = []
    monkeypatch.setattr("minitf.run.start.available_bytes", lambda: available)
    base = PRESETS["base"]
    tell_memory(replace(base, model=replace(base.model, vocab_size=37_000)), said.append)
    assert said[0] == "memory: about 7.1 GiB, in batches of 25,000 tokens"
    assert ["--checkpoint-activations" in text for text in said[1:]] == [True] * (available == 1)
