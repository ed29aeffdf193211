#!/bin/sh
# segmentation-models-pytorch 0.6.0: with class weights, a perfect segmentation into K classes scores 1 / K in "weighted-imagewise", not 1.
#
# Seen on 2026-11-28 with segmentation-models-pytorch 0.6.0, PyTorch 2.13.0, NumPy 2.4.6, Python 3.11.
# Expected before running: 1 for a prediction that is the mask, by every metric that has 1 for its best value, every reduction and any weights; with
#   equal weights, "weighted-imagewise" is "macro-imagewise".
# Why: the documents call it the weighted average of the scores over labels, and "weighted" beside it is one.
# Seen: _compute_metric scales the weights to the sum 1 and then takes the mean, not the sum, of the weighted scores, so every one is divided by the
#   number of classes: IoU, F1, recall and accuracy of a perfect prediction are 0.25 with four classes, and error rates are too small by the
#   same factor.  A noisy segmentation into 2 classes has an IoU of 0.45, more than a perfect one into 4.  "macro" and
#   "macro-imagewise" do the same where weights are given.  The same mistake was repaired for "weighted" alone in 2022 (pull request 659).
#   No report was found for the others.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
"$dir/venv/bin/pip" install -q --no-deps segmentation-models-pytorch==0.6.0
"$dir/venv/bin/python" -W ignore - <<'PY'
import importlib.util
import sys
import types

import numpy as np
import torch

# The package as a whole needs torchvision and timm, for its encoders; its metrics do not.
name = "segmentation_models_pytorch"
places = importlib.util.find_spec(name).submodule_search_locations
sys.modules[name] = types.ModuleType(name)
sys.modules[name].__path__ = list(places)
metrics = importlib.import_module(name + ".metrics")

rng = np.random.default_rng(0)
changed = False


def definition(score, predicted, masks, classes, weights):
    values = []
    for p, m in zip(predicted, masks):
        counts = [((p == k) & (m == k), (p == k) & (m != k), (p != k) & (m == k), (p != k) & (m != k)) for k in range(classes)]
        values.append([score(*(c.sum() for c in four)) for four in counts])
    return np.average(np.mean(values, 0), weights=weights)


scores = {
    "iou_score": lambda tp, fp, fn, tn: tp / (tp + fp + fn),
    "f1_score": lambda tp, fp, fn, tn: 2 * tp / (2 * tp + fp + fn),
    "recall": lambda tp, fp, fn, tn: tp / (tp + fn),
    "accuracy": lambda tp, fp, fn, tn: (tp + tn) / (tp + fp + fn + tn),
    "false_negative_rate": lambda tp, fp, fn, tn: fn / (tp + fn),
}
for classes, weights in ((2, [1.0, 1.0]), (4, [1.0, 1.0, 1.0, 1.0]), (4, [4.0, 2.0, 1.0, 1.0])):
    masks = rng.integers(0, classes, (5, 16, 16))
    noisy = np.where(rng.random(masks.shape) < 0.1, rng.integers(0, classes, masks.shape), masks)
    for what, predicted in (("perfect", masks), ("noisy", noisy)):
        stats = metrics.get_stats(torch.tensor(predicted), torch.tensor(masks), mode="multiclass", num_classes=classes)
        line = []
        for metric, score in scores.items():
            found = getattr(metrics, metric)(*stats, reduction="weighted-imagewise", class_weights=weights).item()
            expected = definition(score, predicted, masks, classes, weights)
            line.append(f"{metric} {found:.3f} ({expected:.3f})")
            changed |= abs(found * classes - expected) > 1e-5
        print(f"{classes} classes, weights {weights}, {what}: " + ", ".join(line) + "; weighted averages in brackets")
        line = []
        for reduction, right in (("micro", True), ("micro-imagewise", True), ("weighted", True), ("macro", False), ("macro-imagewise", False)):
            found = metrics.iou_score(*stats, reduction=reduction, class_weights=weights).item()
            if what == "perfect":
                line.append(f"{reduction} {found:.2f}")
                changed |= abs(found - (1 if right else 1 / classes)) > 1e-5
        if line:
            print("  the same, iou_score with other reductions: " + ", ".join(line))
        unweighted = metrics.iou_score(*stats, reduction="macro-imagewise").item()
        changed |= abs(unweighted - definition(scores["iou_score"], predicted, masks, classes, None)) > 1e-5
raise SystemExit("The behaviour has changed." if changed else 0)
PY
