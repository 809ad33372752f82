"""Notices about groups of alerts: one notice for many elements of one cause, and quiet for what is muted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from .alert_values import Element

WAIT_S = 15  # what fires meanwhile is in the first notice, too
WINDOW_S = 300  # what fires later waits for so long after the last notice
FIRED, MORE, OVER = "fired", "more", "over"


@dataclass(frozen=True, slots=True)
class Mute:
    """A mute of a rule's alerts, of an element's, or of both together, until a time (seconds)."""

    until_s: int
    rule_id: str = ""
    element: Element | None = None

    def covers(self, rule_id: str, element: Element, now_s: int) -> bool:
        """True if an alert is muted now; a mute that names nothing covers nothing."""
        if now_s >= self.until_s or not (self.rule_id or self.element):
            return False
        return self.rule_id in ("", rule_id) and self.element in (None, element)


@dataclass(frozen=True, slots=True)
class Group:
    """Alerts of one cause: since when there are any (seconds), and when people were told last."""

    opened_s: int
    told_s: int | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """One alert of a group. ``quiet``: it is muted, or somebody has acknowledged it."""

    key: str
    resolved: bool = False
    is_told: bool = False
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice to people: ``fired``, ``more`` that fired since, or that all is ``over``; of which alerts."""

    what: str
    members: Sequence[str]


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """The result of a look at a group: a notice or none, and whether the group is closed."""

    notice: Notice | None = None
    closes: bool = False


def look_at(group: Group, members: Collection[Member], now_s: int) -> GroupOutcome:
    """The notice that is due for a group now."""
    untold = [member.key for member in members if not member.is_told and not member.quiet]
    is_over = all(member.resolved for member in members)
    if untold and (is_over or now_s >= _next_s(group)):
        return GroupOutcome(Notice(MORE if group.told_s is not None else FIRED, untold))
    if not is_over:
        return GroupOutcome()
    begun = [member.key for member in members if member.is_told]
    return GroupOutcome(Notice(OVER, begun) if begun else None, closes=True)


def _next_s(group: Group) -> int:
    return group.opened_s + WAIT_S if group.told_s is None else group.told_s + WINDOW_S
