"""Lines in, lines out: with a model that copies its source, and with the Transformer of a tiny run."""

import itertools
import re
import shutil
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import minitf.decoding.lines
import minitf.fast.inference
from autograd.fast.threads import _Process
from minitf.config import PRESETS
from minitf.config.model import EOS
from minitf.data.text import normalise
from minitf.decoding.lines import Translation, batches_by_length
from minitf.decoding.long_lines import joined, split_long
from minitf.decoding.search import BeamSearchConfig
from minitf.errors import UserError
from minitf.storage import checkpoints
from minitf.storage.checkpoints import Checkpoints
from minitf.storage.run_directory import RunDirectory, save_config
from minitf.training.loop import validation_bleu
from minitf.translation.translator import Translator

LINES = ["the cat", "", "ein Haus, ein Baum und ein Garten", "  \t ", "a tree!", "der Vogel sang", " two  houses\u00a0"]


class CopyModel:
    """Says its source again with near certainty; `says` replaces a source sentence's tokens."""

    def __init__(self, vocabulary_size, says=None):
        self.vocabulary_size = vocabulary_size
        self.says = says
        self.batches = []

    def start_decoding(self, source):
        self.batches.append(source)
        return CopyState(np.pad(source, ((0, 0), (0, 300)), constant_values=EOS))

    def decode_step(self, tokens, state):
        logits = np.zeros((len(state.source), self.vocabulary_size), dtype=np.float32)
        logits[:, EOS] = -5
        if self.says is None:
            expected = state.source[:, state.position]
        else:
            expected = np.full(len(logits), (self.says + [EOS] * 400)[state.position])
        logits[np.arange(len(logits)), expected] = 30
        state.position += 1
        return logits


class CopyState:
    def __init__(self, source):
        self.source = source
        self.position = 0

    def reorder(self, rows):
        self.source = self.source[rows]


@pytest.fixture
def warnings_heard():
    return []


@pytest.fixture
def copier(tiny_vocabulary, warnings_heard):
    return Translator(CopyModel(len(tiny_vocabulary)), tiny_vocabulary, warn=warnings_heard.append)


# ---- Lines -------------------------------------------------------------------------------------------------------


@pytest.mark.heavy
def test_one_line_out_for_each_line_in_and_in_order(copier):
    rng = np.random.default_rng(0)
    words = ["the", "cat", "sat", "on", "a", "mat", "ein", "Haus", "über", "Bäume", "日本", "🙂", "</s>", "<unk>", "x"]
    lines = [" ".join(rng.choice(words, size=rng.integers(0, 12))) for _ in range(300)] + LINES
    for beam in 1, 4:
        assert copier.translate(lines, beam=beam) == [normalise(line) for line in lines]


def test_blank_lines_stay_blank_and_never_reach_the_model(copier):
    assert copier.translate(["", " ", "\t\u00a0", "\n"]) == ["", "", "", ""]
    assert copier.translate([]) == []
    assert copier.model.batches == []
    assert copier.translate_nbest([""]) == [[Translation("", 0.0, 0.0, True)]]


def test_one_line_has_one_translation(copier):
    assert copier.translate("the cat") == "the cat"
    assert copier.translate("") == ""


def test_a_single_string_is_refused(copier):
    for method in copier.translate_nbest, copier.translate_stream:
        with pytest.raises(TypeError, match="lines is a single string"):
            list(method("the cat"))
    with pytest.raises(TypeError, match="pairs holds a single string"):
        copier.score(["ab"])


# ---- Batches -----------------------------------------------------------------------------------------------------


def test_batches_keep_to_their_budgets_and_hold_every_sentence_once():
    rng = np.random.default_rng(1)
    for _ in range(100):
        lengths = rng.integers(1, 60, size=rng.integers(0, 80)).tolist()
        max_tokens, max_sentences = int(rng.integers(1, 300)), int(rng.integers(1, 20))
        batches = list(batches_by_length(lengths, max_tokens, max_sentences))
        assert sorted(itertools.chain.from_iterable(batches)) == list(range(len(lengths)))
        for batch, following in itertools.pairwise([*batches, None]):
            longest = max(lengths[i] for i in batch)
            assert len(batch) == 1 or longest * len(batch) <= max_tokens
            assert len(batch) <= max_sentences
            if following:  # none is smaller than it must be
                assert len(batch) == max_sentences or longest * (len(batch) + 1) > max_tokens
                assert min(lengths[i] for i in batch) >= max(lengths[i] for i in following)


@pytest.mark.parametrize(("kind", "sentences"), [("cpu", 128), ("cuda", 512)])
def test_batches_are_larger_on_a_gpu(copier, monkeypatch, kind, sentences):
    monkeypatch.setattr(minitf.decoding.lines, "run_batches", lambda *args, **limits: heard.append(limits) or [])
    heard: list[dict[str, int]] = []
    copier.decoder = SimpleNamespace(backend=SimpleNamespace(kind=kind))
    copier.translate([], beam=4)
    assert heard[0]["max_sentences"] == sentences
    assert heard[0]["max_tokens"] == 32 * sentences


@pytest.mark.heavy
def test_progress_adds_up_to_the_lines(copier):
    done = []
    lines = [*LINES * 10, "the cat and " * 400]
    copier.translate(lines, max_tokens_per_batch=64, progress=done.append)
    assert sum(done) == len(lines)
    assert len(done) > 5


# ---- Long lines --------------------------------------------------------------------------------------------------


def test_a_long_line_is_translated_in_pieces_and_said_so(tiny_vocabulary, warnings_heard):
    translator = Translator(
        CopyModel(len(tiny_vocabulary)), tiny_vocabulary, max_source_length=20, warn=warnings_heard.append
    )
    line = "the cat sat on the mat. " * 10
    assert translator.translate(["a tree", line, ""]) == ["a tree", line.strip(), ""]
    assert max(source.shape[1] for source in translator.model.batches) <= 21
    (message,) = warnings_heard
    assert re.fullmatch(r"line 2 has \d+ subwords, more than the 20 .* translated in \d+ pieces", message)


def test_a_line_at_the_limit_is_not_cut(tiny_vocabulary, warnings_heard):
    (ids,) = tiny_vocabulary.encode(["the cat sat on the mat"])
    for limit, pieces in [(len(ids), 1), (len(ids) - 1, 2)]:
        model = CopyModel(len(tiny_vocabulary))
        translator = Translator(model, tiny_vocabulary, max_source_length=limit, warn=warnings_heard.append)
        assert translator.translate(["the cat sat on the mat"]) == ["the cat sat on the mat"]
        assert sum(map(len, model.batches)) == pieces
        assert len(warnings_heard) == pieces - 1


def cut(texts, limit):
    return ["".join(texts[i] for i in piece) for piece in split_long(list(range(len(texts))), texts, limit)]


def test_long_lines_are_cut_at_sentences_then_clauses_then_words_then_characters():
    assert cut(["▁one", ".", "▁two", "▁three", "▁four", ",", "▁five", "▁six"], 4) == [
        "▁one.▁two▁three",  # a full stop in the first half leaves too short a piece
        "▁four,▁five▁six",
    ]
    assert cut(["▁one", "▁two", "▁three", ".", "▁four", ",", "▁five", "▁six"], 6)[0] == "▁one▁two▁three."
    assert cut(["▁one", "▁two", "▁three", "▁four", ",", "▁five", "▁six"], 6)[0] == "▁one▁two▁three▁four,"
    assert cut(["▁one", "▁two", ".”", "▁three", "▁four"], 4)[0] == "▁one▁two.”"
    assert cut(["▁1", "▁2", "▁3", ".", "5", "▁4"], 5)[0] == "▁1▁2▁3.5"
    assert cut(["▁", "a", "b", "c", "d", "▁e"], 4) == ["▁abc", "d▁e"]
    assert cut(["猫", "は", "。", "犬", "も"], 4)[0] == "猫は。"
    assert cut(["▁a", "<0xE2>", "<0x80>", "<0xA8>", "<0xC3>", "<0xA4>"], 5)[0] == "▁a<0xE2><0x80><0xA8>"


def test_pieces_of_a_long_line_are_within_the_limit_and_lose_nothing(tiny_vocabulary):
    rng = np.random.default_rng(2)
    for _ in range(100):
        line = "".join(rng.choice(list("ab .,!é猫🙂"), size=rng.integers(1, 200)))
        (ids,) = tiny_vocabulary.encode([line])
        limit = int(rng.integers(1, 30))
        pieces = split_long(ids, tiny_vocabulary.pieces(ids), limit)
        assert list(itertools.chain.from_iterable(pieces)) == ids
        assert all(len(piece) <= limit for piece in pieces)
        assert all(len(piece) > limit // 2 for piece in pieces[:-1])


def test_n_best_of_a_long_line_are_the_best_choices_over_all_pieces():
    rng = np.random.default_rng(3)
    pieces = [
        sorted((Translation(f"{k}{i}", -rng.random(), -rng.random(), i < 2) for i in range(4)), key=lambda t: -t.score)
        for k in "abc"
    ]
    choices = sorted(itertools.product(*pieces), key=lambda choice: -sum(t.score for t in choice))[:4]
    found = joined(pieces, 4)
    assert [translation.text for translation in found] == [" ".join(t.text for t in choice) for choice in choices]
    for translation, choice in zip(found, choices, strict=True):
        assert translation.score == pytest.approx(sum(t.score for t in choice))
        assert translation.log_probability == pytest.approx(sum(t.log_probability for t in choice))
        assert translation.finished == all(t.finished for t in choice)


# ---- Streams -----------------------------------------------------------------------------------------------------


def test_a_stream_is_read_no_further_than_it_must_be(copier, monkeypatch):
    monkeypatch.setattr(minitf.decoding.lines, "LINES_AT_A_TIME", 3)
    read = []

    def lines():
        for number in range(8):
            read.append(number)
            yield f"cat {number}"

    stream = copier.translate_stream(lines())
    assert read == []
    assert next(stream) == "cat 0"
    assert read == [0, 1, 2]
    assert list(stream) == [f"cat {number}" for number in range(1, 8)]


def test_warnings_number_the_lines_of_the_whole_stream(tiny_vocabulary, warnings_heard, monkeypatch):
    monkeypatch.setattr(minitf.decoding.lines, "LINES_AT_A_TIME", 2)
    translator = Translator(
        CopyModel(len(tiny_vocabulary)), tiny_vocabulary, max_source_length=8, warn=warnings_heard.append
    )
    list(translator.translate_stream(["the", "cat", "sat", "the cat sat on the mat and on the tree"]))
    assert [message.split(" has ")[0] for message in warnings_heard] == ["line 4"]


# ---- Warnings ----------------------------------------------------------------------------------------------------


def test_cut_translations_are_told_in_one_warning(tiny_vocabulary, warnings_heard):
    says = tiny_vocabulary.encode(["the cat " * 100])[0]
    translator = Translator(CopyModel(len(tiny_vocabulary), says), tiny_vocabulary, warn=warnings_heard.append)
    translator.translate(["", "the", "cat"], max_extra_length=5)
    assert len(warnings_heard) == 1
    assert "2 lines, the first is line 2" in warnings_heard[0]
    (untold,) = translator.translate_nbest(["the"], max_extra_length=5, n_best=1)
    assert not untold[0].finished
    assert warnings_heard[1].endswith(": line 1")


# ---- Search settings ---------------------------------------------------------------------------------------------


def test_settings_reach_the_search(copier, searches):
    copier.translate(["a"])
    copier.translate(["a"], beam=2, alpha=0.0, max_extra_length=7)
    copier.translate_nbest(["a"], beam=3)
    copier.translate_nbest(["a"], n_best=2)
    list(copier.translate_stream(["a"], beam=5, alpha=1.0, max_extra_length=9))
    default = BeamSearchConfig()
    assert searches == [
        default,
        replace(default, beam=2, alpha=0.0, max_extra_length=7),
        replace(default, beam=3, n_best=3),
        replace(default, n_best=2),
        replace(default, beam=5, alpha=1.0, max_extra_length=9),
    ]
    for setting in ({"beam": 0}, {"n_best": 5}, {"max_tokens_per_batch": 1.5}):
        with pytest.raises(UserError, match="=".join(map(str, *setting.items()))):
            copier.translate(["a"], **setting)


# ---- The Transformer of a run ------------------------------------------------------------------------------------

ENGLISH = ["the cat sat on the mat.", "", "a tree", "two houses and three gardens?", "the dog", "a bird!", "a"]


def load(run, **options):
    """Random weights seldom end a sentence: short limits, and no warnings about it."""
    translator = Translator.load(run, warn=lambda message: None, **options)
    translator.search = replace(translator.search, max_extra_length=6)
    return translator


def test_a_line_alone_is_translated_as_among_others(tiny_run):
    translator = load(tiny_run, dtype="float64")
    together = translator.translate(ENGLISH)
    assert len(set(together)) > 3
    assert together == [translator.translate([line])[0] for line in ENGLISH]
    assert together == translator.translate(ENGLISH[::-1])[::-1]
    assert together == list(translator.translate_stream(iter(ENGLISH), max_tokens_per_batch=8))


@pytest.mark.heavy
def test_threads_may_share_a_translator(tiny_run):
    translator = load(tiny_run)
    expected = load(tiny_run).translate(ENGLISH)
    results = {}

    def work(name):
        results[name] = [translator.translate(ENGLISH, max_tokens_per_batch=10 + name)]

    threads = [threading.Thread(target=work, args=(name,)) for name in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(result == expected for name in range(3) for result in results[name])


def weights_of(run, step):
    return checkpoints.load(Checkpoints(RunDirectory.open(run).checkpoints_path).existing(step), "model.")[0]


def loaded_weights(translator):
    return {name: parameter.data for name, parameter in translator.model.named_parameters().items()}


def test_the_last_checkpoints_are_averaged_as_many_as_the_run_says(make_run):
    run = make_run(steps=(1, 2, 3), average_checkpoints=2)
    second, third = weights_of(run, 2), weights_of(run, 3)
    for name, weight in loaded_weights(load(run)).items():
        mean = ((second[name].astype(np.float64) + third[name]) / 2).astype(np.float32)
        np.testing.assert_array_equal(weight, mean)
    for options in {"average": 1}, {"checkpoint": 3}:
        for name, weight in loaded_weights(load(run, **options)).items():
            np.testing.assert_array_equal(weight, third[name])
    for name, weight in loaded_weights(load(run, checkpoint=2)).items():
        np.testing.assert_array_equal(weight, second[name])


def test_fewer_checkpoints_than_asked_for_are_averaged_and_said_so(make_run, warnings_heard):
    run = make_run(steps=(1, 2), average_checkpoints=5)
    by_default = Translator.load(run, warn=warnings_heard.append)
    assert warnings_heard == []
    asked = Translator.load(run, average=4, warn=warnings_heard.append)
    assert "has 2 checkpoints, not 4" in warnings_heard[0]
    for name, weight in loaded_weights(asked).items():
        np.testing.assert_array_equal(weight, loaded_weights(by_default)[name])


def test_settings_come_from_the_run(make_run):
    run = make_run(beam=3, alpha=0.8, max_extra_length=11, max_length=40)
    translator = Translator.load(run)
    assert translator.search == BeamSearchConfig(beam=3, alpha=0.8, max_extra_length=11)
    assert translator.max_source_length == 39


def test_learned_positions_limit_source_and_target(make_run):
    small = replace(PRESETS["tiny"].model, layers=1, d_model=16, d_ff=32, heads=2)
    run = make_run(model=replace(small, positions="learned", max_positions=12), max_length=12)
    heard = []
    translator = Translator.load(run, warn=heard.append)
    lines = ["the cat sat on the mat and in the garden", "the cat"]
    found = translator.translate_nbest(lines, beam=2)
    assert all(len(translations) >= 1 for translations in found)
    assert any("line 1 has" in message for message in heard)


def test_runs_that_cannot_be_used_are_told_apart(make_run, tmp_path, tiny_vocabulary):
    with pytest.raises(UserError, match="no checkpoint yet"):
        Translator.load(make_run(steps=()))
    run = make_run(steps=(1, 2))
    with pytest.raises(UserError, match="no checkpoint of step 7; there are: 1, 2"):
        Translator.load(run, checkpoint=7)
    with pytest.raises(UserError, match="average=2 and checkpoint=1 cannot be combined"):
        Translator.load(run, average=2, checkpoint=1)
    for setting in ({"average": 0}, {"weights": "newest"}):
        with pytest.raises(UserError, match=r"average=0|weights='newest'"):
            Translator.load(run, **setting)


def test_parts_of_a_run_that_do_not_belong_together_are_refused(make_run, tmp_path, tiny_vocabulary):
    model = replace(PRESETS["tiny"].model, layers=2, d_model=16, d_ff=32, heads=2)
    run = make_run(model=replace(model, vocab_size=len(tiny_vocabulary)))
    Translator.load(run)
    smaller = tiny_vocabulary.train(["the cat sat on the mat"], 290, tmp_path / "smaller.model")
    smaller.save(RunDirectory.open(run).vocabulary_path)
    with pytest.raises(UserError, match=f"model has {len(tiny_vocabulary)} tokens, but its vocabulary 290"):
        Translator.load(run)

    run = make_run(model=model)
    smaller.save(RunDirectory.open(run).vocabulary_path)
    with pytest.raises(UserError, match=r"step-00000003\.safetensors does not match the run's configuration"):
        Translator.load(run)


def test_a_limit_of_no_subword_is_refused(tiny_vocabulary):
    with pytest.raises(UserError, match="max_source_length=0"):
        Translator(CopyModel(len(tiny_vocabulary)), tiny_vocabulary, max_source_length=0)


# ---- Scores ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("float64", 1e-9)])
def test_scoring_gives_what_the_search_gave(tiny_run, dtype, tolerance):
    translator = load(tiny_run, dtype=dtype)
    for line, found in zip(ENGLISH, translator.translate_nbest(ENGLISH, n_best=2), strict=True):
        for each in found:
            if not each.finished or not each.parts:
                continue
            (again,) = translator.score([(line, each.parts[0][1])])
            assert again.text == each.text
            assert again.log_probability == pytest.approx(each.log_probability, rel=tolerance)
            assert again.score == pytest.approx(each.score, rel=tolerance)
            assert sum(again.token_log_probabilities) == pytest.approx(again.log_probability, rel=1e-12)


def test_scores_of_blank_lines_and_of_streams(tiny_run):
    translator = load(tiny_run)
    pairs = [("", ""), ("the cat", ""), ("", "die Katze"), ("a tree", "ein Baum")]
    scored = translator.score(pairs)
    assert scored[0] == Translation("", 0.0, 0.0, True, (), ())
    assert all(each.log_probability < 0 for each in scored[1:])
    with pytest.raises(UserError, match="token id 99999 is outside the vocabulary"):
        translator.score([("a", [99999])])
    streamed = list(translator.score_stream([source for source, _ in pairs], (target for _, target in pairs)))
    assert streamed == [[each] for each in scored]
    with pytest.raises(UserError, match="line 2 has no translation"):
        list(translator.score_stream(["a", "b"], ["c"]))
    with pytest.raises(UserError, match="more translations to score than the 1 lines"):
        list(translator.score_stream(["a"], ["c", "d"]))


@pytest.mark.parametrize(("name", "hint"), [("bean", "beta or beam"), ("n", "n_best"), ("max_len", "max_length")])
def test_an_unknown_setting_is_refused(copier, name, hint):
    message = f"{name} is not a setting of a translation; did you mean {hint}?; the settings are beam, "
    with pytest.raises(TypeError, match=f"^{re.escape(message)}"):
        copier.translate_nbest(["a"], **{name: 3})


def test_an_error_in_one_thread_stops_the_others(tiny_run, monkeypatch):
    monkeypatch.setattr(_Process, "threads", 2)
    monkeypatch.setattr(minitf.fast.inference, "WORTH_SHARING", {"numpy": 0})
    translator = load(tiny_run)

    def fail(lines):
        raise UserError("enough")

    with pytest.raises(UserError, match="enough"):
        translator.translate(ENGLISH * 30, max_sentences_per_batch=2, progress=lambda n: fail(n) if n > 1 else None)
    assert translator.translate(["a tree"]) == load(tiny_run).translate(["a tree"])


def test_a_run_is_searched_as_its_configuration_says_also_while_it_is_validated(tiny_run, tmp_path, searches):
    path, text = tmp_path / "run", tmp_path / "text"
    shutil.copytree(tiny_run, path)
    text.write_text("the cat sat\n", encoding="utf-8")
    run = RunDirectory.open(path)
    config = replace(run.config(), beam=3, alpha=0.9, beta=0.5, max_extra_length=7)
    save_config(path / "config.json", config)
    translator = Translator.load(path, warn=lambda message: None)
    translator.translate(["the cat sat"])
    texts = SimpleNamespace(valid=(text, text))
    data = SimpleNamespace(texts=texts, vocabulary=translator.vocabulary)
    validation_bleu(SimpleNamespace(model=translator.model, data=data, config=config))
    found = [(each.beam, each.alpha, each.beta, each.max_extra_length) for each in searches]
    assert found == [(3, 0.9, 0.5, 7), (1, 0.9, 0.5, 7)]
