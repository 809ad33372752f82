"""Limits of what all share for one team: each limit a setting, and one error that names it and the way out."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings

from scheduler.model.errors import WeirError
from scheduler.model.latency_limits import figure_in_words


class TeamLimitReached(WeirError):
    """The team has reached one of its limits."""

    code = "team_limit_reached"


class AskedTooOften(WeirError):
    """The team has asked as often within the hour as it may."""

    code = "asked_too_often"


@dataclass(frozen=True, slots=True)
class TeamLimit:
    """A limit of a team: its setting, what it counts, and how to make room."""

    setting: str
    what: str
    remedy: str

    @property
    def most(self) -> int:
        """The limit, by the setting."""
        return getattr(settings, self.setting.removeprefix("WEIR_"))


PROPOSALS = TeamLimit("WEIR_TEAM_PROPOSALS", "open proposals", "Have some approved, or cancel what nobody needs")
PLANS = TeamLimit("WEIR_TEAM_PLANS_PER_H", "plans an hour", "Wait")
TASKS = TeamLimit("WEIR_TEAM_TASKS", "tasks of dataflows that run or are proposed", "Remove a dataflow")
CONNECTIONS = TeamLimit("WEIR_TEAM_CONNECTIONS", "live connections", "Close a page")
WEBHOOKS = TeamLimit("WEIR_TEAM_WEBHOOKS", "webhooks", "Remove one")
SAVEPOINTS = TeamLimit("WEIR_TEAM_SAVEPOINTS", "named savepoints", "Delete one")
EVENTS = TeamLimit("WEIR_TEAM_EVENTS_PER_H", "posted events an hour", "Wait")
# Of slow readers' disk nodes see to theirs: `WEIR_SPILL_TEAM_MB`. A sweep beyond `WEIR_TEAM_SWEEPS` waits.
TEAM_LIMITS = (PROPOSALS, PLANS, TASKS, CONNECTIONS, WEBHOOKS, SAVEPOINTS, EVENTS)


def require_room(limit: TeamLimit, *, owner: str, taken: int, more: int = 1, retry_after_s: int | None = None) -> None:
    """Raise unless that many more are within a limit.

    Parameters
    ----------
    retry_after_s : int, optional
        The time until there is room again by itself, in seconds; of what is counted by the hour.

    Raises
    ------
    TeamLimitReached
        There is no room until something makes some.
    AskedTooOften
        There is none before ``retry_after_s``.
    """
    if taken + more <= limit.most:
        return
    message = f"{owner} may have {limit.most} {limit.what}, and has {taken}."
    by = f"or ask the operator for more ({limit.setting})."
    if retry_after_s is None:
        raise TeamLimitReached(message, remedy=f"{limit.remedy}, {by}", most=limit.most, taken=taken)
    raise AskedTooOften(
        message, remedy=f"{limit.remedy} {figure_in_words(retry_after_s)}, {by}", most=limit.most, taken=taken,
        retry_after_s=retry_after_s)
