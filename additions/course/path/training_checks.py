"""The checks of training and search: beside ours where the numbers are the same, by what must hold where they may differ."""

# ruff: noqa: E501 (a mistake to a line)

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from additions.course.exercises import beam_search
from additions.course.expect import Wrong, close, equal, told, true
from additions.course.path.checks import Work, compare, of
from additions.course.path.engine_checks import Product, of_exercise
from additions.course.path.ours import changed
from additions.course.path.system import LABELS, SOURCE, TARGET
from minitf.config import OptimizerConfig, TransformerConfig
from minitf.config.model import BOS, EOS, PAD, UNK
from minitf.decoding.search import length_penalty
from minitf.training import optim
from minitf.training.optim import Adam, learning_rate

# ---- The learning rate and Adam ----------------------------------------------------------------------------------

RATE_MISTAKES = [
    ("it is the larger of the two; the rate is the smaller", "min(step**-0.5", "max(step**-0.5"),
    ("the exponent of the warm-up is not -1.5", "config.warmup_steps**-1.5", "config.warmup_steps**-1"),
    ("the factor d_model^-0.5 is missing", "d_model**-0.5 *", "1.0 *"),
    ("d_model enters with the power 0.5; it is -0.5", "d_model**-0.5", "d_model**0.5"),
    ("it rises and never falls", "min(step**-0.5, step * config.warmup_steps**-1.5)", "step * config.warmup_steps**-1.5"),
    ("there is no warm-up", "min(step**-0.5, step * config.warmup_steps**-1.5)", "step**-0.5"),
    ("steps count from 1; here they are counted from 0", "min(step**-0.5, step *", "min((step + 1)**-0.5, (step + 1) *"),
]  # fmt: skip


def rates(rate: Callable[[int, int, int], float]) -> Iterator[tuple[str, Any]]:
    steps = (1, 399, 400, 401, 5000)
    yield (
        f"the rates of steps {', '.join(map(str, steps))}, for d_model 64 and a warm-up of 400",
        [rate(step, 64, 400) for step in steps],
    )
    yield "the rate of step 7, for d_model 512 and a warm-up of 4,000", rate(7, 512, 4000)


@of("learning_rate")
def check_rates(work: Work) -> None:
    """while it rises, at the top, and while it falls"""

    def of_ours(function: Any) -> Callable[[int, int, int], float]:
        return lambda step, d_model, warmup: function(step, d_model, OptimizerConfig(warmup_steps=warmup))

    compare(rates, work.train.learning_rate, of_ours(learning_rate),
            lambda: ((message, of_ours(changed(learning_rate, texts))) for message, *texts in RATE_MISTAKES))  # fmt: skip


ADAM_MISTAKES = [
    ("the bias correction of m is missing", "1 - self.config.beta1**self.step_count", "1.0"),
    ("the bias correction of v is missing", "math.sqrt(1 - self.config.beta2**self.step_count)", "1.0"),
    ("both bias corrections are missing", "1 - self.config.beta1**self.step_count", "1.0", "math.sqrt(1 - self.config.beta2**self.step_count)", "1.0"),
    ("steps count from 1; the bias corrections are those of the step after", "**self.step_count", "**(self.step_count + 1)"),
    ("steps count from 1; the bias correction of m is that of the step after", "self.config.beta1**self.step_count", "self.config.beta1**(self.step_count + 1)"),
    ("β₂ stands where β₁ belongs", "beta1=self.config.beta1", "beta1=self.config.beta2"),
    ("m starts at 0 again in each step: keep it from step to step", "self.m[name], self.v[name])", "0 * self.m[name], self.v[name])"),
    ("v starts at 0 again in each step: keep it from step to step", "self.m[name], self.v[name])", "self.m[name], 0 * self.v[name])"),
    ("ε is inside the root", "xp.sqrt(v) + eps", "xp.sqrt(v + eps)"),
    ("β₁ and β₂ are exchanged", "beta1=self.config.beta1", "beta1=self.config.beta2", "beta2=self.config.beta2", "beta2=self.config.beta1",
     "1 - self.config.beta1**", "1 - self.config.BETA2**", "1 - self.config.beta2**", "1 - self.config.beta1**", "BETA2", "beta2"),
    ("v holds |g|; it is to be g²", "(g * g - v)", "(abs(g) - v)"),
    ("m is not updated before it is used, or not at all", "m += (1 - beta1) * (g - m)", "m += 0 * (g - m)"),
    ("m and v start at 0 again in each step: keep them from step to step", "self.m[name], self.v[name])", "0 * self.m[name], 0 * self.v[name])"),
    ("the root of v is missing", "xp.sqrt(v) + eps", "v + eps", "math.sqrt(1 - self.config.beta2**self.step_count)", "1 - self.config.beta2**self.step_count"),
    ("it moves uphill: the update is subtracted", "p -= step_size", "p += step_size"),
    ("m holds g whole; it is to be (1 - β₁) g", "m += (1 - beta1) * (g - m)", "m += g - (1 - beta1) * m"),
    ("v holds g² whole; it is to be (1 - β₂) g²", "v += (1 - beta2) * (g * g - v)", "v += g * g - (1 - beta2) * v"),
    ("m and v are exchanged", "self.m[name], self.v[name])", "self.v[name], self.m[name])"),
    ("only the first parameter is updated", "in learning:", "in learning[:1]:"),
    ("a parameter without a gradient stops the update of the others", "        self.update_all(", "        if len(learning) == len(self.named_parameters): self.update_all("),
]  # fmt: skip
ADAM = [optim.update, optim.update_all, optim.squared_norm]


@of("adam")
def check_adam(work: Work) -> None:
    """four steps of two parameters, one of them at times without a gradient"""

    def results(make: Callable[[list[Any]], Any]) -> Iterator[tuple[str, Any]]:
        rng = np.random.default_rng(1)
        parameters = [work.model.Parameter(rng.standard_normal(shape)) for shape in ((2, 2), (3,))]
        arrays = [p.data for p in parameters]
        adam = make(parameters)
        for step in range(1, 5):
            gradients = [rng.standard_normal(p.shape) * 1e-4 ** (step == 4) for p in parameters]
            kept = [g.copy() for g in gradients]
            for p, g in zip(parameters, gradients, strict=True):
                p.grad = None if step == 3 and p is parameters[0] else work.engine.Tensor(g)
            adam.step(0.1)
            for p, array in zip(parameters, arrays, strict=True):
                true(
                    p.data is array,
                    "p.data is another array after a step; change it in place (-=), for others hold it, too",
                )
            yield f"the numbers after step {step}", np.concatenate([p.data.reshape(-1) for p in parameters])
            true(
                all(map(np.array_equal, gradients, kept)), "the gradient is changed by a step; compute with new arrays"
            )
        adam.zero_grad()
        true(all(p.grad is None for p in parameters), "zero_grad leaves gradients behind, to which the next are added")

    def of_ours(cls: Any) -> Callable[[list[Any]], Any]:
        return lambda parameters: cls({str(k): p for k, p in enumerate(parameters)}, OptimizerConfig())

    compare(results, work.train.Adam, of_ours(Adam),
            lambda: ((message, of_ours(changed(Adam, texts, ADAM))) for message, *texts in ADAM_MISTAKES))  # fmt: skip


@of("adam")
def check_other_settings(work: Work) -> None:
    """other values of β₁, β₂ and ε"""
    p = work.model.Parameter(np.array([1.0]))
    adam = work.train.Adam([p], beta1=0.5, beta2=0.5, eps=1.0)
    for g in (2.0, 1.0):
        p.grad = work.engine.Tensor(np.array([g]))
        adam.step(1.0)
    first = 1 - 2 / 3
    m, v = (0.25 * 2 + 0.5) / 0.75, (0.25 * 4 + 0.5) / 0.75
    equal("a number after two steps with β₁ = β₂ = 0.5 and ε = 1", p.data, [first - m / (np.sqrt(v) + 1)])


# ---- Pieces of words, and batches --------------------------------------------------------------------------------

LINES = ["low low low low low lower lower newest newest newest newest newest newest widest widest widest"]


@of("vocabulary")
def check_characters(work: Work) -> None:
    """no merges: the characters"""
    made = work.train.Vocabulary(["ab b", "ba"], 0)
    true(len(made.pieces) >= 4, f"pieces are {made.pieces}; the first four are the special tokens")
    true(made.pieces[0] not in ("a", "▁a"), "the four special tokens are missing: ids begin with the first character")
    true(
        made.pieces[4:] != sorted({*"ab"}),
        "the beginning of a word is not marked: its first piece begins with ▁, as ▁a",
    )
    equal("the number of pieces for 'ab b' and 'ba'", len(made.pieces), 8)
    true(
        made.pieces[4:] == ["a", "b", "▁a", "▁b"],
        f"pieces are {made.pieces[4:]}, expected a, b, ▁a, ▁b, in sorted order",
    )
    ids = made.encode("ab b")
    true(list(ids) == [6, 5, 7], f"encode('ab b') is {list(ids)}, expected [6, 5, 7]: ▁a, b, ▁b")
    true(made.decode(ids) == "ab b", f"decode of these is {made.decode(ids)!r}, expected 'ab b'")
    found = list(made.encode("cab"))
    true(found == [UNK, 4, 5], f"encode('cab') is {found}, expected [{UNK}, 4, 5]: what is unknown is UNK")


@of("vocabulary")
def check_merges(work: Work) -> None:
    """the most frequent pairs are merged"""
    merges = work.train.Vocabulary(LINES, 10).pieces
    without = work.train.Vocabulary(LINES, 0).pieces
    true(len(merges) == len(without) + 10, f"10 merges add {len(merges) - len(without)} pieces")
    new = merges[len(without) :]
    words = Counter(("▁" + word[0], *word[1:]) for word in LINES[0].split())
    for k, piece in enumerate(new):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in words.items():
            for pair in itertools.pairwise(word):
                pairs[pair] += count
        most = max(pairs.values())
        best = [pair for pair in pairs if pairs[pair] == most and "".join(pair) == piece]
        if not best:
            here = max((count for pair, count in pairs.items() if "".join(pair) == piece), default=0)
            once = Counter(pair for word in words for pair in itertools.pairwise(word))
            is_of_once = any("".join(pair) == piece and once[pair] == max(once.values()) for pair in once)
            note = "; does each word count as often as it occurs?" if is_of_once else ""
            raise Wrong(
                f"merge {k + 1} makes {piece!r}, a pair that occurs {here} times; the most frequent one occurs {most} times{note}"
            )
        words = Counter({_merged(word, best[0]): count for word, count in words.items()})
    spelled = [merges[i] for i in work.train.Vocabulary(LINES, 10).encode("low lowest")]
    true(
        "".join(spelled) == "▁low▁lowest",
        f"encode('low lowest') has the pieces {spelled}; together they are to be the words",
    )
    true(
        spelled[0] == "▁low",
        f"encode('low') has the pieces {spelled}: the merges are not applied, or not in their order",
    )
    true(
        len(work.train.Vocabulary(["ab"], 50).pieces) == 7,
        "with one pair in all, 50 merges add more than one piece, or fail",
    )


def _merged(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    found: list[str] = []
    for piece in word:
        if found and (found[-1], piece) == pair:
            found[-1] += piece
        else:
            found.append(piece)
    return tuple(found)


@of("vocabulary")
def check_back(work: Work) -> None:
    """there and back"""
    lines = ["half past seven", "a quarter to eight", *LINES]
    for merges in (0, 5, 100):
        made = work.train.Vocabulary(lines, merges)
        for line in lines:
            there = list(made.encode(line))
            true(made.decode(there) == line, f"decode(encode({line!r})) is {made.decode(there)!r}")
            true(UNK not in there, f"a line that the vocabulary was made of has unknown pieces: {line!r}")


@of("batches")
def check_batches(work: Work) -> None:
    """each pair once in an epoch, within the budget, padded at the end"""
    rng = np.random.default_rng(3)
    pairs = [([k + 10] * rng.integers(1, 12), [k + 10] * rng.integers(1, 12)) for k in range(60)]
    feed = iter(work.train.batches(pairs, 60, np.random.default_rng(0)))
    orders: list[list[int]] = []
    padding, filled, sizes = 0, 0, []
    for _ in range(2):
        seen: list[int] = []
        while len(seen) < len(pairs):
            source, target, labels = map(np.asarray, next(feed))
            true(
                source.ndim == 2 and target.shape == labels.shape,
                f"the shapes are {source.shape}, {target.shape}, {labels.shape}",
            )
            true(len(source) == len(target), "source and target have different numbers of sentences")
            widest = len(source) * max(source.shape[1], target.shape[1])
            true(
                widest <= 60,
                f"a batch of {len(source)} sentences has {widest} slots on its longer side, the budget is 60",
            )
            for s, t, y in zip(source.tolist(), target.tolist(), labels.tolist(), strict=True):
                k = s[0] - 10 if s[0] != BOS else s[1] - 10
                _check_sentence(pairs[k], s, t, y)
                seen.append(k)
            padding += int((source == PAD).sum() + (labels == PAD).sum())
            filled += source.size + labels.size
            sizes.append(len(source))
        true(len({*seen}) == len(pairs) == len(seen), "an epoch does not have every pair exactly once")
        orders.append(seen)
    true(
        padding / filled < 0.35,
        f"{padding / filled:.0%} of the slots are padding: put sentences of similar length together",
    )
    true(np.mean(sizes) > 3, f"a batch has {np.mean(sizes):.1f} sentences on average, and room for more")
    true(orders[0] != orders[1], "two epochs have one order; draw a new one from `rng`")
    widths = [max(map(len, pairs[k])) for k in orders[0]]
    true(widths != sorted(widths), "the shortest sentences come first; batches come in random order")
    other = [
        int(np.asarray(next(iter(work.train.batches(pairs, 60, np.random.default_rng(seed))))[0])[0, 0])
        for seed in range(6)
    ]
    true(len({*other}) > 1, "the generator `rng` is not used")


def _check_sentence(pair: Any, s: list[int], t: list[int], y: list[int]) -> None:
    """Source, target and labels of a pair of sentences in a batch: the ends, and the padding after them."""
    a, b = pair
    true(s[0] != BOS, "the source begins with BOS; it has none")
    words = [each for each in s if each != PAD]
    true(words[-1] == EOS, "the source does not end with EOS")
    true(s[: len(words)] == words, "padding stands before the end of a source")
    true(words == [*a, EOS], f"a source is {words}, expected {[*a, EOS]}")
    true(t[0] == BOS, "the target does not begin with BOS: the decoder would see the token that it is to predict")
    true(EOS not in t, "the target, which the decoder reads, ends with EOS; that is the last label")
    true(BOS not in y, "the labels begin with BOS; they are the target, one position later")
    true([each for each in y if each != PAD] == [*b, EOS], f"labels are {y}, expected {[*b, EOS]} and padding")
    true([each for each in t if each != PAD] == [BOS, *b], f"a target is {t}, expected {[BOS, *b]} and padding")


# ---- The loop ----------------------------------------------------------------------------------------------------

STILL = TransformerConfig(vocab_size=12, layers=1, d_model=8, heads=2, d_ff=12, dropout=0.0)


def _loop(work: Work, mistake: str = "") -> list[float]:
    """The losses of four updates of a tiny model; with a mistake."""
    model, losses = work.model.Transformer(STILL, 0, np.float64), []
    adam = work.train.Adam(model.parameters())
    for step in range(1, 5):
        source, target, labels = _batch(1 if mistake == "one batch" else step)
        loss = model.loss(source, target, labels, 0.0 if mistake == "smoothing" else 0.1)
        tokens = labels.size if mistake == "padding" else np.count_nonzero(labels != PAD)
        if mistake != "accumulate":
            adam.zero_grad()
        (loss if mistake == "sum" else loss * (1 / tokens)).backward()
        rates = {"later": step + 1, "constant": 1}
        if mistake != "no update":
            adam.step(learning_rate(rates.get(mistake, step), 8, OptimizerConfig(warmup_steps=2)))
        losses.append(loss.item() / (1 if mistake == "return sum" else tokens))
    return losses


def _batch(step: int) -> tuple[Any, Any, Any]:
    return SOURCE, np.roll(TARGET, step, axis=0), np.where(LABELS == 10, 4 + step, LABELS)


@of("train")
def check_losses(work: Work) -> None:
    """the losses of four updates"""
    model, said = work.model.Transformer(STILL, 0, np.float64), []
    feed = map(_batch, itertools.count(1))
    model.eval()
    losses = work.train.train(
        model, work.train.Adam(model.parameters()), feed, 4, 2, lambda step, loss: said.append((step, loss))
    )
    true(losses is not None, "train returns None: is `return` missing?")
    names = {
        "gradients of earlier steps are still there: call zero_grad before each backward pass": "accumulate",
        "the gradient is that of the summed loss; divide by the number of target tokens": "sum",
        "the losses are sums; return means of the tokens": "return sum",
        "padding is among the tokens that the mean is over": "padding",
        "label smoothing is missing": "smoothing",
        "the learning rate is that of the step after: steps count from 1": "later",
        "the learning rate is that of the first step all the time": "constant",
        "the weights do not change: is adam.step called?": "no update",
        "the first batch is used again and again; take the next one": "one batch",
    }
    equal("the number of losses", len(losses), 4)
    told(
        "the losses",
        np.array(losses, float),
        _loop(work),
        {message: _loop(work, each) for message, each in names.items()},
    )
    true(
        [step for step, _ in said] == [1, 2, 3, 4],
        f"say is called with the steps {[step for step, _ in said]}, expected 1 to 4",
    )
    true(
        close(np.array([loss for _, loss in said]), np.array(losses)),
        "say is called with other numbers than the losses",
    )
    true(model.training, "the model is in evaluation mode while it trains: dropout is off; call model.train()")


# ---- Search ------------------------------------------------------------------------------------------------------


class TableModel:
    """A model whose next token follows from a table alone."""

    def __init__(self, work: Work, scores: Callable[[tuple[int, ...]], Any]):
        """scores: of the next token, given a prefix without BOS: log-probabilities, or logits"""
        self.work, self.scores = work, scores
        self.training, self.recorded = True, False
        self.sources: list[Any] = []

    def eval(self) -> TableModel:
        self.training = False
        return self

    def train(self, training: bool = True) -> TableModel:
        self.training = training
        return self

    def encode(self, source: Any) -> Any:
        self.sources.append(np.asarray(source).tolist())
        return self.work.engine.Tensor(np.zeros((*np.shape(source), 1)))

    def decode(self, target: Any, memory: Any, mask: Any) -> Any:
        x = self.work.engine.Tensor(np.ones(1), requires_grad=True)
        self.recorded = self.recorded or self.work.engine.apply(Product, x, 1.0).node is not None
        self.was_training = self.training
        true(
            np.ndim(target) == 2,
            f"decode is given an array of {np.ndim(target)} axes; ids are [B, T], here of one sentence [1, T]",
        )
        true(mask is not None and np.shape(mask)[-1] == memory.shape[1], "decode is not given the mask of the source")
        return self.work.engine.Tensor(np.asarray(target)[..., None].astype(float))

    def logits(self, hidden: Any) -> Any:
        targets = hidden.data[..., 0].astype(int).tolist()
        true(all(row[0] == BOS for row in targets), "the decoder's input does not begin with BOS")
        last = [np.asarray(self.scores(tuple(row[1:])), float) for row in targets]
        every = np.zeros((len(targets), len(targets[0]), len(last[0])))
        every[:, :-1, -1] = 9.0  # of earlier positions, which nobody is to read
        every[:, -1] = last
        return self.work.engine.Tensor(every)


def _conduct(model: TableModel, source: list[int]) -> None:
    true(
        not model.was_training,
        "the model is in training mode: dropout would choose other words each time; call model.eval()",
    )
    true(not model.recorded, "a graph is recorded; search inside `with no_grad():`")
    true(len(model.sources) == 1, f"the sentence is encoded {len(model.sources)} times; once is enough")
    (row,) = model.sources[0]
    true(row[-1] == EOS, "the encoder does not see EOS at the end of the source, as it did in training")
    true(row == source, f"the encoder sees {row}, expected {source}")


def _peaked(
    choice: dict[tuple[int, ...], int], otherwise: int, extra: dict[int, float] | None = None
) -> Callable[[tuple[int, ...]], Any]:
    def scores(prefix: tuple[int, ...]) -> Any:
        row = np.zeros(7)
        row[choice.get(prefix, otherwise)] = 5.0
        for token, value in (extra or {}).items():
            row[token] = value
        return row

    return scores


@of("greedy_search")
def check_greedy(work: Work) -> None:
    """the most probable tokens, to the end"""
    model = TableModel(work, _peaked({(): 4, (4,): 6, (4, 6): 5}, EOS))
    found = work.search.greedy_search(model, [5, 6], 20)
    true(found is not None, "greedy_search returns None: is `return` missing?")
    found = [int(token) for token in found]
    true(BOS not in found, f"the tokens are {found}; return them without BOS")
    true(EOS not in found, f"the tokens are {found}; return them without EOS")
    true(
        found[:4] != [4, 6, 6, 6],
        "the scores of an earlier position are read; the next token is at the last one, [:, -1]",
    )
    true(found == [4, 6, 5], f"the tokens are {found}, expected [4, 6, 5]")
    _conduct(model, [5, 6, EOS])


@of("greedy_search")
def check_never(work: Work) -> None:
    """PAD, UNK and BOS are never produced, and the limit is kept"""
    for token, name in ((PAD, "PAD"), (UNK, "UNK"), (BOS, "BOS")):
        found = list(work.search.greedy_search(TableModel(work, _peaked({(): 4}, EOS, {token: 9.0})), [5], 20))
        true(token not in found, f"{name} is produced; it stands for no text: take the most probable other token")
        true(found == [4], f"the tokens are {found} where {name} is the most probable, expected [4]")
    found = list(work.search.greedy_search(TableModel(work, _peaked({}, 5)), [5], 7))
    told("the number of tokens of a sentence that never ends, with limit=7", len(found), 7, {
        "one too few: BOS is counted in the limit": 6, "one too many": 8,
    })  # fmt: skip


PENALTY_MISTAKES = [
    ("the exponent alpha is missing", "** alpha", "** 1"),
    ("it is length^alpha; 5 is added to the length, and the sum divided by 6", "(beta + length) / (beta + 1.0)", "length"),
    ("it is not divided by 6", " / (beta + 1.0)", ""),
    ("the length is one too small", "(beta + length)", "(beta + length - 1)"),
    ("alpha is a factor; it is the exponent", "** alpha", "* alpha"),
    ("the exponent is negative: this is 1 / the penalty", "** alpha", "** -alpha"),
]  # fmt: skip


@of("length_penalty")
def check_penalty(work: Work) -> None:
    """several lengths and exponents"""

    def results(penalty: Any) -> Iterator[tuple[str, Any]]:
        for length, alpha in ((7, 0.6), (1, 0.6), (20, 0.0), (13, 1.0), (3, 2.0)):
            yield f"length_penalty({length}, {alpha})", penalty(length, alpha)

    compare(results, work.search.length_penalty, length_penalty,
            lambda: ((message, changed(length_penalty, texts)) for message, *texts in PENALTY_MISTAKES))  # fmt: skip


def _on_a_table(work: Work) -> Any:
    """The learner's beam search as the exercise calls its own: 0 is EOS, and tokens 1, 2, … are 4, 5, …."""

    def search(log_probabilities: Any, beam: int, max_length: int, alpha: float = 0.6) -> Any:
        def scores(prefix: tuple[int, ...]) -> Any:
            return [-40.0, -40.0, -40.0, *log_probabilities(tuple(token - 3 for token in prefix))]

        found = work.search.beam_search(TableModel(work, scores), [5, 6], beam, max_length, alpha)
        if not isinstance(found, tuple) or len(found) != 2:
            return found
        tokens = [int(token) - 3 for token in found[0]]
        true(tokens[:1] != [BOS - 3], "the tokens begin with BOS; return them without it")
        return tuple(tokens), float(found[1])

    return SimpleNamespace(beam_search=search)


of_exercise(beam_search, "beam_search", _on_a_table)


@of("beam_search")
def check_beam_conduct(work: Work) -> None:
    """the model, what is never produced, and a sentence that does not end"""
    model = TableModel(work, _peaked({(): 4, (4,): 6}, EOS))
    work.search.beam_search(model, [5, 6], 2, 9)
    _conduct(model, [5, 6, EOS])
    for token, name in ((PAD, "PAD"), (UNK, "UNK"), (BOS, "BOS")):
        found, _ = work.search.beam_search(TableModel(work, _peaked({(): 4}, EOS, {token: 9.0})), [5], 3, 9)
        true(token not in [*found], f"{name} is produced; it stands for no text")
    endless = _peaked({}, 5, {EOS: -np.inf})
    found, _ = work.search.beam_search(TableModel(work, endless), [5], 2, 6)
    true([int(token) for token in found] == [5] * 6, f"of a sentence that does not end within 6 tokens, {[*found]} comes back; "
         "expected the most probable alive hypothesis, [5, 5, 5, 5, 5, 5]")  # fmt: skip
    one, score = work.search.beam_search(TableModel(work, _peaked({(): 4}, EOS)), [5], 1, 9, 0.0)
    total = 2 * (5 - np.log(np.exp(5) + 6))
    told("the score with alpha 0", float(score), total, {
        "logits are added up; add log-probabilities, of a softmax over all tokens": 10.0,
    })  # fmt: skip
    equal("the tokens of beam 1", [int(token) for token in one], [4])


# ---- All of it ---------------------------------------------------------------------------------------------------

PAIRS = [("one two", "eins zwei"), ("two three", "zwei drei"), ("three one", "drei eins"), ("one three", "eins drei"),
         ("two one", "zwei eins"), ("three two", "drei zwei"), ("one", "eins"), ("two", "zwei"), ("three", "drei")]  # fmt: skip
TINY = {"layers": 1, "d_model": 32, "heads": 2, "d_ff": 64, "dropout": 0.0}


@of("translator")
def check_sizes(work: Work) -> None:
    """its sizes, and what it says while it learns"""
    said: list[int] = []
    made = work.search.Translator(PAIRS, 3, merges=5, max_tokens=200, say=lambda step, loss: said.append(step), **TINY)
    true(said == [1, 2, 3], f"say is called with the steps {said}, expected 1, 2, 3")
    true(made.model.config.d_model == 32, "the sizes that are handed in are not those of the model")
    true(
        isinstance(made.translate("one zebra"), str),
        "translate returns something else than a line of text for a line with an unknown word",
    )
    true(made.translate("") is not None, "an empty line gives None")


@of("translator")
def check_learns(work: Work) -> None:
    """nine pairs of lines are learned by heart"""
    made = work.search.Translator(PAIRS, 200, merges=40, max_tokens=200, warmup=40, **TINY)
    losses = [float(each) for each in made.losses]
    equal("the number of losses", len(losses), 200)
    true(losses[0] > 1, f"the first loss is {losses[0]:.2f}; an untrained model has more: is it a mean over tokens?")
    true(np.mean(losses[-5:]) < 0.7 * losses[0], f"the loss is {losses[0]:.2f} in the first update and {np.mean(losses[-5:]):.2f} in "
         "the last ones: it does not learn")  # fmt: skip
    found = {source: made.translate(source) for source, _ in PAIRS}
    true(all(isinstance(line, str) for line in found.values()), "translate returns something else than a line of text")
    right = sum(found[source] == target for source, target in PAIRS)
    true(right >= 8, f"{right} of 9 lines that it was trained on are translated as they were: {found}")
