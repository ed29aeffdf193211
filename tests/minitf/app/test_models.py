"""`minitf pack` and `shortlist`."""

import json
import re
import shutil

import pytest

from minitf.app.models import pack, shortlist
from minitf.app.translate import main as translate
from minitf.decoding.sampling import SamplingConfig
from minitf.decoding.search import BeamSearchConfig
from minitf.decoding.shortlist import Shortlist
from minitf.errors import UserError
from minitf.storage.checkpoint_store import CheckpointStore
from minitf.storage.run_directory import load_config, save_config
from minitf.system.process import run_command
from minitf.translation.translator import Translator
from tests.helpers.fake_models import RandomModel
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


ENGLISH = ["the cat", "the dog", "a cat and a dog", "", "the tree", "a tree"]
GERMAN = ["die Katze", "der Hund", "eine Katze und ein Hund", "", "der Baum", "ein Baum"]
LINES = ["the cat and the tree", "", "a dog!"]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for name, lines in (("en", ENGLISH), ("de", GERMAN), ("input", LINES)):
        (folder / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def table(tiny_run, texts):
    path = texts / "lex.s2t"
    shortlist([str(tiny_run), str(texts / "en"), str(texts / "de"), "--output", str(path)])
    return path


@pytest.fixture
def command(capfd):
    def run_here(program, *arguments):
        status = run_command(program, [str(each) for each in arguments])
        return status, *capfd.readouterr()

    return run_here


@pytest.fixture(scope="module")
def translator(tiny_run):
    return Translator.load(tiny_run, warn=lambda message: None)


def test_table_is_in_the_form_of_marian(table, translator):
    lines = table.read_text(encoding="utf-8").splitlines()
    assert all(re.fullmatch(r"\S+ \S+ [01]\.\d{7}", line) for line in lines)
    frequent = [line.split()[0] for line in lines if line.split()[1] == "NULL"]
    counts = {}
    for ids in translator.vocabulary.encode(GERMAN):
        for piece in translator.vocabulary.pieces(ids):
            counts[piece] = counts.get(piece, 0) + 1
    assert {*frequent} == {*counts}
    assert [counts[piece] for piece in frequent] == sorted(counts.values(), reverse=True)


def test_pairs_are_evenly_spaced_and_translations_few(tiny_run, texts, tmp_path, command):
    arguments = [tiny_run, texts / "en", texts / "de", "--output", tmp_path / "lex", "--pairs", "3", "--best", "1"]
    status, _, err = command(shortlist, *arguments)
    assert status == 0
    assert "translations from 3 pairs" in err
    sources = [line.split()[1] for line in (tmp_path / "lex").read_text(encoding="utf-8").splitlines()]
    others = [source for source in sources if source != "NULL"]
    assert len(others) == len({*others}) > 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--pairs", "0"], "--pairs 0 give an empty table"),
        (["--best", "0"], "--best 0"),
        ([], "has 6 lines"),
    ],
)
def test_wrong_arguments_are_a_sentence(flags, message, tiny_run, texts, tmp_path, command):
    target = texts / ("de" if flags else "input")
    status, out, err = command(shortlist, tiny_run, texts / "en", target, "--output", tmp_path / "lex", *flags)
    assert (status, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
    assert not (tmp_path / "lex").exists()


# ---- Translations ------------------------------------------------------------------------------------------------


def test_translations_have_only_pieces_of_the_shortlist(table, translator):
    few = Shortlist.load(table, translator.vocabulary, first=3, best=2)
    settings = {"max_extra_length": 6, "shortlist": few, "max_sentences_per_batch": 1}
    for best, line in zip(translator.translate_nbest(LINES, **settings), LINES, strict=True):
        for each in best:
            for source, target in each.parts:
                allowed = few.tokens([[*source, 3]])
                assert {*target} <= {*allowed.tolist()}, line
    free = translator.translate(LINES, max_extra_length=6)
    assert translator.translate(LINES, **settings) != free


def test_whole_vocabulary_as_a_shortlist_changes_no_bit(table, translator):
    whole = Shortlist.load(table, translator.vocabulary, first=10**6)
    found = translator.translate_nbest(LINES, max_extra_length=6, shortlist=whole)
    assert found == translator.translate_nbest(LINES, max_extra_length=6)


def test_ensembles_and_float64_take_a_shortlist(table, tiny_run, texts, command):
    flags = ["--input", texts / "input", "--max-extra-length", "6", "--precision", "float64", "--quiet"]
    found = command(translate, tiny_run, tiny_run, *flags, "--shortlist", table)
    assert found[0] == 0
    assert found == command(translate, tiny_run, *flags, "--shortlist", table)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--score", "LINES"], "shortlist and score cannot be combined"),
        (["--sample"], "shortlist and sample cannot be combined"),
        (["--shortlist", "nowhere"], "nowhere"),
    ],
)
def test_what_cannot_be_is_a_sentence(flags, message, table, tiny_run, texts, command):
    flags = [str(texts / "input") if flag == "LINES" else flag for flag in flags]
    status, out, err = command(translate, tiny_run, "--input", texts / "input", "--shortlist", table, *flags)
    assert (status, out) == (2, "")
    assert message in err.replace("_", "-") or message in err
    assert "Traceback" not in err


def test_library_refuses_the_same(table, translator):
    few = Shortlist.load(table, translator.vocabulary)
    with pytest.raises(UserError, match="a prefix may contain tokens"):
        translator.translate(LINES, ["", "", "ein"], shortlist=few)
    with pytest.raises(UserError, match="scores are over the whole vocabulary"):
        translator.score([("the cat", "die Katze")], shortlist=few)
    with pytest.raises(UserError, match="sampling draws from the whole vocabulary"):
        translator.translate(LINES, sampling=SamplingConfig(), shortlist=few)
    other = Translator(RandomModel(0, len(translator.vocabulary)), translator.vocabulary, search=BeamSearchConfig())
    with pytest.raises(UserError, match="shortlist needs a Transformer"):
        other.translate(LINES, shortlist=few)
