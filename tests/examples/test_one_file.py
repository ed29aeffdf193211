"""The Transformer in one file computes what minitf computes, and says in a sentence what it cannot read."""

import ast
import io
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from examples import one_file
from examples.one_file import BOS, EOS, PAD
from minitf import Adam, BeamSearchConfig, OptimizerConfig, Transformer, TransformerConfig, beam_search, greedy_search
from minitf.corpora.built_in import built_in_corpus
from minitf.data.batches import Batch
from minitf.training.optim import compute_gradients, learning_rate

PATH = Path(one_file.__file__)
V, SIZES = 23, {"layers": 2, "d_model": 16, "heads": 4, "d_ff": 24, "dropout": 0.0}
WARMUP = 8


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    """Ops are computed as they are defined, with no fast implementation."""
    monkeypatch.setattr("autograd.engine.implementations", {})


def models():
    """The same weights in both; those of norms and biases are drawn too, so that none is 0 or 1."""
    ours = one_file.Transformer(V, **SIZES, seed=3, dtype=np.float64)
    theirs = Transformer(TransformerConfig(vocab_size=V, **SIZES), seed=3, dtype=np.float64)
    rng = np.random.default_rng(4)
    for p, q in zip(ours.parameters, theirs.parameters(), strict=True):
        p.data += 0.1 * rng.standard_normal(p.data.shape)
        q.data[...] = p.data
    return ours, theirs


def sentences(rng, count, longest=9):
    return [rng.integers(4, V, rng.integers(1, longest + 1)).tolist() for _ in range(count)]


def training(ours, theirs, steps):
    """Each update's loss in both, and the gradients of the first."""
    rng = np.random.default_rng(5)
    pairs = list(zip(sentences(rng, 60), sentences(rng, 60), strict=True))
    config = OptimizerConfig(warmup_steps=WARMUP)
    adam = one_file.Adam(ours.parameters, SIZES["d_model"], WARMUP)
    optimizer = Adam(theirs.named_parameters(), config)
    losses, gradients = [], []
    for step, (source, target, labels) in zip(range(1, steps + 1), one_file.batches(pairs, 50, rng), strict=False):
        tokens = np.count_nonzero(labels != PAD)
        loss = one_file.cross_entropy(ours.decode(target, ours.encode(source), source), labels, 0.1)
        one_file.backward(loss)
        optimizer.zero_grad()
        total, _ = compute_gradients(theirs, Batch(np.arange(len(source)), source, target, labels), 0.1)
        losses.append((float(loss.data), total / tokens))
        if step == 1:
            gradients = [
                (p.grad.copy(), q.grad.numpy() / tokens)
                for p, q in zip(ours.parameters, theirs.parameters(), strict=True)
            ]
        adam.step()
        optimizer.step(learning_rate(step, SIZES["d_model"], config), 1 / tokens)
    return losses, gradients


# ---- The program is what it says that it is ------------------------------------------------------------------------


def test_it_is_one_file_of_350_lines_that_imports_numpy_and_the_standard_library():
    text = PATH.read_text(encoding="utf-8")
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {name.name.partition(".")[0] for name in node.names}
        if isinstance(node, ast.ImportFrom):
            imported.add(node.module.partition(".")[0] if not node.level else "a relative import")
    assert imported - sys.stdlib_module_names == {"numpy"}
    assert len(text.splitlines()) <= 350


# ---- The same numbers as minitf ------------------------------------------------------------------------------------


def test_initial_weights_are_those_of_minitf():
    for dtype in (np.float32, np.float64):
        ours = one_file.Transformer(V, **SIZES, seed=7, dtype=dtype)
        theirs = Transformer(TransformerConfig(vocab_size=V, **SIZES), seed=7, dtype=dtype)
        for p, q in zip(ours.parameters, theirs.parameters(), strict=True):
            assert p.data.dtype == q.dtype
            assert np.array_equal(p.data, q.data)


def test_twenty_updates_have_the_losses_of_minitf_and_the_first_its_gradients():
    losses, gradients = training(*models(), steps=20)
    assert losses[0][0] - losses[-1][0] > 0.2, "it learns"
    for ours, theirs in losses:
        assert abs(ours - theirs) < 1e-9
    for ours, theirs in gradients:
        assert np.abs(ours).max() > 1e-6 or np.abs(theirs).max() < 1e-12
        assert np.abs(ours - theirs).max() < 1e-9


@pytest.fixture(scope="module")
def half_trained():
    """A model that writes its source backwards, and is not sure of it: hypotheses of all lengths compete."""
    model = one_file.Transformer(V, **SIZES, seed=3, dtype=np.float64)
    adam = one_file.Adam(model.parameters, SIZES["d_model"], warmup=40)
    rng = np.random.default_rng(5)
    sources = sentences(rng, 400, longest=6)
    pairs = [(source, source[::-1]) for source in sources]
    for source, target, labels in islice(one_file.batches(pairs, 100, rng), 150):
        one_file.backward(one_file.cross_entropy(model.decode(target, model.encode(source), source), labels, 0.1))
        adam.step()
    return model


def searched(ours, lines, beam, alpha):
    """The results of both searches, asserted to be equal: tokens without EOS, and whether they ended."""
    theirs = Transformer(TransformerConfig(vocab_size=V, **SIZES), seed=None, dtype=np.float64)
    theirs.load_parameters({name: p.data for name, p in zip(theirs.named_parameters(), ours.parameters, strict=True)})
    source = np.full((len(lines), max(map(len, lines)) + 1), PAD)
    for row, ids in zip(source, lines, strict=True):
        row[: len(ids) + 1] = [*ids, EOS]
    if beam == 1:
        found = greedy_search(theirs, source, BeamSearchConfig(beam=1, alpha=alpha))
    else:
        found = [best for best, *_ in beam_search(theirs, source, BeamSearchConfig(beam=beam, alpha=alpha))]
    for ids, best in zip(lines, found, strict=True):
        tokens, score = one_file.beam_search(ours, ids, beam, alpha)
        assert tuple(tokens) == best.tokens
        assert score == pytest.approx(best.score, rel=0, abs=1e-9)
    return [(best.tokens, best.finished) for best in found]


@pytest.mark.heavy
def test_translations_are_those_of_minitf(half_trained):
    settings = ((1, 0.6), (2, 0.6), (4, 0.6), (4, 3.0))
    lines = sentences(np.random.default_rng(6), 5, longest=6)
    found = {setting: searched(half_trained, lines, *setting) for setting in settings}
    assert len({len(tokens) for each in found.values() for tokens, _ in each}) >= 4, "outputs of many lengths"
    assert found[1, 0.6] != found[2, 0.6] != found[4, 0.6], "the beam matters"
    assert found[4, 0.6] != found[4, 3.0], "the penalty matters"
    assert one_file.TAPE == []


def test_a_translation_that_does_not_end_is_cut_as_minitf_cuts_it():
    ours, _ = models()
    ours.embedding.data[EOS] = 0  # its logit is 0: it is never among the best
    for beam in (1, 3):
        ((tokens, finished),) = searched(ours, [[5, 6]], beam, 0.6)
        assert (len(tokens), finished) == (52, False)


# ---- What it adds to that: dropout, pieces, batches, files ---------------------------------------------------------


def test_dropout_keeps_the_mean_and_is_its_own_gradient():
    x = one_file.Tensor(np.ones((50, 40)))
    y = one_file.dropout(x, 0.25, np.random.default_rng(0))
    assert set(np.unique(y.data)) == {0, 1 / 0.75}
    assert abs(np.mean(y.data) - 1) < 0.05
    w = one_file.Tensor(np.random.default_rng(1).standard_normal((1, 40)))
    one_file.backward(one_file.linear(y, w, None))
    assert np.array_equal(x.grad, w.data * y.data)


def test_training_in_float32_has_no_other_type():
    model = one_file.Transformer(V, **SIZES | {"dropout": 0.1})
    source = np.array([[5, 6, EOS], [7, EOS, PAD]])
    loss = one_file.cross_entropy(model.decode(source, model.encode(source), source), source, 0.1)
    types = {output.data.dtype for output, _, _ in one_file.TAPE}
    one_file.backward(loss)
    one_file.Adam(model.parameters, SIZES["d_model"]).step()
    assert types | {p.data.dtype for p in model.parameters} == {np.dtype(np.float32)}


def test_the_most_frequent_pair_of_pieces_becomes_one():
    vocabulary = one_file.Vocabulary(["ab abc", "abc b"], merges=2)
    assert vocabulary.pieces == ["<pad>", "<unk>", "<s>", "</s>", "a", "b", "c", "▁", "▁a", "▁ab"]
    assert [vocabulary.pieces[i] for i in vocabulary.encode("abc  abx")] == ["▁ab", "c", "▁ab", "<unk>"]
    assert one_file.Vocabulary(["ab"], merges=9).pieces[-1] == "▁ab"  # no pair is left


def test_pieces_give_the_line_again():
    pairs = built_in_corpus(train_pairs=200).train
    vocabulary = one_file.Vocabulary([line for pair in pairs for line in pair], merges=100)
    for line in (line for pair in pairs for line in pair):
        assert vocabulary.decode(vocabulary.encode(line)) == line
    assert vocabulary.encode(" \t") == []


def test_an_epoch_of_batches_has_every_pair_once_within_the_limit():
    rng = np.random.default_rng(0)
    pairs = [*zip(sentences(rng, 90), sentences(rng, 90), strict=True), (list(range(4, V)) * 3, [5])]
    seen, widths = [], []
    for source, target, labels in one_file.batches(pairs, 40, rng):
        for s, t, out in zip(source.tolist(), target.tolist(), labels.tolist(), strict=True):
            s, t, out = ([token for token in row if token != PAD] for row in (s, t, out))
            assert (s[-1], t[0], out[-1], t[1:]) == (EOS, BOS, EOS, out[:-1])
            seen.append((s[:-1], out[:-1]))
        assert len(source) == 1 or max(source.size, target.size) <= 40
        widths.append(source.shape[1])
        if len(seen) >= len(pairs):
            break
    assert sorted(seen) == sorted(pairs)
    assert widths != sorted(widths), "the order is random"


def program(monkeypatch, *arguments, text=""):
    monkeypatch.setattr(sys, "argv", ["one_file.py", *map(str, arguments)])
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    one_file.main()


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        (None, b"a\n", "No such file"),
        (b"a\n", b"", "have 1 and 0 lines"),
        (b"a\n\n", b" \nb\n", "no line with text in both"),
        (b"", b"", "no line with text in both"),
        (b"a\nb\n", b"a\n", "have 2 and 1 lines"),
        (b"a\n", b"\xff\n", "as UTF-8 text"),
    ],
    ids=["missing", "empty", "blank", "both empty", "different lengths", "not UTF-8"],
)
def test_texts_that_cannot_be_learned_from_are_one_sentence(monkeypatch, tmp_path, source, target, words):
    paths = tmp_path / "x.en", tmp_path / "x.de"
    for path, content in zip(paths, (source, target), strict=True):
        if content is not None:
            path.write_bytes(content)
    with pytest.raises(SystemExit) as stop:
        program(monkeypatch, "--texts", *paths)
    message = str(stop.value.code)
    assert message.startswith("error: ")
    assert words in message
    assert str(paths[0]) in message
    assert "\n" not in message


def test_a_built_in_corpus_that_is_missing_and_a_wrong_number_of_steps_are_one_sentence(monkeypatch, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        program(monkeypatch, "--steps", "0")
    assert "choose 1 or more" in capsys.readouterr().err
    monkeypatch.setattr(one_file, "BUILT_IN", tmp_path / "moved.bz2")
    with pytest.raises(SystemExit, match=r"cannot read .*moved\.bz2"):
        program(monkeypatch)


def test_a_loss_that_is_not_finite_ends_the_program_with_a_sentence(monkeypatch):
    monkeypatch.setattr(one_file, "read_pairs", lambda paths: [("one", "eins")])
    monkeypatch.setattr(one_file, "cross_entropy", lambda *inputs: one_file.Tensor(np.array(np.nan)))
    with pytest.raises(SystemExit, match="the loss of update 1 is nan"):
        program(monkeypatch)
    one_file.TAPE.clear()


@pytest.mark.slow
def test_it_learns_from_two_files_and_translates_what_is_given_and_what_is_typed(monkeypatch, tmp_path, capsys):
    (tmp_path / "x.en").write_text("one two\nthree\n" * 20, encoding="utf-8")
    (tmp_path / "x.de").write_text("eins zwei\ndrei\n" * 20, encoding="utf-8")
    texts = "--texts", tmp_path / "x.en", tmp_path / "x.de", "--steps", 60
    program(monkeypatch, *texts, "three", "one two")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[:2]] == [["step", "50"], ["step", "60"]]
    assert lines[2:] == ["one two", "  → eins zwei", "three", "  → drei", "drei", "eins zwei"]
    program(monkeypatch, *texts, text="three\n\none two\n")
    assert capsys.readouterr().out.splitlines()[-3:] == ["drei", "", "eins zwei"]
