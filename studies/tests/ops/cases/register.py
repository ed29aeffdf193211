"""A list of cases of its own: those of `tests.cases` are of the house."""

from collections.abc import Callable

from tests.cases.checks import Case

CASES: list[Case] = []


def register(op: str, name: str) -> Callable[[Callable], Callable]:
    """Decorator: add a function from a random generator to an `Example`."""

    def add(draw: Callable) -> Callable:
        CASES.append(Case(op, name, draw))
        return draw

    return add
