"""The sample workspace that a new installation begins with: two teams, their people, one dataflow that runs."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.db import transaction

from dashboard import jobs
from dashboard.approvals.lifecycle import COMPUTING, PENDING
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import approve_proposal, prepare_proposal, submit_dataflow
from dashboard.catalog.models import DataflowRecord
from dashboard.core.state_words import words
from dashboard.operations.services import register_node
from dashboard.teams.models import Role, Team, User
from dashboard.teams.services import create_team, create_user, set_role

TEAMS = {"city": "City Sensing", "mobility": "Mobility"}


@dataclass(frozen=True, slots=True)
class SampleUser:
    """A user of the sample workspace and the role in each team."""

    username: str
    roles: dict[str, Role]
    superuser: bool = False


PEOPLE = (
    SampleUser("admin", {}, superuser=True),
    SampleUser("ana", {"city": Role.APPROVER}),
    SampleUser("ben", {"mobility": Role.APPROVER}),
    SampleUser("carla", {"city": Role.ENGINEER, "mobility": Role.ENGINEER}),
    SampleUser("dev", {"city": Role.ADMIN, "mobility": Role.ADMIN}),
    SampleUser("vera", {"city": Role.VIEWER}),
)
FIRST_SAMPLE = "urban_variability"  # shares its first tasks with the ETL and STATS samples that wait to be submitted
AUTHOR, APPROVER, TEAM = "carla", "ana", "city"


def make_workspace(*, logins: Path) -> list[str]:
    """Make what is missing of the sample workspace; safe to call at every start.

    Parameters
    ----------
    logins : Path
        The file of user names and passwords, readable by this user alone.
    """
    node = register_node(name=settings.LOCAL_NODE, slots=settings.LOCAL_SLOTS)
    lines = [f"node {node.name} with {node.slots} slots"]
    if not User.objects.exists():
        with transaction.atomic():  # all of them, with their passwords written down, or nobody
            teams = {slug: create_team(slug=slug, name=name) for slug, name in TEAMS.items()}
            _write_logins(logins, [_add(person, teams) for person in PEOPLE])
        lines += [f"team {team.name}" for team in teams.values()] + [f"user {person.username}" for person in PEOPLE]
    team = Team.objects.filter(slug=TEAM).first()
    if team is not None and (not DataflowRecord.objects.exists() or _was_interrupted()):
        proposal = _run_first_sample(team)
        if proposal is not None:
            lines.append(f"dataflow {proposal.dataflow.name}: {words(proposal.status)}")
    return lines


def _was_interrupted() -> bool:
    """True if the first start ended before its sample was approved, and nobody has come in since."""
    return not User.objects.filter(last_login__isnull=False).exists() and (
        [proposal.status in (COMPUTING, PENDING) for proposal in Proposal.objects.all()[:2]] == [True])


def _add(person: SampleUser, teams: dict[str, Team]) -> dict[str, str]:
    password = secrets.token_urlsafe(12)
    user = create_user(username=person.username, password=password, superuser=person.superuser)
    for slug, role in person.roles.items():
        set_role(user=user, team=teams[slug], role=role)
    roles = [f"{role.label} in {TEAMS[slug]}" for slug, role in person.roles.items()]
    return {
        "username": person.username, "password": password,
        "role": "administrator" if person.superuser else ", ".join(roles)}


def _write_logins(path: Path, logins: list[dict[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(logins, file, indent=2)
    path.chmod(0o600)


def _run_first_sample(team: Team) -> Proposal | None:
    """Submit, plan and approve through the same services as anybody; planned here, because Celery is not up yet.

    It goes on where an earlier start was interrupted.
    """
    sample = next((sample for sample in jobs.samples() if sample["slug"] == FIRST_SAMPLE), None)
    if sample is None:
        return None
    author = User.objects.filter(username=AUTHOR).first()
    approver = User.objects.filter(username=APPROVER).first()
    if author is None or approver is None:  # an installation that has people of its own
        return None
    submitted = Proposal.objects.filter(author=author, status__in=(COMPUTING, PENDING)).first() or submit_dataflow(
        actor=author, team=team, text=sample["text"], format="yaml")
    proposal = prepare_proposal(proposal_id=submitted.pk)
    if proposal.status != PENDING:
        return proposal
    return approve_proposal(
        actor=approver, proposal_id=proposal.pk, digest=proposal.plan.digest, comment="The sample that runs first.")
