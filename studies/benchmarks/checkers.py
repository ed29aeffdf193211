"""Gradient checkers on wrong and right gradients: ours, torch.autograd.gradcheck and jax.test_util.check_grads.

    python studies/benchmarks/checkers.py --peer pytorch=PYTHON --peer jax=PYTHON

Each peer is given by the Python that has it, and left out where it is not given.  All get the same NumPy functions and
hand-written gradients (`studies/benchmarks/checked_functions.py`) as functions of their own, and check them with their default
settings, in float64.  A wrong gradient is found where the check raises an error or warns; a right one that raises is a
false alarm.  Fails if ours misses a wrong one or flags a right one.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("minitf", "pytorch", "jax")
CHECKS = {
    "minitf": "autograd.gradcheck",
    "pytorch": "torch.autograd.gradcheck",
    "jax": "jax.test_util.check_grads, order 1",
}
Check = Callable[[Any], None]


def ours() -> Check:
    from autograd import Tensor, gradcheck
    from autograd.gradcheck import GradcheckWarning, from_vjp

    warnings.simplefilter("error", GradcheckWarning)

    def check(case: Any) -> None:
        function = from_vjp(case.function, case.vjp)
        closed = [Tensor(a, requires_grad=True) for a in case.closed]
        gradcheck(lambda *inputs: function(*inputs, *closed), list(case.inputs))

    return check


def pytorch() -> Check:
    import numpy as np
    import torch

    torch.set_num_threads(1)

    def check(case: Any) -> None:
        class Function(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *inputs: Any) -> Any:
                ctx.inputs = [x.detach().numpy() for x in inputs]
                y = case.function(*ctx.inputs)
                ctx.several = isinstance(y, tuple)
                return tuple(map(torch.as_tensor, y)) if ctx.several else torch.as_tensor(np.array(y))

            @staticmethod
            def backward(ctx: Any, *gs: Any) -> Any:
                arrays = tuple([g.numpy() for g in gs])
                found = case.vjp(arrays if ctx.several else arrays[0], *ctx.inputs)
                found = found if isinstance(found, tuple) else (found,)
                return tuple([None if g is None else torch.as_tensor(np.array(g)) for g in found])

        closed = [torch.tensor(a, requires_grad=True) for a in case.closed]
        inputs = [torch.tensor(x, requires_grad=x.dtype.kind == "f") for x in case.inputs]
        torch.autograd.gradcheck(lambda *inputs: Function.apply(*inputs, *closed), inputs)

    return check


def jax() -> Check:
    import jax
    import numpy as np
    from jax.test_util import check_grads

    jax.config.update("jax_enable_x64", True)

    def shape_of(x: Any) -> Any:
        return jax.ShapeDtypeStruct(x.shape, x.dtype)

    def check(case: Any) -> None:
        def forward(*inputs: Any) -> Any:
            outputs = case.function(*[np.array(x) for x in inputs])
            return tuple(map(np.asarray, outputs)) if isinstance(outputs, tuple) else np.asarray(outputs)

        def call(*inputs: Any) -> Any:
            shapes = jax.tree.map(shape_of, forward(*case.inputs, *case.closed))
            return jax.pure_callback(forward, shapes, *inputs)

        def pull(inputs: Any, g: Any) -> Any:
            def backward(g: Any, *inputs: Any) -> Any:
                g = tuple(map(np.array, g)) if isinstance(g, (tuple, list)) else np.array(g)
                found = case.vjp(g, *[np.array(x) for x in inputs])
                found = found if isinstance(found, tuple) else (found,)
                pairs = zip(found, inputs, strict=True)
                return tuple([np.asarray(g_x, dtype=x.dtype) for g_x, x in pairs if g_x is not None])

            is_float = [x.dtype.kind == "f" for x in inputs]
            shapes = tuple([shape_of(x) for x, f in zip(inputs, is_float, strict=True) if f])
            found = iter(jax.pure_callback(backward, shapes, g, *inputs))
            pairs = zip(inputs, is_float, strict=True)
            return tuple([next(found) if f else np.zeros(x.shape, jax.dtypes.float0) for x, f in pairs])

        function = jax.custom_vjp(call)
        function.defvjp(lambda *inputs: (call(*inputs), inputs), pull)
        places = [k for k, x in enumerate(case.inputs) if x.dtype.kind == "f"]

        def of_floats(*floats: Any) -> Any:
            inputs = list(case.inputs)
            for k, x in zip(places, floats, strict=True):
                inputs[k] = x
            return function(*inputs, *case.closed)

        check_grads(of_floats, [jax.numpy.asarray(case.inputs[k]) for k in places], order=1, modes=["rev"])

    return check


HEAD = """# Gradient checkers compared

`python studies/benchmarks/checkers.py --peer pytorch=PYTHON --peer jax=PYTHON` generates this page.  Each checker is applied to
the same NumPy functions with hand-written gradients (`studies/benchmarks/checked_functions.py`), wrapped as functions of its
own library, with its default settings, in float64.  The functions were collected while minitf's checker was developed,
so this page does not show which other wrong gradients it would miss.

"""


def measure(name: str) -> dict[str, Any]:
    """What the check of one library says of each function, in this process: "" where it passes; and its version."""
    from studies.benchmarks.checked_functions import RIGHT, WRONG

    check = {"minitf": ours, "pytorch": pytorch, "jax": jax}[name]()

    def said(case: Any) -> str:
        try:
            check(case)
        except Exception as error:  # whatever a checker says
            return f"{type(error).__name__}: {error}".split("\n")[0]
        return ""

    version = "" if name == "minitf" else sys.modules[{"pytorch": "torch"}.get(name, name)].__version__
    return {"wrong": [said(case) for case in WRONG], "right": [said(case) for case in RIGHT], "version": version}


def table(found: dict[str, dict[str, Any]]) -> list[str]:
    from studies.benchmarks.checked_functions import RIGHT, WRONG

    lines = [f"| wrong gradient | {' | '.join(found)} |", "|---|" + ":-:|" * len(found)]
    for k, case in enumerate(WRONG):
        cells = ["found" if said["wrong"][k] else "–" for said in found.values()]
        lines.append(f"| {case.kind}: {_escaped(case.name)} | {' | '.join(cells)} |")
    totals = [f"{sum(map(bool, said['wrong']))} of {len(WRONG)}" for said in found.values()]
    lines.append(f"| **found** | {' | '.join(totals)} |")
    lines += ["", f"| right gradient that is flagged | {' | '.join(found)} |", "|---|" + ":-:|" * len(found)]
    for k, case in enumerate(RIGHT):
        if any(said["right"][k] for said in found.values()):
            cells = ["flagged" if said["right"][k] else "–" for said in found.values()]
            lines.append(f"| {case.kind}: {_escaped(case.name)} | {' | '.join(cells)} |")
    totals = [f"{sum(map(bool, said['right']))} of {len(RIGHT)}" for said in found.values()]
    lines.append(f"| **false alarms** | {' | '.join(totals)} |")
    return lines


def _escaped(name: str) -> str:
    return name.replace("|", "\\|")


def main() -> None:
    sys.path.insert(0, str(ROOT))
    from studies.benchmarks.side_by_side import measured, peers_given, publish

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON", help="a peer and its Python")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page")
    args = parser.parse_args()
    pythons = {"minitf": sys.executable, **peers_given(parser, args.peer, NAMES[1:])}
    found: dict[str, dict[str, Any]] = {}
    for name, python in pythons.items():
        found[name] = measured(parser, name, python, [name], sees_project=True)
    lines = [f"- {' '.join([name, said['version']]).strip()}: `{CHECKS[name]}`" for name, said in found.items()]
    lines += ["", *table(found)]
    publish(lines, args.write, HEAD)
    if not all(found["minitf"]["wrong"]) or any(found["minitf"]["right"]):
        sys.exit("our checker misses a wrong gradient or flags a right one")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(sys.argv[2])))
    else:
        main()
