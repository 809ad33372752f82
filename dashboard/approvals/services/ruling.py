"""Setting a team's rules of approval: every change is a version of its own, and what one says is never changed later.

Rules that ask for more hold at once. Rules that ask for less in any case wait until a second person agrees.
"""

from __future__ import annotations

from django.conf import settings

from dashboard.approvals.approval_rules import current_rules, waiting_rules
from dashboard.approvals.demands import ROLES, approvers
from dashboard.approvals.models import TeamRules
from dashboard.audit.trail import audited
from dashboard.operations.estate_store.generation import lock_generation
from dashboard.teams.models import Role, Team, User
from dashboard.teams.permissions import require_role, viewer_of
from scheduler.approving import RULES, InvalidRules, Rules, less_asked
from scheduler.model.errors import InvalidTransition, NotFound, PermissionDenied
from scheduler.model.names import require_plain

LONGEST_NOTE = 400


def set_rules(*, actor: User, team: Team, rules: Rules, note: str = "") -> TeamRules | None:
    """Set a team's rules. Pending proposals keep the rules they were opened under.

    Freezes and windows hold for pending proposals too. Rules that ask for less than those in force wait for a second
    person, unless the installation allows self-approval. They replace rules that wait already.

    Parameters
    ----------
    actor : User
        At least approver in the team.

    Returns
    -------
    TeamRules
        The version that counts now, or waits; None if the team has none and ``rules`` are the default.

    Raises
    ------
    InvalidRules
        Something is demanded of more people than there are.
    """
    require_role(viewer_of(actor), team, Role.APPROVER)
    _require_people(team, rules)
    for freeze in rules.freezes:
        if freeze.reason:
            require_plain(freeze.reason, what="A freeze's reason", most=120)
    with audited(actor=actor, verb="team.set_rules", subject=team, team=team) as audit:
        lock_generation()  # a freeze is there before a plan is enacted, or after
        Team.objects.select_for_update(no_key=True).get(pk=team.pk)  # two at once get two numbers
        require_role(audit.viewer, team, Role.APPROVER)
        record, before = current_rules([team.pk])[team.pk]
        replaced = waiting_rules(team)
        if replaced is not None:
            replaced.state, replaced.second = "declined", actor
            replaced.save(update_fields=["state", "second"])
        if before == rules:
            if replaced is None:
                audit.nothing_changed()
            audit.details = {"withdrawn": replaced and replaced.number}
            return record
        newest = TeamRules.objects.filter(team=team).order_by("-number").first()
        waits = less_asked(before, rules) is not None and not settings.SELF_APPROVAL
        version = TeamRules.objects.create(
            team=team, number=newest.number + 1 if newest else 1, document=RULES.document(rules), author=actor,
            note=note.replace("\0", "").strip()[:LONGEST_NOTE], state="waits" if waits else "holds")
        audit.details = {
            "version": version.number, "before": RULES.document(before), "after": version.document,
            **({"waits": True} if waits else {}), **({"note": version.note} if version.note else {})}
        return version


def agree_to_rules(*, actor: User, team: Team, number: int) -> TeamRules:
    """Let rules hold that wait for a second person: another approver of the team, or an administrator."""
    return _decide(actor, team, number, verb="team.agree_to_rules", state="holds")


def decline_rules(*, actor: User, team: Team, number: int) -> TeamRules:
    """Let rules that wait not hold; by any approver of the team, who wrote them among these."""
    return _decide(actor, team, number, verb="team.decline_rules", state="declined")


def _decide(actor: User, team: Team, number: int, *, verb: str, state: str) -> TeamRules:
    require_role(viewer_of(actor), team, Role.APPROVER)
    with audited(actor=actor, verb=verb, subject=team, team=team) as audit:
        lock_generation()
        Team.objects.select_for_update(no_key=True).get(pk=team.pk)
        require_role(audit.viewer, team, Role.APPROVER)
        version = TeamRules.objects.filter(team=team, number=number).first()
        if version is None:
            raise NotFound(f"{team.name} has no rules of that version.", remedy="Reload the page.")
        if version.state != "waits":
            raise InvalidTransition(f"Version {number} does not wait any more.", remedy="Reload the page.")
        if state == "holds" and version.author_id == actor.pk and not settings.SELF_APPROVAL:
            raise PermissionDenied(
                "These rules ask for less, so somebody else has to agree to them.",
                remedy=f"Ask another approver of {team.name}, or an administrator of this installation.")
        if state == "holds":
            _require_people(team, RULES.read(version.document))
        version.state, version.second = state, actor
        version.save(update_fields=["state", "second"])
        audit.details = {"version": number, "by": version.author.username}
        return version


def _require_people(team: Team, rules: Rules) -> None:
    """Raise where a clause demands more approvals than there are people whose approval would count."""
    for pointer, clause in [*((f"/clauses/{n}", clause) for n, clause in enumerate(rules.clauses)),
                          ("/otherwise", rules.otherwise)]:
        people = len(approvers([(team, clause.role)])[team.pk])
        if clause.approvals > people:
            approvals_text = f"{clause.approvals} approval{'s' if clause.approvals > 1 else ''}"
            raise InvalidRules(
                f"{approvals_text} of {ROLES[clause.role].label}s can never be given: {team.name} has "
                f"{people or 'none'}{' of them' if people else ''}.",
                remedy=f"Ask for {people} at most, or let an admin of {team.name} make more people "
                       f"{ROLES[clause.role].label} first." if people else
                       f"Let an admin of {team.name} make somebody {ROLES[clause.role].label} first.", place=pointer)
