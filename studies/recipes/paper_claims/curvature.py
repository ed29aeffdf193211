"""Section 5.3 by the curvature of the loss: what the warm-up does, after normalisation and before it.

Source: Cohen et al. 2022, arXiv:2207.14484 (Adam is stable where η λ < 2 (1 + β₁) / (1 - β₁), with λ the largest
eigenvalue of D^-½ H D^-½ and D = √v̂ + ε), Gilmer et al. 2021, arXiv:2110.04369 (warm-up and curvature)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass

import numpy as np
import resumable

import autograd as ag
from autograd import Tensor, random
from minitf import Transformer
from minitf.app.train import read_train_args
from minitf.run.start import start
from minitf.system.process import silent
from minitf.training.loop import apply
from minitf.training.optim import batch_loss, compute_gradients, learning_rate
from minitf.training.run import Run, SingleProcess
from minitf.training.state import Interval
from paper_claims.claim import Figure, Rule, claim, sampled
from paper_claims.runs import Study, labelled

UPDATES = (0, 1, 2, 5, 10, 20, 40, 75, 150, 300, 600)  # after which the curvature is measured
EARLY, WARM = 10, 150  # the updates that the claim compares: Adam has averages, and the rate is at its peak
PRE = {"base": "pre", "no-warm-up": "pre-no-warm-up"}  # the variant with normalisation before each sub-layer
LANCZOS = 20  # products with the Hessian for an eigenvalue

Array = np.ndarray


@dataclass(frozen=True)
class Curvature:
    """The curvature of the mean loss of a token of the first batch, without dropout.

    largest: the largest eigenvalue of the Hessian H
    limit: η λ / (2 (1 + β₁) / (1 - β₁)) with the rate η of the next update; above 1, Adam is not stable.  None at 0
    """

    updates: int
    loss: float
    rate: float
    largest: float
    limit: float | None


def largest_eigenvalue(product: Callable[[Array], Array], size: int, seed: int = 0) -> float:
    """The largest eigenvalue of a symmetric matrix, of which only products with vectors are known, by Lanczos."""
    v = np.random.default_rng(seed).standard_normal(size)
    basis = [v / np.linalg.norm(v)]
    alphas: list[float] = []
    betas: list[float] = []
    for _ in range(min(LANCZOS, size)):
        w = product(basis[-1])
        alphas.append(float(w @ basis[-1]))
        for _ in range(2):  # orthogonal to all before, to rounding
            w = w - sum((u @ w) * u for u in basis)
        beta = float(np.linalg.norm(w))
        if beta < 1e-12 * max(map(abs, alphas)):
            break
        betas.append(beta)
        basis.append(w / beta)
    inner = betas[: len(alphas) - 1]
    return float(np.linalg.eigvalsh(np.diag(alphas) + np.diag(inner, 1) + np.diag(inner, -1))[-1])


def measured(run: Run, updates: int) -> Curvature:
    """The curvature at the weights of a run, in float64."""
    config, optimizer = run.config, run.optimizer
    model = Transformer(config.model, dtype=np.float64)
    weights = model.named_parameters()
    for name, parameter in run.model.named_parameters().items():
        weights[name].data[...] = parameter.data
    model.eval()
    loss = batch_loss(model, run.data.train.batch(0, 0), config.optimizer.label_smoothing, "mean")[0]
    parameters = list(weights.values())
    gradients = ag.grad(loss, parameters, create_graph=True)
    flat = ag.concatenate([ag.reshape(g, (-1,)) for g in gradients if g is not None])

    def product(v: Array) -> Array:
        found = ag.grad(flat, parameters, Tensor(v), retain_graph=True)
        return np.concatenate([g.data.reshape(-1) for g in found if g is not None])

    rate = learning_rate(updates + 1, config.model.d_model, config.optimizer)
    largest, limit = largest_eigenvalue(product, flat.size), None
    if updates:
        v = np.concatenate([optimizer.v[name].reshape(-1).astype(np.float64) for name in weights])
        d = np.sqrt(v / (1 - config.optimizer.beta2**optimizer.step_count)) + config.optimizer.epsilon
        root = 1 / np.sqrt(d)
        preconditioned = largest_eigenvalue(lambda u: root * product(root * u), flat.size)
        beta = config.optimizer.beta1
        limit = rate * preconditioned * (1 - beta) / (2 * (1 + beta))
    return Curvature(updates, loss.item(), rate, largest, limit)


def training(run: Run, last: int) -> Iterator[int]:
    """Train as `minitf.training.loop` does; yield the number of updates, 0 first."""
    random.manual_seed(run.config.seed)
    run.model.train()
    yield 0
    for step in range(1, last + 1):
        run.optimizer.zero_grad()
        batch = next(run.data.train)
        random.begin_step(step, batch.number, batch.first_row)
        losses = compute_gradients(run.model, batch, run.config.optimizer.label_smoothing)
        update = Interval.of([(batch, *losses)])
        update.gradient_norm = run.optimizer.gradient_norm() / update.target_tokens
        if update.is_finite:
            apply(run, update, learning_rate(step, run.config.model.d_model, run.config.optimizer))
        yield step


def curvatures(study: Study, variant: str, seed: int) -> list[Curvature]:
    """The curvature along the training of a variant; measured once, and kept in the folder for the runs."""
    folder = study.output / "curvature" / variant
    path = folder / f"seed-{seed}.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        flags = [*study.flags(variant, seed), "--output", str(folder / f"run-{seed}")]
        with (study.output / "curvature.log").open("a") as log, redirect_stdout(log), redirect_stderr(log):
            config = read_train_args(flags).config
            points = [k for k in UPDATES if k <= (config.max_steps or 0)]
            with start(config, SingleProcess(config), silent) as run:
                found = [measured(run, k) for k in training(run, points[-1]) if k in points]
        resumable.write(path, json.dumps([asdict(each) for each in found]))
    return [Curvature(**each) for each in json.loads(path.read_text(encoding="utf-8"))]


def along(study: Study, variant: str) -> list[list[Curvature]]:
    """`curvatures` for each seed."""
    return [curvatures(study, variant, seed) for seed in study.seeds]


def limits(of: list[Curvature]) -> dict[int, float]:
    return {each.updates: each.limit for each in of if each.limit is not None}


def table(study: Study) -> str:
    """The curvature along training with and without warm-up, after and before normalisation: means over the seeds."""
    lines = []
    for label, variant in (("with warm-up", "base"), ("without", "no-warm-up")):
        for norm, name in (("post", variant), ("pre", PRE[variant])):
            runs = along(study, name)
            lines += [f"{label}, {norm}-norm:", "", "| updates | loss | rate | largest eigenvalue | of the limit |"]
            lines += ["|--:|--:|--:|--:|--:|"]
            for each in zip(*runs, strict=True):
                loss, largest = (np.mean([getattr(one, key) for one in each]) for key in ("loss", "largest"))
                shares = [one.limit for one in each if one.limit is not None]
                share = f"{np.mean(shares):.3g}" if shares else "–"
                lines.append(f"| {each[0].updates} | {loss:.3f} | {each[0].rate:.2e} | {largest:.3g} | {share} |")
            lines.append("")
    return "\n".join(lines)


def _multiples(study: Study, variant: str) -> str:
    """What share of the limit of stability is reached, seed by seed, for the reader."""
    runs = [limits(of) for of in along(study, variant)]
    return labelled({f"after {k}": [of[k] for of in runs] for k in runs[0]}, 3)


@claim(
    "warm-up-curvature", "5.3",
    "[We increase the learning rate linearly for the first warmup_steps training steps: at first, the loss is too "
    "curved for the peak rate.]",
    Rule("the curvature that Adam meets after update 10, divided by that after 150", lowest=1),
)  # fmt: skip
def warm_up_curvature(study: Study) -> Figure:
    """The largest eigenvalue of D^-½ H D^-½ at the base's weights, D = √v̂ + ε of Adam, by 20 steps of Lanczos with
    Hessian-vector products. Beside it η λ / 38, which is stable below 1 (Cohen et al. 2022), also without warm-up."""
    ratios = []
    for of in along(study, "base"):
        early, warm = ({each.updates: each for each in of}[min(k, of[-1].updates)] for k in (EARLY, WARM))
        assert early.limit is not None and warm.limit is not None  # noqa: PT018
        ratios.append((early.limit / early.rate) / (warm.limit / warm.rate))
    return sampled(ratios, f"η λ / 38, with: {_multiples(study, 'base')}. Without: {_multiples(study, 'no-warm-up')}")


@claim(
    "post-norm-curvature", "3.1, 5.3",
    "The output of each sub-layer is LayerNorm(x + Sublayer(x)) [which makes the loss curved at first].",
    Rule("the largest eigenvalue of the Hessian at the initial weights, divided by that of pre-norm", lowest=1),
)  # fmt: skip
def post_norm_curvature(study: Study) -> Figure:
    """Of the mean loss of a token of the first batch, without dropout."""
    found = {norm: [of[0].largest for of in along(study, name)] for norm, name in (("post", "base"), ("pre", "pre"))}
    ratios = [a / b for a, b in zip(found["post"], found["pre"], strict=True)]
    return sampled(ratios, labelled(found, 3))
