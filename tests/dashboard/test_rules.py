"""Rules of approval: nothing is enacted that a team's rules forbid, and the default is what always held."""

from __future__ import annotations

import contextlib
import json
from datetime import timedelta

import pytest
from allauth.socialaccount.models import SocialAccount
from django.test import Client
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from dashboard.approvals.demands import ms_of
from dashboard.approvals.models import Ask, Proposal, Review, TeamRules
from dashboard.approvals.selectors import awaiting, review_of
from dashboard.approvals.services import (
    agree_to_rules,
    approve_proposal,
    decline_rules,
    enact_held,
    prepare_proposal,
    recompute_proposal,
    remove_dataflow,
    set_rules,
)
from dashboard.approvals.services.enacting import overtake
from dashboard.audit.models import AuditEntry
from dashboard.audit.trail import audited
from dashboard.teams.models import Membership, Role
from dashboard.teams.permissions import viewer_of
from dashboard.teams.services import deactivate, remove_member, set_role, set_secret
from scheduler.approving import Automatic, Clause, EnactmentWindow, Freeze, InvalidRules, Rules
from scheduler.model.errors import InvalidTransition, PermissionDenied, StalePlan, WeirError
from tests.cases import each
from tests.dashboard.building import World, document, held_to_estate, make_world, planned, ruled, running

HOUR_MS = 3_600_000


def approve(user, proposal: Proposal) -> Proposal:
    return approve_proposal(actor=user, proposal_id=proposal.pk, digest=proposal.plan.digest)


def frozen(hours: int = 1) -> Rules:
    now = ms_of(timezone.now())
    return Rules(freezes=(Freeze(now - HOUR_MS, now + hours * HOUR_MS, "holidays"),))


@pytest.mark.django_db
def test_two_approvals_are_two_people(world: World) -> None:
    set_rules(actor=world.ana, team=world.city, rules=Rules(otherwise=Clause(approvals=2)))
    proposal = planned(world.carla, world.city, document("air"))
    row = review_of(viewer_of(world.vera), proposal)["teams"][0]
    assert (row["needed"], row["approvers"], row["rules"]) == (2, ["abe", "ana", "dev"], 1)
    assert approve(world.ana, proposal).status == "pending"
    assert proposal not in awaiting(viewer_of(world.ana)) and proposal in awaiting(viewer_of(world.abe))
    with pytest.raises(WeirError, match="You have approved already"):
        approve(world.ana, proposal)
    assert approve(world.abe, proposal).status == "executing"


@pytest.mark.django_db
def test_a_role_that_is_demanded_is_needed_and_an_approval_expires(world: World) -> None:
    set_rules(actor=world.ana, team=world.city, rules=Rules(
        clauses=(Clause(kinds=("submit",), approvals=2, expires_after_h=2),
                 Clause(kinds=("remove",), role="admin"))))
    proposal = planned(world.carla, world.city, document("air"))
    approve(world.ana, proposal)
    Review.objects.update(at=timezone.now() - timedelta(hours=3))
    assert approve(world.abe, proposal).status == "pending", "the first one counts no longer"
    assert approve(world.ana, proposal).status == "executing", "given again"
    record = running(world.carla, world.city, document("water"), world.ana, world.abe)
    removal = prepare_proposal(proposal_id=remove_dataflow(actor=world.carla, dataflow_id=record.pk).pk)
    with pytest.raises(PermissionDenied):
        approve(world.ana, removal)
    assert approve(world.dev, removal).status == "executing"


@pytest.mark.django_db
def test_who_was_asked_is_judged_by_the_rules_of_then(world: World) -> None:
    before = planned(world.carla, world.city, document("air"))
    version = set_rules(actor=world.ana, team=world.city, rules=Rules(otherwise=Clause(approvals=3)), note="careful")
    assert approve(world.abe, before).status == "executing"
    after = planned(world.carla, world.city, document("water"))
    assert Ask.objects.get(plan=after.plan).rules == version and approve(world.abe, after).status == "pending"
    entry = AuditEntry.objects.get(verb="team.set_rules")
    assert entry.details["after"] == {"otherwise": {"approvals": 3}} and entry.details["before"] == {}
    assert set_rules(actor=world.ana, team=world.city, rules=Rules(otherwise=Clause(approvals=3))) == version
    for nobody in (world.carla, world.ben):
        with pytest.raises(PermissionDenied):
            set_rules(actor=nobody, team=world.city, rules=Rules())
    assert TeamRules.objects.count() == 1


@pytest.mark.django_db
def test_what_saves_and_touches_nobody_is_approved_by_itself(world: World) -> None:
    record = running(world.carla, world.city, document("air"), world.ana)
    ruled(world.city, Rules(automatic=Automatic(kinds=("remove",))), world.ana, world.abe)
    removal = prepare_proposal(proposal_id=remove_dataflow(actor=world.carla, dataflow_id=record.pk).pk)
    assert removal.status == "executing" and not removal.teams.exists() and not removal.reviews.exists()
    assert review_of(viewer_of(world.vera), removal)["teams"][0]["automatic"]
    assert planned(world.carla, world.city, document("water")).status == "pending", "it costs money"


@pytest.mark.django_db
def test_a_freeze_holds_what_is_approved_until_it_ends(world: World) -> None:
    set_rules(actor=world.ben, team=world.mobility, rules=frozen())
    running(world.carla, world.city, document("air"), world.ana)
    shared = planned(world.mo, world.mobility, document("roads"))
    approve(world.ana, shared)
    held = approve(world.ben, shared)
    assert held.status == "pending" and held.held["team"] == "Mobility" and "holidays" in held.held["reason"]
    assert enact_held(at=timezone.now()) == []
    assert enact_held(at=timezone.now() + timedelta(hours=2)) == [held.pk]
    held.refresh_from_db()
    assert held.status == "executing" and held.held is None


@pytest.mark.django_db
def test_the_very_same_plan_keeps_its_approvals_and_any_other_drops_them(world: World) -> None:
    roads = running(world.mo, world.mobility, document("roads"), world.ben)
    proposal = approve(world.ana, planned(world.carla, world.city, document("air")))
    assert proposal.status == "pending"

    def stale() -> None:
        proposal.refresh_from_db()
        with audited(actor=None, verb="test", subject=proposal):
            overtake(proposal, error=StalePlan("It moved."))
        recompute_proposal(actor=world.carla, proposal_id=proposal.pk)
        prepare_proposal(proposal_id=proposal.pk)
        proposal.refresh_from_db()

    digest = proposal.plan.digest
    stale()
    assert (proposal.status, proposal.plan.digest) == ("pending", digest)
    carried = Review.objects.get(plan=proposal.plan)
    assert (carried.reviewer, carried.team) == (world.ana, world.city)
    assert carried.at == proposal.reviews.exclude(pk=carried.pk).get().at, "it counts from when it was given"
    removal = prepare_proposal(proposal_id=remove_dataflow(actor=world.mo, dataflow_id=roads.pk).pk)
    approve(world.ben, removal)  # what it would have shared starts with it now
    assert held_to_estate(proposal).status == "stale"
    recompute_proposal(actor=world.carla, proposal_id=proposal.pk)
    proposal = prepare_proposal(proposal_id=proposal.pk)
    assert proposal.plan.digest != digest and not Review.objects.filter(plan=proposal.plan).exists()


CLAUSES = st.builds(
    Clause, kinds=st.sampled_from([(), ("submit",), ("remove",)]), whose=st.sampled_from(["any", "own", "others"]),
    approvals=st.integers(1, 2), role=st.sampled_from(["approver", "approver", "admin"]),
    expires_after_h=st.none() | st.sampled_from([1, 5]))
RULES = st.builds(
    Rules, clauses=st.lists(CLAUSES, max_size=2).map(tuple), otherwise=CLAUSES,
    automatic=st.none() | st.builds(Automatic, kinds=st.sampled_from([(), ("remove",)]), alone=st.booleans()),
    windows=st.sampled_from([(), (), (EnactmentWindow((0, 1, 2, 3, 4, 5, 6), 0, 720),)]),
    freezes=st.sampled_from([(), (), (Freeze(0, 1),), (Freeze(0, 4_000_000_000_000, "no"),)]))
STEPS = st.lists(st.tuples(
    st.sampled_from([
        "submit", "submit", "remove", "approve", "approve", "approve", "approve", "rules", "age", "due", "demote"]),
    st.integers(0, 50), RULES), min_size=4, max_size=14)


class NothingForbiddenIsEnacted(TestCase):
    """Random rules, proposals and approvals; what is enacted is held against the rules, read anew and plainly."""

    @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
    @given(steps=STEPS)
    def test_no_plan_is_enacted_that_a_rule_forbids(self, steps) -> None:
        self.world = make_world()
        self.number = 0
        for what, number, rules in steps:
            before = set(Proposal.objects.filter(approved_at__isnull=False))
            with contextlib.suppress(WeirError, IndexError, ValueError):
                getattr(self, what)(number, rules)
            for proposal in set(Proposal.objects.filter(approved_at__isnull=False)) - before:
                self.check(proposal)

    def submit(self, number: int, _: Rules) -> None:
        self.number += 1
        author, team = [(self.world.carla, self.world.city), (self.world.mo, self.world.mobility),
                        (self.world.ana, self.world.city)][number % 3]
        planned(author, team, document(f"d{self.number}", window=5 + number % 2))

    def remove(self, number: int, _: Rules) -> None:
        chosen = Proposal.objects.filter(plan__kind="submit", status="executing").order_by("pk")[number % 3]
        Proposal.objects.filter(pk=chosen.pk).update(status="done")
        prepare_proposal(proposal_id=remove_dataflow(actor=self.world.dev, dataflow_id=chosen.dataflow_id).pk)

    def approve(self, number: int, _: Rules) -> None:
        pending = list(Proposal.objects.filter(status="pending").order_by("created"))
        person = [self.world.ana, self.world.abe, self.world.ben, self.world.dev, self.world.carla][number % 5]
        approve(person, pending[number // 5 % max(1, len(pending))])

    def rules(self, number: int, rules: Rules) -> None:
        person, team = [(self.world.ana, self.world.city), (self.world.ben, self.world.mobility)][number % 2]
        ruled(team, rules, person, self.world.dev)

    def demote(self, number: int, _: Rules) -> None:
        Membership.objects.filter(user__username__in=["ana", "abe", "ben", "dev"]).order_by("pk")[number % 5].delete()

    def age(self, number: int, _: Rules) -> None:
        for review in Review.objects.all():
            Review.objects.filter(pk=review.pk).update(at=review.at - timedelta(hours=number % 6))

    def due(self, _: int, __: Rules) -> None:
        enact_held(at=timezone.now())

    def check(self, proposal: Proposal) -> None:
        """What is enacted: by its asks, and by freezes and windows of each team's newest rules, both as stored."""
        asks = list(Ask.objects.filter(plan=proposal.plan))
        at = proposal.approved_at
        assert asks, "a person's plan asks at least its own team"
        for ask in asks:
            counted = {
                review.reviewer for review in Review.objects.filter(
                    plan=proposal.plan, team=ask.team, verdict="approve")
                if ask.expires_after_h is None or at - review.at < timedelta(hours=ask.expires_after_h)}
            counted -= {proposal.author}
            least = 4 if ask.role == "admin" else 3
            counted = {person for person in counted if person.memberships.filter(
                team=ask.team, role__gte=least).exists()}
            assert len(counted) >= ask.approvals, "too few have agreed"
            newest = TeamRules.objects.filter(team=ask.team, state="holds").order_by("-number").first()
            stored = newest.document if newest else {}
            assert not any(freeze["until_ms"] > ms_of(at) for freeze in stored.get("freezes", ())), "it is frozen"
            assert not stored.get("windows") or at.hour < 12, "it is out of the window"


def test_a_held_plan_whose_approval_expires_waits_again(world: World, db) -> None:
    set_rules(actor=world.ana, team=world.city, rules=Rules(
        otherwise=Clause(expires_after_h=1), freezes=frozen(3).freezes))
    held = approve(world.abe, planned(world.carla, world.city, document("air")))
    assert held.held
    assert enact_held(at=timezone.now() + timedelta(hours=4)) == []
    held.refresh_from_db()
    assert held.status == "pending" and held.held is None


LESS = Rules(automatic=Automatic(most_money_per_hour=1.0, alone=False))


@pytest.mark.django_db
def test_rules_that_ask_for_less_wait_for_a_second_person(world: World) -> None:
    version = set_rules(actor=world.ana, team=world.city, rules=LESS)
    assert version.state == "waits"
    assert planned(world.carla, world.city, document("air")).status == "pending", "they do not hold yet"
    for nobody in (world.ana, world.carla, world.ben):
        with pytest.raises(PermissionDenied):
            agree_to_rules(actor=nobody, team=world.city, number=version.number)
    assert agree_to_rules(actor=world.abe, team=world.city, number=version.number).second == world.abe
    assert planned(world.carla, world.city, document("water")).status == "executing"
    with pytest.raises(InvalidTransition):
        decline_rules(actor=world.abe, team=world.city, number=version.number)
    assert [entry.verb for entry in AuditEntry.objects.order_by("pk") if "rules" in entry.verb] == [
        "team.set_rules", "team.agree_to_rules"]


@pytest.mark.django_db
@pytest.mark.parametrize("who", ["abe", "ana", "root"])
def test_what_is_declined_never_holds(world: World, who: str) -> None:
    version = set_rules(actor=world.ana, team=world.city, rules=LESS)
    decline_rules(actor=world.users[who], team=world.city, number=version.number)
    assert planned(world.carla, world.city, document("air")).status == "pending"
    with pytest.raises(InvalidTransition):
        agree_to_rules(actor=world.abe, team=world.city, number=version.number)


@pytest.mark.django_db
def test_whatever_is_set_since_takes_the_place_of_what_waits(world: World) -> None:
    """Rules that wait were compared with those that held: who agreed to them later would agree to something else."""
    waiting = set_rules(actor=world.ana, team=world.city, rules=LESS)
    more = set_rules(actor=world.abe, team=world.city, rules=Rules(otherwise=Clause(approvals=2)))
    assert (more.state, more.number) == ("holds", waiting.number + 1)
    with pytest.raises(InvalidTransition):
        agree_to_rules(actor=world.abe, team=world.city, number=waiting.number)
    again = set_rules(actor=world.ana, team=world.city, rules=Rules())
    assert again.state == "waits" and set_rules(
        actor=world.ana, team=world.city, rules=Rules(otherwise=Clause(approvals=2))) == more
    assert not TeamRules.objects.filter(state="waits").exists()


@pytest.mark.django_db
def test_with_self_approval_one_person_is_enough(world: World, settings) -> None:
    settings.SELF_APPROVAL = True
    assert set_rules(actor=world.ana, team=world.city, rules=LESS).state == "holds"


POST = {
    "name": "post", "tasks": [
        {"id": "sense", "type": "urban_sensing"}, {"id": "parse", "type": "senml_parse"},
        {"id": "post", "type": "http_post", "config": {"url": "http://hooks.example.org/x"}}],
    "streams": [{"from": "sense", "to": "parse"}, {"from": "parse", "to": "post"}], "rates": {"sense": 50}}


@pytest.mark.django_db
@each("effects, with_secret, status", [
    ((), False, "pending"), ((), True, "pending"), (("network",), False, "executing"), (("network",), True, "pending"),
    (("network", "secrets"), True, "executing"), (("database", "secrets"), True, "pending")])
def test_effects_and_secrets_are_approved_beforehand_where_they_are_named_alone(
    world: World, monkeypatch: pytest.MonkeyPatch, effects: tuple, with_secret: bool, status: str
) -> None:
    monkeypatch.setenv("WEIR_HTTP_HOSTS", "hooks.example.org")
    set_secret(actor=world.dev, team=world.city, name="hook", value="a-value-of-some-length")
    ruled(world.city, Rules(automatic=Automatic(most_money_per_hour=9.0, alone=False, effects=effects)),
          world.ana, world.abe)
    text = json.loads(json.dumps(POST))
    if with_secret:
        text["tasks"][2]["config"]["token"] = {"secret": "hook"}
    assert planned(world.carla, world.city, json.dumps(text)).status == status
    assert planned(world.carla, world.city, document("plain")).status == "executing"


@pytest.mark.django_db
@pytest.mark.parametrize("lose", ["role", "team", "account"])
def test_an_approval_counts_while_its_giver_may_give_one(world: World, lose: str) -> None:
    set_rules(actor=world.ana, team=world.city, rules=Rules(otherwise=Clause(approvals=2)))
    proposal = approve(world.ana, planned(world.carla, world.city, document("air")))
    if lose == "role":
        set_role(user=world.ana, team=world.city, role=Role.ENGINEER, actor=world.dev)
    elif lose == "team":
        remove_member(user=world.ana, team=world.city, actor=world.dev)
    else:
        deactivate(actor=world.root, username="ana")
    assert approve(world.abe, proposal).status == "pending"
    [team] = review_of(viewer_of(world.vera), proposal)["teams"]
    assert {approval["reviewer"]: (approval["counts"], approval["lost_role"]) for approval in team["approvals"]} == {
        "ana": (False, True), "abe": (True, False)}
    assert proposal in awaiting(viewer_of(world.dev))
    assert approve(world.dev, proposal).status == "executing"


@pytest.mark.django_db
def test_an_approval_says_whether_its_givers_name_comes_from_elsewhere(world: World) -> None:
    set_rules(actor=world.ana, team=world.city, rules=Rules(otherwise=Clause(approvals=2)))
    proposal = approve(world.ana, planned(world.carla, world.city, document("air")))
    SocialAccount.objects.create(user=world.abe, provider="https://id.example.org", uid="7")
    approve(world.abe, proposal)
    client = Client()
    client.force_login(world.vera)
    [team] = client.get(f"/api/proposals/{proposal.pk}").json()["review"]["teams"]
    assert {approval["reviewer"]: approval["single_sign_on"] for approval in team["approvals"]} == {
        "ana": False, "abe": True}
    assert "abe (single sign-on) approved" in client.get(f"/proposals/{proposal.pk}/").content.decode()


@pytest.mark.django_db
def test_a_held_plan_looks_at_roles_when_it_is_enacted(world: World) -> None:
    set_rules(actor=world.ana, team=world.city, rules=frozen())
    held = approve(world.abe, planned(world.carla, world.city, document("air")))
    set_role(user=world.abe, team=world.city, role=Role.ENGINEER, actor=world.dev)
    assert held.held and enact_held(at=timezone.now() + timedelta(hours=2)) == []
    held.refresh_from_db()
    assert (held.status, held.held) == ("pending", None)
    [entry] = AuditEntry.objects.filter(verb="proposal.enact_held")
    assert "or further teams are asked: city" in entry.details["why"]
    assert held in awaiting(viewer_of(world.ana))


@pytest.mark.django_db
@pytest.mark.parametrize(("rules", "place", "remedy"), [
    (Rules(otherwise=Clause(approvals=4)), "/otherwise", "Ask for 3 at most"),
    (Rules(clauses=(Clause(approvals=2, role="admin"),)), "/clauses/0", "Ask for 1 at most")])
def test_rules_that_nobody_can_satisfy_are_refused(world: World, rules: Rules, place: str, remedy: str) -> None:
    with pytest.raises(InvalidRules) as caught:
        set_rules(actor=world.ana, team=world.city, rules=rules)
    assert caught.value.facts["place"] == place and remedy in caught.value.remedy
    assert not TeamRules.objects.exists()


@pytest.mark.django_db
def test_the_page_and_the_api_tell_of_rules_that_wait(world: World) -> None:
    ana, abe = Client(), Client()
    for client, user in ((ana, world.ana), (abe, world.abe)):
        client.force_login(user, backend="dashboard.teams.logins.ThrottledBackend")
    ana.post("/teams/city/rules", {
        "automatic": "1", "automatic-effects": ["network"], "otherwise-approvals": "1"})
    row = abe.get("/api/teams/city/approval-rules").json()
    assert (row["version"], row["waiting"], row["versions"][0]["state"]) == (None, 1, "waits")
    assert "Agree to version 1" in abe.get("/teams/city/rules").content.decode()
    shown = ana.get("/teams/city/rules").content.decode()
    assert "Agree to" not in shown and "Withdraw" in shown and "with tasks that reach the network" in shown
    assert ana.post("/api/teams/city/approval-rules/1/agree").status_code == 403
    assert abe.post("/teams/city/rules/1/agree").status_code == 302
    assert abe.get("/api/teams/city/approval-rules").json()["version"] == 1
    assert abe.post("/api/teams/city/approval-rules/1/decline").status_code == 409
    assert abe.post("/api/teams/city/approval-rules/7/decline").status_code == 404
