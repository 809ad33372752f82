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
MEASURED = 0.995  # of the time: a page counts that as all of it, for a query that starts has no pace for seconds


@dataclass(frozen=True, slots=True)
class ShownCharge:
    """A charge with its money as text; ``for_latency`` is of what it pays, and empty where it was not measured."""

    charge: Charge
    pays: str
    alone: str
    saved: str
    for_latency: str

    @property
    def measured_for(self) -> str:
        """The part of the time for which the part for latency was measured, where that is not all of it."""
        return f"{self.charge.latency_known:.0%}" if self.charge.latency_known < MEASURED else ""


def shown(charges: Sequence[Charge]) -> tuple[list[ShownCharge], ShownCharge]:
    """Charges and their total, in columns that add up."""
    whole = total(charges)
    digits = digits_for(whole.alone_nanos)
    unit = NANO // 10**digits
    pays, alone, limits = (
        round_together([getattr(charge, name) for charge in charges], unit=unit)
        for name in ("pays_nanos", "alone_nanos", "limit_nanos"))
    rows = [
        _shown_charge(charge, paid, apart, limit, digits)
        for charge, paid, apart, limit in zip(charges, pays, alone, limits, strict=True)]
    return rows, _shown_charge(whole, sum(pays), sum(alone), sum(limits), digits)


def _shown_charge(charge: Charge, pays: int, alone: int, limit: int, digits: int) -> ShownCharge:
    return ShownCharge(
        charge, _money(pays, digits), _money(alone, digits), _money(alone - pays, digits),
        _money(limit, digits) if charge.latency_known else "")


def digits_for(nanos: int) -> int:
    """The number of digits behind the point that an amount needs to be readable: cents from 10 on, more below."""
    if not nanos or nanos >= 10 * NANO:
        return 2
    return 4 if nanos >= NANO // 100 else 6


def money(nanos: int) -> str:
    """One amount by itself."""
    digits = digits_for(nanos)
    unit = NANO // 10**digits
    return _money((nanos + unit // 2) // unit, digits)


def by_team(rows: Iterable[DataflowBill]) -> list[tuple[str, Charge]]:
    """The total of each team, the dearest first."""
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
