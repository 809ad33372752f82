"""Tenancy: whose queries a slot holds, and whether it may take another team's.

A fragment belongs to the team whose dataflow started it, as long as it runs, whoever shares it. If teams are apart, all
queries on a slot are of one team; others that share a fragment read its channel from slots of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from .errors import NoSlots
from .fragment import Fragment


class SlotTenants(Protocol):
    """The tenants of slots: a part of every view of an estate."""

    @property
    def teams_apart(self) -> bool:
        """True if teams have slots of their own."""

    def teams_on(self, slots: Collection[str]) -> Mapping[str, Mapping[str, int]]:
        """The number of queries of each team on the named slots, paused ones too, by slot name."""


def is_open_to(team: str, teams: Collection[str]) -> bool:
    """True if a slot that holds queries of these teams may take a team's queries, where teams are apart."""
    return all(owner == team for owner in teams)


def is_held_by(team: str, teams: Collection[str]) -> bool:
    """True if a slot that holds queries of these teams holds this one's alone; empty for one that holds none."""
    return set(teams) == {team} if team else not teams


def teams_by_slot(fragments: Iterable[Fragment]) -> dict[str, Counter[str]]:
    """The number of queries of each team on each slot, by slot name; paused ones, whose state is there, count."""
    teams: dict[str, Counter[str]] = {}
    for fragment in fragments:
        for bundle in fragment.queries:
            teams.setdefault(bundle.slot, Counter())[fragment.team] += 1
    return teams


def require_apart(
    estate: SlotTenants, before: Mapping[str, Fragment], after: Mapping[str, Fragment]
) -> None:
    """Raise where teams are apart and a change to fragments brings a team to a slot that holds another's queries.

    Parameters
    ----------
    before, after : mapping of str to Fragment
        The fragments that change, as they are in the estate and as they are to be.

    Raises
    ------
    NoSlots
        The first such slot is named, the other team is not.
    """
    if not estate.teams_apart:
        return
    old, new = teams_by_slot(before.values()), teams_by_slot(after.values())
    coming = {
        slot: teams.keys() - old.get(slot, Counter()).keys() for slot, teams in new.items()
        if teams.keys() - old.get(slot, Counter()).keys()}
    holding = estate.teams_on(coming)
    for slot, teams in sorted(coming.items()):
        present = (Counter(holding.get(slot, {})) - old.get(slot, Counter())).keys() | new[slot].keys()
        if not all(is_open_to(team, present) for team in teams):
            raise NoSlots(
                f"{slot} holds queries of another team, and teams have slots of their own here",
                remedy="Choose a slot that is empty or your team's own, or ask an administrator for more slots.",
                slot=slot)
