"""Print the lowest versions that pyproject.toml allows, as constraints for pip: `numpy>=2.0,<2.6` -> `numpy==2.0`."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
for requirement in dict.fromkeys([*project["dependencies"], *extras["test"], *extras["hub"], *extras["plot"]]):
    name, lowest = re.match(r"([\w-]+)>=([\d.]+)", requirement).groups()
    print(f"{name}=={lowest}")
