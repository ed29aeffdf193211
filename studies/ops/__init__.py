"""Ops that were added from outside, as a user adds them: with `autograd.Op`."""

from studies.ops.additive import additive_attention
from studies.ops.local import local_attention
from studies.ops.recurrent import gru

__all__ = ["additive_attention", "gru", "local_attention"]
