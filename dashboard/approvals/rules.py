"""The rules of approval that teams have: the newest version of each counts, and none is ever changed.

- ``current_rules(teams)``: by team id, the version (None: none was made) and the rules
- ``versions_of(team)``: all versions, newest first
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import QuerySet

from dashboard.approvals.models import TeamRules
from dashboard.teams.models import Team
from scheduler.approving import DEFAULT, RULES, Rules


def current_rules(team_ids: Iterable[int]) -> dict[int, tuple[TeamRules | None, Rules]]:
    """The rules of each of these teams; the default where a team has made none."""
    wanted = list(team_ids)
    newest = {record.team_id: record for record in TeamRules.objects.filter(team__in=wanted).order_by("number")}
    return {
        team_id: (record, RULES.read(record.document)) if (record := newest.get(team_id)) else (None, DEFAULT)
        for team_id in wanted}


def versions_of(team: Team) -> QuerySet[TeamRules]:
    """Every version of a team's rules, newest first."""
    return TeamRules.objects.filter(team=team).select_related("author").order_by("-number")
