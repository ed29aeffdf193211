"""What a type checker tells users: nothing of a right program, and the line of each wrong call."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy", reason="mypy is not installed: pip install '.[dev]'")
ROOT = Path(__file__).parent.parent
PROGRAM = '''\
"""A user's script of 40 lines: an op of one's own, a training loop, a translation."""

import numpy as np
import numpy.typing as npt

import autograd as ag
from minitf import Adam, OptimizerConfig, Transformer, TransformerConfig, Translator

Array = npt.NDArray[np.float64]


class Cube(ag.Op):
    def forward(self, x: Array) -> Array:
        self.save(x)
        return x**3

    def backward(self, g_y: Array) -> Array:
        (x,) = self.saved
        g_x: Array = 3 * x**2 * g_y
        return g_x


def cube(x: ag.Tensor) -> ag.Tensor:
    return ag.apply(Cube, x)


def loss_of(x: ag.Tensor, weight: ag.Tensor, targets: npt.NDArray[np.int64]) -> ag.Tensor:
    hidden = ag.relu(x @ weight + 1.0).reshape(4, -1)
    first, second = ag.split(hidden, 2, axis=1)
    scores = ag.concatenate([first, cube(second)], axis=-1)
    return ag.cross_entropy(scores, targets, label_smoothing=0.1) + ag.mean(weight * weight)


rng = np.random.default_rng(0)
weight = ag.Tensor(rng.standard_normal((3, 6)), requires_grad=True)
loss = loss_of(ag.Tensor(rng.standard_normal((4, 3))), weight, np.array([0, 1, 2, 3]))
loss.backward()
gradient = weight.grad
assert gradient is not None and gradient.numpy().shape == weight.shape
assert ag.gradcheck(cube, ag.Tensor(rng.standard_normal(3), requires_grad=True))
with ag.no_grad():
    weight -= 0.1 * gradient
config = TransformerConfig(layers=1, d_model=16, d_ff=32, heads=2, vocab_size=20)
model = Transformer(config, seed=1)
optimizer = Adam(model.named_parameters(), OptimizerConfig(warmup_steps=10))
logits = model(np.array([[5, 6, 2]]), np.array([[1, 7]]))
print(logits.shape, loss.item())


def translated(run: str) -> list[str]:
    return Translator.load(run).translate(["a house"], beam=4)
'''
WRONG = {  # a line of the program, the line in its place, and what mypy must say of it
    "a misspelt method": ("loss.backward()", "loss.bakward()", 'has no attribute "bakward"'),
    "an argument that there is not": ("label_smoothing=0.1", "smoothing=0.1", "cross_entropy"),
    "a gradient that may be None": (
        "assert gradient is not None and",
        "assert",
        'Item "None" of "Tensor | None" has no attribute "numpy"',
    ),
    "a setting that there is not": ("beam=4", "bean=4", "translate"),
}


def checked(programs, tmp_path):
    """What `mypy --strict` prints of each of some programs that import the packages, a list of lines for each."""
    for number, program in enumerate(programs):
        (tmp_path / f"program_{number}.py").write_text(program, encoding="utf-8")
    flags = ["--strict", "--follow-imports=silent", "--no-error-summary", "--cache-dir", tmp_path / "cache"]
    environment = {**os.environ, "MYPYPATH": str(ROOT), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "mypy", *flags, *(f"program_{number}.py" for number in range(len(programs)))]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert all(line.startswith("program_") for line in lines), done
    return [[line for line in lines if line.startswith(f"program_{n}.py:")] for n in range(len(programs))]


@pytest.mark.slow
def test_mypy_accepts_a_right_program_and_finds_each_wrong_call(tmp_path):
    assert len(PROGRAM.splitlines()) >= 40
    assert all(PROGRAM.count(right) == 1 for right, _, _ in WRONG.values())
    programs = [PROGRAM.replace(right, wrong) for right, wrong, _ in WRONG.values()]
    nothing, *all_found = checked([PROGRAM, *programs], tmp_path)
    assert nothing == []
    for (name, (_, wrong, message)), program, lines in zip(WRONG.items(), programs, all_found, strict=True):
        number = next(i for i, text in enumerate(program.splitlines(), start=1) if wrong in text)
        found = "\n".join(lines)
        assert f".py:{number}: error:" in found or f".py:{number + 1}: error:" in found, f"{name}: {found}"
        assert message in found, f"{name}: {found}"


def test_the_program_runs(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-W", "error", "-c", PROGRAM], cwd=tmp_path, env=environment, check=True)
