"""Whether teams share slots is a setting of the estate: who may choose, and what plans of every door make of it."""

from __future__ import annotations

from html import unescape

import pytest
from django.apps import apps
from django.utils import timezone

from dashboard.approvals.drains import outgoing_of
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import cancel_proposal, move_query, prepare_proposal
from dashboard.audit.models import AuditEntry
from dashboard.operations.estate_store.estate_choices import UnknownWay
from dashboard.operations.estate_store.estate_loader import current_estate, load_estate, stored_estate
from dashboard.operations.estate_store.tenancy_choice import TENANCIES, TENANCY_CHOICE, shared_slots
from dashboard.operations.live_view.schedulable_slots import supply
from dashboard.operations.models import FragmentRow
from dashboard.operations.services import drain_node, register_node
from scheduler.model.errors import PermissionDenied
from tests.dashboard.building import World, approved, document, enacted, held_to_estate, planned
from tests.dashboard.checks import check_rows, earlier_migration

pytestmark = pytest.mark.django_db


def run(world: World, team: str, name: str, window: int) -> None:
    author, reviewer = {"city": (world.carla, world.ana), "mobility": (world.mo, world.ben)}[team]
    text = document(name, window=window, visibility="private")
    enacted(approved(planned(author, getattr(world, team), text), reviewer))


def slots_of(team: str) -> set[str]:
    return {query.slot for fragment in load_estate().fragments.values() if fragment.team == team
            for query in fragment.queries}


def test_the_environment_says_until_an_administrator_chooses_and_each_choice_is_audited(world: World, settings) -> None:
    assert TENANCY_CHOICE.in_force().kind.name == "shared" and not stored_estate().teams_apart
    settings.TENANCY = "team"
    assert not TENANCY_CHOICE.in_force().is_chosen and stored_estate().teams_apart and load_estate().teams_apart
    for name in ("shared", "shared", ""):
        TENANCY_CHOICE.choose(actor=world.root, name=name)
    entries = AuditEntry.objects.filter(verb="estate.choose_tenancy").order_by("pk")
    assert [(entry.details["before"], entry.details["after"]) for entry in entries] == [("", "shared"), ("shared", "")]
    with pytest.raises(PermissionDenied):
        TENANCY_CHOICE.choose(actor=world.ana, name="team")
    with pytest.raises(UnknownWay, match="no way to place"):
        TENANCY_CHOICE.choose(actor=world.root, name="rack")


def test_page_and_api_tell_and_let_administrators_choose(world: World, client) -> None:
    run(world, "city", "air", 3)
    run(world, "city", "noise", 4)
    run(world, "mobility", "cars", 5)
    client.force_login(world.ana)
    page = unescape(client.get("/estate/tenancy").content.decode())
    assert all(kind.title in page and kind.costs in page for kind in TENANCIES.values())
    assert client.put("/api/tenancy", {"tenancy": "team"}, content_type="application/json").status_code == 403
    client.force_login(world.root)
    assert client.post("/estate/tenancy/choose", {"tenancy": "team"}).status_code == 302
    [shared] = shared_slots()
    answer = client.get("/api/tenancy").json()
    assert (answer["tenancy"], answer["is_chosen"], answer["shared_slots"]) == ("team", True, [shared])
    assert f"still share {shared}" in client.get("/estate/tenancy").content.decode()
    assert client.put("/api/tenancy", {"tenancy": ""}, content_type="application/json").json()[
        "tenancy"] == "shared"


def test_submissions_go_to_slots_of_their_team_and_say_where_none_is_left(world: World) -> None:
    TENANCY_CHOICE.choose(actor=world.root, name="team")
    for team, name, window in (("city", "air", 3), ("mobility", "cars", 4), ("city", "noise", 5)):
        run(world, team, name, window)
        check_rows()
    assert slots_of("city") | slots_of("mobility") == {"n1/0", "n1/1"} and not slots_of("city") & slots_of("mobility")
    third = planned(world.dev, world.city, document("more", window=6, visibility="private"))
    assert third.plan.error is None
    FragmentRow.objects.update(team="elsewhere")
    refused = planned(world.carla, world.city, document("much", window=7, visibility="private"))
    assert refused.plan.error["code"] == "no_slots" and "none is empty" in refused.plan.error["message"]
    assert "node agent with more slots" in refused.plan.error["remedy"]


def test_what_waits_is_placed_anew_once_the_choice_is_made(world: World) -> None:
    waiting = planned(world.mo, world.mobility, document("cars", window=9, visibility="private"))
    run(world, "city", "air", 3)
    TENANCY_CHOICE.choose(actor=world.root, name="team")
    enacted(approved(held_to_estate(waiting), world.ben))
    assert slots_of("city") and slots_of("mobility") and not slots_of("city") & slots_of("mobility")
    assert shared_slots() == []


def test_schedules_moves_and_drains_are_offered_a_teams_own_slots_alone(world: World) -> None:
    register_node(name="n2", slots=1)
    TENANCY_CHOICE.choose(actor=world.root, name="team")
    run(world, "city", "air", 3)
    run(world, "city", "noise", 5)
    run(world, "mobility", "cars", 4)
    estate = load_estate()
    [of_mobility], [foreign] = slots_of("mobility"), slots_of("city")
    offered = {team: {slot.name for node in supply(estate, team=team).free for slot in node.slots}
               for team in ("city", "mobility")}
    assert offered == {"city": {foreign, "n2/0"}, "mobility": {of_mobility, "n2/0"}}

    query = {fragment.team: fragment.id for fragment in estate.fragments.values()}
    refused = moved(world, "mobility", query["mobility"], foreign)
    assert refused.plan.error["code"] == "no_slots" and f"{foreign} holds" in refused.plan.error["message"]
    cancel_proposal(actor=world.mo, proposal_id=refused.pk)
    enacted(approved(moved(world, "city", query["city"], "n2/0"), world.ana))

    drain_node(name="n1")
    out = {outgoing.fragment.team: outgoing for outgoing in outgoing_of(current_estate(), "n1", at=timezone.now())}
    assert out["city"].slot == "n2/0" and out["mobility"].slot == ""
    assert out["mobility"].hold.why == "No other node has a slot that is empty or its team's own."


def moved(world: World, team: str, query: str, slot: str) -> Proposal:
    dataflow = next(
        entry.id for entry in load_estate().submitted.values()
        if entry.team == team and query in {load_estate().places[task][0] for task in entry.running.values()})
    author = {"city": world.carla, "mobility": world.mo}[team]
    return prepare_proposal(proposal_id=move_query(actor=author, dataflow_id=dataflow, query=query, slot=slot).pk)


def test_a_node_with_fewer_slots_keeps_teams_apart_as_far_as_it_has_slots(world: World) -> None:
    register_node(name="n1", slots=4)
    TENANCY_CHOICE.choose(actor=world.root, name="team")
    run(world, "city", "air", 3)
    run(world, "mobility", "cars", 4)
    names = {fragment.team: fragment.id for fragment in load_estate().fragments.values()}
    enacted(approved(moved(world, "city", names["city"], "n1/2"), world.ana))
    names = {fragment.team: fragment.id for fragment in load_estate().fragments.values()}
    enacted(approved(moved(world, "mobility", names["mobility"], "n1/0"), world.ben))
    register_node(name="n1", slots=2)  # what was on the third slot would come to the first
    assert (slots_of("mobility"), slots_of("city"), shared_slots()) == ({"n1/0"}, {"n1/1"}, [])
    register_node(name="n1", slots=1)
    assert shared_slots() == ["n1/0"]
    check_rows()


def test_what_ran_before_is_of_the_team_that_used_it_first(world: World) -> None:
    """As a database of an earlier version has it, which said nothing of teams."""
    enacted(approved(planned(world.carla, world.city, document("air")), world.ana))
    enacted(approved(planned(world.mo, world.mobility, document("cars", window=4)), world.ben, world.ana))
    teams = dict(FragmentRow.objects.values_list("pk", "team"))
    assert set(teams.values()) == {"city", "mobility"}
    FragmentRow.objects.update(team="")
    earlier_migration("operations", "0004_tenancy").say_whose(apps, None)
    assert dict(FragmentRow.objects.values_list("pk", "team")) == teams
