"""A trained run of ours translated by PyTorch: the same weights, the same subwords, the same search.

A peer, not a dependency: run it from an environment of its own (`pip install torch==2.13.0 numpy`), on what
`studies/benchmarks/translate_ours.py export` wrote.  It does what a good PyTorch user would do: sentences sorted by length,
fused attention, packed projections, keys and values kept, and sentences that are done leave the batch.

    python torch_corpus.py exported.npz --batches 1 64 --beams 1 5

Prints one JSON line: output tokens per second for each search and batch size, peak memory in MiB.
"""

import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from workload import add_corpus_arguments, report_corpus

PAD, UNK, BOS, EOS = 0, 1, 2, 3


class Model:
    """The post-norm Transformer of an exported run, in evaluation mode."""

    def __init__(self, arrays):
        about = json.loads(str(arrays["about"]))
        self.heads, self.layers, self.epsilon = about["heads"], about["layers"], about["norm_epsilon"]
        self.weights = {name: torch.from_numpy(arrays[name]) for name in arrays if arrays[name].dtype == np.float32}
        self.table, self.positions = self.weights["source_embedding.weight"], self.weights["positions"]
        self.packed = {}
        for side, parts in (("encoder", "self"), ("decoder", "self"), ("decoder", "cross")):
            names = ("query", "key", "value") if parts == "self" else ("key", "value")
            for number in range(self.layers):
                place = f"{side}.layers.{number}.{parts}_attention"
                self.packed[place] = [
                    torch.cat([self.weights[f"{place}.{name}.{kind}"] for name in names]) for kind in ("weight", "bias")
                ]

    def linear(self, x, name):
        return F.linear(x, self.weights[name + ".weight"], self.weights[name + ".bias"])

    def norm(self, x, name):
        weight = self.weights[name + ".weight"]
        return F.layer_norm(x, weight.shape, weight, self.weights[name + ".bias"], self.epsilon)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def attend(self, query, key, value, place, mask=None):
        y = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.linear(y.transpose(1, 2).flatten(2), place + ".output")

    def feed_forward(self, x, place):
        y = self.linear(F.relu(self.linear(x, place + "feed_forward.up")), place + "feed_forward.down")
        return self.norm(x + y, place + "feed_forward_residual.norm")

    def embed(self, tokens, start=0):
        x = F.embedding(tokens, self.table) * math.sqrt(self.table.shape[1])
        return x + self.positions[start : start + tokens.shape[1]]

    def encode(self, source):
        """Keys and values of the source for every layer of the decoder, and its mask.  Shapes: source [B, S]"""
        mask = (source != PAD)[:, None, None, :]
        x = self.embed(source)
        for number in range(self.layers):
            place = f"encoder.layers.{number}."
            parts = F.linear(x, *self.packed[place + "self_attention"]).chunk(3, dim=-1)
            y = self.attend(*map(self.split, parts), place + "self_attention", mask)
            x = self.norm(x + y, place + "self_attention_residual.norm")
            x = self.feed_forward(x, place)
        memory = [
            F.linear(x, *self.packed[f"decoder.layers.{number}.cross_attention"]).chunk(2, dim=-1)
            for number in range(self.layers)
        ]
        return [tuple(map(self.split, each)) for each in memory], mask

    def step(self, tokens, position, past, memory, mask):
        """Logits of the next token.  Shapes: tokens [B, N] -> [B, N, V]; past is appended to, its rows are B · N"""
        b, n = tokens.shape
        x = self.embed(tokens.reshape(-1, 1), position)  # [B · N, 1, D]
        for number in range(self.layers):
            place = f"decoder.layers.{number}."
            parts = F.linear(x, *self.packed[place + "self_attention"]).chunk(3, dim=-1)
            query, key, value = map(self.split, parts)
            if past[number] is not None:
                key = torch.cat([past[number][0], key], dim=2)
                value = torch.cat([past[number][1], value], dim=2)
            past[number] = key, value
            x = self.norm(
                x + self.attend(query, key, value, place + "self_attention"), place + "self_attention_residual.norm"
            )
            # the beams of a sentence are its queries, side by side: its keys and values are not repeated
            query = self.split(self.linear(x.view(b, n, -1), place + "cross_attention.query"))
            y = self.attend(query, *memory[number], place + "cross_attention", mask)
            x = self.norm(x + y.reshape(x.shape), place + "cross_attention_residual.norm")
            x = self.feed_forward(x, place)
        return F.linear(x, self.table).view(b, n, -1)


@torch.inference_mode()
def search(model, sentences, beam):
    """The best hypothesis of each sentence: the search of minitf/decoding/search.py."""
    width = max(map(len, sentences)) + 1
    source = torch.tensor([[*ids, EOS, *[PAD] * (width - len(ids) - 1)] for ids in sentences])
    memory, mask = model.encode(source)
    limits = [len(ids) + 50 for ids in sentences]
    best = [(-math.inf, [])] * len(sentences)  # finished
    alive = list(range(len(sentences)))  # the sentence of each row of B
    tokens = torch.full((len(sentences), 1, 1), BOS)  # [B, N, t]
    scores = torch.zeros(len(sentences), 1)
    past = [None] * model.layers
    position = 0
    while alive:
        b, n, _ = tokens.shape
        logits = model.step(tokens[:, :, -1], position, past, memory, mask)
        logits = logits - logits.logsumexp(-1, keepdim=True)
        logits[:, :, [PAD, UNK, BOS]] = -math.inf
        position += 1
        candidates = 2 * beam if beam > 1 else 1
        total, where = (scores[:, :, None] + logits).flatten(1).topk(candidates)  # [B, 2 · beam]
        parent, token = where // logits.shape[2], where % logits.shape[2]
        ends = token == EOS
        for row, place in ends.nonzero().tolist():
            score = total[row, place].item() / position
            if score > best[alive[row]][0]:
                best[alive[row]] = score, tokens[row, parent[row, place], 1:].tolist()
        scores, order = total.masked_fill(ends, -math.inf).topk(beam)  # [B, beam]
        parent, token = parent.gather(1, order), token.gather(1, order)
        bound = scores[:, 0].tolist()
        going_on = [
            row
            for row, sentence in enumerate(alive)
            if position < limits[sentence] and bound[row] / limits[sentence] > best[sentence][0]
        ]
        for row, sentence in enumerate(alive):
            if row not in going_on and not math.isfinite(best[sentence][0]):  # cut at its limit
                best[sentence] = bound[row], [*tokens[row, parent[row, 0], 1:].tolist(), int(token[row, 0])]
        if not going_on:
            break
        keep = torch.tensor(going_on, dtype=torch.long)
        rows = (keep[:, None] * n + parent[keep]).flatten()
        tokens = torch.cat([tokens.flatten(0, 1)[rows].view(len(keep), beam, -1), token[keep][:, :, None]], dim=2)
        scores = scores[keep]
        past = [(key[rows], value[rows]) for key, value in past]
        if len(going_on) < b:
            alive = [alive[row] for row in going_on]
            memory, mask = [(key[keep], value[keep]) for key, value in memory], mask[keep]
    return [tokens for _, tokens in best]


def main():
    parser = argparse.ArgumentParser()
    add_corpus_arguments(parser)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    with np.load(args.exported) as arrays:
        model = Model(arrays)
        lines = json.loads(str(arrays["lines"]))

    def work(lines, beam, batch):
        order = sorted(range(len(lines)), key=lambda i: -len(lines[i]))
        results = [[]] * len(lines)
        for begin in range(0, len(order), batch):
            some = order[begin : begin + batch]
            for i, tokens in zip(some, search(model, [lines[i] for i in some], beam), strict=True):
                results[i] = tokens
        return results

    report_corpus("pytorch " + torch.__version__, args, work, lines)


if __name__ == "__main__":
    main()
