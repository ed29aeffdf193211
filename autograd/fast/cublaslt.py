"""Matrix products with a bias, ReLU or a sum in the same launch: cuBLASLt, through nvmath-python.

CuPy wraps no cuBLASLt, and its cuBLAS calls raise while a stream is captured; these calls do not.  This file knows
addresses and types, not CuPy.  All matrices are column-major, as cuBLAS takes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from nvmath.bindings import cublasLt as lt  # noqa: N813

MOST_PLANS = 8192  # shapes to remember, of some hundred bytes each
WORKSPACE_BYTES = 32 << 20  # NVIDIA's recommendation for Hopper
COMPUTE_32F, COMPUTE_32F_FAST_TF32, COMPUTE_64F = 68, 77, 70  # cublasComputeType_t
SCALE_TYPES = {COMPUTE_32F: 0, COMPUTE_32F_FAST_TF32: 0, COMPUTE_64F: 1}  # cudaDataType of alpha and beta

PLAIN, BIAS, RELU_BIAS = (int(each) for each in (lt.Epilogue.DEFAULT, lt.Epilogue.BIAS, lt.Epilogue.RELU_BIAS))
EPILOGUE_ALIGNMENT = 16  # bytes, of the address of a bias


class Matrix(NamedTuple):
    """A matrix as cuBLAS gets it: `rows` and `columns` before it is transposed."""

    address: int
    kind: int  # cudaDataType
    rows: int
    columns: int
    leading: int
    transposed: bool = False


@dataclass
class _Plan:
    """The descriptors of products of one shape, and an algorithm that cuBLASLt proposes for them."""

    description: int
    layouts: tuple[int, int, int]
    results: Any  # of the heuristic, which hold the algorithms
    algorithm: int  # the address of one of them
    used: bool = False


class Products:
    """The products of one GPU.

    workspace: address of WORKSPACE_BYTES on this GPU, used by one product after the other
    proposal: which of the algorithms that cuBLASLt proposes for a product; 0 is what it takes to be the fastest

    Raises: lt.cuBLASLtError, or what nvmath raises where the library is missing
    """

    def __init__(self, workspace: int, proposal: int = 0):
        self._handle = lt.create()
        self._workspace, self._proposal = workspace, proposal
        self._plans: dict[tuple[Any, ...], _Plan | None] = {}

    def multiply(
        self, a: Matrix, b: Matrix, d: Matrix, alpha: int, beta: int, compute: int, stream: int,
        epilogue: int = PLAIN, vector: int = 0, vector_kind: int = 0,
    ) -> bool:  # fmt: skip
        """d ← epilogue(alpha a b + beta d); False, with nothing done, where cuBLASLt does not take it.

        A bias must stand at a multiple of 16 bytes, which the key of a plan does not tell.

        alpha, beta: addresses of numbers on the host
        vector: address of the bias of BIAS and RELU_BIAS, one element a row of d
        """
        alignments = [_alignment(address) for address in (a.address, b.address, d.address, d.address)]
        key = (a[1:], b[1:], d[1:], *alignments, compute, epilogue, vector_kind)
        if key not in self._plans:
            if len(self._plans) >= MOST_PLANS:
                self._forget(next(iter(self._plans)))
            self._plans[key] = self._plan(a, b, d, alignments, compute, epilogue, vector, vector_kind)
        plan = self._plans[key]
        if plan is None or vector % EPILOGUE_ALIGNMENT:
            return False
        if vector:
            _describe(plan.description, "BIAS_POINTER", vector)
        try:
            lt.matmul(
                self._handle, plan.description, alpha, a.address, plan.layouts[0], b.address, plan.layouts[1], beta,
                d.address, plan.layouts[2], d.address, plan.layouts[2], plan.algorithm, self._workspace,
                WORKSPACE_BYTES, stream,
            )  # fmt: skip
        except lt.cuBLASLtError:
            if plan.used:
                raise
            self._forget(key)  # the heuristic has proposed what the library does not do
            self._plans[key] = None
            return False
        plan.used = True
        return True

    def _forget(self, key: tuple[Any, ...]) -> None:
        plan = self._plans.pop(key)
        if plan is not None:
            _destroy(plan.description, plan.layouts)

    def _plan(
        self, a: Matrix, b: Matrix, d: Matrix, alignments: Sequence[int], compute: int, epilogue: int, vector: int,
        vector_kind: int,
    ) -> _Plan | None:  # fmt: skip
        description = lt.matmul_desc_create(compute, SCALE_TYPES[compute])
        _describe(description, "TRANSA", int(a.transposed))
        _describe(description, "TRANSB", int(b.transposed))
        if epilogue != PLAIN:
            _describe(description, "EPILOGUE", epilogue)
        if vector:
            _describe(description, "BIAS_DATA_TYPE", vector_kind)
            _describe(description, "BIAS_POINTER", vector)
        layouts = [lt.matrix_layout_create(each.kind, each.rows, each.columns, each.leading) for each in (a, b, d)]
        preference = lt.matmul_preference_create()
        limits = {"MAX_WORKSPACE_BYTES": WORKSPACE_BYTES}
        for name, alignment in zip("ABCD", alignments, strict=True):
            limits[f"MIN_ALIGNMENT_{name}_BYTES"] = alignment
        for name, value in limits.items():
            attribute = getattr(lt.MatmulPreferenceAttribute, name)
            number = np.array(value, lt.get_matmul_preference_attribute_dtype(attribute))
            lt.matmul_preference_set_attribute(preference, attribute, number.ctypes.data, number.nbytes)
        results, count = np.zeros(1 + self._proposal, lt.matmul_heuristic_result_dtype), np.zeros((), np.int32)
        try:
            lt.matmul_algo_get_heuristic(
                self._handle, description, *layouts, layouts[2], preference, len(results), results.ctypes.data,
                count.ctypes.data,
            )  # fmt: skip
        except lt.cuBLASLtError:  # not supported
            count[...] = 0
        finally:
            lt.matmul_preference_destroy(preference)
        if count <= self._proposal:
            _destroy(description, layouts)
            return None
        algorithm = results[self._proposal :]["algo"].ctypes.data
        return _Plan(description, (layouts[0], layouts[1], layouts[2]), results, algorithm)


def _destroy(description: int, layouts: Sequence[int]) -> None:
    lt.matmul_desc_destroy(description)
    for layout in layouts:
        lt.matrix_layout_destroy(layout)


def _describe(description: int, name: str, value: int) -> None:
    attribute = getattr(lt.MatmulDescAttribute, name)
    number = np.array(value, lt.get_matmul_desc_attribute_dtype(attribute))
    lt.matmul_desc_set_attribute(description, attribute, number.ctypes.data, number.nbytes)


def _alignment(address: int) -> int:
    """Return the largest power of two up to 256 that divides an address."""
    return min(256, address & -address) if address else 256
