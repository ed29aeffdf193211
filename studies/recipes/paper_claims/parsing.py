"""Sections 4 and 6.3: what the heads of a parser attend to, and how well it parses."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from additions.decoding.attention import attention_weights
from additions.parsing.linearise import linearise
from additions.parsing.parser import Parser
from additions.parsing.trees import Leaf, Tree, read_trees
from minitf.config.model import BOS, EOS
from minitf.data.text import read_lines
from minitf.model.transformer import Transformer
from paper_claims.claim import Figure, Rule, claim, exact, sampled
from paper_claims.runs import Study, listed

SENTENCES = 100
MORE = 1.1  # times the weight that distance alone explains


@dataclass(frozen=True)
class Sentence:
    """Attention between the words of a sentence, and the smallest constituent of each with another word in it."""

    weights: np.ndarray  # [L · H, W, W], each row a distribution over the words
    spans: list[tuple[int, int]]  # [W] first word, last word + 1


def _spans(tree: Tree) -> list[tuple[int, int]]:
    """The smallest constituent of at least two words around each word."""
    found: list[tuple[int, int]] = []

    def visit(node: Tree, start: int) -> int:
        stop, own = start, []
        for child in node.children:
            if isinstance(child, Leaf):
                own.append(stop)
                found.append((0, 0))
                stop += 1
            else:
                stop = visit(child, stop)
        if stop - start > 1:
            for i in range(start, stop):
                found[i] = found[i] if found[i] != (0, 0) else (start, stop)
        return stop

    visit(tree, 0)
    return found


def _by_word(weights: np.ndarray, pieces: list[str]) -> np.ndarray:
    """Weights between words: sums over the pieces attended to, means over those that attend, without the end token.

    Shapes: weights [N, S, S], S pieces and the end token -> [N, W, W]
    """
    starts = [i for i, piece in enumerate(pieces) if piece.startswith("▁") or i == 0]
    lengths = np.diff([*starts, len(pieces)])
    words = np.add.reduceat(weights[:, : len(pieces), : len(pieces)], starts, axis=2)
    words = np.add.reduceat(words, starts, axis=1) / lengths[None, :, None]
    return words / words.sum(axis=2, keepdims=True)


def _sentences(study: Study, seed: int, *, trained: bool = True) -> list[Sentence]:
    """The attention of the encoder's heads in test sentences."""
    translator = study.translator("parsing", seed)
    folder = study.trees
    model = translator.model if trained else Transformer(translator.model.config, seed=seed)
    found = []
    pairs = zip(read_lines(folder / "test.words"), read_trees(folder / "test.trees"), strict=True)
    for words, tree in itertools.islice(pairs, SENTENCES):
        (ids,) = translator.vocabulary.source.encode([words])
        weights = attention_weights(model.eval(), np.array([[*ids, EOS]]), np.array([[BOS]])).encoder[0]
        by_word = _by_word(weights.reshape(-1, *weights.shape[2:]), list(translator.vocabulary.source.pieces(ids)))
        spans = _spans(tree)
        if by_word.shape[1] == len(spans):
            found.append(Sentence(by_word, spans))
    return found


def _distances(sentences: list[Sentence]) -> np.ndarray:
    """The mean distance at which each head attends in each sentence.  Shapes: -> [N, sentences]"""
    means = []
    for each in sentences:
        positions = np.arange(each.weights.shape[1])
        means.append((each.weights * np.abs(positions[:, None] - positions)).sum(axis=2).mean(axis=1))
    return np.stack(means, axis=1)


def _entropies(sentences: list[Sentence]) -> np.ndarray:
    """The mean entropy of each head's distributions, in nats.  Shapes: -> [N]"""
    return np.mean([-(s.weights * np.log(s.weights + 1e-30)).sum(axis=2).mean(axis=1) for s in sentences], axis=0)


def _explained(values: np.ndarray) -> float:
    """The share of the variance that is between heads.  Shapes: values [N, sentences]"""
    return float(values.mean(axis=1).var() / values.var())


def _beyond_distance(sentences: list[Sentence]) -> np.ndarray:
    """Each head's weight within the smallest constituent, divided by that of a head with the same weights by distance.

    A word's weight on itself is left out.  Shapes: -> [N]
    """
    longest, heads = max(len(s.spans) for s in sentences), len(sentences[0].weights)
    profile, counts = np.zeros((heads, 2 * longest)), np.zeros(2 * longest)
    for s in sentences:
        for i, j in itertools.permutations(range(len(s.spans)), 2):
            profile[:, j - i + longest] += s.weights[:, i, j]
            counts[j - i + longest] += 1
    profile /= np.maximum(counts, 1)
    own, expected = np.zeros(heads), np.zeros(heads)
    for s in sentences:
        for i, (start, stop) in enumerate(s.spans):
            inside = [j for j in range(start, stop) if j != i]
            others = [j for j in range(len(s.spans)) if j != i]
            if not inside or len(inside) == len(others):
                continue
            own += s.weights[:, i, inside].sum(axis=1) / np.maximum(s.weights[:, i, others].sum(axis=1), 1e-30)
            by_distance = profile[:, [j - i + longest for j in others]].sum(axis=1)
            expected += profile[:, [j - i + longest for j in inside]].sum(axis=1) / np.maximum(by_distance, 1e-30)
    return own / np.maximum(expected, 1e-30)


@claim(
    "heads-differ", "4", "Individual attention heads clearly learn to perform different tasks.",
    Rule("the share of the variance of attention's distance that is between heads", lowest=0.5),
)  # fmt: skip
def heads_differ(study: Study) -> Figure:
    """Parsers of the built-in treebank: the mean distance of each of eight encoder heads in each of 100 test sentences.
    Beside it the share before training, and each head of the first seed."""
    found = [_sentences(study, seed) for seed in study.seeds]
    before = [_explained(_distances(_sentences(study, seed, trained=False))) for seed in study.seeds]
    after = [_explained(_distances(sentences)) for sentences in found]
    first = zip(_distances(found[0]).mean(axis=1), _entropies(found[0]), _beyond_distance(found[0]), strict=True)
    heads = "; ".join(f"{d:.1f}, {e:.1f}, {b:.2f}" for d, e, b in first)
    text = f"each seed: {listed(after)}; before training: {listed(before)}. "
    return sampled(after, f"{text}Heads by mean distance, entropy in nats, weight beyond distance: {heads}")


@claim(
    "heads-and-syntax", "4",
    "Many [heads] appear to exhibit behavior related to the syntactic and semantic structure of the sentences.",
    Rule("the share of heads that attend to a word's constituent beyond what distance explains", lowest=0.5),
)  # fmt: skip
def heads_and_syntax(study: Study) -> Figure:
    """As for heads-differ: a head's weight on the other words of a word's smallest constituent, against that of a head
    with the same mean weight at each distance; counted where it is at least 1.1 times as much. "Many": half."""
    ratios = [_beyond_distance(_sentences(study, seed)) for seed in study.seeds]
    text = "; ".join(listed(sorted(each)) for each in ratios)
    return sampled([float(np.mean(each >= MORE)) for each in ratios], f"of each head: {text}")


@claim(
    "generalizes-to-parsing", "6.3", "The Transformer generalizes to English constituency parsing.",
    Rule("F1", lowest=88.3),
)  # fmt: skip
def generalizes_to_parsing(study: Study) -> Figure:
    """2 + 2 layers of d_model 64 after 800 updates on the built-in treebank, 200 test trees, EVALB's F1; 88.3 is the
    RNN of Table 4. The Wall Street Journal is not available here."""
    words, gold = (list(read_lines(study.trees / f"test.{kind}")) for kind in ("words", "trees"))
    parsers = [Parser.load(study.run("parsing", seed)) for seed in study.seeds]
    return sampled([parser.score(gold, list(parser.translate_stream(words))).f1 for parser in parsers])


@claim(
    "longer-outputs", "6.3", "The output is significantly longer than the input.",
    Rule("tokens of a tree, a token for each bracket, divided by the words", lowest=2),
)  # fmt: skip
def longer_outputs(study: Study) -> Figure:
    """The trees of the built-in treebank's test set, as the paper's reference 37 writes them."""
    trees = list(read_trees(study.trees / "test.trees"))
    words = sum(len(tree.words()) for tree in trees)
    tokens = sum(len(linearise(tree, form="symbols")) for tree in trees)
    return exact(tokens / words, f"{tokens:,} tokens of {words:,} words")
