"""The page that translates: its bytes, what it refuses, and that it computes in a browser what Python computes."""

import functools
import json
import math
import random
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from additions.interchange.piece_vocabulary import PieceVocabulary
from additions.pages import commands as pages
from additions.pages.page import write_page
from additions.pages.segmentation import rules_of
from additions.pages.sentence_attention import attention
from additions.pages.tests.pages import Scripts
from additions.pages.tests.translating import odd_lines
from additions.pages.translator_page import example_sentences, languages_of, packed, spread, translator_page
from minitf import __main__ as commands
from minitf.config.model import EOS
from minitf.data.vocabulary import Vocabulary, sized
from minitf.decoding.lines import search_of
from minitf.errors import UserError
from minitf.model.transformer import Transformer
from minitf.storage.run_directory import load_config, save_config
from minitf.system.process import run_command
from minitf.translation.translator import Translator, load_learned
from tests.helpers.fixtures import SENTENCES
from tests.helpers.marks import parametrize_some
from tests.helpers.runs import ENGLISH, call

WORDS = " ".join(SENTENCES).split()
MODELS = {
    "the paper's": [],
    "no matrix shared": [
        *("@model.share_embeddings=none", "--set", "model.d_k=5", "--set", "model.d_v=7"),
        *("--set", "model.encoder_layers=1", "--set", "model.decoder_layers=2"),
    ],
    "target and output shared": [
        *("@model.share_embeddings=target-output", "@model.attention_bias=false", "@model.norm_epsilon=0.001"),
    ],
    "source and target shared": [
        *("@model.share_embeddings=source-target", "@model.scale_embeddings=false", "--model.heads", "1"),
    ],
    "pre-norm, as the preset laptop": ["--model.norm", "pre"],
    "learned positions": ["--model.norm", "pre", "@model.positions=learned", "@model.activation=gelu"],
    "as Marian's": [
        *("@model.activation=silu", "@model.decoder_start=zero", "@model.output_bias=true"),
        *("@model.positions=sinusoidal-concatenated", "@model.share_embeddings=none"),
    ],
    "as fairseq's": [
        *("@model.decoder_start=eos", "@model.first_position=2", "@model.embedding_norm=true"),
        *("@model.positions=sinusoidal-halves", "@model.source_eos=false"),
    ],
}


@pytest.fixture(scope="module")
def learned(little_run):
    """The model of a run, as the page is made of it."""
    return load_learned(little_run())


@pytest.fixture(scope="module")
def made_for(learned):
    """made_for(field=value, …): a model of another configuration or vocabulary, as far as it is looked at."""

    def made(vocabulary=None, **model):
        config = replace(learned.config, model=replace(learned.config.model, **model))
        return replace(learned, config=config, vocabulary=vocabulary or learned.vocabulary)

    return made


# ---- The text ----------------------------------------------------------------------------------------------------


def test_a_matrix_as_bytes_is_near_the_matrix(learned):
    learned = replace(learned, weights={name: array.copy() for name, array in learned.weights.items()})
    learned.weights["encoder.layers.0.feed_forward.up.weight"][3] = 0
    listed, blob = packed(learned, "int8")
    at = 0
    for each in listed:
        shape, array = each["shape"], learned.weights[each["name"]]
        size = int(np.prod(shape))
        if len(shape) == 1:
            assert each["type"] == "float32"
            np.testing.assert_array_equal(np.frombuffer(blob, "<f4", size, at), array)
            at += 4 * size
            continue
        assert each["type"] == "int8"
        units = np.frombuffer(blob, np.int8, size, at).reshape(shape)
        factors = np.frombuffer(blob, "<f4", shape[0], at + size)
        at += size + 4 * shape[0]
        largest = np.abs(array).max(1)
        assert (np.abs(units).max(1) == np.where(largest > 0, 127, 0)).all()
        assert (np.abs(units * factors[:, None] - array).max(1) <= 0.501 * largest / 127).all()
    assert at == len(blob)


def test_the_page_asks_for_nothing_else(learned):
    text = translator_page(learned, "runs/<b>&x", ["</script><b>"])
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org", "")
    for directive in ("default-src", "base-uri", "form-action"):
        assert f"{directive} 'none'" in text
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|\bimport\(|innerHTML|eval\(", text)
    assert "<b>&x" not in text
    assert Scripts(text).tags == Scripts(translator_page(learned, "x", ["a"])).tags


def test_another_vocabulary_is_refused(made_for, tmp_path):
    symbols = Vocabulary.train(SENTENCES, 350, tmp_path / "symbols.model", symbols=["(S", ")"])
    with pytest.raises(UserError, match="run has a vocabulary with symbols that are never cut"):
        translator_page(made_for(symbols), "run")


def test_the_command_writes_a_page_of_a_run(tiny_run, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands.run(["page", str(tiny_run), "--sentence", "a cat", "--weights", "float16"])
    assert capsys.readouterr().out == "translator.html\n"
    described = json.loads(Scripts((tmp_path / "translator.html").read_text("utf-8")).found["page"])
    assert (described["weights"], described["sentences"], described["max_source_length"]) == ("float16", ["a cat"], 255)
    assert run_command(pages.page, [str(tiny_run), "--output", str(tmp_path / "no" / "page.html")]) != 0
    assert "No such file or directory" in capsys.readouterr().err


def test_examples_are_of_the_validation_text(ground, tiny_run, tiny_vocabulary):
    run = ground.new()
    assert call([*ground.flags, "--output", str(run)]) == 0
    vocabulary = Vocabulary.load(run / "vocabulary.model")
    valid = (ground.folder / "valid.en").read_text("utf-8").splitlines()
    assert example_sentences(run, vocabulary) == list(dict.fromkeys(valid))[:12]
    assert example_sentences(tiny_run, tiny_vocabulary) == []


def test_weights_that_are_no_numbers_are_refused(learned):
    for value, weights in ((np.nan, "int8"), (np.inf, "float32"), (70_000, "float16")):
        damaged = {name: array.copy() for name, array in learned.weights.items()}
        damaged["decoder.layers.1.feed_forward.up.weight"][2, 3] = value
        with pytest.raises(UserError, match=r"has (nan|inf|70000.0) in decoder.layers.1.feed_forward.up.weight"):
            translator_page(replace(learned, weights=damaged), "run", weights=weights)


def test_checkpoints_are_spread_over_the_training():
    steps = [*range(100, 1100, 100)]
    assert spread(steps, 4) == [100, 400, 700, 1000]
    assert spread(steps, 10) == spread(steps, 99) == steps
    assert (spread(steps, 1), spread(steps, 0), spread([], 5)) == ([100], [], [])
    with pytest.raises(UserError, match="checkpoints=-1 is not a number of checkpoints"):
        spread(steps, -1)


# ---- In a browser: the computation -------------------------------------------------------------------------------


@pytest.fixture
def show(chromium, tmp_path):
    """show(learned, sentences, weights): open the page; the browser has nothing to complain about in the end."""
    path = tmp_path / "translator.html"

    def shown(learned, sentences=("the big cat sees a red house",), weights="float32", width=1400):
        write_page(path, translator_page(learned, "runs/x", sentences, weights=weights))
        chromium.complaints()
        chromium.requests()
        chromium.prefer("light")
        chromium.viewport(width, 1000)
        chromium.open(path)
        chromium.wait_for("document.body.dataset.ready")
        return chromium

    yield shown
    chromium.viewport(1500, 950)
    assert chromium.complaints() == []
    assert [each for each in chromium.requests() if each not in (path.as_uri(), "data:,")] == []


TRANSLATE = "return arguments[0].map((line) => minitf.translate(line, arguments[1]))"


@pytest.mark.look
@parametrize_some("name", MODELS)
def test_the_page_translates_as_python_does(show, little_run, name):
    run = little_run(*MODELS[name])
    translator = Translator.load(run, warn=lambda message: None)
    rng = random.Random(0)
    lines = ["", "cat", *(" ".join(rng.choices(ENGLISH, k=rng.randint(1, 12))) for _ in range(36))]
    lines += odd_lines(10, WORDS, seed=1)
    page = show(load_learned(run))
    endings = set()
    for given in (
        {"beam": 1},
        {"beam": 4},
        {"beam": 3, "alpha": 1.0, "beta": 0.0, "n_best": 3},
        {"beam": 1, "max_extra_length": 1},
    ):
        some = lines if len(given) == 1 else lines[::6]  # all with the settings of everyday
        expected = translator.translate_nbest(some, **{"n_best": 1, **given})
        found = page.run(TRANSLATE, some, given)
        for line, ours, theirs in zip(some, found, expected, strict=True):
            assert [each["text"] for each in ours["hypotheses"]] == [each.text for each in theirs], (line, given)
            for each, other in zip(ours["hypotheses"], theirs, strict=True):
                assert each["finished"] == other.finished
                assert tuple(each["tokens"]) == (other.parts[0][1] if other.parts else ())
                assert each["score"] == pytest.approx(other.score, abs=1e-4)
                assert each["log_probability"] == pytest.approx(other.log_probability, abs=1e-4)
                endings.add(other.finished)
    assert endings == {True, False} or (endings == {True} and MODELS[name])  # the paper's is cut, too


@parametrize_some("byte_fallback", [True, False])
def test_pieces_and_texts_are_those_of_python(show, learned, tmp_path, byte_fallback):
    vocabulary = Vocabulary.train(
        SENTENCES, 350 if byte_fallback else 90, tmp_path / "pieces.model", byte_fallback=byte_fallback
    )
    lines = ["", " ", "</s>", "<0x41>", "ab" * 600, *SENTENCES, *odd_lines(400, WORDS)]
    page = show(learned)
    page.run("window.cut = new Vocabulary(arguments[0])", rules_of(vocabulary, "x"))
    expected = [vocabulary.pieces(ids) for ids in vocabulary.encode(lines)]
    assert page.run("return arguments[0].map((line) => cut.pieces(cut.encode(line)))", lines) == expected
    assert ("<unk>" in {piece for row in expected for piece in row}) != byte_fallback
    rng = np.random.default_rng(0)
    rows = [rng.integers(0, len(vocabulary), 12).tolist() for _ in range(300)]
    rows += vocabulary.encode(lines)
    texts = page.run("return arguments[0].map((ids) => cut.decode(ids))", rows)
    assert texts == vocabulary.decode(rows)


def imported_vocabularies(folder):
    """Vocabularies as imported models have them, by name."""
    special = ["<pad>", "<unk>", "<s>", "</s>"]
    (folder / "text").write_text("\n".join(SENTENCES * 3 + ["½ m² … ﬁn", "日本 语"] * 4), "utf-8")
    kinds = (("unigram", "nmt_nfkc", False), ("unigram", "identity", True), ("bpe", "nfkc_cf", False))
    for kind, rule, byte_fallback in kinds:
        prefix = str(folder / kind) + rule
        SentencePieceTrainer.train(
            input=str(folder / "text"), model_prefix=prefix, model_type=kind, normalization_rule_name=rule,
            byte_fallback=byte_fallback, vocab_size=350 if byte_fallback else 100, hard_vocab_limit=False,
            minloglevel=2,
        )  # fmt: skip
        model = Path(f"{prefix}.model").read_bytes()
        processor = SentencePieceProcessor(model_proto=model)
        pieces = [processor.id_to_piece(i) for i in range(3, len(processor), 1)]
        missing = [piece for i, piece in enumerate(pieces) if byte_fallback or i % 9]  # Marian's list may lack some
        yield f"{kind} {rule}", PieceVocabulary("sentencepiece", [*special, ">>deu<<", *missing], model)
    yield "words", PieceVocabulary("words", [*special, "the", "c@@", "at", ">>x<<", "a@@"], joiner="@@")
    yield "characters", PieceVocabulary("characters", [*special, "▁", *"abcdehot."])


def test_pieces_and_texts_of_imported_vocabularies(show, learned, tmp_path):
    page = show(learned)
    lines = ["", " ", "▁", "</s>", ">>deu<< the cat", ">>fra<< the cat", "▁the  cat▁", "ﬁ ½ Ａ e\u0301", "ab" * 300]
    lines += ["c@@ at the", "a▁b cat"]
    lines += [*SENTENCES, *odd_lines(300, WORDS)]
    rng = np.random.default_rng(0)
    for name, vocabulary in imported_vocabularies(tmp_path):
        page.run("window.cut = new Vocabulary(arguments[0])", rules_of(vocabulary, name))
        expected = vocabulary.encode(lines)
        found = page.run("return arguments[0].map((line) => cut.encode(line))", lines)
        for line, ours, theirs in zip(lines, found, expected, strict=True):
            assert ours == theirs, (name, line)
        rows = [*expected, *(rng.integers(0, len(vocabulary), 12).tolist() for _ in range(200))]
        assert page.run("return arguments[0].map((ids) => cut.decode(ids))", rows) == vocabulary.decode(rows), name


def test_a_prefix_is_what_the_translation_begins_with(show, learned):
    ids = learned.vocabulary.encode(["ein Haus"])[0]
    page = show(learned)
    (free,) = page.run(TRANSLATE, ["the cat"], {"beam": 1})
    (held,) = page.run(TRANSLATE, ["the cat"], {"beam": 1, "prefix": free["tokens"][:2]})
    assert (held["tokens"], held["score"]) == (free["tokens"], free["score"])
    for beam in (1, 4):
        (found,) = page.run(TRANSLATE, ["the cat"], {"beam": beam, "prefix": ids})
        assert found["tokens"][: len(ids)] == ids
        assert found["log_probability"] < free["log_probability"]


@parametrize_some(("weights", "bound"), [("int8", 1.5e-2), ("float16", 2e-3), ("float32", 0.0)])
def test_the_numbers_of_the_page_are_the_weights(show, learned, weights, bound):
    learned = replace(learned, weights={name: array.copy() for name, array in learned.weights.items()})
    name = "decoder.layers.1.cross_attention.query"
    learned.weights[f"{name}.weight"][0, :3] = 3e-5, -6e-8, 0  # among them are those that float16 has no exponent for
    page = show(learned, weights=weights)
    for kind in ("weight", "bias"):
        wanted = learned.weights[f"{name}.{kind}"].ravel()
        path = f"model.decoder.layers[1].cross_attention.query.{kind}.data"
        if weights == "float16":
            wanted = wanted.astype(np.float16).astype(np.float32)
        found = np.array(page.run(f"return Array.from({path})"), np.float32)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=0 if weights != "int8" or kind == "bias" else bound)


# ---- In a browser: the reader ------------------------------------------------------------------------------------

TEXT = "return document.querySelector(arguments[0]).textContent"
TEXTS = "return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent)"


def fixed(number, digits):
    """The number as the page writes it, with a minus sign instead of a hyphen."""
    return f"{number:.{digits}f}".replace("-", "−")


def as_number(text):
    """The number that the page has written."""
    return float(text.replace("−", "-"))


def type_sentence(page, text):
    page.run("document.getElementById('text').value = arguments[0]; document.getElementById('text').focus()", text)
    page.run("delete document.body.dataset.ready")
    page.press("Enter")
    page.wait_for("document.body.dataset.ready")


def test_a_first_sentence_is_translated_when_the_page_opens(show, learned):
    page = show(learned, ["the cat", "a dog"])
    assert page.run("return minitf.ready.then(() => state.result.length)") == 1
    expected = page.run("return minitf.translate('the cat')")
    assert page.run(TEXT, "#output") == page.run("return visible(arguments[0])", expected["text"]) != ""
    assert page.run(TEXTS, "#source li") == [*expected["source_pieces"], "</s>"]
    assert page.run(TEXTS, "#target li") == [*expected["pieces"], *["</s>"] * expected["finished"]]
    type_sentence(page, "a tree and a garden")
    expected = page.run("return minitf.translate('a tree and a garden')")
    assert page.run(TEXT, "#output") == page.run("return visible(arguments[0])", expected["text"]) != ""
    assert f"score {fixed(expected['score'], 4)}" in page.run(TEXT, "#status")
    sure = page.run("return state.steps.slice(0, state.result[0].tokens.length).map((each) => each.log_probability)")
    assert page.run("return state.chosen") == int(np.argmin(sure))


def test_languages_and_words_without_pieces_are_named(show, learned):
    page = show(learned, ["the 日本 cat"])
    assert page.run(TEXT, "#languages") == "English → German"
    assert "has some characters of “日本”: the model has not learned them" in page.run(TEXT, "#unknown")
    type_sentence(page, "the cat")
    assert page.run("return document.getElementById('unknown').hidden")
    nameless = replace(learned, config=replace(learned.config, train=(Path("one"), Path("other.text"))))
    assert languages_of(nameless) == []


@pytest.mark.slow
def test_the_model_goes_on_from_a_chosen_piece(show, learned):
    page = show(learned, ["the cat sees a dog"])
    before = page.run("return state.tokens")
    page.click('#target button[data-index="1"]')
    probable = page.run("return state.steps[1].alternatives.map((each) => each.token)")
    assert (
        page.run("return [...document.querySelectorAll('#alternatives button')].map((b) => +b.dataset.token)")[:12]
        == probable
    )
    other = next(token for token in probable if token not in (before[1], EOS))
    page.run("delete document.body.dataset.ready")
    page.click(f'#alternatives button[data-token="{other}"]')
    page.wait_for("document.body.dataset.ready")
    after = page.run("return state.tokens")
    assert after[:2] == [before[0], other]
    expected = page.run("return minitf.translate('the cat sees a dog', { prefix: arguments[0] })", after[:2])
    assert [each for each in after if each != EOS] == expected["tokens"]
    assert page.run("return document.querySelectorAll('#target .given').length") == 2
    page.run("delete document.body.dataset.ready")
    page.click("#again")
    page.wait_for("document.body.dataset.ready")
    assert page.run("return state.tokens") == before


@pytest.mark.slow
def test_the_keyboard_moves_among_pieces_and_chooses(show, learned):
    page = show(learned, ["the cat sees a dog"])
    page.run("document.querySelector('#target [data-index=\"0\"]').click()")  # else the one that is least sure
    page.run("document.querySelector('#target [tabindex=\"0\"]').focus()")
    page.press("Right", "Right", "Left")
    assert page.run("return document.activeElement.dataset.index") == "1"
    assert page.run("return state.chosen") == 1
    assert page.run("return document.querySelector('#target [aria-pressed=true]').dataset.index") == "1"
    page.run("document.querySelector('#alternatives button').focus()")
    page.press("Down", "Down")
    second = page.run("return +document.activeElement.dataset.token")
    page.run("delete document.body.dataset.ready")
    page.press("Enter")
    page.wait_for("document.body.dataset.ready")
    assert page.run("return state.tokens[1]") == second


def wait_after(page, act, *arguments):
    """Do something that translates again; wait for the translation."""
    page.run("delete document.body.dataset.ready")
    act(*arguments)
    page.wait_for("document.body.dataset.ready")


@pytest.mark.slow
def test_the_beam_is_a_tree(show, learned):
    page = show(learned, ["the cat sees a dog"])
    nodes = page.run(
        "return state.tree.nodes.map(({ id, parent, token, position, log_probability, fate, score }) =>"
        " ({ id, parent: parent && parent.id, token, position, log_probability, fate, score, tokens: null }))"
    )
    assert page.run("return document.querySelectorAll('#tree button').length") == len(nodes)
    by_position = {}
    for node in nodes[1:]:
        parent = nodes[node["parent"]]
        assert (parent["position"], parent["fate"]) == (node["position"] - 1, "alive")
        assert node["log_probability"] <= parent["log_probability"]
        by_position.setdefault(node["position"], []).append(node)
    for row in by_position.values():
        numbers = [node["log_probability"] for node in row]
        assert len(row) == 8
        assert numbers == sorted(numbers, reverse=True)
        assert sum(node["fate"] in ("alive", "left") for node in row) == 4
        assert {node["fate"] for node in row if node["token"] == EOS} <= {"finished"}
    finished = sorted((node["score"] for node in nodes if node["fate"] == "finished"), reverse=True)
    assert [as_number(each) for each in page.run(TEXTS, "#finished tbody td:first-child")] == pytest.approx(
        finished, abs=1e-4
    )
    assert finished[0] == pytest.approx(page.run("return minitf.translate('the cat sees a dog').score"))
    best = max(node["log_probability"] for node in nodes if node["fate"] == "left")
    longest = len(learned.vocabulary.encode(["the cat sees a dog"])[0]) + learned.config.max_extra_length
    bound = best / ((5 + longest) / 6) ** 0.6
    reason = page.run(TEXT, "#reason")
    if bound <= finished[0]:
        said = (
            f"at most {fixed(bound, 3)}, log P / penalty({longest}), and the finished one has {fixed(finished[0], 3)}"
        )
        assert said in reason
    else:
        assert f"The length limit of {longest} tokens is reached" in reason


@pytest.mark.slow
def test_a_hypothesis_of_the_beam_is_read_and_gone_on_from(show, learned):
    page = show(learned, ["the cat sees a dog"])
    node = page.run(
        "return state.tree.nodes.find(({ fate, position, token }) => fate === 'pruned' && position === 2).id"
    )
    tokens = page.run("return tokens_of(state.tree.nodes[arguments[0]])", node)
    page.hover(f'#tree [data-node="{node}"]')
    assert "pruned, not among the 4 best" in page.run(TEXT, "#node")
    later = page.run(
        "const fates = (node) => state.tree.nodes.filter(({ parent }) => parent === node).map(({ fate }) => fate);"
        "return state.tree.nodes.find((each) => each.fate === 'alive' && fates(each).every((f) => f === 'pruned')).id"
    )
    page.hover(f'#tree [data-node="{later}"]')
    assert "extended, and pruned later" in page.run(TEXT, "#node")
    page.run("document.querySelector(`#tree [data-node='${arguments[0]}']`).focus()", node)
    page.press("Left")
    parent = page.run("return state.tree.nodes[arguments[0]].parent.id", node)
    assert page.run("return +document.activeElement.dataset.node") == parent
    wait_after(page, page.click, f'#tree [data-node="{node}"]')
    assert page.run("return state.tokens")[:2] == tokens
    page.run("document.getElementById('beam').value = 1")
    wait_after(page, page.run, "document.getElementById('beam').dispatchEvent(new Event('change'))")
    assert page.run("return document.getElementById('beam-card').hidden")
    assert page.run("return state.tokens")[:2] == tokens


def longest_common(one, other):
    """The length of the longest common subsequence, by the recursion that defines it."""

    @functools.cache
    def length(i, j):
        if i == len(one) or j == len(other):
            return 0
        return 1 + length(i + 1, j + 1) if one[i] == other[j] else max(length(i + 1, j), length(i, j + 1))

    return length(0, 0)


def test_a_new_sentence_ends_the_search_for_the_last_one(show, learned):
    page = show(learned, ["the cat"])
    both = "const text = document.getElementById('text'); text.value = arguments[0]; const first = translate();"
    both += "text.value = arguments[1]; return Promise.all([first, translate()]).then(() => state.source.length)"
    page.run(both, "the big cat sees a red house " * 3, "a dog")
    assert page.run(TEXT, "#output") == page.run("return visible(minitf.translate('a dog').text)")
    assert page.run("return state.steps.length") == page.run("return document.querySelectorAll('#target li').length")
    pieces = page.run("return minitf.pieces('a dog')")
    assert page.run(TEXTS, "#source li") == [*pieces, "</s>"]


@pytest.mark.slow
def test_other_settings_stand_beside_those_of_the_run(show, learned):
    page = show(learned, ["the cat sees a dog"])
    assert page.run("return document.getElementById('compared').hidden")
    before = page.run("return minitf.translate('the cat sees a dog')")
    for name, value in (("alpha", 3), ("temperature", 1.5)):
        page.run("document.getElementById(arguments[0]).value = arguments[1]", name, value)
    wait_after(page, page.run, "document.getElementById('alpha').dispatchEvent(new Event('change'))")
    now = page.run("return minitf.translate('the cat sees a dog', { alpha: 3, temperature: 1.5 })")
    assert now["tokens"] != before["tokens"]
    assert page.run(TEXT, "#output") == page.run("return visible(arguments[0])", now["text"])
    assert page.run(TEXT, "#usual-output") == page.run("return visible(arguments[0])", before["text"])
    assert f"score {fixed(before['score'], 4)}" in page.run(TEXT, "#usual-status")
    kept = []
    for selector, one in (("#target li > *", now), ("#usual-target li > *", before)):
        marks = page.run(
            "return [...document.querySelectorAll(arguments[0])].map((each) => each.classList.contains('other'))",
            selector,
        )
        kept.append([piece for piece, marked in zip([*one["tokens"], EOS], marks, strict=True) if not marked])
    assert kept[0] == kept[1]
    assert len(kept[0]) == longest_common([*now["tokens"], EOS], [*before["tokens"], EOS])
    wait_after(page, page.click, "#usual")
    assert page.run("return document.getElementById('compared').hidden")
    assert page.run("return state.tokens.filter((id) => id !== 3)") == before["tokens"]


@parametrize_some("name", ["the paper's", "no matrix shared"])
def test_attention_is_that_of_python(show, little_run, name):
    run = little_run(*MODELS[name])
    text = "the big cat sees a red house"
    expected = attention(Translator.load(run), text)
    assert len(expected.target_out) > 3
    page = show(load_learned(run), [text])
    assert page.run("return idsOf('target').map((id) => vocabulary.by_id[id])") == list(expected.target_out)
    assert page.run("return idsOf('given').map((id) => vocabulary.by_id[id])") == list(expected.target_in)
    for kind, weights in (("encoder", expected.encoder), ("decoder", expected.decoder), ("cross", expected.cross)):
        assert page.run("return layersOf(arguments[0]).length", kind) == len(weights)
        rows = [*np.ndindex(weights.shape[:3])]
        in_page = page.run("return arguments[1].map((row) => Array.from(weightsOf(arguments[0], ...row)))", kind, rows)
        for (layer, head, query), found in zip(rows, in_page, strict=True):
            there = query + 1 if kind == "decoder" else weights.shape[-1]
            assert len(found) == there
            np.testing.assert_allclose(found, weights[layer, head, query, :there], atol=1e-5)
        mean = page.run("return Array.from(weightsOf(arguments[0], 0, ALL, 1))", kind)
        np.testing.assert_allclose(mean, weights[0].mean(0)[1, : len(mean)], atol=1e-5)


def values_in_python(learned, source, target):
    """The values of all parts for a sentence, of head 2: {(stack, layer): [{name: value of all positions}]}."""
    model = Transformer(sized(learned.config.model, learned.vocabulary), seed=None)
    model.load_parameters(learned.weights)
    model.eval()
    found = {}

    def of_head(x):  # [1, T, H * K] -> [T, K]
        return x.numpy()[0].reshape(x.shape[1], model.config.heads, -1)[:, 1]

    def attend(part, x, memory, causal):
        q, k, v = (of_head(each) for each in (part.query(x), part.key(memory), part.value(memory)))
        scores = q @ k.T / math.sqrt(q.shape[1])
        with np.errstate(divide="ignore"):
            weights = np.exp(scores + (np.log(np.tri(*scores.shape)) if causal else 0))
        weights /= weights.sum(1, keepdims=True)
        output = part(x, memory, memory, is_causal=causal)
        values = {"q": q, "k": k, "v": v, "scores": scores, "weights": weights, "head": weights @ v, "output": output}
        return values, output

    def close(residual, x, y):
        return {"sum": x + y, "y": residual.norm(x + y)}, residual.norm(x + y)

    memory = x = model.embed_source(np.array([source]))
    for stack, layers in (("encoder", model.encoder.layers), ("decoder", model.decoder.layers)):
        if stack == "decoder":
            memory, x = x, model.embed_target(np.array([target]))
        for number, layer in enumerate(layers):
            groups = [{"x": x}]
            for part, seen in [(layer.self_attention, None), (getattr(layer, "cross_attention", None), memory)]:
                if part is not None:
                    values, y = attend(part, x, x if seen is None else seen, stack == "decoder" and seen is None)
                    residual = layer.self_attention_residual if seen is None else layer.cross_attention_residual
                    last, x = close(residual, x, y)
                    groups[-1] |= values | last
                    groups.append({})
            up = layer.feed_forward.up(x)
            last, after = close(layer.feed_forward_residual, x, layer.feed_forward(x))
            groups[-1] |= {"up": up, "relu": np.maximum(up.numpy(), 0), "down": layer.feed_forward(x)} | last
            x = after
            found[stack, number] = groups
    return found


def test_a_layer_shows_the_numbers_of_python(show, learned):
    text = "the big cat sees a red house"
    page = show(learned, [text])
    source, target = page.run("return [idsOf('source'), idsOf('given')]")
    steps = "return layerSteps(arguments[0], arguments[1], 1, arguments[2]).map(([, steps]) =>"
    steps += " steps.map(([name, , , value]) => [name, value.map ? Array.from(value, (each) => each.length"
    steps += " ? Array.from(each) : each) : value]))"
    for (stack, layer), groups in values_in_python(learned, source, target).items():
        for position in (0, 2):
            shown = page.run(steps, "source" if stack == "encoder" else "target", layer, position)
            assert [[name for name, _ in group] for group in shown] == [list(group) for group in groups]
            for group, expected in zip(shown, groups, strict=True):
                for name, value in group:
                    theirs = np.asarray(getattr(expected[name], "numpy", lambda of=expected[name]: of)())
                    theirs = theirs.reshape(theirs.shape[-2:])
                    is_own = stack == "decoder" and group is shown[0]
                    there = position + 1 if is_own else len(source)
                    if name in ("k", "v"):
                        theirs = theirs[:there]
                    else:
                        theirs = theirs[position, :there] if name in ("scores", "weights") else theirs[position]
                    np.testing.assert_allclose(value, theirs, atol=2e-5, err_msg=f"{stack} {layer} {name}")


@pytest.mark.slow
def test_a_layer_is_opened_for_the_piece_that_was_clicked(show, learned):
    page = show(learned, ["the big cat sees a red house"])
    page.click("#source li:nth-child(3) button")
    assert page.run(TEXT, "#layer-text").startswith("Encoder, for “")
    assert page.run(TEXTS, "#layer-steps .group") == ["Self-attention", "Feed-forward network"]
    page.click("#target li:nth-child(2) button")
    first, second = page.run("return state.tokens.slice(0, 2).map((id) => vocabulary.by_id[id])")
    assert page.run(TEXT, "#layer-text") == f"Decoder, position 1: it reads “{first}”, and “{second}” is produced."
    groups = ["Self-attention", "Attention to the sentence", "Feed-forward network"]
    assert page.run(TEXTS, "#layer-steps .group") == groups
    for name, value in (("layer", 1), ("head", 2)):
        change = "each.value = arguments[1]; each.dispatchEvent(new Event('change'))"
        page.run(f"const each = document.getElementById(arguments[0]); {change}", name, value)
    assert page.run("return [look.layer, look.head]") == [1, 2]
    page.click("#layer-steps tr:nth-child(6) summary")
    page.wait_for("document.querySelector('#layer-steps tr:nth-child(6) pre')")
    listed = page.run(TEXT, "#layer-steps tr:nth-child(6) pre").split("\n")
    weights = page.run("return Array.from(look.trace.get('decoder.layers.1.self_attention')[1].scores[2])")
    assert [as_number(each.split()[0]) for each in listed] == pytest.approx(weights, abs=1e-4)
    assert [each.split()[1] for each in listed] == ["<s>", first]
    page.hover("#layer-steps tr:nth-child(2) canvas", 5)
    number = page.run("return look.trace.get('decoder.layers.1')[1].x[12]")
    assert f"x[12] {fixed(number, 6)}" in page.run(TEXT, "#number")


@pytest.mark.slow
def test_pointing_at_a_piece_shades_what_it_looks_at(show, learned, little_run, screenshots):
    text = "the big cat sees a red house"
    weights = attention(Translator.load(little_run()), text)
    page = show(learned, [text])
    page.click('#heads [data-layer="1"][data-head="2"]')
    page.hover("#target li:nth-child(2) button")
    row = weights.cross[1, 2, 1]
    most = weights.source[int(row.argmax())]
    said = page.run(TEXT, "#attends")
    assert f"layer 2, head 3: {weights.target_out[1]} looks at {most} " in said
    shades = page.run("return [...document.querySelectorAll('#source li > *')].map((each) => each.style.background)")
    shares = [float(re.search(r"accent\) ([\d.e-]+)%", each)[1]) for each in shades]
    np.testing.assert_allclose(shares, 70 * row**0.55, rtol=1e-3)
    captions = page.run(TEXTS, '#heads [data-layer="0"] .most')
    tops = [weights.source[int(each.argmax())] for each in weights.cross[0, :, 1]]
    assert [each.rpartition(" ")[0].rpartition(" ")[0] for each in captions] == tops
    page.hover("#source li:nth-child(1) button")
    first = weights.target_out[int(weights.cross[1, 2, :, 0].argmax())]
    assert f"{weights.source[0]} is looked at by {first} " in page.run(TEXT, "#attends")
    page.click('#kind input[value="decoder"] + span')
    page.hover("#target li:nth-child(3) button")
    column = int(weights.decoder[1, 2, 2].argmax())
    assert f"looks at {weights.target_in[column]} " in page.run(TEXT, "#attends")
    shades = page.run("return [...document.querySelectorAll('#target li > *')].map((each) => each.style.background)")
    shares = [float(re.search(r"accent\) ([\d.e-]+)%", each)[1]) for each in shades if each]
    np.testing.assert_allclose(shares, 70 * weights.decoder[1, 2, 2, 1:3] ** 0.55, rtol=1e-3)  # its column 0 is <s>
    assert [i for i, each in enumerate(shades) if each] == [0, 1]
    page.hover("#source li:nth-child(1) button")
    assert "is not part of this attention" in page.run(TEXT, "#attends")
    page.screenshot(screenshots / "translator-attention.png")


@pytest.mark.slow
def test_a_head_is_switched_off(show, learned, little_run):
    text = "the big cat sees a red house"
    page = show(learned, [text])
    before = page.run("return minitf.translate(arguments[0])", text)
    damaged = {name: array.copy() for name, array in learned.weights.items()}
    damaged["decoder.layers.0.cross_attention.output.weight"][:, 8:16] = 0  # of 3 heads with 8 values each, the second
    model = Transformer(sized(learned.config.model, learned.vocabulary), seed=None)
    model.load_parameters(damaged)
    search = replace(search_of(learned.config), n_best=1)
    ((expected,),) = Translator(model.eval(), learned.vocabulary, search=search).translate_nbest([text], n_best=1)
    page.click('#heads [data-layer="0"][data-head="1"]')
    wait_after(page, page.click, "#switch")
    assert page.run("return state.result[0].score") == pytest.approx(expected.score, abs=1e-4)
    assert page.run("return state.result[0].score") != pytest.approx(before["score"], abs=1e-3)
    assert f"score {fixed(before['score'], 4)}" in page.run(TEXT, "#usual-status")
    assert page.run(TEXT, '#heads [data-layer="0"][data-head="1"]') == "off"
    options = {"heads_off": ["decoder.layers.0.cross_attention.1"]}
    assert page.run("return minitf.translate(...arguments).score", text, options) == pytest.approx(
        expected.score, abs=1e-4
    )
    assert page.run("return minitf.translate(arguments[0]).score", text) == pytest.approx(before["score"])
    assert page.run("return heads_off()") == options["heads_off"]  # the page's own are as they were
    wait_after(page, page.click, "#usual")
    assert page.run("return state.result[0].score") == pytest.approx(before["score"])


@pytest.mark.slow
def test_the_keyboard_moves_among_heads(show, learned):
    page = show(learned, ["the cat"])
    page.run("document.querySelector('#heads [tabindex=\"0\"]').focus()")
    page.press("Right", "Right", "Up", "Enter")
    assert page.run("return [look.layer, look.head]") == [0, 1]
    assert page.run("return document.activeElement.getAttribute('aria-pressed')") == "true"
    page.run("document.querySelector('#source [tabindex=\"0\"]').focus()")
    page.press("Right", "Enter")
    assert page.run("return state.hand") == {"side": "source", "index": 1}


def test_a_slider_goes_over_the_training(chromium, tiny_run, tmp_path, capsys):
    path, run = tmp_path / "training.html", tmp_path / "run"
    shutil.copytree(tiny_run, run)
    save_config(run / "config.json", replace(load_config(run / "config.json"), max_extra_length=4))
    text = "the cat sat"
    flags = ["--output", str(path), "--sentence", text, "--weights", "float32", "--checkpoints", "2"]
    commands.run(["page", str(run), *flags])
    page = chromium
    page.complaints()
    page.open(path)
    page.wait_for("document.body.dataset.ready")
    assert page.run("return page.steps") == [1, 3]
    slide = "document.getElementById('step').value = arguments[0]; document.getElementById('step').dispatchEvent("
    slide += "new Event('input'))"
    usual = Translator.load(run, warn=lambda message: None).translate_nbest([text], n_best=1)[0][0]
    for place, step in ((0, 1), (1, 3)):
        expected = Translator.load(run, checkpoint=step, warn=lambda message: None)
        ((best,),) = expected.translate_nbest([text], n_best=1)
        assert best.score != pytest.approx(usual.score, abs=1e-3)
        wait_after(page, page.run, slide, place)
        assert page.run("return state.result[0].score") == pytest.approx(best.score, abs=1e-3)
        assert page.run(TEXT, "#step-text") == f"step {step}"
        assert f"score {fixed(usual.score, 3)}"[:-1] in page.run(TEXT, "#usual-status")
        assert page.run("return minitf.translate(arguments[0]).score", text) == pytest.approx(usual.score, abs=1e-3)
    wait_after(page, page.click, "#usual")
    assert page.run("return state.result[0].score") == pytest.approx(usual.score, abs=1e-3)
    assert page.run(TEXT, "#step-text") == "as trained"
    assert page.complaints() == []


HOSTILE = {
    "x" * 20_000: "20,000 characters; this page takes at most 10,000",
    "the cat " * 300: "the model supports at most 127",
    "\ud800": "half a surrogate pair",
}


def test_long_and_hostile_input_gets_a_sentence(show, learned):
    page = show(learned, ["the cat"])
    for text, sentence in HOSTILE.items():
        page.run(
            "document.getElementById('text').value = arguments[0].replace('half', '\\ud800');"
            "delete document.body.dataset.ready; translate()",
            "half" if text == "\ud800" else text,
        )
        page.wait_for("document.body.dataset.ready")
        assert sentence in page.run(TEXT, "#problem")
        assert not page.run("return document.getElementById('problem').hidden")
        assert page.run(TEXT, "#output") == ""
    title = page.run("return document.title")
    markup = "<img src=x onerror=\"document.title='gone'\"><script>document.title='gone'</script>"
    type_sentence(page, markup)
    assert page.run("return document.getElementById('problem').hidden")
    assert page.run(TEXTS, "#source li")[:-1] == learned.vocabulary.pieces(learned.vocabulary.encode([markup])[0])
    assert page.run("return vocabulary.decode(state.source)") == markup
    assert page.run("return document.querySelectorAll('main img, main script').length") == 0
    assert page.run("return document.title") == title
    type_sentence(page, "  ")
    assert page.run(TEXT, "#output") == ""


def test_wrong_options_are_named(show, learned):
    page = show(learned)
    for options, message in (
        ({"bean": 4}, "bean is not an option"),
        ({"beam": 0}, "beam is 0; give a whole number from 1"),
        ({"beam": 2, "n_best": 3}, "n_best is 3; give at most beam, 2"),
        ({"alpha": -1}, "alpha is -1"),
        ({"temperature": 0}, "temperature is 0"),
        (
            {"heads_off": ["decoder.layers.9"]},
            "decoder.layers.9 is not a head; the first one is encoder.layers.0.self_",
        ),
    ):
        said = page.run(
            "try { minitf.translate('a', arguments[0]); return ''; } catch (error) { return error.message; }", options
        )
        assert message in said


WIDTH = "return [document.documentElement.scrollWidth, innerWidth]"


@pytest.mark.slow
def test_narrow_wide_light_and_dark(show, learned, screenshots):
    seen = set()
    for width in (400, 1400):
        page = show(learned, ["the cat sat on the mat. the dog did not, and the bird sang!"], width=width)
        for colours in ("light", "dark"):
            page.prefer(colours)
            needed, there = page.run(WIDTH)
            assert needed <= there == width
            seen.add(page.screenshot(screenshots / f"translator-{width}-{colours}.png"))
    assert len(seen) == 4


def test_a_damaged_page_says_so(chromium, learned, tmp_path):
    path = tmp_path / "damaged.html"
    text = translator_page(learned, "x", ["a"])
    blob = Scripts(text).found["weights"]
    write_page(path, text.replace(blob, blob[: len(blob) // 2 // 4 * 4]))
    chromium.open(path)
    problem = chromium.wait_for(
        "!document.getElementById('problem').hidden && document.getElementById('problem').textContent"
    )
    assert "The weights cannot be read" in problem
    chromium.complaints()
