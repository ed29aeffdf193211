"""Recipes as modules."""

import importlib.util
import sys
from pathlib import Path

RECIPES = Path(__file__).parent.parent / "recipes"


def load_recipe(name):
    """The recipe, or package of recipes, of this name, imported once; recipes import each other by name."""
    if name not in sys.modules:
        package = RECIPES / name / "__init__.py"
        path = package if package.exists() else RECIPES / f"{name}.py"
        spec = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = module = importlib.util.module_from_spec(spec)  # where dataclasses look for it
        spec.loader.exec_module(module)
    return sys.modules[name]
