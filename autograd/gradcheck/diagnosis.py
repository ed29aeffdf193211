"""Find the mistake that a wrong Jacobian points to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from autograd.gradcheck import places, values
from autograd.gradcheck.evidence import Evidence
from autograd.gradcheck.projection import projection

PATTERNS: tuple[Callable[[Evidence], str], ...] = (  # the most specific first
    places.transposed,
    places.factor_transposed,
    places.not_summed,
    values.cotangent_ignored,
    values.of_another_input,
    values.mask,
    values.signs,
    values.direct_path,
    projection,
    places.overwritten,
    values.factor_of_values,
    values.passed_on,
    values.term_of_values,
    places.shifted,
    places.reordered,
    values.two_factors,
    values.leak,
    places.one_place,
)


def likely_cause(evidence: Evidence) -> str:
    """One or two sentences on the mistake that the numbers point to; "" if they point to none."""
    if not np.isfinite(evidence.analytic).all():
        return "the backward pass divides by 0 or overflows: its result is not finite"
    if not evidence.analytic.any():
        return (
            "the gradient never arrives: backward returns None or zeros for this input, or the function leaves the "
            "graph on its way (through .data, .numpy(), detach() or no_grad())"
        )
    if not np.isfinite(evidence.numerical).all():
        return ""
    by_factor = values.constant_factor(evidence)
    if by_factor or not evidence.complete:
        return by_factor
    for pattern in PATTERNS:
        cause = pattern(evidence)
        if cause:
            return cause
    return ""
