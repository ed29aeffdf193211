#!/bin/sh
# OpenVINO 2026.4.1: attributes of an ONNX model are dropped without a word: antialias and exclude_outside of Resize, layout of LSTM, GRU and RNN.
#
# Seen on 2026-11-28 with openvino 2026.4.1, onnx 1.23.2, onnxruntime 1.32.0, NumPy 2.4.6, Python 3.11.
# Expected before running: the numbers of ONNX Runtime, and of ONNX's reference evaluator where that runtime has no kernel (layout=1), or an error,
#   as OpenVINO gives for sequence lengths with layout=1.  Its table of ONNX operators has an empty column of limitations for these four; it lists
#   version 11 of Resize, which has exclude_outside, and is silent on what becomes of later attributes.
# Why: antialias=1 is what interpolate(antialias=True) of PyTorch becomes; layout=1 is a batch-first recurrent layer.
# Seen: without these attributes all agree.  antialias=1 shrinks an image as if it were 0, so a striped image of mean 0.5 comes out black;
#   exclude_outside=1 does nothing.  With layout=1 the two first axes are read the other way round: the state runs from sentence to
#   sentence and not from word to word, so the result for one sentence depends on the others of its batch.
# Reported: antialias with cubic (issue 35893 of its repository, May 2026) and layout (37820, September 2026), both open; the others were not found.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q openvino==2026.4.1 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
"$dir/venv/bin/python" -W ignore - <<'PY'
import numpy as np
import onnxruntime
import openvino
from onnx import TensorProto, checker, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

core = openvino.Core()
rng = np.random.default_rng(0)


def normal(*shape):
    return rng.normal(size=shape).astype(np.float32)


def run(node, x, constants, shape, peer):
    x_info, y_info = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", x.shape), ("y", shape)))
    initializers = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph([node], "g", [x_info], [y_info], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    checker.check_model(model, full_check=True)
    data = model.SerializeToString()
    compiled = core.compile_model(core.read_model(data), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    reference = ReferenceEvaluator(model) if peer == "reference" else onnxruntime.InferenceSession(data)
    return compiled(x)[0], reference.run(None, {"x": x})[0]


changed = False
stripes = np.tile(np.array([0, 1, 0, 1], np.float32), 4)[None, None, None, :].repeat(16, 2)
sizes = {"sizes": np.array([1, 1, 4, 4], np.int64)}
for attributes, right in (
    ({"mode": "linear"}, True),
    ({"mode": "linear", "antialias": 1}, False),
    ({"mode": "cubic"}, True),
    ({"mode": "cubic", "antialias": 1}, False),
    ({"mode": "cubic", "exclude_outside": 1}, False),
):
    image = normal(1, 1, 5, 5) if "exclude_outside" in attributes else stripes
    options = {"coordinate_transformation_mode": "half_pixel" if "exclude_outside" in attributes else "asymmetric"}
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], **options, **attributes)
    found, peer = run(node, image, sizes, (1, 1, 4, 4), "ONNX Runtime")
    plain = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], **options, mode=attributes["mode"])
    dropped = run(plain, image, sizes, (1, 1, 4, 4), "ONNX Runtime")[1]
    print(f"Resize {attributes}: OpenVINO {found[0, 0, 0].round(3)}, ONNX Runtime {peer[0, 0, 0].round(3)}")
    changed |= np.allclose(found, peer, atol=1e-3) != right or not np.allclose(found, dropped, atol=1e-4)

sentences, words, size, hidden = 3, 3, 4, 2
x = normal(sentences, words, size)
other = x.copy()
other[0] = normal(words, size)  # another first sentence
for operator, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
    constants = {"w": normal(1, gates * hidden, size), "r": normal(1, gates * hidden, hidden)}
    for layout in (0, 1):
        node = helper.make_node(operator, ["x", "w", "r"], ["y"], hidden_size=hidden, layout=layout)
        first, second = (v if layout else v.transpose(1, 0, 2).copy() for v in (x, other))
        shape = (sentences, words, 1, hidden) if layout else (words, 1, sentences, hidden)
        found, peer = run(node, first, constants, shape, "reference")
        moved, _ = run(node, second, constants, shape, "reference")
        found, moved = (v.reshape(peer.shape) if layout else v for v in (found, moved))
        last = np.s_[-1] if layout else np.s_[:, :, -1]
        change = np.abs(found[last] - moved[last]).max()
        error = np.abs(found - peer).max()
        print(f"{operator}, layout={layout}: off by {error:.4f}; the last sentence's states change by {change:.4f} with the first sentence")
        changed |= (error > 0.01) != (layout == 1) or (change > 1e-4) != (layout == 1)
raise SystemExit("The behaviour has changed." if changed else 0)
PY
