"""The search of a small model as compiled functions: `search_of` is the entrance.  Importing it imports Numba."""

from minitf.fast.compiled.search_weights import CompiledSearch, search_of

__all__ = ["CompiledSearch", "search_of"]
