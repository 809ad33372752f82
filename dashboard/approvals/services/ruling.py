"""Setting a team's rules of approval: every change is a version of its own, and none is changed later."""

from __future__ import annotations

from dashboard.approvals.models import TeamRules
from dashboard.approvals.rules import current_rules
from dashboard.audit.trail import audited
from dashboard.teams.models import Role, Team, User
from dashboard.teams.permissions import require_role, viewer_of
from scheduler.approving import RULES, Rules

LONGEST_NOTE = 400


def set_rules(*, actor: User, team: Team, rules: Rules, note: str = "") -> TeamRules | None:
    """Let a team ask by these rules from now on; what is before its reviewers already is judged by those that it had.

    Freezes and windows hold for that, too.

    Parameters
    ----------
    actor : User
        At least approver in the team.
    team : Team
        Whose rules they are.
    rules : Rules
        The rules, whole.
    note : str, optional
        Why, for those who read the versions later.

    Returns
    -------
    TeamRules
        The version that counts now; None where the team has none and these are the default.
    """
    require_role(viewer_of(actor), team, Role.APPROVER)
    with audited(actor=actor, verb="team.set_rules", subject=team, team=team) as audit:
        Team.objects.select_for_update(no_key=True).get(pk=team.pk)  # two at once get two numbers
        record, before = current_rules([team.pk])[team.pk]
        if before == rules:
            audit.nothing_changed()
            return record
        version = TeamRules.objects.create(
            team=team, number=record.number + 1 if record else 1, document=RULES.document(rules), author=actor,
            note=note.replace("\0", "").strip()[:LONGEST_NOTE])
        audit.details = {
            "version": version.number, "before": RULES.document(before), "after": version.document,
            **({"note": version.note} if version.note else {})}
        return version
