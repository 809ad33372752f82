"""Who loses a right while a command waits for its turn to write does nothing that takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from dashboard.approvals.models import Comment, Proposal, TeamRules
from dashboard.approvals.services import (
    adopt_near_miss,
    agree_to_rules,
    approve_proposal,
    change_dataflow,
    comment_on,
    pause_at_once,
    pause_dataflow,
    propose_schedule,
    propose_version,
    recompute_proposal,
    reject_proposal,
    remove_dataflow,
    roll_back_proposal,
    set_rules,
    submit_dataflow,
    take_savepoint,
)
from dashboard.approvals.services.reader_choices import choose_when_behind
from dashboard.audit import trail
from dashboard.audit.models import AuditEntry
from dashboard.operations.estate_store.tenancy_choice import TENANCY_CHOICE
from dashboard.operations.models import EstateState, PostedEvent
from dashboard.operations.policies.posted_events import post_event
from dashboard.outbox.models import Endpoint
from dashboard.outbox.services import add_endpoint
from dashboard.savepoint_records.models import SavepointRow
from dashboard.teams.models import ApiToken, Membership, Role, Secret, Team, TeamCalendar, User
from dashboard.teams.services import (
    create_token,
    deactivate,
    delete_secret,
    remove_member,
    set_calendar,
    set_containment,
    set_role,
    set_secret,
)
from scheduler.approving import Clause, Rules
from scheduler.model.errors import NotFound, PermissionDenied
from tests.cases import each
from tests.dashboard.building import World, approved, document, enacted, planned, ruled


@dataclass
class Site:
    """A world with a plan before its reviewers, and a dataflow that runs."""

    world: World
    waiting: Proposal
    done: Proposal

    @property
    def runs(self) -> str:
        return str(self.done.dataflow_id)


@pytest.fixture
def site(world: World, settings) -> Site:
    settings.WEBHOOK_HOSTS = ["hooks.example.org"]
    set_secret(actor=world.dev, team=world.city, name="old", value="v")
    done = enacted(approved(planned(world.carla, world.city, document("runs")), world.ana))
    return Site(world, planned(world.carla, world.city, document("waits", window=20)), done)


ASKED: dict[str, tuple[str, Callable[[Site, User], object]]] = {  # by whom, and what
    "approve": ("ana", lambda site, who: approve_proposal(
        actor=who, proposal_id=site.waiting.pk, digest=site.waiting.plan.digest)),
    "reject": ("ana", lambda site, who: reject_proposal(actor=who, proposal_id=site.waiting.pk, comment="no")),
    "roll back": ("ana", lambda site, who: roll_back_proposal(actor=who, proposal_id=site.done.pk)),
    "recompute": ("carla", lambda site, who: recompute_proposal(actor=who, proposal_id=site.waiting.pk)),
    "adopt": ("carla", lambda site, who: adopt_near_miss(
        actor=who, proposal_id=site.waiting.pk, key="sense")),
    "submit": ("carla", lambda site, who: submit_dataflow(
        actor=who, team=site.world.city, text=document("another", window=30))),
    "pause": ("carla", lambda site, who: pause_dataflow(actor=who, dataflow_id=site.runs)),
    "pause at once": ("carla", lambda site, who: pause_at_once(actor=who, dataflow_id=site.runs, reason="smoke")),
    "remove": ("carla", lambda site, who: remove_dataflow(actor=who, dataflow_id=site.runs)),
    "change": ("carla", lambda site, who: change_dataflow(
        actor=who, dataflow_id=site.runs, text=document("runs", window=11))),
    "go back": ("carla", lambda site, who: propose_version(actor=who, dataflow_id=site.runs, number=1)),
    "schedule": ("carla", lambda site, who: propose_schedule(actor=who, dataflow_id=site.runs, choice=None)),
    "savepoint": ("carla", lambda site, who: take_savepoint(actor=who, dataflow_id=site.runs, name="before")),
    "rules": ("ana", lambda site, who: set_rules(actor=who, team=site.world.city, rules=Rules())),
    "agree": ("ana", lambda site, who: agree_to_rules(actor=who, team=site.world.city, number=2)),
    "role": ("dev", lambda site, who: set_role(
        actor=who, user=site.world.outsider, team=site.world.city, role=Role.ADMIN)),
    "member": ("dev", lambda site, who: remove_member(actor=who, user=site.world.ana, team=site.world.city)),
    "secret": ("dev", lambda site, who: set_secret(actor=who, team=site.world.city, name="key", value="v")),
    "delete secret": ("dev", lambda site, who: delete_secret(actor=who, team=site.world.city, name="old")),
    "containment": ("dev", lambda site, who: set_containment(actor=who, team=site.world.city, on=True)),
    "calendar": ("ana", lambda site, who: set_calendar(actor=who, team=site.world.city, name="c", days=[])),
    "webhook": ("dev", lambda site, who: add_endpoint(
        actor=who, name="mine", url="https://hooks.example.org/x", format="weir", team=site.world.city)),
    "behind": ("ana", lambda site, who: choose_when_behind(actor=who, dataflow_id=site.runs, choice="pause")),
    "comment": ("carla", lambda site, who: comment_on(actor=who, proposal_id=site.waiting.pk, text="x")),
    "post": ("carla", lambda site, who: post_event(actor=who, team=site.world.city, stream="s", values={"x": 1})),
    "tenancy": ("root", lambda site, who: TENANCY_CHOICE.choose(actor=who, name="team")),
    "token": ("carla", lambda site, who: create_token(actor=who, name="mine")),
    "deactivate": ("root", lambda site, who: deactivate(actor=who, username="ana")),
}


def gone_while_it_waits(monkeypatch: pytest.MonkeyPatch, who: User, loss: str) -> None:
    """Let somebody lose what they may do between the moment that a command is asked for and its turn to write."""
    writing, lost = trail.writing, []

    @contextmanager
    def after_the_loss() -> Iterator[None]:
        if not lost:
            lost.append(True)
            if loss == "roles":
                Membership.objects.filter(user=who).delete()
                User.objects.filter(pk=who.pk).update(is_superuser=False)
            else:
                User.objects.filter(pk=who.pk).update(is_active=False)
        with writing():
            yield

    monkeypatch.setattr(trail, "writing", after_the_loss)


def kept_rows(who: User) -> list[object]:
    """All that these commands change, but for who loses a right."""
    return [
        list(Proposal.objects.order_by("pk").values_list("pk", "status", "plan_id")),
        list(Membership.objects.exclude(user=who).order_by("pk").values_list()),
        list(Team.objects.values_list()), list(EstateState.objects.values_list()),
        *(model.objects.count() for model in (
            Secret, ApiToken, TeamRules, SavepointRow, AuditEntry, TeamCalendar, Endpoint, Comment, PostedEvent)),
        User.objects.filter(is_active=False).exclude(pk=who.pk).count()]


LOSSES = [(command, loss) for command in ASKED for loss in ("roles", "account")
          if (command, loss) != ("token", "roles")]


@pytest.mark.django_db
@each("command, loss", LOSSES)
def test_who_loses_a_right_while_a_command_waits_is_refused(
    site: Site, command: str, loss: str, monkeypatch: pytest.MonkeyPatch
):
    name, ask = ASKED[command]
    who = site.world.users[name]
    if command == "agree":  # to rules that ask for less
        ruled(site.world.city, Rules(otherwise=Clause(approvals=2)), site.world.abe, site.world.ana)
        set_rules(actor=site.world.abe, team=site.world.city, rules=Rules())
    before = kept_rows(who)
    with monkeypatch.context() as patched:
        gone_while_it_waits(patched, who, loss)
        with pytest.raises((PermissionDenied, NotFound)):
            ask(site, who)
    assert kept_rows(who) == before
