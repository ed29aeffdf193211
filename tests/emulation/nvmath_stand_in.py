"""`nvmath.bindings.cublasLt` on NumPy, for tests without a GPU: descriptions by handle, products by address."""

from __future__ import annotations

import ctypes
import enum
from types import ModuleType
from typing import Any

import numpy as np

from tests.emulation.cupy_stand_in import _matrix
from tests.emulation.graph_stand_in import device

SIGNATURES = {
    "create": "create() -> intptr_t",
    "matmul": "matmul(intptr_t light_handle, intptr_t compute_desc, intptr_t alpha, intptr_t a, intptr_t adesc, "
    "intptr_t b, intptr_t bdesc, intptr_t beta, intptr_t c, intptr_t cdesc, intptr_t d, intptr_t ddesc, "
    "intptr_t algo, intptr_t workspace, size_t workspace_size_in_bytes, intptr_t stream)",
    "matmul_desc_create": "matmul_desc_create(int compute_type, int scale_type) -> intptr_t",
    "matmul_desc_set_attribute": "matmul_desc_set_attribute(intptr_t matmul_desc, int attr, intptr_t buf, "
    "size_t size_in_bytes)",
    "matrix_layout_create": "matrix_layout_create(int type, uint64_t rows, uint64_t cols, int64_t ld) -> intptr_t",
    "matmul_desc_destroy": "matmul_desc_destroy(intptr_t matmul_desc)",
    "matrix_layout_destroy": "matrix_layout_destroy(intptr_t mat_layout)",
    "matmul_preference_create": "matmul_preference_create() -> intptr_t",
    "matmul_preference_set_attribute": "matmul_preference_set_attribute(intptr_t pref, int attr, intptr_t buf, "
    "size_t size_in_bytes)",
    "matmul_preference_destroy": "matmul_preference_destroy(intptr_t pref)",
    "matmul_algo_get_heuristic": "matmul_algo_get_heuristic(intptr_t light_handle, intptr_t operation_desc, "
    "intptr_t adesc, intptr_t bdesc, intptr_t cdesc, intptr_t ddesc, intptr_t preference, "
    "int requested_algo_count, intptr_t heuristic_results_array, intptr_t return_algo_count)",
}  # of nvmath-python 1.0.0; test_cublaslt.py compares them with the installed package


class Epilogue(enum.IntEnum):
    DEFAULT, BIAS, RELU_BIAS, RELU_AUX_BIAS, DRELU, BGRADB = 1, 4, 6, 134, 136, 512


class MatmulDescAttribute(enum.IntEnum):
    TRANSA, TRANSB, EPILOGUE, BIAS_POINTER, BIAS_DATA_TYPE = 3, 4, 7, 8, 26
    EPILOGUE_AUX_POINTER, EPILOGUE_AUX_LD = 11, 12


class MatmulPreferenceAttribute(enum.IntEnum):
    MAX_WORKSPACE_BYTES, MIN_ALIGNMENT_A_BYTES, MIN_ALIGNMENT_B_BYTES = 1, 5, 6
    MIN_ALIGNMENT_C_BYTES, MIN_ALIGNMENT_D_BYTES = 7, 8


DESCRIPTION_TYPES = {3: np.int32, 4: np.int32, 7: np.uint32, 8: np.int64, 11: np.int64, 12: np.int64, 26: np.int32}
PREFERENCE_TYPES = {1: np.uint64, 5: np.uint32, 6: np.uint32, 7: np.uint32, 8: np.uint32}


class cuBLASLtError(Exception):  # noqa: N801
    pass


def module(refused: set[int]) -> dict[str, ModuleType]:
    """The modules by name; there is no algorithm for an epilogue in `refused`."""
    lt: Any = ModuleType("nvmath.bindings.cublasLt")
    made: list[Any] = [None]  # what handles stand for; 0 is none
    lt.multiplied = []  # the epilogue of each product

    def new(what: Any) -> int:
        made.append(what)
        return len(made) - 1

    def set_attribute(types: dict[int, Any]) -> Any:
        def set_it(handle: int, attribute: int, place: int, size: int) -> None:
            assert size == np.dtype(types[attribute]).itemsize
            made[handle][int(attribute)] = int(
                np.frombuffer((ctypes.c_char * size).from_address(place), types[attribute])[0]
            )

        return set_it

    def heuristic(handle: int, description: int, a: int, b: int, c: int, d: int, preference: int, wanted: int,
                  results: int, count: int) -> None:  # fmt: skip
        assert (made[handle], wanted, c) == ("handle", 1, d)
        assert {*made[preference]} == {*PREFERENCE_TYPES}
        epilogue = made[description].get(7, 1)
        if epilogue in refused:
            raise cuBLASLtError("CUBLAS_STATUS_NOT_SUPPORTED")
        if epilogue & 128:
            assert made[description][11] % 16 == 0 < made[description][11], "the mask has no address, or an odd one"
            assert made[description][12] % 128 == 0
            assert made[description][12] >= made[d][1]
        if epilogue not in (1, 136):
            assert made[description][8], "the bias has no address"
            assert made[description][26] == made[d][0], "cuBLASLt reads a bias in the type of the result"
        ctypes.c_uint64.from_address(results).value = 77
        ctypes.c_int32.from_address(count).value = 1

    def matmul(handle: int, description: int, alpha: int, a: int, a_layout: int, b: int, b_layout: int, beta: int,
               c: int, c_layout: int, d: int, d_layout: int, algo: int, workspace: int, size: int,
               stream: int) -> None:  # fmt: skip
        assert ctypes.c_uint64.from_address(algo).value == 77
        assert (made[handle], c_layout, size) == ("handle", d_layout, 32 << 20)
        settings = {**made[description]}  # as they are now
        wide = np.dtype(np.float64 if settings["compute"] == 70 else np.float32)
        shapes = [made[x] for x in (a_layout, b_layout, d_layout)]
        factors = [np.frombuffer((ctypes.c_char * wide.itemsize).from_address(each), wide)[0] for each in (alpha, beta)]
        lt.multiplied.append(settings.get(7, 1))

        def work() -> None:
            left, right, added, result = (
                _matrix(address, rows, columns, ld, kind)
                for address, (kind, rows, columns, ld) in zip((a, b, c, d), (*shapes, shapes[-1]), strict=True)
            )
            left, right = left.T if settings[3] else left, right.T if settings[4] else right
            product = factors[0] * (left.astype(wide) @ right.astype(wide))
            if factors[1]:
                product = product + factors[1] * added.astype(wide)
            epilogue = settings.get(7, 1)
            if epilogue & 4:
                product = product + _matrix(settings[8], len(product), 1, len(product), settings[26]).astype(wide)
            if epilogue & 128:  # the bits of a column side by side
                bits = (ctypes.c_uint8 * (settings[12] // 8 * product.shape[1])).from_address(settings[11])
                mask = np.frombuffer(bits, np.uint8).reshape(-1, settings[12] // 8)
                if epilogue == 134:
                    mask[:, : -(-len(product) // 8)] = np.packbits(product.T > 0, axis=1)
                else:
                    product = np.where(np.unpackbits(mask, axis=1, count=len(product)).T, product, 0)
            result[...] = np.maximum(product, 0) if epilogue & 2 else product
            if epilogue == 512:
                n = right.shape[1]
                _matrix(settings[8], n, 1, n, settings[26])[:, 0] = right.astype(wide).sum(axis=0)

        device.launch("matmul", work, (a, b, c, d, tuple(settings.items()), shapes, *map(float, factors)), [])

    lt.Epilogue, lt.MatmulDescAttribute, lt.cuBLASLtError = Epilogue, MatmulDescAttribute, cuBLASLtError
    lt.MatmulPreferenceAttribute = MatmulPreferenceAttribute
    lt.matmul_heuristic_result_dtype = np.dtype(
        [("algo", [("data_", "<u8", (8,))]), ("workspace_size", "<u8"), ("state", "<i4"), ("waves_count", "<f4"),
         ("reserved", "<i4", (4,))]
    )  # fmt: skip
    lt.get_matmul_desc_attribute_dtype = lambda attribute: DESCRIPTION_TYPES[attribute]
    lt.get_matmul_preference_attribute_dtype = lambda attribute: PREFERENCE_TYPES[attribute]
    lt.create = lambda: new("handle")
    lt.matmul_desc_create = lambda compute, scale: new({"compute": compute, "scale": scale})
    lt.matrix_layout_create = lambda kind, rows, columns, ld: new((kind, rows, columns, ld))
    lt.matmul_preference_create = lambda: new({})
    lt.matmul_preference_destroy = lambda handle: None
    lt.destroyed = []
    lt.matmul_desc_destroy = lt.matrix_layout_destroy = lt.destroyed.append
    lt.matmul_desc_set_attribute, lt.matmul_preference_set_attribute = map(
        set_attribute, (DESCRIPTION_TYPES, PREFERENCE_TYPES)
    )
    lt.matmul_algo_get_heuristic, lt.matmul = heuristic, matmul
    bindings: Any = ModuleType("nvmath.bindings")
    bindings.cublasLt = lt
    return {"nvmath": ModuleType("nvmath"), "nvmath.bindings": bindings, "nvmath.bindings.cublasLt": lt}
