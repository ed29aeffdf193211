"""Data-parallel training: several ranks compute one update together (section 5.2).

Each rank computes the gradients of its share of the rows; gradients are all-reduced during the backward pass, and every
rank makes the same update of the same weights.  The number of ranks changes nothing but the order of sums: the batches,
the dropout masks and the number of tokens that the loss is divided by are those of the whole update.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, replace
from typing import Any

from autograd.backend import backend_of
from minitf.config import RunConfig
from minitf.config.options import to_plain
from minitf.config.run_config import parse_devices
from minitf.data.batches import Batch, Batches
from minitf.errors import UserError, shortened
from minitf.model.parameters import Parameter
from minitf.model.transformer import Transformer
from minitf.parallel.group import GradientBuckets, Group, ParallelError, join
from minitf.system.environment import environment_facts
from minitf.system.process import StopRequest
from minitf.training.optim import Adam
from minitf.training.resuming import state_from_plain
from minitf.training.run import Run, SingleProcess, Sums
from minitf.training.state import Clock, Interval


@contextmanager
def join_ranks(config: RunConfig) -> Iterator[DataParallel]:
    """Join the other ranks of this job, and leave together with them."""
    kind, size = (config.device, None) if config.devices is None else parse_devices(config.devices)
    with join(kind) as group:
        if size not in (None, group.size):
            raise UserError(
                f"devices={config.devices!r}, but mpiexec has started {group.size} processes; omit --devices, or "
                "leave mpiexec out"
            )
        yield DataParallel(config, group)


class DataParallel(SingleProcess):
    """Training in one rank of several.  Rank 0 writes the files and messages of the run."""

    is_parallel = True

    def __init__(self, config: RunConfig, group: Group):
        """
        Raises: ParallelError if another rank was started with another configuration, package or environment.
        """
        facts = {name: environment_facts()[name] for name in ("minitf", "python", "numpy", "blas")} | to_plain(config)
        require_same(group, facts, "start all processes with the same command, packages and environment")
        self.group = group
        self.device = group.device
        self.threads = max(1, config.threads // group.local_size) if config.threads else group.cores
        self.rank, self.size = group.rank, group.size
        self.is_main_process = group.rank == 0
        kind = group.device.partition(":")[0]
        hosts = "1 host" if group.hosts == 1 else f"{group.hosts} hosts"
        self.description = f"{group.size} processes on {hosts}, {kind}; rank 0 writes log and messages"
        self._directory = config.output

    def main_process_first(self) -> AbstractContextManager[None]:
        return self.group.main_process_first()

    def synchronize(self, run: Run) -> None:
        """Raises: ParallelError if a rank has read other texts."""
        state, train, optimizer = run.state, run.data.train, run.optimizer
        texts = {
            "the vocabulary": state.vocabulary,
            "the training text": train.corpus.fingerprint,
            "the validation text": state.valid_corpus,
        }
        advice = f"every host must see the same directory {os.path.abspath(self._directory)}"
        require_same(self.group, texts, advice)
        if self.is_main_process:
            self.group.broadcast_value(asdict(state))
        else:
            run.state = state_from_plain(self.group.broadcast_value(None))
            optimizer.step_count = run.state.step
            if run.state.data:
                train.restore(run.state.data)
        parameters = run.model.parameters()
        averages = {} if run.moving_average is None else run.moving_average.arrays
        for array in (*(p.data for p in parameters), *optimizer.state_arrays().values(), *averages.values()):
            self.group.broadcast(array)
        self._gradients = GradientBuckets([each for each in parameters if each.requires_grad], self.group)

    # ---- An update ----

    def next_batches(self, train: Batches, count: int) -> list[Batch]:
        """Return this rank's share of the next `count` batches: some of them, or some rows of them, or none."""
        places = [train.next_place() for _ in range(count)]
        shares = [
            (number, train.part(*places[number], part, parts))
            for number, part, parts in share_of_update(count, self.group.rank, self.group.size)
        ]
        return [replace(batch, number=number) for number, batch in shares if batch is not None]

    def zero_grad(self, optimizer: Adam, backward_passes: int) -> None:
        self._gradients.begin(backward_passes)

    def finish_update(self, optimizer: Adam, sums: Sums, step: int, stop: StopRequest, clock: Clock) -> Interval:
        """Combine the ranks' partial updates."""
        self._gradients.finish()
        norm = optimizer.gradient_norm()
        own = {"update": asdict(Interval.of(sums)), "norm": norm, "stop": stop.received or 0, "s": clock.own_s}
        ranks = self.group.all_gather(own, f"the end of step {step:,}")
        stop.agree(theirs["stop"] for theirs in ranks)
        clock.follow(ranks[0]["s"])
        total = Interval()
        for theirs in ranks:
            total.add_update(Interval(**theirs["update"]))
        total.gradient_norm = ranks[0]["norm"] / total.target_tokens  # rank 0's: last bits depend on the processor
        return total

    # ---- Validate, save, log ----

    def all_gather(self, value: Any, purpose: str = "a message") -> list[Any]:
        return self.group.all_gather(value, purpose)

    def broadcast(self, value: Any) -> Any:
        return self.group.broadcast_value(value)

    def check_weights(self, step: int, model: Transformer) -> None:
        facts = {f"the checksum of the weights after step {step:,}": _checksum(model.parameters())}
        require_same(self.group, facts, "continue from the last checkpoint; the memory of that host may be faulty")

    def communication_times(self) -> dict[str, float]:
        return self._gradients.take_times()


def share_of_update(batches: int, rank: int, size: int) -> list[tuple[int, int, int]]:
    """Divide the batches of an update among the ranks; return (number of the batch, part of its rows, parts).

    gcd(batches, size) teams take whole batches in turn, and each member of a team the same part of the rows of each.
    Of 8 ranks, each computes two of 16 batches, or half of one of 4 batches, or an eighth of all of 3 batches.
    """
    teams = math.gcd(batches, size)
    members = size // teams
    team, part = divmod(rank, members)
    return [(number, part, members) for number in range(team, batches, teams)]


def require_same(group: Group, facts: dict[str, Any], advice: str) -> None:
    """Raises: ParallelError, naming a fact in which the first rank that differs from rank 0 does so."""
    ranks = group.all_gather(facts, "a comparison of the ranks")
    for rank, theirs in enumerate(ranks):
        names = [name for name in facts if theirs.get(name) != ranks[0].get(name)]
        if names:
            there, here = (shortened(repr(each.get(names[0])), 200) for each in (theirs, ranks[0]))
            raise ParallelError(
                f"rank {rank} disagrees with rank 0: {names[0]} is {there} there, {here} here; {advice}"
            )


def _checksum(parameters: Iterable[Parameter]) -> int:
    """Hash of all parameters, computed on their device."""
    total = 0
    for parameter in parameters:
        xp = backend_of([parameter.data]).xp
        words = parameter.data.reshape(-1).view(f"u{parameter.dtype.itemsize}")
        total = (1_000_003 * total + int(words.sum(dtype=xp.uint64))) % 2**64
    return total
