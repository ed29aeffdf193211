"""A Transformer of one layer in plain NumPy, as somebody else writes it, with the mistakes that people make."""

import math

import numpy as np

V, D, H = 20, 8, 2
PAD = 0


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attention(q, k, v, mask, scaled=True):
    scores = q @ k.swapaxes(-1, -2) / (math.sqrt(q.shape[-1]) if scaled else 1)
    return softmax(np.where(mask, scores, -np.inf)) @ v


def norm(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)


def sinusoids(length):
    angle = np.arange(length)[:, None] / 10000 ** (np.arange(0, D, 2) / D)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, D)


class NumpyTransformer:
    """An object with methods. mistakes: names of what to get wrong."""

    def __init__(self, *mistakes):
        self.mistakes = mistakes
        rng = np.random.default_rng(0)
        self.matrix = rng.standard_normal((V, D)) / math.sqrt(D)
        output = self.matrix.copy() if "output copied" in mistakes else self.matrix.T
        target = rng.standard_normal((V, D)) if "target apart" in mistakes else self.matrix
        self.weights = {"source_embedding": self.matrix, "target_embedding": target, "output": output}
        self.w = {name: rng.standard_normal((4, D, D)) / math.sqrt(D) for name in ("encoder", "decoder", "cross")}
        self.up, self.down = rng.standard_normal((D, 2 * D)), rng.standard_normal((2 * D, D)) / D

    def embed(self, ids, matrix=None):
        scale = 1 if "no √d_model" in self.mistakes else math.sqrt(D)
        positions = 0 if "no positions" in self.mistakes else sinusoids(ids.shape[1])
        return (self.matrix if matrix is None else matrix)[ids] * scale + positions

    def attention(self, q, k, v, mask):
        return attention(q, k, v, mask, scaled="no √d_k" not in self.mistakes)

    def heads(self, name, x, memory, mask):
        q, k, v = (
            (a @ w).reshape(*a.shape[:2], H, D // H).swapaxes(1, 2)
            for a, w in zip((x, memory, memory), self.w[name], strict=False)
        )
        return self.attention(q, k, v, mask).swapaxes(1, 2).reshape(x.shape) @ self.w[name][3]

    def residual(self, x, f):
        return x + norm(f(x)) if "norm inside" in self.mistakes else norm(x + f(x))

    def feed_forward(self, x):
        return np.maximum(x @ self.up, 0) @ self.down

    def encoder_layer(self, x, real=None):
        mask = np.ones((1, 1, 1, x.shape[1]), bool) if real is None else real[:, None, None, :]
        x = self.residual(x, lambda y: self.heads("encoder", y, y, mask))
        return self.residual(x, self.feed_forward)

    def logits(self, source, target):
        real = source != PAD
        if "padding seen" in self.mistakes:
            real = np.ones_like(real)
        memory = self.encoder_layer(self.embed(source), real)
        length = target.shape[1]
        offset = {"future seen": length, "off by one": 1}.get((*self.mistakes, "")[0], 0)
        causal = np.tri(length, k=offset, dtype=bool)[None, None]
        x = self.embed(target, self.weights["target_embedding"])
        x = self.residual(x, lambda y: self.heads("decoder", y, y, causal))
        x = self.residual(x, lambda y: self.heads("cross", y, memory, real[:, None, None, :]))
        output = self.weights["output"]
        return self.residual(x, self.feed_forward) @ (output if output.shape == (D, V) else output.T)

    def start(self, source):
        return {"source": source, "target": np.zeros((len(source), 0), int)}

    def step(self, tokens, state):
        """No cache at all, but for the mistake: only the two newest tokens are kept."""
        target = np.concatenate([state["target"], tokens[:, None]], axis=1)
        state["target"] = target[:, -2:] if "cache forgets" in self.mistakes else target
        return self.logits(state["source"], state["target"])[:, -1]

    def loss(self, logits, targets):
        eps = 0 if "no smoothing" in self.mistakes else 0.1
        log_p = np.log(softmax(logits))
        losses = -(1 - eps) * log_p[np.arange(len(targets)), targets] - eps * log_p.mean(-1)
        if "others only" in self.mistakes:
            right = log_p[np.arange(len(targets)), targets]
            losses = -(1 - eps) * right - eps * (log_p.sum(-1) - right) / (V - 1)
        return losses.mean() if "padding counts" in self.mistakes else losses[targets != PAD].mean()
