"""The commands of README, for tests that run them."""

from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def commands_under(heading: str) -> list[str]:
    """The commands of the first block of a section, each on one line, without comments."""
    section = README.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    block = section.split("```sh\n")[1].split("```")[0].replace("\\\n", " ")
    return [" ".join(line.partition("#")[0].split()) for line in block.splitlines() if line.partition("#")[0].strip()]
