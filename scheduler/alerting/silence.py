"""Silence: how much longer a source has made no events than it ever did before, by its recorded rate."""

from __future__ import annotations

import math
from collections.abc import Sequence

LEAST_KNOWN = 60  # measured points, below which nothing is known to be usual


def silence(rates_per_s: Sequence[float], step_s: int) -> float | None:
    """The silence of a source beyond its longest one before, in seconds; 0 without any.

    Parameters
    ----------
    rates_per_s : sequence of float
        Its rate over time, up to now; NaN where it was not measured, which ends a silence.

    Returns
    -------
    float or None
        None where too little was measured, nothing ever came, or it is not measured now.

    Examples
    --------
    >>> silence([1.0] * 60 + [0.0] * 5 + [1.0] + [0.0] * 9, 60)
    240.0
    """
    measured = [rate for rate in rates_per_s if not math.isnan(rate)]
    if len(measured) < LEAST_KNOWN or not any(measured) or math.isnan(rates_per_s[-1]):
        return None
    silences, length = [], 0
    for rate in rates_per_s:
        if rate == 0:
            length += 1
            continue
        silences.append(length)
        length = 0
    return max(0.0, (length - max(silences, default=0)) * float(step_s))
