"""What the processes of a run tell each other: that they do the same, what each has computed, where the run stands."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from autograd.backend import backend_of
from minitf.config import RunConfig
from minitf.config.options import to_plain
from minitf.data.batches import Batch
from minitf.parallel.group import Group, ParallelError
from minitf.system.environment import project_version
from minitf.training.optim import global_norm
from minitf.training.shares import share_of_update
from minitf.training.state import Interval, TrainState

if TYPE_CHECKING:
    from minitf.system.signals import StopRequest
    from minitf.training.run import Clock, Run

SAME_NORM = 1e-6
"""How far apart, in proportion, the norms of the same gradient may be that two processors compute."""


# ---- Before the first step ---------------------------------------------------------------------------------------


def require_same(group: Group, facts: dict[str, Any], advice: str) -> None:
    """Raises: ParallelError, naming the first rank and the first fact that differ from rank 0's."""
    everyone = group.all_gather(facts)
    for rank, theirs in enumerate(everyone):
        for name, value in everyone[0].items():
            if theirs.get(name) != value:
                raise ParallelError(
                    f"rank {rank} disagrees with rank 0: {name} is {theirs.get(name)!r} there, {value!r} here; {advice}"
                )


def require_same_config(group: Group, config: RunConfig) -> None:
    """Every process was started to do the same.  Raises: ParallelError"""
    facts = {"the version of minitf": project_version()}
    facts |= {name.replace("_", "-"): value for name, value in _flat(to_plain(config))}
    require_same(group, facts, "start all processes with the same command and the same code")


def require_same_texts(run: Run) -> None:
    """Every process has read the same vocabulary and texts.  Raises: ParallelError"""
    facts = {
        "the vocabulary": run.state.vocabulary,
        "the training text": run.train.corpus.fingerprint,
        "the validation text": run.state.valid_corpus,
    }
    advice = f"let every host see the same folder {os.path.abspath(run.directory.path)}"
    require_same(run.group, facts, advice)


def share_state(run: Run) -> None:
    """Everyone gets rank 0's weights, moments, averages and training state: those of the run that goes on."""
    group = run.group
    if not group.reduces:
        return
    state = TrainState.from_plain(group.share(run.state.to_plain()))
    if not group.is_first:
        run.state = state
        run.optimizer.step_count = state.step - state.skipped_updates
        if state.data:
            run.train.restore(state.data)
    arrays = [p.data for p in run.model.parameters()]
    arrays += run.optimizer.state_arrays().values()
    arrays += [] if run.moving_average is None else run.moving_average.arrays.values()
    for array in arrays:
        group.broadcast(array)


def _flat(plain: dict[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in plain.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


# ---- An update ---------------------------------------------------------------------------------------------------


def next_batches(run: Run) -> list[Batch]:
    """This process's share of the next update: some of its batches, or some rows of them; perhaps none."""
    places = [run.train.next_place() for _ in range(run.config.accumulate)]
    shares = share_of_update(len(places), run.group.rank, run.group.size)
    parts = [(number, run.train.part(*places[number], part, parts)) for number, part, parts in shares]
    return [replace(batch, number=number) for number, batch in parts if batch is not None]


def sum_update(run: Run, step: int, update: Interval, stop: StopRequest, clock: Clock) -> Interval:
    """The update of all processes together, from each one's share of it; its gradients are summed by then.

    It is also where they agree to stop, and on rank 0's clock.

    Raises: ParallelError where one is at another step, or has other gradients after the same sum.
    """
    run.gradients.finish()
    norm = global_norm(run.model.parameters())
    if not run.group.reduces:
        return replace(update, gradient_norm=norm / update.target_tokens)
    everyone = run.group.all_gather(
        {"step": step, "update": asdict(update), "norm": norm, "stop": stop.received or 0, "s": clock.own_s}
    )
    for rank, theirs in enumerate(everyone):
        if theirs["step"] != step:
            raise ParallelError(f"rank {rank} is at step {theirs['step']:,}, rank {run.group.rank} at step {step:,}")
        if not _alike(theirs["norm"], everyone[0]["norm"]):
            raise ParallelError(
                f"rank {rank} has other gradients than rank 0 at step {step:,}: their norm is {theirs['norm']:.9g}, "
                f"not {everyone[0]['norm']:.9g}; its memory or its connection may be faulty"
            )
    stop.agree(theirs["stop"] for theirs in everyone)
    clock.follow(everyone[0]["s"])
    total = Interval()
    for theirs in everyone:
        total.add_update(Interval(**theirs["update"]))
    total.gradient_norm = everyone[0]["norm"] / total.target_tokens  # one for all: last bits may differ by processor
    return total


def _alike(one: float, other: float) -> bool:
    if not (math.isfinite(one) and math.isfinite(other)):
        return math.isfinite(one) == math.isfinite(other)
    return abs(one - other) <= SAME_NORM * abs(other)


# ---- Later -------------------------------------------------------------------------------------------------------


def sum_in_order(group: Group, own: Sequence[Sequence[float]], stop: StopRequest | None) -> list[Sequence[float]]:
    """The figures of all batches in order, where process r of n has those of batches r, r + n, …

    It is also where the processes agree to stop.
    """
    if not group.reduces:
        return list(own)
    everyone = group.all_gather({"figures": own, "stop": (stop and stop.received) or 0})
    if stop is not None:
        stop.agree(theirs["stop"] for theirs in everyone)
    count = sum(len(theirs["figures"]) for theirs in everyone)
    return [everyone[i % group.size]["figures"][i // group.size] for i in range(count)]


def require_same_weights(run: Run) -> None:
    """Every process has the same bytes.  Raises: ParallelError"""
    if run.group.reduces:
        facts = {f"the checksum of the weights after step {run.state.step:,}": _checksum(run.model.parameters())}
        require_same(run.group, facts, "go on from the last checkpoint; that host's memory may be faulty")


def _checksum(parameters: Iterable[Any]) -> int:
    """Of the bits of all weights, computed where they are."""
    total = 0
    for parameter in parameters:
        xp = backend_of([parameter.data]).xp
        words = parameter.data.reshape(-1).view(f"u{parameter.dtype.itemsize}")
        total = (1_000_003 * total + int(words.sum(dtype=xp.uint64))) % 2**64
    return total


def first_of(group: Group, found: str | None) -> str | None:
    """The first thing that any process has found, with its rank where there are several."""
    for rank, each in enumerate(group.all_gather(found)):
        if each is not None:
            return each if group.size == 1 else f"{each} (rank {rank})"
    return None
