"""Fault injection: kill runs, fill their disks, damage their files, feed hostile input; compare the results bit by bit.

    make torture
    python -m tests.torture --kills 1000 --seed 7
    python -m tests.torture --write docs/torture.md

Prints a table of the faults tried and survived; exits with 1 if one was not survived.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

from autograd.fast import available_cores, set_threads
from minitf.system.environment import environment_facts
from tests.helpers.runs import FLAGS, Ground, check, prepared_ground
from tests.torture import faults, fuzz, kills
from tests.torture.faults import make_halfway
from tests.torture.kills import Tally

Entry = tuple[str, Callable[[Tally], None]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="number of SIGKILLs of train.py at random instants")
    parser.add_argument(
        "--examples", type=int, default=10_000, help="number of hostile inputs of loaders and translation"
    )
    parser.add_argument("--share", type=float, default=1.0, help="fraction of all other faults to try, 0 to 1")
    parser.add_argument("--only", default="", help="try only faults whose name matches this regular expression")
    parser.add_argument("--jobs", type=int, default=available_cores(), help="number of processes")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="seed of all random choices")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="replace the table at the end of this page")
    args = parser.parse_args()
    draw = random.Random(args.seed)
    print(f"seed {args.seed}", flush=True)
    start = time.perf_counter()
    with prepared_ground() as ground:
        halfway = make_halfway(ground)
        set_threads(1)
        operations = kills.count_operations(ground)
        plan = [
            *plan_kills(ground, operations, args.kills, args.share, draw),
            *plan_faults(ground, halfway, args.share, draw),
            *plan_fuzz(ground, halfway, args.examples, draw),
        ]
        plan = [(name, act) for name, act in plan if re.search(args.only, name)]
        tallies = share_out(plan, args.jobs, ground, lambda name: draw.seed(f"{args.seed} {name}"))
    text = report(tallies, args.seed, time.perf_counter() - start)
    print(text)
    for tally in tallies:
        for each in tally.lost:
            print(f"\nLOST: {each}")
    if args.write:
        write(args.write, text)
    return exit_status(tallies)


def exit_status(tallies: list[Tally]) -> int:
    """Return 0 if every fault was tried and survived, else 1."""
    return int(any(tally.lost or not tally.tried or tally.survived != tally.tried for tally in tallies))


def share_out(plan: list[Entry], jobs: int, ground: Ground, reseed: Callable[[str], None]) -> list[Tally]:
    """Run the entries of a plan in `jobs` processes; return their tallies in the order of the plan.

    reseed: called with the name of each entry, so that its random choices do not depend on the other entries
    """
    queue, numbers = os.pipe()
    os.write(numbers, bytes(range(len(plan))))  # each byte is read by one process, which runs that entry
    os.close(numbers)

    def work(worker: int) -> None:
        ground.made = (worker + 1) * 1_000_000  # run directories of different processes have different names
        while taken := os.read(queue, 1):
            name, act = plan[taken[0]]
            reseed(name)
            (ground.folder / f"tally-{taken[0]}").write_bytes(pickle.dumps(carry_out(name, act)))

    workers = [fork(lambda worker=worker: work(worker)) for worker in range(jobs)]
    statuses = [os.waitpid(pid, 0)[1] for pid in workers]
    os.close(queue)
    check(not any(statuses), f"worker processes ended with {statuses}")
    return [pickle.loads((ground.folder / f"tally-{number}").read_bytes()) for number in range(len(plan))]


def fork(work: Callable[[], None]) -> int:
    """Start a process that does `work`; return its id. Its exit status is 1 after an unexpected error."""
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: those of BLAS know about forks
        pid = os.fork()
    if pid:
        return pid
    try:
        work()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def carry_out(name: str, act: Callable[[Tally], None]) -> Tally:
    """Run one entry and print its row; an error of the test program itself counts as a loss."""
    tally = Tally(name)
    try:
        act(tally)
    except AssertionError as error:
        tally.lost.append(f"{name}: {error}")
    print(row(tally), flush=True)
    return tally


def plan_kills(ground: Ground, operations: int, count: int, share: float, draw: random.Random) -> list[Entry]:
    """Processes that are killed, fail or are stopped; `operations` is the number of file operations of a run."""

    def at_each(trial: Callable[[Tally, int], None]) -> Callable[[Tally], None]:
        numbers = sorted(draw.sample(range(1, operations + 1), max(1, round(share * operations))))
        return lambda tally: [trial(tally, number) for number in numbers] and None

    def stop(tally: Tally, number: int) -> None:
        kills.stop_at(ground, tally, number, draw.choice(kills.SIGNALS), draw.choice([None, None, 1, 2, 5]))

    def fail(tally: Tally, number: int) -> None:
        kills.fail_at(ground, tally, number, draw.choice(kills.FAILURES), for_good=draw.random() < 0.5)

    default = max(1, round(share * 8))
    return [
        ("SIGKILL at a random instant", lambda t: kills.kill_at_random(ground, t, count, draw)),
        ("SIGKILL before each operation on files", at_each(lambda t, n: kills.kill_at(ground, t, n))),
        ("SIGKILL halfway in each", at_each(lambda t, n: kills.kill_at(ground, t, n, kills.die_halfway))),
        ("SIGKILL while the built-in corpus is made", lambda t: default_corpus(ground, t, default, draw)),
        ("SIGINT, SIGTERM, SIGHUP (some twice) at each", at_each(stop)),
        ("failure of each operation (no space, I/O error, …)", at_each(fail)),
    ]


def default_corpus(ground: Ground, tally: Tally, trials: int, draw: random.Random) -> None:
    """Kills while the built-in corpus, its vocabulary and its token ids are written, followed by one training step."""
    flags = [*FLAGS, "--vocab-size", "400", "--max-steps", "1", "--max-tokens-per-batch", "512", "--beam", "1"]
    other = Ground(ground.folder / "default", flags)
    other.folder.mkdir()
    other.make_reference()
    operations = kills.count_operations(other)
    for number in draw.sample(range(1, operations + 1), trials):
        kills.kill_at(other, tally, number, draw.choice([kills.die, kills.die_halfway]))


def plan_faults(ground: Ground, halfway: Path, share: float, draw: random.Random) -> list[Entry]:
    """Faults of files, disks and streams."""
    size = faults.checkpoint_bytes(halfway)
    some = max(2, round(share * 20))
    plan: list[Entry] = [
        (
            "a bit flipped in a checkpoint, every byte of its header",
            lambda t: faults.flips_are_found(ground, t, halfway, draw, share),
        ),
        ("a checkpoint cut or longer, every class of length", lambda t: faults.cuts_are_found(ground, t, halfway)),
        ("newest checkpoints damaged", lambda t: faults.damaged_is_survived(ground, t, halfway, draw, some)),
        ("all checkpoints damaged", lambda t: faults.all_damaged_is_told(ground, t, halfway)),
        (
            "log, token ids, vocabulary … damaged or gone",
            lambda t: faults.other_damage_is_survived(ground, t, halfway, draw),
        ),
        (
            "what cannot be replaced is damaged",
            lambda t: faults.what_cannot_be_mended_is_told(ground, t, halfway, draw),
        ),
        ("full disk: files may not grow", lambda t: faults.full_disk_by_limit(ground, t, draw, some, size)),
        ("two runs on one folder", lambda t: faults.two_runs_on_one_folder(ground, t, halfway)),
        ("standard error full, or without a reader", lambda t: faults.nobody_listens(ground, t)),
    ]
    if faults.can_mount(ground):
        plan += [
            ("full disk: a small file system", lambda t: faults.full_disk(ground, t, draw, some, 2 * size)),
            ("read-only file system", lambda t: faults.read_only_disk(ground, t, halfway)),
        ]
    else:
        print("skipped: full and read-only file systems (mounting one needs root)", flush=True)
    return plan


def plan_fuzz(ground: Ground, halfway: Path, examples: int, draw: random.Random) -> list[Entry]:
    """Hostile inputs; each loader gets a fixed fraction of the examples."""
    model = (halfway / "vocabulary.model").read_bytes()
    folder = ground.folder / "fuzz"
    folder.mkdir()

    def of(share: float) -> int:
        return max(5, round(share * examples))

    return [
        ("fuzz: text files", lambda t: fuzz.text_files(folder, t, of(0.25), draw)),
        ("fuzz: pairs of files, gzip, streams", lambda t: fuzz.pairs_and_streams(folder, t, of(0.05), draw)),
        ("fuzz: damaged vocabularies", lambda t: fuzz.vocabularies(folder, t, of(0.1), draw, model)),
        ("fuzz: text to ids and back", lambda t: fuzz.round_trips(t, of(0.12), draw, model)),
        ("fuzz: texts to learn a vocabulary from", lambda t: fuzz.learning(folder, t, of(0.01), draw)),
        ("fuzz: damaged token ids", lambda t: fuzz.prepared(folder, t, of(0.03), draw, model)),
        ("fuzz: damaged and forged checkpoints", lambda t: fuzz.damaged_files(folder, t, of(0.12), draw)),
        ("fuzz: configurations", lambda t: fuzz.configurations(folder, t, of(0.12), draw)),
        ("fuzz: logs", lambda t: fuzz.logs(folder, t, of(0.08), draw)),
        ("fuzz: lines through the translator", lambda t: fuzz.translations(t, of(0.04), draw, halfway)),
        ("fuzz: files through translate.py, in process", lambda t: fuzz.translate_commands(t, of(0.02), draw, halfway)),
    ]


def row(tally: Tally) -> str:
    lost = tally.tried - tally.survived
    return f"{tally.name:55} {tally.tried:7,} {tally.survived:9,} {lost:5,} {tally.seconds:8.1f}"


def report(tallies: list[Tally], seed: int, seconds: float) -> str:
    """The table, the command, the machine and the time."""
    total = Tally(
        "all", sum(t.tried for t in tallies), sum(t.survived for t in tallies), sum(t.seconds for t in tallies)
    )
    lines = [f"{'fault':55} {'tried':>7} {'survived':>9} {'lost':>5} {'seconds':>8}", *map(row, [*tallies, total])]
    facts = environment_facts()
    command = " ".join(["python -m tests.torture", *sys.argv[1:]]) + f"  (seed {seed})"
    machine = f"{facts['python']}, NumPy {facts['numpy']}, {facts['platform']}, {facts['cores']} cores"
    spent = f"{seconds / 60:.1f} minutes on {time.strftime('%Y-%m-%d')}; load at the end {os.getloadavg()[0]:.1f}"
    return "\n".join(["", *lines, "", command, machine, spent])


HEADING = "## The last run\n"


def write(page: Path, text: str) -> None:
    """Replace the text below HEADING, the last one of the page, by the table."""
    before = page.read_text(encoding="utf-8").partition(HEADING)[0]
    page.write_text(f"{before}{HEADING}\n```\n{text.strip()}\n```\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
