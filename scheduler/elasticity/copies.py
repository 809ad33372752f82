"""Where the next copy of a state goes, and which losses its copies survive (thesis [3], 6.4.2 and 6.6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

State = TypeVar("State", bound=Hashable)


@dataclass(frozen=True, slots=True, order=True)
class BundleHome:
    """The home of a bundle: a machine, and the fault zone that this is in."""

    machine: str
    zone: str


@dataclass(frozen=True, slots=True)
class Survival:
    """The simultaneous losses that leave each range with a living holder: any so many machines, or all of one zone."""

    machines: int
    zones: tuple[str, ...]

    def __str__(self) -> str:
        """The losses in words.

        Examples
        --------
        >>> str(Survival(2, ("b",))), str(Survival(0, ()))
        ('any two machines, or zone b', 'no machine')
        """
        words = ("no", "any one", "any two", "any three")
        count = words[self.machines] if self.machines < len(words) else f"any {self.machines}"
        machines = f"{count} machine{'s' if self.machines > 1 else ''}"
        return ", or ".join([machines, *(f"zone {zone}" for zone in self.zones)])

    def as_predicate(self) -> str:
        """The same behind a subject, as a sentence is to say it.

        Examples
        --------
        >>> Survival(1, ()).as_predicate(), Survival(0, ()).as_predicate()
        ('survives the loss of any one machine', 'does not survive the loss of a machine')
        """
        return f"survives the loss of {self}" if self.machines else "does not survive the loss of a machine"


def next_home(taken: Sequence[BundleHome], candidates: Iterable[tuple[str, BundleHome]]) -> str | None:
    """The home of the next copy: of those on machines without one, in zones with fewest, the first candidate.

    Parameters
    ----------
    taken : Sequence of BundleHome
        The homes of the owner and of the copies so far.
    candidates : Iterable of pairs
        Names and homes, whom to prefer first.
    """
    machines, zones = {home.machine for home in taken}, Counter(home.zone for home in taken)
    best: tuple[int, str] | None = None
    for name, home in candidates:
        if home.machine not in machines and (best is None or zones[home.zone] < best[0]):
            best = zones[home.zone], name
            if not zones[home.zone]:
                break  # no zone has fewer
    return best and best[1]


def survival(holders_of: Mapping[State, Sequence[str]], homes: Mapping[str, BundleHome]) -> Survival:
    """The losses that the holders of states, such as those of a ring's ranges, survive: exactly, for the loss of all
    machines of one state loses that.

    A machine whose zone is empty is a zone of its own, which is not named.
    """
    least = min(len({homes[holder].machine for holder in holders}) for holders in holders_of.values())
    zone_of = {holder: home.zone for holder, home in homes.items()}
    zones = sorted({zone_of[holder] for holders in holders_of.values() for holder in holders} - {""})
    return Survival(least - 1, tuple(zone for zone in zones if not lost_with(holders_of, zone_of, zone)))


def lost_with(holders_of: Mapping[State, Sequence[str]], places: Mapping[str, str], lost: str) -> tuple[State, ...]:
    """The states all of whose holders are at a place that is lost: a machine, or a zone."""
    return tuple(state for state, holders in holders_of.items() if all(places[holder] == lost for holder in holders))
