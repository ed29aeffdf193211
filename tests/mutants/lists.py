"""All mutants, by group."""

from tests.mutants import checker, circumstances, engine, fast, higher_order, insight, kernels, network, ops, optimizer
from tests.mutants.damage import Mutant

GROUPS: dict[str, list[Mutant]] = {
    "Ops": ops.MUTANTS,
    "Fast implementations": fast.MUTANTS,
    "Kernels in array code": kernels.PLAIN,
    "CPU kernels": kernels.CPU,
    "Circumstances": circumstances.MUTANTS,
    "Engine": engine.MUTANTS,
    "Higher order": higher_order.MUTANTS,
    "Layers and model": network.MUTANTS,
    "Optimizer": optimizer.MUTANTS,
    "Checker": checker.MUTANTS,
    "A look inside": insight.MUTANTS,
}


def representatives() -> list[Mutant]:
    """The first mutant of each module of ops, and of each other group: what a quick run tries."""
    first: dict[str, Mutant] = {}
    for group, mutants in GROUPS.items():
        for mutant in mutants:
            first.setdefault(mutant.module if group == "Ops" else group, mutant)
    return list(first.values())
