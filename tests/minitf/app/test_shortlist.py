"""`minitf shortlist`, and translations with what it writes."""

import re

import pytest

from minitf.app import shortlist, translate
from minitf.decoding.sampling import SamplingConfig
from minitf.decoding.search import BeamSearchConfig
from minitf.decoding.shortlist import Shortlist
from minitf.errors import UserError
from minitf.system.process import run_command
from minitf.translation.translator import Translator
from tests.helpers.fake_models import RandomModel

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
    shortlist.main([str(tiny_run), str(texts / "en"), str(texts / "de"), "--output", str(path)])
    return path


@pytest.fixture
def call(capfd):
    def run_here(program, *arguments):
        status = run_command(program.main, [str(each) for each in arguments])
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


def test_pairs_are_evenly_spaced_and_translations_few(tiny_run, texts, tmp_path, call):
    arguments = [tiny_run, texts / "en", texts / "de", "--output", tmp_path / "lex", "--pairs", "3", "--best", "1"]
    status, _, err = call(shortlist, *arguments)
    assert status == 0
    assert "translations from 3 pairs" in err
    sources = [line.split()[1] for line in (tmp_path / "lex").read_text(encoding="utf-8").splitlines()]
    others = [source for source in sources if source != "NULL"]
    assert len(others) == len({*others}) > 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--pairs", "0"], "--pairs 0 leave nothing to write"),
        (["--best", "0"], "--best 0"),
        ([], "has 6 lines"),
    ],
)
def test_wrong_arguments_are_a_sentence(flags, message, tiny_run, texts, tmp_path, call):
    target = texts / ("de" if flags else "input")
    status, out, err = call(shortlist, tiny_run, texts / "en", target, "--output", tmp_path / "lex", *flags)
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


def test_whole_vocabulary_as_a_shortlist_changes_no_bit(table, translator, tiny_run, texts, call):
    whole = Shortlist.load(table, translator.vocabulary, first=10**6)
    found = translator.translate_nbest(LINES, max_extra_length=6, shortlist=whole)
    assert found == translator.translate_nbest(LINES, max_extra_length=6)
    flags = ["--input", texts / "input", "--max-extra-length", "6", "--nbest", "3", "--alignment", "--format", "jsonl"]
    plain = call(translate, tiny_run, *flags)
    assert call(translate, tiny_run, *flags, "--shortlist", table, "--shortlist-first", "1000000") == plain
    assert plain[0] == 0


def test_ensembles_and_float64_take_a_shortlist(table, tiny_run, texts, call):
    flags = ["--input", texts / "input", "--max-extra-length", "6", "--precision", "float64", "--quiet"]
    found = call(translate, tiny_run, tiny_run, *flags, "--shortlist", table, "--shortlist-best", "5")
    assert found[0] == 0
    assert found == call(translate, tiny_run, *flags, "--shortlist", table, "--shortlist-best", "5")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--score", "LINES"], "shortlist and score exclude each other"),
        (["--prefix", "LINES"], "shortlist and prefix exclude each other"),
        (["--sample"], "shortlist and sample exclude each other"),
        (["--same-bits"], "shortlist and same_bits exclude each other"),
        (["--shortlist", "nowhere"], "nowhere"),
        (["--shortlist-first", "0"], "shortlist-first"),
        (["--shortlist-prune", "2"], "shortlist-prune"),
    ],
)
def test_what_cannot_be_is_a_sentence(flags, message, table, tiny_run, texts, call):
    flags = [str(texts / "input") if flag == "LINES" else flag for flag in flags]
    status, out, err = call(translate, tiny_run, "--input", texts / "input", "--shortlist", table, *flags)
    assert (status, out) == (2, "")
    assert message in err.replace("_", "-") or message in err
    assert "Traceback" not in err


def test_limits_without_a_shortlist_are_refused(tiny_run, texts, call):
    status, _, err = call(translate, tiny_run, "--input", texts / "input", "--shortlist-best", "5")
    assert status == 2
    assert "shortlist_best is given without shortlist" in err


def test_library_refuses_the_same(table, tiny_run, translator):
    few = Shortlist.load(table, translator.vocabulary)
    with pytest.raises(UserError, match="a prefix may hold tokens"):
        translator.translate(LINES, ["", "", "ein"], shortlist=few)
    with pytest.raises(UserError, match="scores are over the whole vocabulary"):
        translator.score([("the cat", "die Katze")], shortlist=few)
    with pytest.raises(UserError, match="sampling draws from the whole vocabulary"):
        translator.translate(LINES, sampling=SamplingConfig(), shortlist=few)
    with pytest.raises(UserError, match="same_bits"):
        Translator.load(tiny_run, same_bits=True).translate(LINES, shortlist=few)
    other = Translator(RandomModel(0, len(translator.vocabulary)), translator.vocabulary, search=BeamSearchConfig())
    with pytest.raises(UserError, match="shortlist needs a Transformer"):
        other.translate(LINES, shortlist=few)
