#!/bin/sh
# pytorch-metric-learning 2.9.0: unless a batch has as many classes as samples of a class, SmoothAPLoss takes other classes for the same one.
#
# Seen on 2026-11-28 with pytorch-metric-learning 2.9.0, PyTorch 2.13.0, NumPy 2.4.6, Python 3.11.
# Expected before running: the loss is 1 - Smooth-AP (Brown et al. 2020) of the labels, so about 0 where every class is a cluster far from the others,
#   for any number of classes that have the same number of samples, one class after the other, as MPerClassSampler gives them.
# Why: the class says that the number of classes does not matter, and raises an error for classes of different sizes.
# Seen: compute_loss divides the batch size by the number of classes, which is the number of samples of a class, and calls that the number of classes;
#   the batch is cut into so many groups.  With 3 x 3 or 4 x 4 both are the same, and the loss is right.  With 8 classes of 4 samples it has
#   4 groups of 8: two classes count as one, and perfect clusters have a loss of 0.27 (4 classes of 8: 0.42; 2 of 8: 0.63).  Descent on it ends
#   at a loss of 0 with a mean average precision of 0.56; on the definition it ends at 1.  The labels are read for their counts only.
#   The library's own test has it the other way round: 10 classes of 6 are compared with the original for 6 classes of 10.  No report was found.
#   2.9.0 is the newest release for Python 3.11; the documents of version 3 (autumn of 2026, Python 3.12 and newer) take positives from the labels.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q pytorch-metric-learning==2.9.0 torch==2.13.0 numpy==2.4.6
"$dir/venv/bin/python" -W ignore - <<'PY'
import numpy as np
import torch
from pytorch_metric_learning.losses import SmoothAPLoss

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


def definition(x, labels, temperature=0.01):
    x = torch.nn.functional.normalize(x, dim=1)
    similarity = x @ x.T
    same = (labels[:, None] == labels).double()
    above = torch.sigmoid((similarity[:, None, :] - similarity[:, :, None]) / temperature) * (1 - torch.eye(len(x)))
    ranks_in_class, ranks = 1 + (above * same[:, None]).sum(-1), 1 + above.sum(-1)
    return 1 - ((ranks_in_class / ranks * same).sum(-1) / same.sum(-1)).mean()


def average_precision(x, labels):
    x, labels = torch.nn.functional.normalize(x.detach(), dim=1).numpy(), labels.numpy()
    similarity = x @ x.T
    values = []
    for q in range(len(x)):
        order = [i for i in np.argsort(-similarity[q]) if i != q]
        hits = labels[order] == labels[q]
        values.append((np.cumsum(hits) / np.arange(1, len(hits) + 1))[hits].mean())
    return np.mean(values)


library = SmoothAPLoss()
changed = False
for classes, samples in ((3, 3), (4, 4), (8, 4), (4, 8), (16, 2), (2, 8)):
    labels = torch.arange(classes).repeat_interleave(samples)
    clusters = torch.eye(classes, 16)[labels] + 0.02 * torch.randn(len(labels), 16)
    for what, x in (("clusters", clusters), ("random", torch.randn(len(labels), 16))):
        found, expected = library(x, labels).item(), definition(x, labels).item()
        print(f"{classes} classes of {samples}, {what}: {found:.4f}, by the definition {expected:.4f}")
        changed |= (abs(found - expected) > 1e-6) != (classes != samples)
    changed |= expected < 0.2 or (classes != samples and library(clusters, labels).item() < 0.25)

labels = torch.arange(8).repeat_interleave(4)
start = torch.randn(32, 8)
for name, loss in (("library", library), ("definition", definition)):
    x = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([x], 0.01)
    for _ in range(300):
        optimizer.zero_grad()
        loss(x, labels).backward()
        optimizer.step()
    end, before, after = loss(x, labels).item(), average_precision(start, labels), average_precision(x, labels)
    print(f"300 steps on the loss of the {name}, 8 classes of 4: loss {end:.4f}, mean average precision {before:.3f}, then {after:.3f}")
    changed |= end > 0.01 or (after < 0.75) != (name == "library") or (name == "definition" and after < 0.95)
raise SystemExit("The behaviour has changed." if changed else 0)
PY
