"""The treatment of a reader that is too slow for a stream that others need: its team's choice.

Only the first choice keeps every event. A reader that several dataflows need follows a choice other than that only
where all of them have it: none is paused, and none loses an event, by what another team chose.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .estate import Estate

SPILL = "spill"  # it goes on from its node's disk, and misses nothing
PAUSE = "pause"  # its dataflow is paused
LOSE_OLDEST = "lose_oldest"  # it goes on with the newest events; what it had not read is lost and counted
CHOICES = (SPILL, PAUSE, LOSE_OLDEST)
WORDS: Mapping[str, str] = {
    SPILL: "continues from disk: it misses nothing and is late until it has caught up",
    PAUSE: "is paused, and continues with new events when it is resumed",
    LOSE_OLDEST: "loses the oldest events that it has not read: its outputs differ from those it would have alone",
}


@dataclass(frozen=True, slots=True)
class Needed:
    """Needs for a running task now: how many dataflows that are not paused, their teams, and what they all chose."""

    dataflows: int = 0
    teams: tuple[str, ...] = ()
    when_behind: str = SPILL


def agreed(choices: Iterable[str]) -> str:
    """The treatment of a reader, from the choices of all dataflows that need it: theirs where they agree, else `SPILL`.

    Examples
    --------
    >>> agreed(["pause", "pause"]), agreed(["pause", "lose_oldest"]), agreed([])
    ('pause', 'spill', 'spill')
    """
    different = set(choices)
    return different.pop() if len(different) == 1 else SPILL


def heads_of(estate: Estate) -> set[str]:
    """The head task of each fragment. Its users include all users of the chain."""
    return {fragment.tasks[0] for fragment in estate.fragments.values()}


def needs_in(estate: Estate, choices: Mapping[str, str] | None = None) -> dict[str, Needed]:
    """The needs for the first task of each fragment of a whole estate, by running task.

    Parameters
    ----------
    choices : mapping of str to str, optional
        By dataflow id; `SPILL` where it is not given.
    """
    needs: dict[str, Needed] = {}
    for head in heads_of(estate):
        users = [estate.submitted[user] for user in estate.users.get(head, ())]
        working = [user for user in users if not user.paused]
        needs[head] = Needed(
            len(working), tuple(sorted({user.team for user in working})),
            agreed((choices or {}).get(user.id, SPILL) for user in working))
    return needs
