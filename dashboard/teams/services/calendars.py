"""Calendars of a team: days by name, such as its holidays, that its policies name as ``days('holidays', zone)``."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import date

from dashboard.audit.trail import audited
from dashboard.teams.account_errors import InvalidValue
from dashboard.teams.models import Role, Team, TeamCalendar, User
from dashboard.teams.permissions import require_role, viewer_of
from scheduler.model.errors import NotFound

MOST_CALENDARS, MOST_DAYS = 50, 1_000
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9 _-]{0,62}")


def set_calendar(*, actor: User, team: Team, name: str, days: Collection[date]) -> TeamCalendar:
    """Keep days under a name, in place of those that it had; by an approver of the team.

    Policies that name the calendar follow it from then on: their guards were approved with its name.

    Raises
    ------
    InvalidValue
        The name cannot be one, or there are too many days or calendars.
    """
    require_role(viewer_of(actor), team, Role.APPROVER)
    if not _NAME.fullmatch(name):
        raise InvalidValue(f"“{name[:60]}” is no name of a calendar.",
                           remedy="Use letters, digits, blanks, _ and -: 63 characters at most.")
    if len(days) > MOST_DAYS:
        raise InvalidValue(f"The calendar has {len(days):,} days.", remedy=f"Give {MOST_DAYS:,} at most.")
    with audited(actor=actor, verb="team.set_calendar", subject=team, team=team) as audit:
        Team.objects.select_for_update(no_key=True).get(pk=team.pk)
        calendar = team.calendars.filter(name=name).first()
        if calendar is None:
            if team.calendars.count() >= MOST_CALENDARS:
                raise InvalidValue(f"{team.name} has {MOST_CALENDARS} calendars already.", remedy="Delete one.")
            calendar = TeamCalendar(team=team, name=name)
        before, calendar.days = calendar.days, sorted(day.isoformat() for day in set(days))
        if calendar.pk and before == calendar.days:
            audit.nothing_changed()
            return calendar
        calendar.save()
        audit.details = {"calendar": name, "before": before, "after": calendar.days}
        return calendar


def delete_calendar(*, actor: User, team: Team, name: str) -> None:
    """Forget a calendar; by an approver of the team. A policy that names it shows an error, and stops deciding."""
    require_role(viewer_of(actor), team, Role.APPROVER)
    with audited(actor=actor, verb="team.delete_calendar", subject=team, team=team) as audit:
        calendar = team.calendars.filter(name=name).first()
        if calendar is None:
            raise NotFound(f"{team.name} has no calendar {name[:60]}.", remedy="See the list of its calendars.")
        audit.details = {"calendar": name, "before": calendar.days}
        calendar.delete()
