"""The rules of approval that teams have: the newest version that holds counts, and what one says is never changed.

- ``current_rules(teams)``: by team id, the version (None: none was made) and the rules
- ``waiting_rules(team)``: the version that waits for a second person, or None
- ``versions_of(team)``: the newest versions, newest first
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import QuerySet

from dashboard.approvals.models import TeamRules
from dashboard.teams.models import Team
from scheduler.approving import DEFAULT, RULES, Rules

VERSIONS_SHOWN = 50  # of a team: they stand beside what holds


def current_rules(team_ids: Iterable[int]) -> dict[int, tuple[TeamRules | None, Rules]]:
    """The rules of each of these teams; the default where a team has made none."""
    listed_ids = list(team_ids)
    newest = {record.team_id: record for record in TeamRules.objects.filter(
        team__in=listed_ids, state="holds").order_by("number")}
    return {
        team_id: (record, RULES.read(record.document)) if (record := newest.get(team_id)) else (None, DEFAULT)
        for team_id in listed_ids}


def waiting_rules(team: Team) -> TeamRules | None:
    """The version that waits for a second person; None where none does."""
    return TeamRules.objects.filter(team=team, state="waits").select_related("author").first()


def versions_of(team: Team) -> QuerySet[TeamRules]:
    """The newest versions of a team's rules, newest first: the trail has them all."""
    return TeamRules.objects.filter(team=team).select_related("author", "second").order_by("-number")[:VERSIONS_SHOWN]
