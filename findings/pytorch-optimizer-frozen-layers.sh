#!/bin/sh
# pytorch_optimizer 4.1.0: layers that are frozen at first get wrong steps when they are set free: 20 times too large by LaProp, 10 times too small by Lamb.
#
# Seen on 2026-11-28 with pytorch_optimizer 4.1.0, PyTorch 2.13.0, NumPy 2.4.6, Python 3.11.
# Expected before running: a parameter that gets its first gradient after 500 steps moves as in a new optimizer, as in torch.optim; after a look
#   at the source, that it does not.
# Why: averages of gradients begin with 0, and bias correction is there for the first gradients of a parameter, whenever they come.
# Seen: the optimizers count their steps by group, and a parameter without gradient (requires_grad is False, or grad is None) is left out while
#   the count goes on.  Its averages are still 0 then, and their correction is that of the 501st step.  Where the second average is too small
#   for that, steps are too large: twice in AdaBelief, AdamP and AdEMAMix, two to three times after ten steps, 20 times in LaProp, whose loss
#   jumps from 1.9 to more than 100; RAdam, which is to go slowly at first, goes 80 times as far in ten steps as it does anew.  Where it is left out,
#   they are too small: a tenth in AdaMax and Lamb.  Adamax, AdamW and RAdam of torch.optim, which count by parameter, are right.
#   With default settings about 40 of the optimizers moved otherwise than anew.  Two groups do not help, as both count; groups that are added when they are set free do.
#   The count went from parameters to groups in a pull request of 2023 that names time and memory (kozistr/pytorch_optimizer 95); reports about
#   its effect were not found there.  For FusedAdam of DeepSpeed a pull request against the like of it is open (deepspeedai/DeepSpeed 8471).
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q pytorch_optimizer==4.1.0 torch==2.13.0 numpy==2.4.6
"$dir/venv/bin/python" -W ignore - <<'PY'
import pytorch_optimizer
import torch

torch.set_num_threads(1)
frozen, lr = 500, 0.01


def train(optimizer, anew):
    """Return how far the body moves in its first step and its first ten, in learning rates, and its losses."""
    torch.manual_seed(0)
    x = torch.randn(256, 20)
    y = torch.tanh(x @ torch.randn(20, 8)) @ torch.randn(8, 3) + 0.1 * torch.randn(256, 3)
    body, head = torch.nn.Linear(20, 32), torch.nn.Linear(32, 3)
    body.requires_grad_(False)
    optimizers = [optimizer([*head.parameters()] if anew else [*body.parameters(), *head.parameters()], lr=lr)]
    begin, moved, losses = body.weight.detach().clone(), [], []
    for step in range(frozen + 20):
        if step == frozen:
            body.requires_grad_(True)
            if anew:
                optimizers.append(optimizer([*body.parameters()], lr=lr))
        for module in (body, head):
            module.zero_grad()
        loss = ((head(torch.tanh(body(x))) - y) ** 2).mean()
        loss.backward()
        for each in optimizers:
            each.step()
        if step >= frozen:
            moved.append((body.weight.detach() - begin).abs().max().item() / lr)
            losses.append(loss.item())
    return moved[0], moved[9], losses[0], max(losses)


changed = False
for name, library, low, high in (
    ("Adamax", torch.optim, 1, 1),
    ("RAdam", torch.optim, 1, 1),
    ("AdamW", torch.optim, 1, 1),
    ("AdaMax", pytorch_optimizer, 0.05, 0.15),
    ("Lamb", pytorch_optimizer, 0.05, 0.15),
    ("AdaBelief", pytorch_optimizer, 1.8, 2.2),
    ("AdamP", pytorch_optimizer, 1.8, 2.2),
    ("AdEMAMix", pytorch_optimizer, 1.8, 2.2),
    ("LaProp", pytorch_optimizer, 18, 22),
    ("RAdam", pytorch_optimizer, 50, float("inf")),
):
    optimizer = getattr(library, name)
    first, ten, loss, worst = train(optimizer, anew=False)
    first_anew, ten_anew, _, worst_anew = train(optimizer, anew=True)
    print(
        f"{library.__name__} {name}: first step {first:.2f} (anew {first_anew:.2f}), ten steps {ten:.1f} (anew {ten_anew:.1f}) learning rates;"
        f" loss {loss:.2f}, in 20 steps up to {worst:.2f} (anew {worst_anew:.2f})"
    )
    ratio = ten / ten_anew if first_anew < 0.01 else first / first_anew
    changed |= not low * (1 - 1e-4) <= ratio <= high * (1 + 1e-4)
    if name == "LaProp":
        changed |= not (worst > 50 and worst_anew < 2)
raise SystemExit("The behaviour has changed." if changed else 0)
PY
