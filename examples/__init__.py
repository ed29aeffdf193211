"""Four short programs, as `python -m examples.tensor`, and the whole Transformer in one file that needs NumPy alone."""

import autograd  # noqa: F401 (it says in one sentence if NumPy is missing)
