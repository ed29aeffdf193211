"""An exercise, read from its file without importing it: text, starter, hints, solution.

A file in `exercises/` is the solution. What the student sees ends at the line `HINTS = (`; the lines between `#
solution` and `# end` are left out, and so are the imports of this package. A file in `bugs/` has no such lines: it is
shown with one text replaced, `BUG = (right, wrong)`, and the student mends it.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from additions.course.variants import HOLE
from minitf.errors import UserError, nearest, shortened

HERE = Path(__file__).parent
PARTS = {
    "Engine": ["tape", "topological_order", "broadcasting", "accumulation", "freeing", "central_differences"],
    "Ops": [
        "matmul", "softmax", "layer_norm", "cross_entropy", "embedding", "attention", "linear_cross_entropy",
    ],
    "Transformer": [
        "masks", "positions", "residual_order", "label_smoothing", "adam", "warm_up", "checkpoint_average",
    ],
    "Decoding and beyond": [
        "key_value_cache", "beam_search", "gradient_accumulation", "all_reduce", "hessian_product",
    ],
    "Experiments": [
        "dot_product_size", "smoothing_floor", "adam_distance", "residual_growth", "sum_of_ones",
    ],
}  # fmt: skip
DERIVE = {
    "broadcasting", "matmul", "softmax", "layer_norm", "cross_entropy", "embedding", "attention",
    "linear_cross_entropy", "label_smoothing", "hessian_product",
}  # fmt: skip
KINDS = {
    "derive": "Derive: the formula of the forward pass is given, its derivative is yours to find, on paper first.",
    "build": "Build: the result is given in words; you write the function.",
    "explain": "Explain: predict what the experiment gives; then it is run, and you learn what you assumed.",
    "bug": "Find the bug: one line is wrong.",
}
BUGS = [
    "repeated_rows", "shared_bias", "padding_mean", "smoothing", "residual_gradient", "dropout_mask", "causal_mask",
    "padding_mask", "bias_correction", "warm_up_shape", "cache_reorder", "saved_output",
]  # fmt: skip
NAMES = [name for names in PARTS.values() for name in names]


@dataclass(frozen=True)
class Exercise:
    """One exercise. name: of its file; label: "7" or "bug-3"."""

    name: str
    label: str
    path: Path

    @property
    def is_bug(self) -> bool:
        return self.label.startswith("bug-")

    @property
    def kind(self) -> str:
        """One of KINDS."""
        known = "bug" if self.is_bug else "explain" if self.name in PARTS["Experiments"] else ""
        return known or ("derive" if self.name in DERIVE else "build")

    @property
    def file_name(self) -> str:
        """`07_matmul.py` or `bug_03_padding_mean.py`, in the student's folder."""
        number = int(self.label.removeprefix("bug-"))
        return f"{'bug_' if self.is_bug else ''}{number:02}_{self.name}.py"

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def title(self) -> str:
        """The first line of the file."""
        return self.text.partition("\n")[0].removeprefix('"""').rstrip(".")

    def constant(self, name: str) -> Any:
        """Return the value of a constant of the file, such as HINTS."""
        for node in ast.parse(self.text).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
                return ast.literal_eval(node.value)
        raise KeyError(f"{self.path}: {name} is missing")

    @property
    def hints(self) -> tuple[str, ...]:
        return self.constant("HINTS")

    @property
    def solution(self) -> str:
        """The student's file, filled in or mended."""
        return re.sub(r"^ *# (solution|end)\n", "", self.marked, flags=re.MULTILINE)

    @property
    def starter(self) -> str:
        """The student's file as it is given out."""
        if self.is_bug:
            right, wrong = self.constant("BUG")
            return self.marked.replace(right, wrong)
        return HOLE.sub(r"\1raise NotImplementedError  # your code\n", self.marked)

    @property
    def wrong_line(self) -> int:
        """The number, from 1, of the wrong line in the starter of a bug."""
        pairs = zip(self.starter.splitlines(), self.solution.splitlines(), strict=True)
        return next(number for number, (wrong, right) in enumerate(pairs, 1) if wrong != right)

    @property
    def marked(self) -> str:
        """The student's file with the solution, and its marks `# solution` and `# end`."""
        shown = self.text.partition("\nHINTS = (")[0].replace("\n\n", f"\n\n{KINDS[self.kind]}\n\n", 1)
        shown = re.sub(r"^from minitf\.learn\.[^(\n]*(\([^)]*\))?\n\n?", "", shown, flags=re.MULTILINE)
        return shown.rstrip() + "\n"


EXERCISES = {
    str(number): Exercise(name, str(number), HERE / "exercises" / f"{name}.py") for number, name in enumerate(NAMES, 1)
}
BUG_EXERCISES = {
    f"bug-{number}": Exercise(name, f"bug-{number}", HERE / "bugs" / f"{name}.py")
    for number, name in enumerate(BUGS, 1)
}
ALL = {**EXERCISES, **BUG_EXERCISES}


def find(word: str) -> Exercise:
    """Return the exercise of a number, "bug-3" or a name.  Raises: UserError for any other word"""
    label = re.sub(r"^(bug)?[-_ ]?0*(\d+)$", lambda m: f"{'bug-' if m[1] else ''}{m[2]}", word.strip().lower())
    if label in ALL:
        return ALL[label]
    by_name = {each.name: each for each in ALL.values()}
    name = word.strip().lower().replace("-", "_")
    if name in by_name:
        return by_name[name]
    raise UserError(
        f"there is no exercise {shortened(word, 40)}{nearest(name, by_name)}; choose 1 to {len(EXERCISES)} or bug-1 to "
        f"bug-{len(BUG_EXERCISES)}: minitf learn lists them"
    )
