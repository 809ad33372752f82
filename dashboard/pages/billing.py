"""Bills as pages show them. Pure: values in, values out.

Money is shown in one unit a table, fine enough for its sum, and rounded so that a column adds up to its total.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dashboard.bills.selectors import Charge, DataflowBill, TaskBill, total
from scheduler.model.amounts import round_together

NANO = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Shown:
    """A charge with its money as text."""

    charge: Charge
    pays: str
    alone: str
    saved: str


def shown(charges: Sequence[Charge]) -> tuple[list[Shown], Shown]:
    """Charges and their total, in columns that add up."""
    whole = total(charges)
    digits = digits_for(whole.alone_nanos)
    unit = NANO // 10**digits
    pays = round_together([charge.pays_nanos for charge in charges], unit=unit)
    alone = round_together([charge.alone_nanos for charge in charges], unit=unit)
    rows = [
        Shown(charge, *(_money(units, digits) for units in (paid, apart, apart - paid)))
        for charge, paid, apart in zip(charges, pays, alone, strict=True)
    ]
    sums = (sum(pays), sum(alone), sum(alone) - sum(pays))
    return rows, Shown(whole, *(_money(units, digits) for units in sums))


def digits_for(nanos: int) -> int:
    """How many digits behind the point an amount needs to say something: cents from 10 on, more below."""
    if not nanos or nanos >= 10 * NANO:
        return 2
    return 4 if nanos >= NANO // 100 else 6


def money(nanos: int) -> str:
    """One amount by itself."""
    digits = digits_for(nanos)
    unit = NANO // 10**digits
    return _money((nanos + unit // 2) // unit, digits)


def by_team(rows: Iterable[DataflowBill]) -> list[tuple[str, Charge]]:
    """What teams paid together, the dearest first."""
    charges: dict[str, Charge] = defaultdict(Charge)
    for row in rows:
        charges[row.dataflow.team.name] += row.charge
    return sorted(charges.items(), key=lambda item: (-item[1].pays_nanos, item[0]))


def share_of(row: TaskBill) -> str:
    """``1 of 3``: whose part of the task this is, on average where users came and went."""
    users = row.charge.users
    return f"1 of {users:.0f}" if abs(users - round(users)) < 0.05 else f"1 of {users:.1f} on average"


def _money(units: int, digits: int) -> str:
    sign, units = ("−" if units < 0 else ""), abs(units)
    whole = f"{units // 10**digits:,}".replace(",", "\u202f")
    return f"{sign}{whole}.{units % 10**digits:0{digits}d}"
