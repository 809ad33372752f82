"""The rules in force: the default of each kind for each team and the estate, but for what somebody chose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dashboard.alerts.models import ESTATE, RuleRow
from dashboard.teams.models import Team
from scheduler.alerting.alert_values import AlertRule
from scheduler.alerting.rule_kinds import RULE_KINDS, RuleKind


@dataclass(frozen=True, slots=True)
class RuleInForce:
    """A rule of one scope; ``chosen`` where somebody changed it."""

    rule: AlertRule
    kind: RuleKind
    enabled: bool = True
    chosen: bool = False
    dataflow: str = ""
    dataflow_name: str = ""


def scope_of(team: Team | None, dataflow_id: str = "") -> str:
    """The scope in a rule's id."""
    if dataflow_id:
        return f"dataflow:{dataflow_id}"
    return ESTATE if team is None else f"team:{team.slug}"


def kinds_of(team: Team | None) -> list[RuleKind]:
    """The kinds of rules that a team has, or the estate."""
    return [kind for kind in RULE_KINDS.values() if (kind.scope == "estate") == (team is None)]


def rules_of(team: Team | None) -> list[RuleInForce]:
    """The rules of a team, or of the estate, in the registry's order; after them those of single dataflows."""
    return _rules_in_force(team, RuleRow.objects.filter(team=team).select_related("dataflow"))


def rules_by_team(teams: Iterable[Team | None]) -> dict[Team | None, list[RuleInForce]]:
    """The same of several teams, and of the estate where that is among them."""
    rows: dict[int | None, list[RuleRow]] = {}
    for row in RuleRow.objects.select_related("dataflow"):
        rows.setdefault(row.team_id, []).append(row)
    return {team: _rules_in_force(team, rows.get(team.pk if team else None, ())) for team in teams}


def _rules_in_force(team: Team | None, rows: Iterable[RuleRow]) -> list[RuleInForce]:
    rows = list(rows)
    whole = {row.kind: row for row in rows if row.dataflow_id is None}
    dataflow_rows = [row for row in rows if row.dataflow_id is not None and row.kind in RULE_KINDS]
    return [
        *(_in_force(kind, whole.get(kind.name), team) for kind in kinds_of(team)),
        *(_in_force(RULE_KINDS[row.kind], row, team)
          for row in sorted(dataflow_rows, key=lambda row: (row.dataflow.name, row.kind)))]


def _in_force(kind: RuleKind, row: RuleRow | None, team: Team | None) -> RuleInForce:
    if row is None:
        return RuleInForce(kind.rule(scope_of(team)), kind, enabled=not kind.on_request)
    rule = kind.rule(
        row.scope, threshold=row.threshold, clear_threshold=row.clear_threshold, for_s=row.for_s,
        clear_for_s=row.clear_for_s, severity=row.severity)
    return RuleInForce(
        rule, kind, row.enabled, True, str(row.dataflow_id or ""), row.dataflow.name if row.dataflow_id else "")


def enabled(rules: Iterable[RuleInForce]) -> Mapping[str, RuleInForce]:
    """The rules that are on, by id."""
    return {in_force.rule.id: in_force for in_force in rules if in_force.enabled}
