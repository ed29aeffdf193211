#!/bin/sh
# onnx2torch 1.5.15: a CumSum without attributes sums from the end; NonZero comes out transposed; IsInf ignores the sign it asks for.
#
# Seen on 2026-11-28 with onnx2torch 1.5.15, onnx 1.23.2, ONNX Runtime 1.32.0, PyTorch 2.13.0, NumPy 2.4.6, Python 3.11.
# Expected before running: what onnx2torch converts gives the values of the node tests of ONNX, apart from interpolation, of which it warns.
# Why: an attribute that is left out has its default, and ONNX says that reverse is 0.
# Seen: the converter of CumSum reads reverse with 1 as default.  torch.onnx.export writes CumSum without attributes, so every torch.cumsum
#   that goes to ONNX and back runs backwards: positions counted over the tokens of a sentence begin at its end (a padded sentence of three
#   tokens gets 4 3 2 in place of 2 3 4), and nucleus sampling at 0.5 keeps all four words where it should keep one.
#   OnnxNonZero is torch.nonzero, which has one row for a value where ONNX has one row for a dimension; exported torch.nonzero, which is
#   NonZero and Transpose, comes back as its transpose, with the same shape where as many values are not zero as there are dimensions.
#   OnnxIsInf takes no attributes, so detect_negative=0 finds -inf too.  No warning is given.
#   None of the three was among the issues found.  The package imports torchvision for two operators that are not used here; an empty module
#   stands in for it.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 onnx==1.23.2 onnxruntime==1.32.0
"$dir/venv/bin/pip" install -q --no-deps onnx2torch==1.5.15
mkdir -p "$dir/stand-in/torchvision"
: > "$dir/stand-in/torchvision/__init__.py"
echo "roi_align = None" > "$dir/stand-in/torchvision/ops.py"
PYTHONPATH="$dir/stand-in" "$dir/venv/bin/python" -W ignore - <<'PY'
import io

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import helper
from onnx2torch import convert

changed = False


def compare(name, model, inputs, reference, right):
    global changed
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    runtime = session.run(None, {i.name: value for i, value in zip(session.get_inputs(), inputs)})[0]
    found = convert(model)(*(torch.tensor(value) for value in inputs)).numpy()
    print(f"{name}: {found.tolist()}" + ("" if np.array_equal(found, reference) else f", ONNX Runtime {runtime.tolist()}"))
    changed |= not np.array_equal(runtime, reference) or np.array_equal(found, reference) != right


def node(operator, *inputs, **attributes):
    names = [f"input{k}" for k in range(len(inputs))]
    values = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in zip(names, inputs)]
    graph = helper.make_graph([helper.make_node(operator, names, ["output"], **attributes)], "g", values, [onnx.ValueInfoProto(name="output")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def exported(function, *inputs):
    module = torch.nn.Module()
    module.forward = function
    file = io.BytesIO()
    torch.onnx.export(module, tuple(torch.tensor(value) for value in inputs), file, dynamo=False, opset_version=13)
    return onnx.load_from_string(file.getvalue())


x, axis = np.array([1, 2, 3, 4], np.float32), np.array(0)
compare("CumSum of 1 2 3 4", node("CumSum", x, axis), [x, axis], np.cumsum(x), False)
compare("CumSum, reverse=0", node("CumSum", x, axis, reverse=0), [x, axis], np.cumsum(x), True)
compare("CumSum, reverse=1", node("CumSum", x, axis, reverse=1), [x, axis], np.cumsum(x[::-1])[::-1], True)
table = np.array([[0, 5, 0], [7, 0, 8]], np.float32)
compare("NonZero of a table", node("NonZero", table), [table], np.array(np.nonzero(table)), False)
infinite = np.array([1, np.inf, -np.inf], np.float32)
compare("IsInf of 1 inf -inf", node("IsInf", infinite), [infinite], np.isinf(infinite), True)
compare("IsInf, detect_negative=0", node("IsInf", infinite, detect_negative=0), [infinite], np.isposinf(infinite), False)
compare("IsInf, detect_positive=0", node("IsInf", infinite, detect_positive=0), [infinite], np.isneginf(infinite), False)

tokens = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
positions = exported(lambda t: torch.cumsum(t, 1) * t + 1, tokens)
print("operators of the exported positions:", [(n.op_type, list(n.attribute)) for n in positions.graph.node if n.op_type != "Constant"])
compare("positions of two sentences", positions, [tokens], np.cumsum(tokens, 1) * tokens + 1, False)
p = np.array([[0.5625, 0.25, 0.125, 0.0625]], np.float32)
compare("words kept by nucleus sampling", exported(lambda t: torch.cumsum(t, 1) - t < 0.5, p), [p], np.cumsum(p, 1) - p < 0.5, False)
diagonal = np.eye(2, dtype=np.float32)
compare("torch.nonzero of a diagonal", exported(torch.nonzero, diagonal), [diagonal], np.argwhere(diagonal), False)
raise SystemExit("The behaviour has changed." if changed else 0)
PY
