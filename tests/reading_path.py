"""The functions of `autograd/` and `minitf/` that programs call: the files that a reader opens, and what nothing calls.

    python tests/reading_path.py train RUN       minitf train --max-steps 2 --output RUN
    python tests/reading_path.py translate RUN   minitf translate RUN, of one line
    python tests/reading_path.py step            one training step of the plain core
    python tests/reading_path.py unreached       the functions that none of the documented uses calls (USES)

A file counts with all its lines. Calls while a module is imported count for `unreached` alone.
"""

from __future__ import annotations

import ast
import atexit
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCES = tuple(f"{ROOT}{os.sep}{package}{os.sep}" for package in ("autograd", "minitf"))
IMPORTING = "<frozen importlib"
LINE = "seven thousand six hundred and twenty-one"


class ReadingPath:
    """The functions of both packages that are called inside `recorded`, in all threads."""

    def __init__(self, importing: bool = False) -> None:
        """importing: True to record also what is called while modules are imported"""
        self._importing = importing
        self._called: set[CodeType] = set()
        self._others: set[CodeType] = set()

    @property
    def lines(self) -> dict[str, int]:
        """The number of lines of each file, by its path in the project."""
        names = sorted({code.co_filename for code in self._called})
        return {str(Path(name).relative_to(ROOT)): Path(name).read_bytes().count(b"\n") for name in names}

    @property
    def functions(self) -> set[str]:
        """`file:name` of each function, with the names of its class and of the functions around it."""
        return {f"{Path(code.co_filename).relative_to(ROOT)}:{code.co_qualname}" for code in self._called}

    def start(self) -> None:
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Context manager inside which calls are recorded."""
        self.start()
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call" or code in self._called or code in self._others:
            return
        if not code.co_filename.startswith(SOURCES):
            self._others.add(code)
        elif self._importing or not _is_importing(frame):
            self._called.add(code)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith(IMPORTING):
            return True
        frame = frame.f_back
    return False


# ---- Programs ----


def train(path: ReadingPath, run: str, *flags: str) -> None:
    """`minitf train --max-steps 2`, with more flags, on fewer sentences than the built-in corpus has: no other way"""
    from minitf.__main__ import main
    from minitf.corpora.built_in import built_in_corpus

    built_in_corpus.__kwdefaults__ = {"train_pairs": 2000, "valid_pairs": 50, "test_pairs": 50}
    with path.recorded():
        status = main(["train", "--max-steps", "2", "--output", run, *flags])
    assert status == 0


def translate(path: ReadingPath, run: str) -> None:
    """`minitf translate` of one line, from standard input."""
    from minitf.__main__ import main

    reading, writing = os.pipe()
    os.write(writing, f"{LINE}\n".encode())
    os.close(writing)
    os.dup2(reading, 0)
    with path.recorded():
        status = main(["translate", run])
    assert status == 0


def step(path: ReadingPath) -> None:
    """One training step: a batch, its loss, the gradients, and Adam's update of a model that is there."""
    os.environ["AUTOGRAD_PLAIN"] = "1"
    from autograd import random
    from minitf.config import OptimizerConfig, TransformerConfig
    from minitf.data.batches import Batches
    from minitf.data.prepared import PreparedCorpus
    from minitf.model.transformer import Transformer
    from minitf.training.optim import Adam, batch_loss, learning_rate

    sentences = [[4, 5, 6], [7, 8], [9, 4, 5, 6]]
    batches = Batches(PreparedCorpus.from_ids(sentences, sentences[::-1]), max_tokens_per_batch=32)
    model = Transformer(TransformerConfig(vocab_size=12, layers=1, d_model=8, heads=2, d_ff=16), seed=0)
    config = OptimizerConfig()
    optimizer = Adam(model.named_parameters(), config)
    random.manual_seed(0)
    model.train()
    with path.recorded():
        batch = next(batches)
        optimizer.zero_grad()
        random.begin_step(1, batch.number, batch.first_row)
        loss, _ = batch_loss(model, batch, config.label_smoothing)
        loss.backward()
        assert optimizer.gradient_norm() > 0
        optimizer.step(learning_rate(1, model.config.d_model, config), 1 / batch.target_tokens)


PROGRAMS: dict[str, Callable[..., None]] = {"train": train, "translate": translate, "step": step}

# ---- What nothing calls ----

SMALL = (
    "--model.layers 1 --model.d-model 16 --model.d-ff 32 --max-steps 3 --valid-every 2 --beam 2 --max-extra-length 2"
)
TEXT = f"--train en de --valid en de --vocab-size 300 {SMALL}"
USES = [  # shell commands in an empty folder, whose files en and de have some lines
    f"minitf train --vocab-size 400 {SMALL} --output built-in",
    f"minitf train {TEXT} --test en de --output a --accumulate 2 --set moving_average=0.9",
    "minitf train --resume a --max-steps 6",
    f"minitf train {TEXT} --kernels numba --threads 2 --checkpoint-activations --output b --patience 1",
    f"minitf train {TEXT} --devices cpu:2 --output c",
    f"minitf train {TEXT} --plain --precision float64 --output d --valid-metric bleu",
    "minitf train --init a --set freeze=encoder,embeddings --train en de --valid en de --max-steps 2 --output e",
    f"minitf train {TEXT} --model.norm pre --set model.positions=learned --optimizer.clip-norm 1 --output f",
    f"minitf train {TEXT} --model.dropout 0.3 --max-minutes 0.02 --output g",
    "head -2 en | minitf translate a",
    "head -2 en | minitf translate a --beam 1 --kernels numba",
    "head -2 en | minitf translate c --nbest 2 --format jsonl",
    "head -3 en | minitf translate b --precision int8 --kernels numba",
    "minitf translate a --input en --score de",
    "minitf translate a --plain --input en --reference de --output out",
    *(f"python -m examples.{name}" for name in ("tensor", "own_op", "own_model", "tiny_task", "translate a")),
    *(f"minitf {words}" for words in ("presets", "bleu de de", "corpus t")),
    "minitf statistics en de; minitf split en de --output s --test 5 --valid 5",
    "minitf train --help; minitf translate --help",
]
PAGES = ["README.md", "docs/gradient-checks.md", "docs/checkers.md", "docs/gradients.md", "docs/book/[01]*.md"]
"""Pages whose blocks of Python are run."""
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMPILED = ("compiled", "compiled_exactly", "intrinsic", "overload", "abstractmethod")
"""Decorators of functions that Python does not call."""


def record_this_process(folder: str) -> None:
    """Record the functions that this process calls until it ends, in a file of a folder."""
    path = ReadingPath(importing=True)
    path.start()
    atexit.register(lambda: Path(folder, f"{os.getpid()}.json").write_text(json.dumps(sorted(path.functions))))


def reached(report: Callable[[str], None] = lambda text: None) -> set[str]:
    """The functions that the documented uses call, in all their processes."""
    with tempfile.TemporaryDirectory() as name:
        work, records, hook = (Path(name, each) for each in ("work", "records", "hook"))
        for folder in (work, records, hook):
            folder.mkdir()
        begin = f"import sys; sys.path.append({str(ROOT)!r})\nfrom tests.reading_path import record_this_process\n"
        (hook / "sitecustomize.py").write_text(f"{begin}record_this_process({str(records)!r})\n")
        for command, words in (("python", '"$@"'), ("minitf", '-m minitf "$@"')):
            (hook / command).write_text(f"#!/bin/sh\nexec {sys.executable} {words}\n")
            (hook / command).chmod(0o755)
        (work / "en").write_text("".join(f"the number {n} is here\n" for n in range(60)))
        (work / "de").write_text("".join(f"die Zahl {n} ist hier\n" for n in range(60)))
        uses = [("sh", "-c", use) for use in USES]
        for page in (page for pattern in PAGES for page in sorted(ROOT.glob(pattern))):
            uses.append((sys.executable, "-c", "\n".join(BLOCK.findall(page.read_text("utf-8")))))
        path = {"PATH": f"{hook}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": f"{hook}{os.pathsep}{ROOT}"}
        path["CI"] = "true"  # Hypothesis then does not complain that recorded code is slow
        for use in uses:
            done = subprocess.run(use, cwd=work, env={**os.environ, **path}, capture_output=True, text=True)
            if done.returncode:
                report(f"exit status {done.returncode}: {use[-1][:100]}\n{done.stderr[-300:]}")
        return {name for file in records.iterdir() for name in json.loads(file.read_text())}


def defined() -> dict[str, int]:
    """`file:name` of each function of the house that Python calls, and its number of lines."""
    found = {}

    def visit(node: ast.AST, file: str, around: str) -> None:
        for each in ast.iter_child_nodes(node):
            if isinstance(each, ast.FunctionDef | ast.ClassDef):
                name, inner = f"{around}{each.name}", "." if isinstance(each, ast.ClassDef) else ".<locals>."
                if any(ast.unparse(decorator).partition("(")[0] in COMPILED for decorator in each.decorator_list):
                    continue
                if isinstance(each, ast.FunctionDef):
                    found[f"{file}:{name}"] = (each.end_lineno or 0) - each.lineno + 1
                visit(each, file, name + inner)
            else:
                visit(each, file, around)

    for source in SOURCES:
        for path in sorted(Path(source).rglob("*.py")):
            visit(ast.parse(path.read_text("utf-8")), path.relative_to(ROOT).as_posix(), "")
    return found


def unreached(report: Callable[[str], None] = lambda text: None) -> dict[str, int]:
    """The functions of the house that no documented use calls, each with its number of lines."""
    called = reached(report)
    return {name: lines for name, lines in defined().items() if name not in called}


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    name, *arguments = sys.argv[1:]
    if name == "unreached":
        found = unreached(lambda text: print(text, file=sys.stderr))
        for function, count in found.items():
            print(f"{count:4}  {function}")
        print(f"{len(found)} functions, {sum(found.values())} lines")
        sys.exit()
    path = ReadingPath()
    PROGRAMS[name](path, *arguments)
    for file, count in path.lines.items():
        print(f"{count:7,}  {file}")
    print(f"{len(path.lines)} files, {sum(path.lines.values())} lines")
