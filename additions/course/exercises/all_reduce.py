"""A ring all-reduce: sum gradients over processes

N ranks have an array each, and all need the sum. In a ring, rank r sends only to rank r + 1 (modulo N), in two rounds
of N - 1 steps each. The array is cut into N chunks:

    reduce-scatter   step s: rank r sends chunk r - s     to r + 1, which adds it to its own
    all-gather       step s: rank r sends chunk r + 1 - s to r + 1, which takes it as it is

(chunk numbers modulo N). After the first round, chunk r + 1 of rank r is complete. Each rank sends 2 (N - 1) chunks,
about twice its array, however many ranks there are; and because each chunk is summed once and then copied, all ranks
have the same bits.

Shapes: arrays, a list of N float arrays [n]; send(rank, chunk) delivers a chunk to rank + 1 and returns it there
    -> a list of N arrays [n], each the sum
Source: Patarasuk & Yuan 2009; `minitf/parallel/` sums through shared memory, MPI or NCCL
"""

import numpy as np

from additions.course.expect import Wrong, equal, true


def all_reduce(arrays, send):
    """The sum of the arrays, on each rank."""
    # solution
    ranks = len(arrays)
    chunks = [np.array_split(a.copy(), ranks) for a in arrays]  # chunks[rank][number]
    for step in range(ranks - 1):
        received = [send(r, chunks[r][(r - step) % ranks]) for r in range(ranks)]  # all at the same time
        for r in range(ranks):
            number = (r - step) % ranks
            target = (r + 1) % ranks
            chunks[target][number] = chunks[target][number] + received[r]
    for step in range(ranks - 1):
        received = [send(r, chunks[r][(r + 1 - step) % ranks]) for r in range(ranks)]
        for r in range(ranks):
            chunks[(r + 1) % ranks][(r + 1 - step) % ranks] = received[r]
    return [np.concatenate(each) for each in chunks]
    # end


HINTS = (
    "Cut each array with np.array_split(array, N), and keep chunks[rank][number]. A step is a loop over all ranks.",
    "All ranks send at the same time: collect what was received in a list first, and only then add it. In step s, "
    "what rank r sends is chunk (r - s) % N, and it is added to the same chunk of rank (r + 1) % N.",
    "The second round has the same form with chunk (r + 1 - s) % N, and what is received replaces the chunk. Return "
    "np.concatenate(chunks[rank]) for each rank; the arrays given are not to be changed.",
)


MISTAKES = (
    ("nothing has been added", "    ranks = len(arrays)\n", "    return [a.copy() for a in arrays]\n"),
    ("the two ranks have exchanged their arrays; add what is received",
     "    ranks = len(arrays)\n", "    return [a.copy() for a in arrays[::-1]]\n"),
    ("a mean where a sum is meant", "np.concatenate(each) for", "np.concatenate(each) / ranks for"),
)  # fmt: skip


class _Ring:
    """Counts what each rank sends."""

    def __init__(self, ranks):
        self.sent = [0] * ranks
        self.messages = 0

    def __call__(self, rank, chunk):
        chunk = np.asarray(chunk)
        if not 0 <= rank < len(self.sent):
            raise Wrong(f"rank {rank} sends; the ranks are 0 to {len(self.sent) - 1} (use % N)")
        self.sent[rank] += chunk.size
        self.messages += 1
        return chunk.copy()


def _reduced(answer, ranks, n):
    rng = np.random.default_rng(10)
    arrays = [rng.standard_normal(n) for _ in range(ranks)]
    before = [a.copy() for a in arrays]
    ring = _Ring(ranks)
    found = answer.all_reduce(arrays, ring)
    true(isinstance(found, list) and len(found) == ranks, "return a list with an array for each rank")
    true(
        all(np.array_equal(a, b) for a, b in zip(arrays, before, strict=True)),
        "the arrays given are changed; copy them",
    )
    return before, [np.asarray(a) for a in found], ring


def check_two(answer):
    """two ranks"""
    arrays, found, _ = _reduced(answer, 2, 6)
    total = arrays[0] + arrays[1]
    for rank in range(2):
        partly = abs(found[rank] - total) <= 1e-12 if found[rank].shape == total.shape else np.zeros(1, bool)
        if partly.any() and not partly.all():
            raise Wrong(
                f"rank {rank} has the sum in some chunks only: after the first round each rank has one complete "
                f"chunk, the second round (all-gather) puts them in the place of the others"
            )
        equal(f"the result of rank {rank}", found[rank], total)


def check_four(answer):
    """four ranks, an array that does not divide evenly"""
    arrays, found, _ = _reduced(answer, 4, 10)
    for rank, each in enumerate(found):
        twice = "some chunks are added several times: the second round replaces, it does not add"
        near = each.shape == arrays[0].shape and (abs(each - sum(arrays)) < 1e-12).any()
        if near and not np.allclose(each, sum(arrays)):
            raise Wrong(f"the result of rank {rank} is the sum in some chunks only: {twice}, or a step is missing")
        equal(f"the result of rank {rank}", each, sum(arrays))


def check_bits(answer):
    """all ranks have the same bits"""
    _, found, _ = _reduced(answer, 5, 40)
    true(
        all(np.array_equal(each, found[0]) for each in found),
        "the ranks have sums that differ in the last bits: each adds in an order of its own; sum a chunk once and "
        "pass the result on, or the weights of the ranks drift apart",
    )


def check_traffic(answer):
    """what each rank sends"""
    n = 80
    _, _, ring = _reduced(answer, 8, n)
    most = 2 * 7 * n // 8
    true(
        max(ring.sent) <= most,
        f"a rank sends {max(ring.sent)} numbers of an array of {n}; a ring of 8 needs 2 · 7 chunks, {most} numbers: "
        f"send chunks, not whole arrays",
    )
    true(min(ring.sent) > 0, "a rank sends nothing: use `send` for all that passes between ranks")


def check_one(answer):
    """a single rank"""
    arrays, found, _ = _reduced(answer, 1, 3)
    equal("the result", found[0], arrays[0])
