"""Chance as a pure function of a seed and an event's number, in Spark's own expressions.

Every draw hashes (seed, sequence number, label): an event comes out the same however a batch is cut, on whichever
machine, and no Python process takes part. The only module of the generators that knows how a draw is made.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

_UNIT = 2.0**-53


def uniform(*parts: Column | int | str) -> Column:
    """A draw from [0, 1) that depends on the parts alone."""
    from pyspark.sql import Column
    from pyspark.sql import functions as F

    columns = [part if isinstance(part, Column) else F.lit(part) for part in parts]
    return F.shiftrightunsigned(F.xxhash64(*columns), 11) * F.lit(_UNIT)


def normal(*parts: Column | int | str) -> Column:
    """A draw from the standard normal distribution (Box and Muller, 1958)."""
    from pyspark.sql import functions as F

    radius = F.sqrt(F.lit(-2.0) * F.log(F.lit(1.0) - uniform(*parts, "radius")))
    return radius * F.cos(F.lit(2 * math.pi) * uniform(*parts, "angle"))


def rounded(value: Column, decimals: int | Column) -> Column:
    """The value to so many decimals, half up; ``decimals`` may be a column, which Spark's round refuses."""
    from pyspark.sql import functions as F

    scale = F.pow(F.lit(10.0), F.lit(decimals) if isinstance(decimals, int) else decimals)
    return F.floor(value * scale + F.lit(0.5)) / scale
