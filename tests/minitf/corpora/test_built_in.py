import hashlib
import os

import pytest

from minitf.corpora.built_in import Corpus, built_in_corpus, first, write_corpus
from minitf.errors import UserError

SMALL = {"train_pairs": 300, "valid_pairs": 20, "test_pairs": 30}
FILES = ["test.de", "test.en", "train.de", "train.en", "valid.de", "valid.en"]


@pytest.fixture(scope="module")
def corpus():
    return built_in_corpus()


def test_the_corpus_is_that_of_the_published_figures(corpus):
    lines = "".join(f"{english}\t{german}\n" for english, german in corpus.train + corpus.valid + corpus.test)
    assert hashlib.sha256(lines.encode()).hexdigest().startswith("0339a35dd1689683")


def test_sizes(corpus):
    assert (len(corpus.train), len(corpus.valid), len(corpus.test)) == (30_000, 1_000, 1_000)
    small = built_in_corpus(**SMALL)
    assert small == Corpus(corpus.train[:300], corpus.valid[:20], corpus.test[:30])
    assert first(corpus, train_pairs=0, valid_pairs=0, test_pairs=0) == Corpus([], [], [])


@pytest.mark.parametrize("name", SMALL)
def test_sizes_that_cannot_be(corpus, name):
    with pytest.raises(UserError, match=rf"{name}=-1 is negative"):
        first(corpus, **{**SMALL, name: -1})
    most = 30_000 if name == "train_pairs" else 1_000
    with pytest.raises(UserError, match=rf"{name}={most + 1} is more than the {most} that are built in; ask for fewer"):
        first(corpus, **{**SMALL, name: most + 1})


def test_written_files(tmp_path):
    small = built_in_corpus(**SMALL)
    folder = tmp_path / "new" / "folder"
    write_corpus(folder, small)
    assert sorted(os.listdir(folder)) == FILES
    for name, pairs in (("train", small.train), ("valid", small.valid), ("test", small.test)):
        for side, language in enumerate(("en", "de")):
            written = (folder / f"{name}.{language}").read_bytes()
            assert written == "".join(pair[side] + "\n" for pair in pairs).encode("utf-8")
