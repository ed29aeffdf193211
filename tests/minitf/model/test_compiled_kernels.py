"""Compiled kernels are the same code in every process."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("numba", reason="needs Numba")


PROGRAM = """
import hashlib, sys
import numpy as np
from numba.core.registry import CPUDispatcher
from autograd import random
from autograd.fast import compiled_kernels, set_kernels
from minitf.decoding.search import BeamSearchConfig, beam_search
from minitf.config import OptimizerConfig
from minitf.training.optim import Adam
from minitf.fast.accelerate import accelerate, accelerate_adam
from minitf.training.optim import batch_loss
from tests.helpers.batches import batch_of
from tests.helpers.small_model import Lively, model_with, sources

set_kernels("numba")
source = sources(29, 25, 32, 23)
bits = hashlib.sha256()
for settings in ({"dropout": 0.2, "attention_dropout": 0.2}, {"activation": "silu", "norm": "pre"}):
    model = accelerate(model_with(dtype=np.float32, vocab_size=700, d_model=40, d_ff=72, **settings))
    model.train()
    optimizer = accelerate_adam(Adam(dict(model.named_parameters()), OptimizerConfig()))
    for step in range(2):
        random.begin_step(step)
        loss, _ = batch_loss(model, batch_of(source, [[4, 5, 6, 7], [8, 9], [10, 11, 12], [13]]), label_smoothing=0.1)
        loss.backward()
        optimizer.step(1e-3)
    model.eval()
    for array in (loss, *model.parameters()):
        bits.update(array.numpy().tobytes())
    found = beam_search(model, source, BeamSearchConfig(beam=3, max_length=14))
    bits.update(repr([[(h.tokens, h.score) for h in each] for each in found]).encode())
print(bits.hexdigest())
for name, function in vars(compiled_kernels).items():
    for result in function.overloads.values() if isinstance(function, CPUDispatcher) else ():
        if not function.stats.cache_hits:
            print(name, *(each.name for each in result.library.get_defined_functions()))
"""


@pytest.mark.slow  # compiles every kernel
def test_an_empty_directory_of_compiled_code_and_a_full_one_give_the_same_bits(tmp_path):
    """As in a run that is resumed.  Compiled code calls no other, of which copies may differ, but `largest`."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    compiling, loading = (
        subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=True)
        for _ in range(2)
    )
    bits, *functions = compiling.stdout.splitlines()
    assert loading.stdout.splitlines() == [bits]
    assert {line.split()[0] for line in functions} >= {"layer_norm", "softmax_", "cross_entropy_", "adam_"}
    for name, *defined in map(str.split, functions):
        called = [each for each in defined if f"{len(name)}{name}" not in each and "7largestB" not in each]
        assert set(called) <= {"NRT_incref", "NRT_decref"}, name
