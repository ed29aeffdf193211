"""python -m tests.cases: check all gradients, print tables, exit with 1 where one is wrong."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from autograd.backend import get_backend
from autograd.engine import Op
from minitf.errors import UserError
from minitf.system.files import atomic_write
from tests.cases import cases_for
from tests.cases.checks import Case
from tests.cases.layers import LAYERS
from tests.cases.models import MODELS
from tests.cases.table import HEADER, Row, check_cases, in_markdown, summary


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    try:
        get_backend(options.device)
        groups = _groups(options.ops)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    tables: dict[str, list[Row]] = {}
    for what, group in groups.items():
        print(what + HEADER[len(what) :])
        tables[what] = []
        for name, cases in group.items():
            row = check_cases(name, cases, options.examples, options.seed, options.device)
            tables[what].append(row)
            print(row, *row.failures, sep="\n", flush=True)
    for what, rows in tables.items():
        print(summary(rows, what))
    if any(row.failures for rows in tables.values() for row in rows):
        return 1
    if options.write is not None:
        try:
            before = options.write.read_text("utf-8").partition("## Ops\n")[0]
            with atomic_write(options.write) as file:
                file.write((before + in_markdown(tables)).encode())
        except (OSError, UserError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
    return 0


def _groups(ops: Sequence[str] | None) -> dict[str, dict[str, list[Case]]]:
    """The cases to check: those of the named ops only, or, for None, those of all ops, layers and models.

    Raises: ValueError for an op that does not exist
    """
    groups = {"ops": {name: cases_for(name) for name in ops or sorted(Op.registry)}}
    return groups if ops is not None else {**groups, "layers": LAYERS, "Transformers": MODELS}


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.cases",
        description="Check the gradients of every op, every layer and whole models: against central differences, "
        "against complex steps where the function computes with complex numbers, and against the plain composition of "
        "fused ops.",
    )
    parser.add_argument("--ops", nargs="*", metavar="NAME", help="check only these ops, by class name; all, if no name")
    parser.add_argument("--examples", type=_at_least(1), default=3, metavar="N", help="examples per case (default: 3)")
    parser.add_argument("--seed", type=_at_least(0), default=0, metavar="N", help="seed of the examples (default: 0)")
    parser.add_argument("--device", default="cpu", help="device to compute on (default: cpu)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="replace the tables of a page")
    options = parser.parse_args(arguments)
    if options.write is not None and options.ops is not None:
        parser.error("--write writes the page of all ops, layers and models; leave out --ops")
    return options


def _at_least(least: int):
    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        return int(text)

    return number


if __name__ == "__main__":
    sys.exit(main())
