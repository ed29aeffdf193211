"""The paper's Transformer in PyTorch, as a yardstick for speed and memory.

A peer, not a dependency: run it from an environment of its own
(`pip install torch==2.13.0`).  It does what a good PyTorch user would do:
fused scaled-dot-product attention, packed QKV projection, fused Adam.

    python torch_transformer.py train --config base --batch 64 --length 32
    python torch_transformer.py train --config base --device cuda --amp bf16 --batch 500 --length 50
    python torch_transformer.py decode --config base --batch 32 --length 25 --new-tokens 30

Prints one JSON line: median seconds, tokens per second, peak memory in MiB.
"""

import argparse
import math
import resource
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from workload import add_arguments, chosen, median_seconds, report


class Attention(nn.Module):
    """Multi-head attention (section 3.2.2); `cache` holds keys and values while decoding."""

    def __init__(self, d_model, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(d_model, d_model)
        self.key_value = nn.Linear(d_model, 2 * d_model)
        self.output = nn.Linear(d_model, d_model)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, memory, causal=False, cache=None, name=None):
        query = self.split(self.query(x))
        if cache is not None and name in cache and name[0] == "cross":
            key, value = cache[name]
        else:
            key, value = (self.split(part) for part in self.key_value(memory).chunk(2, dim=-1))
            if cache is not None:
                if name in cache:
                    key = torch.cat([cache[name][0], key], dim=2)
                    value = torch.cat([cache[name][1], value], dim=2)
                cache[name] = (key, value)
        heads = F.scaled_dot_product_attention(query, key, value, is_causal=causal)
        return self.output(heads.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """An encoder layer, or with `cross` a decoder layer: post-norm residuals (section 3.1)."""

    def __init__(self, d_model, d_ff, heads, dropout, cross):
        super().__init__()
        self.attend_self = Attention(d_model, heads)
        self.attend_cross = Attention(d_model, heads) if cross else None
        self.feed_forward = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3 if cross else 2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, memory=None, causal=False, cache=None, index=0):
        x = self.norms[0](x + self.dropout(self.attend_self(x, x, causal, cache, ("self", index))))
        if self.attend_cross is not None:
            x = self.norms[1](x + self.dropout(self.attend_cross(x, memory, False, cache, ("cross", index))))
        return self.norms[-1](x + self.dropout(self.feed_forward(x)))


class Transformer(nn.Module):
    def __init__(self, layers, d_model, d_ff, heads, dropout, vocab_size):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        self.encoder = nn.ModuleList(Layer(d_model, d_ff, heads, dropout, False) for _ in range(layers))
        self.decoder = nn.ModuleList(Layer(d_model, d_ff, heads, dropout, True) for _ in range(layers))
        self.dropout = nn.Dropout(dropout)
        position = torch.arange(2048)[:, None] * torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        self.register_buffer("positions", torch.stack([position.sin(), position.cos()], dim=-1).flatten(1))

    def embed(self, tokens, start=0):
        scaled = self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(scaled + self.positions[start : start + tokens.shape[1]])

    def encode(self, source):
        x = self.embed(source)
        for layer in self.encoder:
            x = layer(x)
        return x

    def decode(self, target, memory, cache=None, start=0):
        x = self.embed(target, start)
        for index, layer in enumerate(self.decoder):
            x = layer(x, memory, causal=cache is None, cache=cache, index=index)
        return x

    def forward(self, source, target):
        return F.linear(self.decode(target, self.encode(source)), self.embedding.weight)


def peak_mib(device):
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def training_step(model, source, target, kind, compiled):
    """A function that makes one training step of a batch; kind: type of mixed precision, or None."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def loss_of(source, target):
        with torch.autocast(source.device.type, kind, enabled=kind is not None):
            logits = model(source, target[:, :-1])
            return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), label_smoothing=0.1)

    compute = torch.compile(loss_of) if compiled else loss_of

    def step():
        optimizer.zero_grad(set_to_none=True)
        compute(source, target).backward()
        optimizer.step()

    return step


def decoding_step(model, source, kind, beam, new_tokens):
    """A function that decodes a batch to a fixed length."""
    device, batch, vocabulary = source.device, len(source), len(model.embedding.weight)

    @torch.inference_mode()
    def step():
        """Beam search to a fixed length with key/value caches: greedy bookkeeping, full work."""
        with torch.autocast(device.type, kind, enabled=kind is not None):
            memory = model.encode(source).repeat_interleave(beam, 0)
            last = torch.full((batch * beam, 1), 2, device=device)
            scores = torch.zeros(batch * beam, device=device)
            cache = {}
            for position in range(new_tokens):
                x = model.decode(last, memory, cache, position)
                logits = F.linear(x[:, -1], model.embedding.weight).float()
                total = scores[:, None] + F.log_softmax(logits, -1)
                best, where = total.view(batch, -1).topk(beam)
                parent = where // vocabulary + torch.arange(batch, device=device)[:, None] * beam
                parent = parent.flatten()
                last = (where % vocabulary).view(-1, 1)
                scores = best.flatten()
                for name, (key, value) in cache.items():
                    if name[0] == "self":
                        cache[name] = (key[parent], value[parent])

    return step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["train", "decode"])
    add_arguments(parser)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--new-tokens", type=int, default=30)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--amp", choices=["none", "bf16", "fp16"], default="none")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    args = parser.parse_args()
    sizes = chosen(args)

    torch.manual_seed(0)
    device = torch.device(args.device)
    if args.tf32:
        torch.backends.cuda.matmul.allow_tf32 = True
    model = Transformer(**sizes).to(device)
    source = torch.randint(4, sizes["vocab_size"], (args.batch, args.length), device=device)
    target = torch.randint(4, sizes["vocab_size"], (args.batch, args.length + 1), device=device)
    kind = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(args.amp)
    if args.mode == "train":
        step = training_step(model, source, target, kind, args.compile)
        tokens = args.batch * args.length
    else:
        step = decoding_step(model.eval(), source, kind, args.beam, args.new_tokens)
        tokens = args.batch * args.new_tokens

    def finished():
        step()
        synchronize(device)

    seconds = median_seconds(finished, args.runs, args.warmup)
    parameters = sum(p.numel() for p in model.parameters())
    about = {"config": args.config, "peak_mib": round(peak_mib(device)), "parameters": parameters}
    report("pytorch " + torch.__version__, args.mode, seconds, tokens, **about)


if __name__ == "__main__":
    main()
