"""Units: a quantity written with one ("0.5 min") as a number in the unit that a parameter declares."""

from __future__ import annotations

import re
from fractions import Fraction

# Of each family the size of every unit in the family's own, exactly.
FAMILIES: dict[str, dict[str, Fraction]] = {
    "time": {
        "us": Fraction(1, 1_000_000), "µs": Fraction(1, 1_000_000), "ms": Fraction(1, 1000), "s": Fraction(1),
        "min": Fraction(60), "h": Fraction(3600), "d": Fraction(86_400),
    },
    "size": {
        "B": Fraction(1), "kB": Fraction(10**3), "MB": Fraction(10**6), "GB": Fraction(10**9),
        "KiB": Fraction(2**10), "MiB": Fraction(2**20), "GiB": Fraction(2**30),
    },
    "share": {"1": Fraction(1), "%": Fraction(1, 100), "‰": Fraction(1, 1000)},
}
_GREEK_MU, _MICRO_SIGN = "\N{GREEK SMALL LETTER MU}", "\N{MICRO SIGN}"  # keyboards have either
_NUMBER = r"[-+]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][-+]?[0-9]{1,2})?"
_QUANTITY = re.compile(rf"\s*({_NUMBER})(?:\s*(\S{{1,5}}))?\s*")


def units_like(unit: str) -> tuple[str, ...]:
    """The units that a quantity in this one may be written in, smallest first."""
    sizes = _family(unit)
    return tuple(sorted((name for name in sizes if name != "1"), key=lambda name: (sizes[name], name)))


def in_unit(text: str, unit: str) -> Fraction | None:
    """A quantity as an exact number of ``unit``; None where the text is no quantity of that kind.

    A number without a unit is none: it is written as a number.

    Examples
    --------
    >>> in_unit("0.5 min", "s")
    Fraction(30, 1)
    """
    quantity = _QUANTITY.fullmatch(text)
    if quantity is None:
        return None
    sizes, written_in = _family(unit), (quantity[2] or "").replace(_GREEK_MU, _MICRO_SIGN)
    if written_in not in sizes or written_in == "1":
        return None
    return Fraction(quantity[1]) * sizes[written_in] / sizes[unit]


def _family(unit: str) -> dict[str, Fraction]:
    for sizes in FAMILIES.values():
        if unit in sizes:
            return sizes
    names = ", ".join(name for sizes in FAMILIES.values() for name in sizes)
    raise ValueError(f"{unit!r} is no unit; there are {names}")
