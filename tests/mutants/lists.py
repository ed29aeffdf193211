"""All mutants, by group."""

from tests.mutants import checker, engine, insight, kernels, network, ops, optimizer
from tests.mutants.damage import Mutant

GROUPS: dict[str, list[Mutant]] = {
    "Ops": ops.MUTANTS,
    "Plain kernels": kernels.PLAIN,
    "CPU kernels": kernels.CPU,
    "Engine": engine.MUTANTS,
    "Layers and model": network.MUTANTS,
    "Optimizer": optimizer.MUTANTS,
    "Checker": checker.MUTANTS,
    "A look inside": insight.MUTANTS,
}


def representatives() -> list[Mutant]:
    """The first mutant of each module in each group: what a quick run tries."""
    first: dict[tuple[str, str], Mutant] = {}
    for group, mutants in GROUPS.items():
        for mutant in mutants:
            first.setdefault((group, mutant.module), mutant)
    return list(first.values())
