"""Four short programs: a tensor, an op of your own, a tiny task, a translation: `python -m examples.tensor`."""

import autograd  # noqa: F401 (it says in one sentence if NumPy is missing)
