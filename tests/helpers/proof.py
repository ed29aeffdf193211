"""What the gradient checks of a test session have covered, over all its processes."""

from typing import Any

from autograd.testing import Errors


class Proof:
    """Count of the examples whose gradients were checked, and their largest errors."""

    def __init__(self) -> None:
        self.names: dict[str, set[str]] = {}
        self.examples = 0
        self.errors = Errors()

    def add(self, kind: str, name: str, errors: Errors) -> None:
        self.names.setdefault(kind, set()).add(name)
        self.examples += 1
        self.errors = self.errors.merge(errors)

    def to_plain(self) -> dict[str, Any]:
        """Return strings and numbers that can be sent to another process."""
        return {
            "names": {kind: sorted(names) for kind, names in self.names.items()},
            "examples": self.examples,
            "errors": list(self.errors),
        }

    def add_plain(self, other: dict[str, Any]) -> None:
        """Add the counts of another process."""
        for kind, names in other["names"].items():
            self.names.setdefault(kind, set()).update(names)
        self.examples += other["examples"]
        self.errors = self.errors.merge(Errors(*other["errors"]))

    def __str__(self) -> str:
        counts = ", ".join(f"{len(names)} {kind}" for kind, names in sorted(self.names.items()))
        sources = zip(("differences", "complex steps", "plain compositions"), self.errors, strict=True)
        worst = ", ".join(f"{error:.0e} from {source}" for source, error in sources if error is not None)
        return f"gradients: {counts}, {self.examples:,} examples; worst error {worst}"
