"""A run that is resumed where its texts are not: with the same bits, or one sentence that says what is missing."""

import gzip
import shutil
from pathlib import Path

import pytest

from minitf.data.vocabulary import Vocabulary
from minitf.run import text_snapshots
from minitf.storage.run_directory import RunDirectory
from minitf.training.run import Texts
from tests.helpers.runs import call, differences, fingerprint, write_corpus

pytestmark = pytest.mark.heavy


@pytest.fixture
def begun(ground, tmp_path):
    """A folder of texts, and a run on them that was ended at step 9."""
    (tmp_path / "texts").mkdir()
    flags = write_corpus(tmp_path / "texts")
    run = tmp_path / "run"
    assert call([*flags, *ground.flags[9:], "--output", str(run), "--max-steps", "9"]) == 0
    return tmp_path / "texts", run


def resume(run, *more):
    return call(["--resume", str(run), "--max-steps", "13", *map(str, more)])


def as_never_moved(ground, run):
    return differences(fingerprint(run), ground.expected) == []


def named(texts, split):
    return [f"--{split}", texts / f"{split}.en", texts / f"{split}.de"]


def test_without_any_text_the_bits_are_the_same(ground, begun, tmp_path, capsys):
    texts, run = begun
    shutil.rmtree(texts)
    moved = run.rename(tmp_path / "elsewhere")
    assert resume(moved) == 0
    assert (
        f"note: {texts / 'train.en'} does not exist; training continues with the run's token ids"
        in capsys.readouterr().err
    )
    assert as_never_moved(ground, moved)


def test_texts_may_be_named_where_they_are_now(ground, begun, tmp_path):
    texts, run = begun
    texts = texts.rename(tmp_path / "other")
    assert resume(run, *named(texts, "train"), *named(texts, "valid"), *named(texts, "test")) == 0
    assert as_never_moved(ground, run)
    assert call(["--resume", str(run)]) == 0  # the new places are remembered


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_another_text_is_refused_before_anything_is_written(ground, begun, tmp_path, capsys, split):
    texts, run = begun
    other = texts / "other.de"
    other.write_text((texts / f"{split}.de").read_text().replace("Hund", "Katze").replace("Haus", "Baum"))
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert resume(run, f"--{split}", texts / f"{split}.en", other) == 2
    assert f"error: {other} is not the {text_snapshots.NAMES[split]} of the run: its content" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    assert resume(run) == 0
    assert as_never_moved(ground, run)


def test_a_run_that_kept_no_copies_says_what_it_goes_without(ground, begun, capsys):
    """As runs of earlier versions: the ids of both texts are enough for all but the test score."""
    texts, run = begun
    shutil.rmtree(run / "data" / "texts")
    for path in [*texts.glob("train.*"), *texts.glob("valid.*"), texts / "test.de"]:
        path.unlink()
    assert resume(run) == 0
    err = capsys.readouterr().err
    assert f"{texts / 'test.de'} does not exist: no test score at the end; give their new paths with --test" in err
    assert "held-out BLEU" not in err
    found = differences(fingerprint(run), ground.expected)
    assert found == ["log.jsonl", "test.hypotheses"]


@pytest.mark.parametrize("lost", ["train", "valid"])
def test_ids_that_are_lost_need_the_text(begun, capsys, lost):
    texts, run = begun
    (run / "data" / lost / "prepared.json").unlink()
    shutil.rmtree(run / "data" / "texts")
    (texts / f"{lost}.en").unlink()
    assert resume(run) == 2
    advice = f"{texts / lost}.en does not exist, and the run needs it; give their new paths with --{lost} SOURCE TARGET"
    assert advice in capsys.readouterr().err


def test_compressed_texts_are_kept_as_they_are(ground, begun, tmp_path):
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


@pytest.mark.parametrize("change", ["", "gone", "other words"])
def test_held_out_texts_that_change_while_the_run_trains_change_no_score(ground, tmp_path, monkeypatch, change):
    (tmp_path / "texts").mkdir()
    run, held_out = tmp_path / "run", [tmp_path / "texts" / f"{split}.de" for split in ("valid", "test")]
    keep = text_snapshots.keep_held_out

    def keep_and_change(texts, directory):
        kept = keep(texts, directory)
        for path in held_out if change else []:
            if change == "gone":
                path.unlink()
            else:
                path.write_text(f"{change}\n" * len(path.read_text().splitlines()))
        return kept

    monkeypatch.setattr("minitf.run.start.keep_held_out", keep_and_change)
    flags = [*write_corpus(tmp_path / "texts"), *ground.flags[9:], "--output", str(run), "--max-steps", "13"]
    assert call(flags) == 0
    assert as_never_moved(ground, run)


def test_copies_of_one_side_are_no_pair(begun):
    """As a run leaves them that was killed between the two, and given the text in the other form then."""
    texts, run = begun
    directory = RunDirectory.open(run)
    kept = run / "data" / "texts"
    (kept / "valid.target").unlink()
    (kept / "valid.source.gz").write_bytes(gzip.compress((kept / "valid.source").read_bytes()))
    assert text_snapshots.kept_copies(directory, "valid") is None
    pair = (texts / "valid.en", texts / "valid.de")
    found = text_snapshots.keep_held_out(Texts(None, pair, None), directory)
    assert found.valid == (kept / "valid.source", kept / "valid.target")
    assert sorted(path.name for path in kept.glob("valid.*")) == ["valid.source", "valid.target"]


def test_the_vocabulary_may_be_named_again_if_it_is_the_same(ground, begun, tmp_path, capsys):
    texts, first = begun
    one = Path(shutil.copy(first / "vocabulary.model", tmp_path / "one.model"))
    run = tmp_path / "given"
    flags = [*named(texts, "train"), *ground.flags[9:], "--vocabulary", one, "--output", run, "--max-steps", "2"]
    assert call(list(map(str, flags))) == 0
    same = one.rename(tmp_path / "same.model")
    assert call(["--resume", str(run), "--vocabulary", str(same)]) == 0
    other = tmp_path / "other.model"
    Vocabulary.train(["the cat sat on the mat", "eine Katze"], 290, other)
    assert call(["--resume", str(run), "--vocabulary", str(other)]) == 2
    assert "other.model is not the vocabulary of the run; omit --vocabulary" in capsys.readouterr().err
