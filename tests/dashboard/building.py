"""Teams, people, documents, and dataflows taken as far as a test needs them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.hashers import make_password
from django.db import transaction
from django.utils import timezone

from dashboard.approvals.models import Proposal, TeamRules
from dashboard.approvals.services import (
    agree_to_rules,
    approve_proposal,
    carry_over_waiting,
    prepare_proposal,
    record_progress,
    remove_dataflow,
    set_rules,
    submit_dataflow,
)
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.services import register_node
from dashboard.plans.selectors import plan_of
from dashboard.teams.models import Membership, Role, Team, User
from scheduler.approving import Rules
from scheduler.plan_progress import PlanProgress

PASSWORD = "correct-horse-9"


@dataclass(frozen=True)
class World:
    """Two teams and the people in them."""

    city: Team
    mobility: Team
    users: dict[str, User]

    def __getattr__(self, name: str) -> User:
        try:
            return self.users[name]
        except KeyError:
            raise AttributeError(name) from None


PEOPLE: dict[str, dict[str, Role]] = {
    "ana": {"city": Role.APPROVER},
    "abe": {"city": Role.APPROVER},
    "ben": {"mobility": Role.APPROVER},
    "carla": {"city": Role.ENGINEER},
    "mo": {"mobility": Role.ENGINEER},
    "dev": {"city": Role.ADMIN, "mobility": Role.ADMIN},
    "vera": {"city": Role.VIEWER},
    "outsider": {},
}


def make_world() -> World:
    """Teams City and Mobility, their people, an administrator ``root``, and node n1 with two slots."""
    teams = {team.slug: team for team in Team.objects.bulk_create(
        Team(slug=slug, name=slug.title()) for slug in ("city", "mobility"))}
    password = make_password(PASSWORD)
    users = {user.username: user for user in User.objects.bulk_create(
        User(username=name, password=password, is_superuser=name == "root", is_staff=name == "root")
        for name in (*PEOPLE, "root"))}
    Membership.objects.bulk_create(
        Membership(user=users[name], team=teams[slug], role=role)
        for name, roles in PEOPLE.items() for slug, role in roles.items())
    register_node(name="n1", slots=2)
    return World(city=teams["city"], mobility=teams["mobility"], users=users)


def document(name: str, *, window: int = 10, visibility: str = "shared", **extra: Any) -> str:
    """A chain of four tasks. Two documents with other windows share their first two tasks."""
    return json.dumps({
        "name": name, "visibility": visibility,
        "tasks": [
            {"id": "sense", "type": "urban_sensing"},
            {"id": "parse", "type": "senml_parse"},
            {"id": "average", "type": "block_average", "config": {"window": window}},
            {"id": "out", "type": "output", "config": {"name": f"{name}-out"}},
        ],
        "streams": [
            {"from": "sense", "to": "parse"}, {"from": "parse", "to": "average"}, {"from": "average", "to": "out"}],
        "rates": {"sense": 50},
    } | extra)


WAYS = [
    {"name": "all", "type": "sql", "config": {"query": "SELECT *, 'all' AS made FROM input"}, "value": 2},
    {"name": "few", "type": "sql", "config": {"query": "SELECT *, 'few' AS made FROM input WHERE value > 20"},
     "guard": "latency_ms > 2000"}]


def dynamic(name: str, ways: list = WAYS, **extra: Any) -> str:
    """A chain whose third task has alternates."""
    whole = json.loads(document(name, **extra))
    whole["tasks"][2] = {"id": "work", "alternates": ways}
    whole["streams"] = [
        {key: {"average": "work"}.get(end, end) for key, end in stream.items()} for stream in whole["streams"]]
    return json.dumps(whole)


def planned(author: User, team: Team, text: str, **chosen: Any) -> Proposal:
    """Submitted, its plan before the reviewers."""
    return prepare_proposal(proposal_id=submit_dataflow(actor=author, team=team, text=text, **chosen).pk)


def removal_planned(author: User, dataflow: DataflowRecord) -> Proposal:
    """A removal, its plan before the reviewers."""
    return prepare_proposal(proposal_id=remove_dataflow(actor=author, dataflow_id=dataflow.pk).pk)


def approved(proposal: Proposal, *reviewers: User) -> Proposal:
    """Approved by these reviewers, in order."""
    for reviewer in reviewers:
        proposal = approve_proposal(actor=reviewer, proposal_id=proposal.pk, digest=proposal.plan.digest)
    return proposal


def held_to_estate(proposal: Proposal) -> Proposal:
    """As it is once plans that wait were held to the estate, as the job does that follows each change of it."""
    carry_over_waiting()
    return Proposal.objects.select_related("plan", "dataflow__team").get(pk=proposal.pk)


def enacted(proposal: Proposal) -> Proposal:
    """Every step of its plan reported to be in force."""
    record = proposal.rollback_plan or proposal.plan
    done = {step.key for step in plan_of(record).steps}
    return record_progress(
        proposal_id=proposal.pk, plan_id=record.pk, progress=PlanProgress(done), at=timezone.now())


def ruled(team: Team, rules: Rules, *people: User) -> TeamRules | None:
    """The team asks by these rules: set by the first of these people, agreed to by the second where that is needed."""
    version = set_rules(actor=people[0], team=team, rules=rules)
    if version is not None and version.state == "waits":
        return agree_to_rules(actor=people[1], team=team, number=version.number)
    return version


@contextmanager
def taken_back() -> Iterator[None]:
    """What is done inside is undone, so that several cases may begin with the same world."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def running(author: User, team: Team, text: str, *reviewers: User) -> DataflowRecord:
    """Submitted, planned, approved and enacted."""
    return enacted(approved(planned(author, team, text), *reviewers)).dataflow
