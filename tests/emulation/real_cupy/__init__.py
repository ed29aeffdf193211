"""The real CuPy without a card: its API, types, launches and captures, and the numbers of a run."""
