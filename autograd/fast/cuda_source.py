"""The source of the CUDA kernels, and the names by which cuda.py launches them."""

from __future__ import annotations

from importlib.resources import files

WIDE = {"bf16": "float", "float": "float", "double": "double"}  # type in memory: that of arithmetic and sums

GROUP = 16  # neighbouring elements that a thread takes
NORM_GROUPS = (1, 2, 4)  # of 32 · 16 columns each: layer norm holds a row in the registers of a warp
NORM_BLOCKS = 256  # blocks that sum the gradients of weight and bias: a constant, as it decides the order of sums
SUM_BLOCKS = 128  # blocks that sum a column of a gradient, likewise
ORDERED = 4_096  # rows up to which comparing all pairs orders them; more are sorted
SUMMED = 16  # rows of threads that sum the edges of an embedding's gradient
CHUNK = 32  # rows of an embedding's gradient that a block sums
PER_THREAD = 4  # elements of each thread of Adam
TILE = 64  # queries and keys of a tile of attention
HEADS = (64, 128)  # widths of heads that attention has kernels for; narrower heads are padded with zeros


def source() -> str:
    """Both source files as one text, which is compiled."""
    folder = files("autograd.fast")
    return "".join(folder.joinpath(name).read_text("utf-8") for name in ("kernels.cu", "attention.cu"))


def names(kind: str) -> list[str]:
    """All kernels for arrays of a C++ type, as C++ expressions."""
    wide = WIDE[kind]
    elementwise = ("dropout", "relu_backward_sum", "embedding", "embedding_backward")
    listed = [f"{name}<{kind}>" for name in elementwise]
    for groups in NORM_GROUPS:
        listed += [f"layer_norm<{kind}, {groups}>", f"layer_norm_backward<{kind}, {groups}>"]
    for head in HEADS:
        if (kind, head) != ("double", 128):  # its tiles do not fit the shared memory of any GPU
            for one_tile in ("false", "true")[: 1 + (kind == "bf16")]:
                listed += [f"attention<{kind}, {one_tile}, {head}>", f"attention_backward<{kind}, {one_tile}, {head}>"]
            listed.append(f"attention_backward_queries<{kind}, {head}>")
    return [
        "order_rows",
        *listed,
        *dict.fromkeys((f"cross_entropy<{kind}>", f"cross_entropy<{wide}>")),
        *[f"{name}<{wide}>" for name in ("embedding_edges", "adam_", "gather_", "squares", "top_tokens")],
    ]


def usual_names(kind: str) -> list[str]:
    """The kernels of rows of up to 512 and heads of up to 64, the slowest to compile first."""
    rare = tuple(f", {size}>" for size in (*NORM_GROUPS[1:], *HEADS[1:]))
    return sorted([name for name in names(kind) if not name.endswith(rare)], key=lambda name: "attention" not in name)


def attention_shared_bytes(kind: str, head: int, backward: bool, one_tile: str = "false") -> int:
    """Shared memory of a block of the attention kernels, which is laid out in attention.cu."""
    size = {"bf16": 2, "float": 4, "double": 8}[kind]
    padding = 8 if size == 2 else 1
    tile, weights = TILE * (head + padding) * size, TILE * (TILE + padding) * size
    if backward:
        return 4 * tile + (0 if one_tile == "true" else 2 * weights)
    return 3 * tile + (0 if kind == "bf16" else weights)
