"""Public corpora in small: their archives as they are laid out, from a server on this machine."""

import contextlib
import gzip
import io
import json
import os
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from additions.corpora import public
from additions.corpora.download import Remote
from additions.corpora.public import DATASETS, cache_folder, find
from additions.corpora.tests.server import serving
from additions.pages.run_log import read_log
from minitf.app import train
from minitf.config import RunConfig
from minitf.config.options import without_none
from minitf.config.presets import NAMED
from minitf.data.text import read_lines, read_pairs
from minitf.errors import UserError
from minitf.system.process import run_command
from tests.helpers.runs import FLAGS, MULTI30K, write_corpus


def sgm(*lines):
    body = "".join(f'<seg id="{n}">{line} </seg>\n' for n, line in enumerate(lines, 1))
    return f'<refset setid="x" srclang="any">\n<doc docid="1">\n<p>\n{body}</p>\n</doc>\n</refset>\n'


def text(*lines):
    return "".join(line + "\n" for line in lines)


def tar(members, mode="w:gz"):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:
        for name, content in members.items():
            data = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return packed.getvalue()


IWSLT_TRAIN = [f"Satz {n} ." for n in range(1, 51)]
TALK = "<url>http://x</url>\n<keywords>talks</keywords>\n<talkid>1</talkid>\n<title>Titel</title>\n"
SIDES = [(pair, side) for pair in ("de-en", "fr-en") for side in pair.split("-")]
FILES = {
    "training-parallel-europarl-v7.tgz": tar(
        {f"training/europarl-v7.{pair}.{side}": text(f"europarl {pair} {side}", f"zwei\u2028{side}")
         for pair, side in SIDES}
    ),
    "training-parallel-commoncrawl.tgz": tar(
        {f"commoncrawl.{pair}.{side}": text(f"crawl {pair} {side}\r") for pair, side in SIDES}
    ),
    "training-parallel-nc-v9.tgz": tar(
        {f"training/news-commentary-v9.{pair}.{side}": text(f"news {pair} {side}") for pair, side in SIDES}
    ),
    "training-parallel-un.tgz": tar({f"un/undoc.2000.fr-en.{side}": text(f"un {side}") for side in ("fr", "en")}),
    "training-giga-fren.tar": tar(
        {f"giga-fren.release2.fixed.{side}.gz": gzip.compress(text(f"giga {side}").encode())
         for side in ("fr", "en")}, "w"
    ),
    "dev.tgz": tar(
        {"dev/newstest2013.en": text("valid en"), "dev/newstest2013.de": text("valid de"),
         "dev/newstest2013-src.en.sgm": sgm("valid en"), "dev/newstest2013-ref.fr.sgm": sgm("valid fr")}
    ),
    "test-full.tgz": tar(
        {f"test-full/newstest2014-{pair}-{kind}.{side}.sgm": sgm(f"test {pair} {side}", "R&amp;D")
         for pair, target in (("deen", "de"), ("fren", "fr")) for kind, side in (("src", "en"), ("ref", target))}
    ),
    "de-en.tgz": tar(
        {"de-en/train.tags.de-en.de": TALK + text(*IWSLT_TRAIN), "de-en/train.tags.de-en.en": TALK + text(*IWSLT_TRAIN)}
        | {f"de-en/IWSLT14.{name}.de-en.{side}.xml": sgm(f"{name} {side}")
           for name in ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
           for side in ("de", "en")}
    ),
}  # fmt: skip

EXPECTED = {  # name: {split: (source lines, target lines)}
    "wmt14-en-de": {
        "train": (
            ["europarl de-en en", "zwei\u2028en", "crawl de-en en", "news de-en en"],
            ["europarl de-en de", "zwei\u2028de", "crawl de-en de", "news de-en de"],
        ),
        "valid": (["valid en"], ["valid de"]),
        "test": (["test deen en", "R&amp;D"], ["test deen de", "R&amp;D"]),
    },
    "wmt14-en-fr": {
        "train": (
            ["europarl fr-en en", "zwei\u2028en", "crawl fr-en en", "un en", "news fr-en en", "giga en"],
            ["europarl fr-en fr", "zwei\u2028fr", "crawl fr-en fr", "un fr", "news fr-en fr", "giga fr"],
        ),
        "valid": (["valid en"], ["valid fr"]),
        "test": (["test fren en", "R&amp;D"], ["test fren fr", "R&amp;D"]),
    },
}
_iwslt = ["Titel", *IWSLT_TRAIN]
_tests = ["TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012"]
EXPECTED["iwslt14"] = {
    "train": ([line for n, line in enumerate(_iwslt, 1) if n % 23],) * 2,
    "valid": ([_iwslt[22], _iwslt[45]],) * 2,
    "test": ([f"{name} de" for name in _tests], [f"{name} en" for name in _tests]),
}


@pytest.fixture
def server():
    with serving() as started:
        started.files = {f"/{name}": content for name, content in FILES.items()}
        yield started


def local(value, base):
    """The same with all addresses on this machine, and no checksums of what others serve."""
    if isinstance(value, Remote):
        return Remote(f"{base}/{value.name}")
    if isinstance(value, dict):
        return {key: local(part, base) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(local(part, base) for part in value)
    if isinstance(value, public.Part):
        return replace(value, archive=local(value.archive, base))
    return value


@pytest.fixture
def here(server, monkeypatch):
    """All corpora come from the server."""
    base = server.url("")
    for name, dataset in DATASETS.items():
        changed = replace(dataset, files=local(dataset.files, base), parts=local(dataset.parts, base))
        monkeypatch.setitem(DATASETS, name, changed)
    return server


def lines_of(pair):
    return tuple(list(read_lines(path)) for path in pair)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_texts_of_archives(here, tmp_path, name):
    said = []
    splits = find(name, tmp_path, said.append)
    assert {split: lines_of(pair) for split, pair in splits.items()} == EXPECTED[name]
    source, target = DATASETS[name].languages
    assert splits["train"] == (tmp_path / "texts" / f"train.{source}", tmp_path / "texts" / f"train.{target}")
    asked = len(here.asked)
    assert asked == {"wmt14-en-de": 5, "wmt14-en-fr": 7, "iwslt14": 1}[name]
    for path in (*tmp_path.glob("*.tgz"), *tmp_path.glob("*.tar")):
        path.unlink()  # many gigabytes, which are not needed any more
    assert find(name, tmp_path, said.append) == splits
    assert len(here.asked) == asked


def test_texts_that_were_half_written_are_written_again(here, tmp_path):
    splits = find("iwslt14", tmp_path, print)
    (tmp_path / "texts" / "texts.json").unlink()
    splits["train"][0].write_text("half")
    assert lines_of(find("iwslt14", tmp_path, print)["train"]) == EXPECTED["iwslt14"]["train"]
    splits["valid"][1].unlink()
    assert lines_of(find("iwslt14", tmp_path, print)["valid"]) == EXPECTED["iwslt14"]["valid"]
    (tmp_path / "texts" / "texts.json").write_text("{")
    assert lines_of(find("iwslt14", tmp_path, print)["train"]) == EXPECTED["iwslt14"]["train"]


def test_a_text_that_was_changed_is_named(here, tmp_path):
    path = find("iwslt14", tmp_path, print)["train"][0]
    path.write_text(path.read_text() + "more\n")
    with pytest.raises(UserError, match=f"{path} has changed since it was made from the archives of iwslt14; delete"):
        find("iwslt14", tmp_path, print)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no archive", "cannot read .*de-en.tgz: .*; delete it to download it again"),
        (tar({"other": "x"}), "has no de-en/train.tags.de-en.de: it is not the expected archive"),
        (FILES["de-en.tgz"][:-100], "cannot read .*de-en.tgz"),
        (tar({"de-en/train.tags.de-en.de": "a\nb\n", "de-en/train.tags.de-en.en": "a\n"}), "2 lines on one side but 1"),
        (tar({"../../de-en/train.tags.de-en.de": "a\n"}), "has no de-en/train.tags.de-en.de"),
    ],
    ids=["none", "another", "cut short", "not aligned", "elsewhere"],
)
def test_an_archive_that_is_not_what_it_should_be(here, tmp_path, content, message):
    here.files["/de-en.tgz"] = content
    with pytest.raises(UserError, match=message):
        find("iwslt14", tmp_path / "folder", print)
    assert not (tmp_path / "folder" / "texts" / "texts.json").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_name_that_is_not_known():
    with pytest.raises(UserError, match="data='wmt' is unknown; choose one of multi30k, "):
        find("wmt", None, print)


def test_the_choices_of_the_flag_are_the_corpora():
    (field,) = [each for each in RunConfig.__dataclass_fields__.values() if each.name == "data"]
    assert get_args(without_none(field.type)[0]) == tuple(DATASETS)


def test_official_addresses():
    remotes = {remote for each in DATASETS.values() for pair in (each.files or {}).values() for remote in pair}
    remotes |= {part.archive for each in DATASETS.values() for parts in (each.parts or {}).values() for part in parts}
    assert {remote.url.split("/")[2] for remote in remotes} == {
        "raw.githubusercontent.com",
        "www.statmt.org",
        "dl.fbaipublicfiles.com",
    }
    assert all(remote.url.startswith("https://") for remote in remotes)


def test_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "minitf"
    for value in ("", "relative"):  # which the specification says to ignore
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert cache_folder() == Path.home() / ".cache" / "minitf"


# ---- Plain files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["{}.lc.norm.tok.{}", "{}.{}", "{}.{}.gz"])
def test_files_that_are_there_are_used_where_they_are(here, tmp_path, pattern):
    for stem in MULTI30K.values():
        for side in ("en", "de"):
            data = f"{stem} {side}\n".encode()
            (tmp_path / pattern.format(stem, side)).write_bytes(gzip.compress(data) if "gz" in pattern else data)
    before = sorted(path.name for path in tmp_path.iterdir())
    splits = find("multi30k-tok", tmp_path, print)
    assert {split: lines_of(pair) for split, pair in splits.items()} == {
        split: ([f"{stem} en"], [f"{stem} de"]) for split, stem in MULTI30K.items()
    }
    assert (here.asked, sorted(path.name for path in tmp_path.iterdir())) == ([], before)


def test_a_known_text_is_held_to_its_checksum(tmp_path):
    """Texts of the same names that are not tokenized would go unnoticed otherwise."""
    for stem in MULTI30K.values():
        for side in ("en", "de"):
            (tmp_path / f"{stem}.{side}").write_text("Raw text.\n")
    with pytest.raises(UserError, match=r"train.de has SHA-256 .*, but cb5a2352.* is known"):
        find("multi30k-tok", tmp_path, print)


@pytest.mark.skipif(
    not Path(os.environ.get("MINITF_DATA", "-"), "multi30k").is_dir(), reason="MINITF_DATA names no folder of corpora"
)
@pytest.mark.parametrize(("name", "folder"), [("multi30k", "raw"), ("multi30k-tok", "tok")])
def test_the_real_multi30k(name, folder):
    splits = find(name, Path(os.environ["MINITF_DATA"], "multi30k", folder), print)
    assert [sum(1 for _ in read_pairs(*splits[split])) for split in MULTI30K] == [29_000, 1_014, 1_000]


# ---- train.py ----------------------------------------------------------------------------------------------------


@pytest.mark.heavy
def test_training_on_a_corpus_by_name(here, tmp_path, monkeypatch, capsys):
    """The first run downloads; with the server gone, a second one and a resumed one find everything in the cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    texts = tmp_path / "texts"
    texts.mkdir()
    write_corpus(texts)
    for split, stem in MULTI30K.items():
        for side in ("en", "de"):
            here.files[f"/{stem}.{side}.gz"] = gzip.compress((texts / f"{split}.{side}").read_bytes())
    shutil.rmtree(texts)
    flags = [*FLAGS, "--data", "multi30k", "--max-steps", "2"]
    assert run_command(train.main, [*flags, "--output", str(tmp_path / "one")]) == 0
    assert capsys.readouterr().err.count("downloading http://127.0.0.1") == 6
    here.shutdown()
    assert run_command(train.main, [*flags, "--output", str(tmp_path / "two")]) == 0
    assert run_command(train.main, ["--resume", str(tmp_path / "two"), "--max-steps", "4"]) == 0
    assert "downloading" not in capsys.readouterr().err
    assert "bleu" in read_log(tmp_path / "two" / "log.jsonl")[-1]
    assert json.loads((tmp_path / "two" / "config.json").read_text())["data"] == "multi30k"
    assert len(here.asked) == 6


def test_a_corpus_that_cannot_be_had(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(
        DATASETS,
        "multi30k",
        replace(DATASETS["multi30k"], files=local(DATASETS["multi30k"].files, "http://127.0.0.1:1")),
    )
    command = ["--data", "multi30k", "--data-dir", str(tmp_path / "data"), "--output", str(tmp_path / "run")]
    assert run_command(train.main, command) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: cannot download http://127.0.0.1:1/train.en.gz: ")
    assert not (tmp_path / "run").exists()


# ---- Archives that lie -------------------------------------------------------------------------------------------


def unpacked(path, names=("a",)):
    with public._member(path, names) as (_, stream):
        return sum(map(len, public._whole_lines(stream, path)))


def test_a_line_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(public, "MAX_LINE_BYTES", 1000)
    path = tmp_path / "line.tar"
    path.write_bytes(tar({"a": b"x" * 1001}, mode="w"))
    with pytest.raises(UserError, match="has a line of more than 1,000 bytes, which no corpus has"):
        unpacked(path)


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", ""])
def test_archives_that_are_cut_or_damaged(tmp_path, kind):
    whole = tar({"a": "\n".join(map(str, range(2000))).encode()}, mode=f"w:{kind}")
    (tmp_path / "whole").write_bytes(whole)
    assert unpacked(tmp_path / "whole") == sum(len(str(number)) for number in range(2000))
    for place in range(0, len(whole), len(whole) // 40):
        for name, content in (("cut", whole[:place]), ("damaged", whole[:place] + b"\xff\0\xff" + whole[place + 3 :])):
            (tmp_path / name).write_bytes(content)
            with contextlib.suppress(UserError):
                unpacked(tmp_path / name)


def test_presets_name_corpora_that_are_known():
    assert {preset.config.data for preset in NAMED.values()} <= {None, *DATASETS}
