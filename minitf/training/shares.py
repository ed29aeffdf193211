"""Who computes what of an update: a function of the numbers of processes and batches alone."""

from __future__ import annotations

import math


def share_of_update(batches: int, rank: int, size: int) -> list[tuple[int, int, int]]:
    """(number of the batch, which part of its rows, of how many) for each that a process computes.

    Processes form as many teams as batches can be dealt out to evenly.  Each team takes whole batches, and each of its
    members the same part of the rows of every one: 8 processes and 16 batches: two whole ones each; 8 and 4: half of
    one each; 8 and 3: an eighth of all three.
    """
    teams = math.gcd(batches, size)
    members = size // teams
    team, part = divmod(rank, members)
    return [(number, part, members) for number in range(team, batches, teams)]
