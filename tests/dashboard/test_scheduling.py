"""Schedules on the site: asked for, proposed, reviewed, stored, taken back; and what is refused with the numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.core.management import CommandError, call_command

from dashboard.approvals.difference import difference
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import (
    choose_joining,
    drop_left_bundles,
    prepare_proposal,
    propose_schedule,
    recompute_proposal,
    roll_back_proposal,
    submit_dataflow,
)
from dashboard.audit.models import AuditEntry
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.estate_store.estate_reader import queries_of
from dashboard.operations.models import BundleSlot, SlotRow
from dashboard.operations.services import register_node
from dashboard.plans.choices import InvalidChoice, ScheduleChoice
from dashboard.plans.joining_options import InvalidBeginning
from dashboard.plans.scheduling_problem import problem_of
from dashboard.plans.selectors import plan_of
from dashboard.teams.permissions import viewer_of
from scheduler.applying import apply_plan
from scheduler.model.errors import InvalidTransition, PermissionDenied, RateNotHeld
from scheduler.model.task_types import TaskTypes
from scheduler.performance.shipped import ESTIMATES
from tests.cases import each
from tests.dashboard.building import (
    World,
    approved,
    document,
    enacted,
    held_to_estate,
    planned,
    removal_planned,
    running,
)
from tests.dashboard.checks import check_rows
from tests.dashboard.node_parts import load_part_of
from tests.dashboard.schedules import SAM, at, proposed, rescheduled, scheduled
from tests.pages.scheduling import linear
from workers.engine.desired_publishing import desired_of
from workers.library import registry


def test_all_pairs_are_compared_for_a_submission_before_it_is_decided(profiled: World):
    proposal = planned(profiled.carla, profiled.city, linear())
    comparison = problem_of(proposal.dataflow).compare(40)
    assert {row.pair for row in comparison.schedules} | set(comparison.errors) == {
        (allocation, mapping) for allocation in ("LSA", "MBA") for mapping in ("DSM", "RSM", "SAM", "exact")}
    assert {row.rate_per_s for row in comparison.schedules} == {40}
    by_sam = next(row for row in comparison.schedules if row.pair == ("MBA", "SAM"))
    assert by_sam.acquisition.per_hour == pytest.approx(0.048 * by_sam.slots)
    assert [(node.name, node.new) for node in by_sam.acquisition.nodes] == [("n1", False)]


def test_a_submission_is_planned_with_its_schedule_reviewed_and_stored(profiled: World):
    proposal = proposed(profiled, at(50))
    plan = plan_of(proposal.plan)
    assert plan.promise.pair == ("MBA", "SAM") and plan.promise.rate_per_s == 50
    shown = difference(viewer_of(profiled.ana), proposal)
    assert shown["promise"]["rate_per_s"] == 50 and shown["notes"] == list(plan.notes)
    assert any("with 2 threads" in step["text"] for step in shown["steps"])
    before = load_estate()
    record = enacted(approved(proposal, profiled.ana)).dataflow
    estate = load_estate()
    assert estate == apply_plan(before, plan)
    pi = estate.fragments[estate.places[estate.submitted[str(record.pk)].running["pi"]][0]]
    assert len(pi.bundles) == 3 and {bundle.threads for bundle in pi.bundles} == {2, 1}
    assert set(BundleSlot.objects.filter(fragment=pi.id).values_list("slot", flat=True)) == {
        bundle.slot for bundle in pi.bundles}
    check_rows()
    enacted(approved(removal_planned(profiled.carla, record), profiled.ana))
    assert not load_estate().fragments and not BundleSlot.objects.exists()
    check_rows()


def test_every_node_with_a_bundle_gets_its_part_of_the_desired_state(profiled: World):
    register_node(name="n1", slots=2)
    register_node(name="n2", slots=6)
    scheduled(profiled, at(50))
    whole, types = load_estate(), registry.task_types()
    ids = set()
    for node in ("n1", "n2"):
        part = desired_of(load_part_of(node), node, types)
        assert part == desired_of(whole, node, types), "a node's part has all that its desired state is made of"
        ids |= set(part.wanted)
    assert ids == {query.id for fragment in whole.fragments.values() for query in fragment.queries}


def test_a_schedule_is_chosen_for_a_submission_that_waits_and_given_up_again(profiled: World):
    proposal = planned(profiled.carla, profiled.city, linear())
    without = proposal.plan.digest
    again = prepare_proposal(
        proposal_id=propose_schedule(actor=profiled.carla, dataflow_id=proposal.dataflow_id, choice=SAM).pk)
    assert again.pk == proposal.pk and again.status == "pending" and plan_of(again.plan).promise is not None
    fresh = prepare_proposal(proposal_id=choose_joining(actor=profiled.carla, proposal_id=proposal.pk, fresh=True).pk)
    assert fresh.plan.options["schedule"] == SAM.as_option(), "how it joins is another choice"
    propose_schedule(actor=profiled.carla, dataflow_id=proposal.dataflow_id, choice=None)
    back = prepare_proposal(proposal_id=proposal.pk)
    assert plan_of(back.plan).promise is None and back.plan.options == {"fresh": True}
    assert back.plan.digest == without, "there is nothing to join, so it is the plan of before"


def test_another_schedule_changes_only_what_differs_and_is_taken_back(profiled: World):
    record = scheduled(profiled, at(18))
    before = load_estate()
    proposal = rescheduled(profiled, record, at(50))
    plan = plan_of(proposal.plan)
    heirs = {step.fragment for step in plan.steps if step.kind == "hand_over"}  # of what only gets another slot
    assert plan.kind == "schedule" and set(plan.fragments_after) - heirs < set(before.fragments)
    text = " ".join(step["text"] for step in difference(viewer_of(profiled.ana), proposal)["steps"])
    assert "of pi" in text and "Divide the events of pi anew" in text
    executing = approved(proposal, profiled.ana)
    after = load_estate()
    assert after == apply_plan(before, plan) and executing.status == "executing"
    check_rows()
    rolled = enacted(roll_back_proposal(actor=profiled.ana, proposal_id=proposal.pk))
    assert rolled.status == "rolled_back"
    check_rows()
    back = load_estate()
    assert {fragment.tasks: [(b.slot, b.threads, b.weight) for b in fragment.queries if not b.leaving]
            for fragment in back.fragments.values()} == {
        fragment.tasks: [(b.slot, b.threads, b.weight) for b in fragment.queries]
        for fragment in before.fragments.values()}


def test_the_same_schedule_again_is_refused_with_the_reason(profiled: World):
    record = scheduled(profiled, at(18))
    proposal = rescheduled(profiled, record, at(18))
    assert (proposal.status, proposal.plan.error["code"]) == ("unplannable", "nothing_to_change")
    other = rescheduled(profiled, record, at(30))
    assert other.pk == proposal.pk and other.status == "pending", "the open proposal takes another choice"


def test_a_plan_of_a_schedule_is_overtaken_like_any_other(profiled: World):
    record = scheduled(profiled, at(18))
    proposal = rescheduled(profiled, record, at(50))
    running(profiled.carla, profiled.city, document("other"), profiled.ana)
    assert held_to_estate(proposal).status == "stale"
    recompute_proposal(actor=profiled.carla, proposal_id=proposal.pk)
    anew = prepare_proposal(proposal_id=proposal.pk)
    assert anew.status == "pending" and anew.plan.options == proposal.plan.options


def test_only_free_slots_count_and_reserved_ones_do_not(profiled: World):
    proposal = planned(profiled.carla, profiled.city, linear())
    assert sum(len(node.slots) for node in problem_of(proposal.dataflow).supply.free) == 8
    SlotRow.objects.filter(name="n1/0").update(reserved_for="sweep")
    running(profiled.carla, profiled.city, document("other"), profiled.ana)
    supply = problem_of(proposal.dataflow).supply
    taken = {fragment.slot for fragment in load_estate().fragments.values()}
    offered = [slot.name for slot in supply.slots(7)]
    assert "n1/0" not in offered and {slot.name for slot in supply.taken} == taken == set(offered[-len(taken):])
    assert all(0 < taken.cpu < 1 and taken.memory == pytest.approx(0.05) for taken in supply.taken.values())


def test_what_others_leave_of_a_slot_is_scheduled_and_told(profiled: World):
    register_node(name="n1", slots=2)
    for name in ("other", "third"):
        running(profiled.carla, profiled.city, document(name, window=len(name)), profiled.ana)
    assert {row.queries > 0 for row in SlotRow.objects.all()} == {True}, "something runs everywhere"
    proposal = proposed(profiled, at(12))
    plan = plan_of(proposal.plan)
    assert proposal.status == "pending" and any("Others run on" in note for note in plan.notes)
    assert set(plan.promise.others) == set(plan.promise.slots)
    for slot in plan.promise.slots:
        assert plan.promise.others[slot].cpu < plan.promise.load_of(slot).cpu <= 1
    whole = 0.048 * len(plan.promise.slots)
    assert 0 < plan.promise.per_hour < whole and plan.price.slots_per_hour_delta == pytest.approx(
        plan.promise.per_hour, abs=1e-5)
    record = enacted(approved(proposal, profiled.ana)).dataflow
    check_rows()
    again = rescheduled(profiled, record, at(12))
    assert again.plan.error["code"] == "nothing_to_change"
    free = [slot.name for slot in problem_of(record).supply.taken]
    second = planned(profiled.carla, profiled.city, linear("second", rate=49)).dataflow
    offered = {slot.name for node in problem_of(second).supply.free for slot in node.slots}
    assert offered == set(free) - set(plan.promise.slots), "what one schedule counts on no other gets"


def test_own_slots_count_as_free_and_come_first(profiled: World):
    record = scheduled(profiled, at(18))
    problem = problem_of(record)
    slots = {query.slot for fragment in load_estate().fragments.values() for query in fragment.queries}
    free = [slot.name for node in problem.supply.free for slot in node.slots]
    assert set(free[:len(slots)]) == slots and len(free) == 8 and not problem.blocked
    chosen_schedule = problem.schedule(("MBA", "SAM"), 18)
    assert {slot.name for slot in chosen_schedule.placement.slots} == slots


def test_task_types_that_nobody_measured_are_planned_by_estimates_and_the_plan_says_so(profiled: World):
    proposal = planned(profiled.carla, profiled.city, document("other"))
    comparison = problem_of(proposal.dataflow).compare()
    assert comparison.schedules and comparison.schedules[0].job.profiles["average"].origin in ESTIMATES
    assert comparison.schedules[0].job.profiles["parse"].origin not in ESTIMATES, "what was measured takes their place"
    chosen = submit_dataflow(actor=profiled.carla, team=profiled.city, text=document("third"), schedule=at(20))
    estimated = prepare_proposal(proposal_id=chosen.pk)
    assert estimated.status == "pending"
    assert any("measured block_average here" in note for note in plan_of(estimated.plan).notes)


def test_rates_that_no_slot_holds_and_choices_that_are_none(profiled: World):
    proposal = planned(profiled.carla, profiled.city, linear())
    with pytest.raises(RateNotHeld, match="declares"):
        problem_of(proposal.dataflow).schedule(("MBA", "SAM"), 1e9)
    with pytest.raises(InvalidChoice, match="is no pair"):
        ScheduleChoice.of(pair=("MBA", "FIFO"))
    with pytest.raises(InvalidChoice, match="is no routing"):
        ScheduleChoice.of(pair=("MBA", "SAM"), routing="random")
    with pytest.raises(InvalidBeginning, match="begin now"):
        submit_dataflow(actor=profiled.carla, team=profiled.city, text=linear("b"), begin="oldest", schedule=SAM)


def test_who_may_propose_a_schedule(profiled: World):
    record = scheduled(profiled, at(18))
    with pytest.raises(PermissionDenied):
        propose_schedule(actor=profiled.vera, dataflow_id=record.pk, choice=at(50))
    with pytest.raises(InvalidTransition, match="cannot be submitted without its schedule"):
        propose_schedule(actor=profiled.carla, dataflow_id=record.pk, choice=None)
    approved(rescheduled(profiled, record, at(50)), profiled.ana)
    with pytest.raises(InvalidTransition, match="nothing to schedule yet"):
        propose_schedule(actor=profiled.carla, dataflow_id=record.pk, choice=at(18))
    assert AuditEntry.objects.filter(verb="dataflow.propose_schedule").count() == 1, "what is refused leaves no trace"


def test_schedules_over_the_api(profiled: World, client):
    client.force_login(profiled.carla)
    proposal = planned(profiled.carla, profiled.city, linear())
    path = f"/api/dataflows/{proposal.dataflow_id}"
    answer = client.get(f"{path}/schedules", {"rate_per_s": 18}).json()
    assert (answer["free_slots"], answer["blocked"], answer["currency"]) == (8, "", "USD")
    assert [tuple(row["pair"]) for row in answer["schedules"]][-1] == ("MBA", "exact")
    by_sam, exact = answer["schedules"][-2:]
    assert by_sam["keeps"] and by_sam["per_month"] == pytest.approx(730 * by_sam["per_hour"])
    assert by_sam["changes"] == {"start": 4, "leave": 0, "move": 0, "weigh": 0, "stay": 0}
    assert exact["slots_bound"] == {"reached": exact["slots"], "least": exact["slots"], "proved": True, "gap": 0}
    assert exact["note"] == by_sam["note"] == ""
    assert exact["traffic_bound"]["proved"] and by_sam["slots_bound"] is None is by_sam["traffic_bound"]
    assert [(task["task"], task["profile"], task["divided"]) for task in answer["tasks"]] == [
        ("sense", "declared by its type, not measured", "one thread"), ("parse", "measured here", "over slots"),
        ("pi", "measured here", "over slots"), ("out", "declared by its type, not measured", "one thread")]
    assert answer["tasks"][2]["peak"]["threads"] == 2 and answer["tasks"][2]["warnings"] == []
    assert {bundle["task"] for bundle in by_sam["bundles"]} == {"sense", "parse", "pi", "out"}
    rows = client.get(f"{path}/what-if", {"most_per_s": 60, "points": 3}).json()
    assert [row["rate_per_s"] for row in rows if row["pair"] == ["MBA", "SAM"]] == [20, 40, 60]
    made = client.post(f"{path}/schedule", {"pair": ["MBA", "SAM"], "rate_per_s": 18}, content_type="application/json")
    assert made.status_code == 201 and made.json()["id"] == str(proposal.pk)
    assert made.json()["options"] == {"schedule": at(18).as_option()}
    prepare_proposal(proposal_id=proposal.pk)
    assert client.delete(f"{path}/schedule").json()["options"] == {}
    submitted = client.post("/api/dataflows", {
        "text": linear("b"), "team": "city", "schedule": {"pair": ["LSA", "RSM"]}}, content_type="application/json")
    assert submitted.json()["proposal"]["options"]["schedule"]["pair"] == ["LSA", "RSM"]


@each("path, body, status, code", [
    ("schedules?rate_per_s=0", None, 422, "invalid_resources"), ("schedules?rate_per_s=nan", None, 422, ""),
    ("schedules?rate_per_s=1e-320", None, 422, ""), ("schedules?rate_per_s=1e300", None, 422, "invalid_resources"),
    ("schedules?routing=random", None, 422, "invalid_choice"), ("what-if?most_per_s=-1", None, 422, ""),
    ("what-if", None, 422, "invalid_request"), ("schedule", {"pair": []}, 422, "invalid_choice"),
    ("schedule", {"pair": ["MBA", "SAM"], "rate_per_s": -3}, 422, "invalid_resources"),
    ("schedule", {"pair": ["MBA", "SAM", "x"]}, 422, "invalid_choice"),
])
def test_strange_questions_get_the_one_error_shape(profiled: World, client, path, body, status, code):
    client.force_login(profiled.carla)
    record = planned(profiled.carla, profiled.city, linear()).dataflow
    url = f"/api/dataflows/{record.pk}/{path}"
    answer = client.get(url) if body is None else client.post(url, body, content_type="application/json")
    assert answer.status_code == status and set(answer.json()) == {"code", "message", "remedy", "facts"}
    assert answer.json()["code"] == (code or answer.json()["code"]) != ""


def test_a_private_dataflow_has_no_schedules_for_others(profiled: World, client):
    record = scheduled(profiled, at(18), visibility="private")
    client.force_login(profiled.mo)
    for path in ("schedules", "what-if?most_per_s=5"):
        assert client.get(f"/api/dataflows/{record.pk}/{path}").status_code == 404
    answer = client.post(
        f"/api/dataflows/{record.pk}/schedule", {"pair": ["MBA", "SAM"]}, content_type="application/json")
    assert answer.status_code == 404


def test_what_runs_is_scheduled_by_the_selectivities_that_were_measured(profiled: World, monkeypatch):
    record = scheduled(profiled, at(18))
    running_as = load_estate().submitted[str(record.pk)].running
    declared = problem_of(record).job(18).rates_per_s
    monkeypatch.setattr("dashboard.jobs.selectivities", lambda fragments, least: {
        running_as["parse"]: 12.58, running_as["pi"]: 1.04})
    rates = problem_of(record).job(18).rates_per_s
    assert declared["pi"] == 5 * declared["parse"] and rates["pi"] == 13 * rates["parse"]
    assert rates["out"] == rates["pi"], "so near to what is declared it is that"


def test_a_query_is_known_by_the_id_of_its_bundle(profiled: World):
    record = scheduled(profiled, at(50))
    pi = (estate := load_estate()).fragments[estate.places[estate.submitted[str(record.pk)].running["pi"]][0]]
    source = estate.fragments[estate.places[estate.submitted[str(record.pk)].running["sense"]][0]]
    first, second = pi.bundles[:2]
    by_bundle = queries_of([first.id, second.id, source.id, "gone"])
    assert set(by_bundle) == {first.id, second.id, source.id} and by_bundle[source.id] == source
    assert (by_bundle[second.id].tasks, by_bundle[second.id].slot) == (pi.tasks, second.slot)
    assert by_bundle[second.id].channel_of(pi.tasks[0]) == f"{second.id}.0"


def test_schedules_from_the_command_line(profiled: World, tmp_path):
    file = tmp_path / "linear.json"
    file.write_text(linear())
    call_command("submit", str(file), username="carla", schedule="MBA-SAM", rate=18.0)
    proposal = Proposal.objects.get()
    assert proposal.plan.options == {"schedule": at(18).as_option()}
    record = enacted(approved(prepare_proposal(proposal_id=proposal.pk), profiled.ana)).dataflow
    call_command("schedule", record.name, "MBA-SAM", username="carla", rate=50.0, routing="shuffle")
    other = Proposal.objects.get(plan__kind="schedule")
    assert other.plan.options == {"schedule": at(50, routing="shuffle").as_option()}
    with pytest.raises(CommandError, match="is no pair"):
        call_command("schedule", record.name, "MBA-FIFO", username="carla")


def test_bundles_that_have_left_free_their_slots_once_all_is_done(profiled: World):
    record = scheduled(profiled, at(50))
    proposal = approved(rescheduled(profiled, record, at(18)), profiled.ana)
    leaving = [query.id for fragment in load_estate().fragments.values() for query in fragment.queries if query.leaving]
    assert len(leaving) == 2 and drop_left_bundles(left_bundles=leaving) == [], "not while the plan is being enacted"
    enacted(proposal)
    waiting = planned(profiled.carla, profiled.city, document("other"))
    before = problem_of(record).supply
    assert drop_left_bundles(left_bundles=[*leaving[:1], "gone"]) == leaving[:1]
    parts = [query for fragment in load_estate().fragments.values() for query in fragment.queries]
    assert [part.id for part in parts if part.leaving] == leaving[1:]
    assert drop_left_bundles(left_bundles=leaving[:1]) == [] == drop_left_bundles(left_bundles=[])
    drop_left_bundles(left_bundles=leaving)
    running_ids = [query.id for fragment in load_estate().fragments.values() for query in fragment.queries]
    assert drop_left_bundles(left_bundles=running_ids) == [], "what does not leave stays"
    check_rows()
    waiting.refresh_from_db()
    assert waiting.status == "pending", "it has no part in what was freed"
    assert before.free != problem_of(waiting.dataflow).supply.free


def test_profiles_that_may_no_longer_hold_are_told_of(profiled: World, monkeypatch):
    types = registry.task_types()
    newer = TaskTypes(
        [replace(task_type, version=2) if task_type.name == "pi_viete" else task_type for task_type in types.values()])
    monkeypatch.setattr("dashboard.jobs.task_types", lambda: newer)
    notes = plan_of(proposed(profiled, at(18)).plan).notes
    assert notes[-1] == (
        "The profile of pi_viete is stale: measured with version 1 of pi_viete, which is now version 2.")


def test_bundles_of_slots_that_go_move_to_those_that_stay(profiled: World):
    record = scheduled(profiled, at(50))
    before = load_estate()
    register_node(name="n1", slots=2)
    after = load_estate()
    assert {query.slot for fragment in after.fragments.values() for query in fragment.queries} <= {"n1/0", "n1/1"}
    for name, fragment in after.fragments.items():
        assert [(query.id, query.threads, query.weight) for query in fragment.queries] == [
            (query.id, query.threads, query.weight) for query in before.fragments[name].queries]
    check_rows()
    assert rescheduled(profiled, record, at(12)).status == "pending"


def test_who_shares_what_a_schedule_changes_is_asked(profiled: World):
    record = scheduled(profiled, at(18))
    shared = submit_dataflow(actor=profiled.mo, team=profiled.mobility, text=linear("theirs"))
    enacted(approved(prepare_proposal(proposal_id=shared.pk), profiled.ben, profiled.ana))
    proposal = rescheduled(profiled, record, at(50))
    assert {team.slug for team in proposal.teams.all()} == {"city", "mobility"}
    half = approved(proposal, profiled.ana)
    assert half.status == "pending" and approved(half, profiled.ben).status == "executing"
