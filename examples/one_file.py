"""The Transformer of "Attention Is All You Need" in one file, on NumPy alone: from the tape to the translation.

    python examples/one_file.py                             # learns number words, English to German; then type a line
    python examples/one_file.py "half past seven"           # the same, for the lines given
    python examples/one_file.py --texts mine.en mine.de     # line i of one file translates line i of the other

Sections and equations are the paper's (arXiv:1706.03762). Letters: B sentences, S source and T target positions,
D d_model, H heads, K = D / H, F d_ff, V vocabulary, N hypotheses, n rows. Masks: True means *may attend*. A test shows
that weights, losses, gradients and translations are minitf's; docs/book/14-one-file.md says what minitf adds, and why.
"""

import argparse
import bz2
import math
import sys
from collections import Counter
from functools import partial, wraps
from itertools import islice, pairwise
from pathlib import Path

import numpy as np

PAD, UNK, BOS, EOS = range(4)  # padding, unknown, beginning and end of a sentence
BUILT_IN = Path(__file__).parent.parent / "minitf/corpora/texts/phrases.tsv.bz2"  # English, tab, German
mean, total = partial(np.mean, axis=-1, keepdims=True), partial(np.sum, axis=-1, keepdims=True)  # [..., D] -> [..., 1]
TAPE = []  # (output, inputs, op) in the order of computation; each op is paused between its formula and its gradient


# ---- The tape ------------------------------------------------------------------------------------------------------
class Tensor:
    """An array, and in `grad` the gradient of the loss by it after `backward`."""

    def __init__(self, data):
        self.data, self.grad = data, None


def op(formula):
    """An op from a generator, which yields the result, is sent the gradient by it, and yields those by the inputs."""

    @wraps(formula)
    def apply(*inputs):
        paused = formula(*(x.data if isinstance(x, Tensor) else x for x in inputs))
        output = Tensor(next(paused))
        TAPE.append((output, [x for x in inputs if isinstance(x, Tensor)], paused))
        return output

    return apply


def backward(loss):
    """Set `grad` of all Tensors that the loss was computed from, and empty the tape."""
    loss.grad = np.ones_like(loss.data)
    while TAPE:  # from its end: all uses of an output come before the op that made it, so that its gradient is complete
        output, inputs, paused = TAPE.pop()
        gradients = () if output.grad is None else paused.send(output.grad)  # None: the loss does not depend on it
        for x, g in zip(inputs, gradients, strict=False):  # linear has one for the bias even if there is none
            x.grad = g if x.grad is None else x.grad + g  # not in place: g may belong to another Tensor too


# ---- Ops: the formula, and behind its yield the gradient -----------------------------------------------------------
@op
def add(a, b):
    """a + b, of equal shapes"""
    g = yield a + b
    yield g, g


@op
def linear(x, w, b):
    """x Wᵀ + b, or without b.  Shapes: x [..., in], w [out, in], b [out] or None -> [..., out]"""
    rows = x.reshape(-1, x.shape[-1])  # [n, in]
    y = rows @ w.T if b is None else rows @ w.T + b  # [n, in] @ [in, out] -> [n, out]
    g = yield y.reshape(*x.shape[:-1], -1)  # [..., out]
    g = g.reshape(len(rows), -1)  # [n, out]
    yield (g @ w).reshape(x.shape), g.T @ rows, g.sum(axis=0)  # [n, out] @ [out, in] -> [..., in]; [out, n] @ [n, in]


@op
def relu(x):
    """max(x, 0)"""
    g = yield np.maximum(x, 0)
    yield (g * (x > 0),)


@op
def dropout(x, p, rng):
    """x · keep / (1 - p), where keep is 0 with probability p and otherwise 1 (section 5.4)"""
    scale = (rng.random(x.shape) >= p).astype(x.dtype) / (1 - p)
    g = yield x * scale
    yield (g * scale,)


@op
def layer_norm(x, weight, bias):
    """n · weight + bias with n = (x - mean) / √(variance + ε).  Shapes: x [B, T, D], weight, bias [D] -> [B, T, D]"""
    centred = x - mean(x)
    inverse_std = 1 / np.sqrt(mean(centred * centred) + 1e-6)  # [B, T, 1]
    n = centred * inverse_std
    g = yield n * weight + bias
    g_n = g * weight
    yield inverse_std * (g_n - mean(g_n) - n * mean(g_n * n)), (g * n).sum(axis=(0, 1)), g.sum(axis=(0, 1))


@op
def attention(q, k, v, mask, H):
    """softmax(q kᵀ / √K) v in each of H heads (equation 1).  Shapes: q [B, T, D], k and v [B, S, D] -> [B, T, D]"""
    q, k, v = (x.reshape(*x.shape[:2], H, -1).swapaxes(1, 2) for x in (q, k, v))  # [B, T, D] -> [B, H, T, K]
    scale = 1 / math.sqrt(q.shape[-1])
    p = np.exp(log_softmax(np.where(mask, scale * (q @ k.swapaxes(-1, -2)), -np.inf)))  # [.., T, K] @ [.., K, S]
    y = p @ v  # [.., T, S] @ [.., S, K] -> [.., T, K]
    g = yield y.swapaxes(1, 2).reshape(len(y), y.shape[2], -1)  # [B, H, T, K] -> [B, T, D]
    g = g.reshape(*g.shape[:2], H, -1).swapaxes(1, 2)  # [B, T, D] -> [B, H, T, K]
    g_p = g @ v.swapaxes(-1, -2)  # [.., T, K] @ [.., K, S] -> [.., T, S]
    g_scores = scale * p * (g_p - total(g_p * p))
    g_q, g_k = g_scores @ k, g_scores.swapaxes(-1, -2) @ q  # [.., T, S] @ [.., S, K], [.., S, T] @ [.., T, K]
    g_v = p.swapaxes(-1, -2) @ g  # [.., S, T] @ [.., T, K]
    yield (x.swapaxes(1, 2).reshape(len(x), x.shape[2], -1) for x in (g_q, g_k, g_v))  # [B, H, T, K] -> [B, T, D]


@op
def embedding(weight, ids, positions):
    """√D · weight[ids] + positions.  Shapes: weight [V, D], ids int [B, T], positions [T, D] -> [B, T, D]"""
    scale = math.sqrt(weight.shape[1])
    g = yield scale * weight[ids] + positions
    g_weight = np.zeros_like(weight)
    np.add.at(g_weight, ids, scale * g)  # of equal ids, the sum
    yield (g_weight,)


@op
def cross_entropy(logits, labels, smoothing):
    """-Σ q log softmax(logits), q = (1 - ε) · one-hot + ε / V (5.4), the mean over labels but PAD.  [B, T, V] -> []"""
    counted = labels != PAD  # [B, T]
    log_p = log_softmax(logits[counted])  # [n, V]
    one_hot = np.eye(log_p.shape[1], dtype=log_p.dtype)[labels[counted]]  # [n, V]
    q = (1 - smoothing) * one_hot + smoothing / one_hot.shape[1]
    g = yield -np.sum(q * log_p) / len(q)
    g_logits = np.zeros_like(logits)
    g_logits[counted] = g * (np.exp(log_p) - q) / len(q)  # [n, V] -> [B, T, V]
    yield (g_logits,)


def log_softmax(z):
    """z - log Σ exp z over the last axis"""
    z = z - z.max(axis=-1, keepdims=True)
    return z - np.log(total(np.exp(z)))


# ---- The Transformer (section 3, Figure 1) -------------------------------------------------------------------------
class Transformer:
    """The parameters, in the order of minitf's, and Figure 1 computed with them."""

    def __init__(self, V, layers=2, d_model=128, heads=4, d_ff=512, dropout=0.1, seed=0, dtype=np.float32):
        self.heads, self.dropout, self.rng = heads, dropout, np.random.default_rng(seed)
        self.embedding = Tensor((self.rng.standard_normal((V, d_model)) * d_model**-0.5).astype(dtype))
        self.parameters = [self.embedding]

        def new(n_out, n_in=0):
            """Weight and bias: of a linear layer, or of a norm."""
            bound = math.sqrt(6 / (n_out + n_in))
            weight = self.rng.uniform(-bound, bound, (n_out, n_in)) if n_in else np.ones(n_out)
            self.parameters += [Tensor(weight.astype(dtype)), Tensor(np.zeros(n_out, dtype))]
            return self.parameters[-2:]

        attend = [(d_model, d_model)] * 4 + [(d_model,)]  # sizes of query, key, value, output, norm
        feed_forward = [(d_ff, d_model), (d_model, d_ff), (d_model,)]  # up, down, norm
        self.encoder = [[[new(*n) for n in part] for part in (attend, feed_forward)] for _ in range(layers)]
        self.decoder = [[[new(*n) for n in part] for part in (attend, attend, feed_forward)] for _ in range(layers)]

    def embed(self, ids):
        """√D · E[ids] + PE, PE(pos, 2i) = sin(pos / 10000^(2i / D)), PE(pos, 2i + 1) = cos(…).  [B, T] -> [B, T, D]"""
        D, dtype = self.embedding.data.shape[1], self.embedding.data.dtype
        angle = np.arange(ids.shape[1])[:, None] / 10000.0 ** (np.arange(0, D, 2) / D)  # [T, D / 2]
        positions = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(-1, D)  # [T, D / 2, 2] -> [T, D]
        return dropout(embedding(self.embedding, ids, positions.astype(dtype)), self.dropout, self.rng)

    def residual(self, norm, x, y):
        """LayerNorm(x + Dropout(y)) of a sub-layer's input x and output y (section 3.1).  Shapes: [B, T, D] each"""
        return layer_norm(add(x, dropout(y, self.dropout, self.rng)), *norm)

    def attend(self, sublayer, x, memory, mask):
        """Multi-head attention of x to memory (section 3.2.2).  Shapes: x [B, T, D], memory [B, S, D] -> [B, T, D]"""
        query, key, value, output, norm = sublayer
        y = attention(linear(x, *query), linear(memory, *key), linear(memory, *value), mask, self.heads)
        return self.residual(norm, x, linear(y, *output))

    def feed_forward(self, sublayer, x):
        """max(0, x W₁ + b₁) W₂ + b₂ (equation 2).  Shapes: [B, T, D] -> [B, T, F] -> [B, T, D]"""
        up, down, norm = sublayer
        return self.residual(norm, x, linear(relu(linear(x, *up)), *down))

    def encode(self, source):
        """The left half of Figure 1.  Shapes: int [B, S] -> memory [B, S, D]"""
        x, mask = self.embed(source), (source != PAD)[:, None, None, :]  # [B, 1, 1, S]
        for self_attention, feed_forward in self.encoder:
            x = self.attend(self_attention, x, x, mask)
            x = self.feed_forward(feed_forward, x)
        return x

    def decode(self, target, memory, source):
        """The right half.  Shapes: target int [B, T], memory [B, S, D], source int [B, S] -> logits [B, T, V]"""
        x, mask = self.embed(target), (source != PAD)[:, None, None, :]  # [B, 1, 1, S]
        causal = np.tri(target.shape[1], dtype=bool)  # [T, T]: i attends to j ≤ i, and so not to the padding at the end
        for self_attention, cross_attention, feed_forward in self.decoder:
            x = self.attend(self_attention, x, x, causal)
            x = self.attend(cross_attention, x, memory, mask)
            x = self.feed_forward(feed_forward, x)
        return linear(x, self.embedding, None)  # one matrix for both embeddings and the logits (section 3.4)


# ---- Pieces of words, and batches (section 5.1) --------------------------------------------------------------------
class Vocabulary:
    """Byte-pair encoding of both languages together: again and again, the most frequent pair of pieces becomes one."""

    def __init__(self, lines, merges=400):
        self.merges, words = [], Counter(f" {'  '.join('▁' + word)} " for line in lines for word in line.split())
        self.pieces = ["<pad>", "<unk>", "<s>", "</s>", *sorted({piece for word in words for piece in word.split()})]
        for _ in range(merges):
            pairs = Counter()
            for word, count in words.items():
                for pair in pairwise(word.split()):
                    pairs[pair] += count
            if pairs:
                a, b = max(pairs, key=pairs.get)
                self.pieces.append(a + b)
                self.merges.append((f" {a}  {b} ", f" {a}{b} "))
                words = {word.replace(*self.merges[-1]): count for word, count in words.items()}
        self.ids = {piece: i for i, piece in enumerate(self.pieces)}

    def encode(self, line):
        text = "".join(f" {'  '.join('▁' + word)} " for word in line.split())
        for merge in self.merges:
            text = text.replace(*merge)
        return [self.ids.get(piece, UNK) for piece in text.split()]

    def decode(self, ids):
        return "".join(self.pieces[i] for i in ids).replace("▁", " ").strip()


def batches(pairs, max_tokens, rng):
    """Endless batches of pairs of similar length, in random order: int [B, S], [B, T], [B, T], max_tokens at most."""
    while True:
        found = [[]]
        for i in sorted(rng.permutation(len(pairs)), key=lambda i: max(map(len, pairs[i]))):
            if found[-1] and (len(found[-1]) + 1) * (max(map(len, pairs[i])) + 1) > max_tokens:
                found.append([])
            found[-1].append(pairs[i])
        for batch in (found[i] for i in rng.permutation(len(found))):
            sides = [[*s, EOS] for s, _ in batch], [[BOS, *t] for _, t in batch], [[*t, EOS] for _, t in batch]
            yield [np.array([ids + [PAD] * (max(map(len, side)) - len(ids)) for ids in side]) for side in sides]


# ---- Adam and its learning rate (section 5.3) ----------------------------------------------------------------------
class Adam:
    """Adam with β₁ = 0.9, β₂ = 0.98, ε = 1e-9, and the learning rate of equation 3."""

    def __init__(self, parameters, d_model, warmup=400):
        self.t, self.d_model, self.warmup = 0, d_model, warmup
        self.learning = [(p, np.zeros_like(p.data), np.zeros_like(p.data)) for p in parameters]

    def step(self):
        """Update every parameter by its gradient, and forget the gradient."""
        self.t += 1
        rate = self.d_model**-0.5 * min(self.t**-0.5, self.t * self.warmup**-1.5)
        for p, m, v in self.learning:
            m += (1 - 0.9) * (p.grad - m)
            v += (1 - 0.98) * (p.grad**2 - v)
            p.data -= rate * (m / (1 - 0.9**self.t)) / (np.sqrt(v / (1 - 0.98**self.t)) + 1e-9)
            p.grad = None


# ---- Search (section 6.1) ------------------------------------------------------------------------------------------
def beam_search(model, ids, beam=4, alpha=0.6):
    """The finished hypothesis of the best score log P / ((5 + length) / 6)^α, and the score; beam 1 is greedy search.

    Each step looks at the 2 · beam best continuations, so that `beam` go on even if as many end; of one beam, at the
    best alone. Search stops when no alive hypothesis can beat the best finished one, and at length S + 50.
    """
    source, limit, best = np.array([[*ids, EOS]]), len(ids) + 50, ([], -math.inf)  # [1, S]
    memory, alive, log_p = model.encode(source), np.array([[BOS]]), np.zeros(1)  # [1, S, D], [N, t], [N]
    for length in range(1, limit + 1):
        gains = log_softmax(model.decode(alive, memory, source).data[:, -1])  # [N, V]; the one source serves all N
        TAPE.clear()  # nobody asks for gradients
        gains[:, [PAD, UNK, BOS]] = -np.inf  # they stand for no text
        sums = log_p[:, None] + gains  # [N, V]
        order = np.argsort(-sums, axis=None, kind="stable")[: 2 * beam if beam > 1 else 1]
        parent, token = np.unravel_index(order, sums.shape)  # [2 · beam] each, best first
        tokens, log_p = np.column_stack([alive[parent], token]), sums[parent, token]  # [2 · beam, t + 1], [2 · beam]
        penalty, last_penalty = (((5 + n) / 6) ** alpha for n in (length, limit))
        for i in np.flatnonzero(token == EOS)[:1]:  # the others that end now are of the same length, and less probable
            best = max(best, (tokens[i, 1:-1].tolist(), log_p[i] / penalty), key=lambda found: found[1])
        alive, log_p = tokens[token != EOS][:beam], log_p[token != EOS][:beam]  # [N, t + 1], [N]
        if not len(alive) or log_p[0] / last_penalty <= best[1]:
            break
    return best if best[1] > -math.inf else (alive[0, 1:].tolist(), log_p[0] / last_penalty)  # cut: none has ended


# ---- The program ---------------------------------------------------------------------------------------------------
def read_pairs(paths):
    """Lines and their translations, from two files or built in; where there are none, a sentence ends the program."""
    names = " and ".join(paths or [str(BUILT_IN)])
    try:
        if paths:
            columns = [[line.decode() for line in Path(path).read_bytes().splitlines()] for path in paths]
        else:
            lines = bz2.decompress(BUILT_IN.read_bytes()).decode("utf-8").splitlines()
            columns = list(zip(*(line.split("\t") for line in lines), strict=True))
    except (OSError, UnicodeError) as error:
        sys.exit(f"error: cannot read {names} as UTF-8 text: {error}")
    if len(columns[0]) != len(columns[1]):
        sys.exit(f"error: {names} have {len(columns[0])} and {len(columns[1])} lines; line i must translate line i")
    pairs = [pair for pair in zip(*columns, strict=True) if all(map(str.strip, pair))]
    return pairs or sys.exit(f"error: {names} have no line with text in both; there is nothing to learn")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lines", nargs="*", metavar="LINE", help="translate these; default: what is typed")
    parser.add_argument("--texts", nargs=2, metavar=("SOURCE", "TARGET"), help="learn these; default: number words")
    parser.add_argument("--steps", type=int, default=1000, help="updates of the weights (default: 1000)")
    args = parser.parse_args()
    if args.steps < 1:
        parser.error(f"--steps {args.steps} is not a number of updates; choose 1 or more")
    pairs = read_pairs(args.texts)
    held_out, pairs = pairs[: len(pairs) // 16], pairs[len(pairs) // 16 :]
    vocabulary = Vocabulary([line for pair in pairs for line in pair])
    pairs = [[vocabulary.encode(line) for line in pair] for pair in pairs]
    model = Transformer(len(vocabulary.pieces))
    adam, losses = Adam(model.parameters, model.embedding.data.shape[1]), []
    for source, target, labels in islice(batches(pairs, 1024, model.rng), args.steps):
        loss = cross_entropy(model.decode(target, model.encode(source), source), labels, 0.1)
        if not np.isfinite(loss.data):
            sys.exit(f"error: the loss of update {adam.t + 1} is {loss.data}; a larger warmup of Adam lowers the rate")
        backward(loss)
        adam.step()
        losses.append(loss.data)
        if adam.t % 50 == 0 or adam.t == args.steps:
            print(f"step {adam.t}  loss {np.mean(losses[-50:]):.3f}", flush=True)
    model.dropout = 0.0
    for source, target in held_out[:10]:
        found = vocabulary.decode(beam_search(model, vocabulary.encode(source))[0])
        print(f"{source}\n  → {found}" + ("" if found == target else f"   (right: {target})"))
    if not args.lines and sys.stdin.isatty():
        print("Type a line; Ctrl-D ends the program.")
    for line in args.lines or sys.stdin:
        print(vocabulary.decode(beam_search(model, vocabulary.encode(line))[0]) if line.strip() else "", flush=True)


if __name__ == "__main__":
    main()
