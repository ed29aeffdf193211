"""The cases of the ops of studies/ops."""

from studies.tests.ops.cases import additive, local, recurrent

__all__ = ["additive", "local", "recurrent"]
