"""What planning tells of schedules besides the schedules: warnings about profiles, bounds, both sides of a bundle."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dashboard.approvals.services import prepare_proposal, submit_dataflow
from dashboard.operations.models import NodeRow, SlotRow
from dashboard.operations.services import register_node
from dashboard.plans.scheduling_problem import problem_of
from dashboard.plans.selectors import plan_of
from dashboard.profiles.models import ProfileRecord, SweepRecord, TrialRecord
from dashboard.profiles.services.importing import import_profiles
from dashboard.profiles.warnings import warnings_about
from scheduler.model.canonical import canonical_config, canonical_json
from scheduler.model.profile import Point, Profile
from scheduler.model.profile_csv import ProfileEntry, write_entries
from tests.dashboard.building import World, planned
from tests.pages.scheduling import linear
from workers.library import registry

from .schedules import at, proposed, rescheduled, scheduled


def doubted(world: World) -> None:
    """Running bundles differ from π's profile; parsing was measured in too little time, on a busy machine."""
    pi, parse = (ProfileRecord.objects.get(task_type=name) for name in ("pi_viete", "senml_parse"))
    drift = {"what": "cpu", "threads": 2, "expected": 0.4, "observed": 0.61, "beyond": True}
    within = drift | {"what": "memory", "beyond": False}
    ProfileRecord.objects.filter(pk=pi.pk).update(drifts=[drift, within])
    ProfileRecord.objects.filter(pk=parse.pk).update(rough=[4, 8])
    sweep = SweepRecord.objects.create(
        task_type="senml_parse", config="{}", version=1, feed=[], slot="n1/0", bounds={}, warm_up_s=1, seconds=1,
        author=world.carla, status="done", profile=parse)
    for number, load in enumerate((9.0, 7.0, 8.0), 1):
        TrialRecord.objects.create(
            sweep=sweep, number=number, threads=1, rate_per_s=10, why="", ended=timezone.now(),
            machine={"cores": 2, "load": load})


SAID_OF_PI = (
    "The profile of pi_viete has drifted: running bundles take 61% of a slot's CPU with 2 threads, where it says 40%.")
SAID_OF_PARSE = [
    "The profile of senml_parse is rough: the peak of 4, 8 threads is less sure than was asked for, because time ended "
    "first or a lower rate was never stable.",
    "The profile of senml_parse was measured on a busy machine: a load of 8.0 on 2 cores meanwhile, so that a slot may "
    "well sustain more."]


def test_what_may_be_wrong_with_a_profile_is_told_to_who_plans_with_it(profiled: World, client):
    doubted(profiled)
    proposal = proposed(profiled, at(18))
    assert [note for note in plan_of(proposal.plan).notes if note.startswith("The profile")] == [
        SAID_OF_PI, *SAID_OF_PARSE]
    client.force_login(profiled.carla)
    answer = client.get(f"/api/dataflows/{proposal.dataflow_id}/schedules", {"rate_per_s": 18}).json()
    warnings = {task["task"]: [warning["kind"] for warning in task["warnings"]] for task in answer["tasks"]}
    assert warnings == {"sense": [], "parse": ["rough", "busy"], "pi": ["drifted"], "out": []}
    record = ProfileRecord.objects.get(task_type="senml_parse")
    assert client.get(f"/api/profiles/{record.pk}").json()["busy"] == {"load": 8.0, "cores": 2, "stolen": 0.0}


@pytest.mark.parametrize("machine", ["small", "big", ""])
def test_nodes_of_another_class_than_was_measured_on_are_told(profiled: World, machine: str):
    """Most slots are of the class that was measured on, so no profile is stale; some of the schedule's are not."""
    SlotRow.objects.filter(node_id="n1", index__gte=2).update(reserved_for="sweep")
    register_node(name="n2", slots=4)
    NodeRow.objects.filter(name="n1").update(machine="big")
    NodeRow.objects.filter(name="n2").update(machine=machine)
    ProfileRecord.objects.update(machine="big")
    plan = plan_of(proposed(profiled, at(50)).plan)
    on_second = {bundle.task: None for bundle in plan.promise.bundles if bundle.slot.startswith("n2/")}
    measured_there = [task for task in on_second if task in ("parse", "pi")]
    notes = [note for note in plan.notes if "class of machine" in note]
    assert measured_there and not any("stale" in note for note in plan.notes)
    if machine != "small":
        assert notes == []
    else:
        verb = "were" if len(measured_there) > 1 else "was"
        assert notes == [
            f"n2 is another class of machine (small) than {', '.join(measured_there)} {verb} measured on (big): "
            "predictions for bundles there may not hold."]


def test_doubts_about_two_profiles_of_a_type_are_both_told(profiled: World):
    """One π has a profile of its own, of another version; the others have that of any config, which is rough."""
    tasks = [
        {"id": "sense", "type": "urban_sensing"}, {"id": "parse", "type": "senml_parse"},
        *({"id": name, "type": "pi_viete", "config": {"iterations": rounds}} for name, rounds in (
            ("few", 900), ("many", 1800), ("most", 2700))),
        {"id": "out", "type": "output", "config": {"name": "both-out"}}]
    ids = [task["id"] for task in tasks]
    text = json.dumps({
        "name": "both", "tasks": tasks, "rates": {"sense": 10},
        "streams": [{"from": one, "to": other} for one, other in pairwise(ids)]})
    config = canonical_json(canonical_config(registry.task_types()["pi_viete"], {"iterations": 900}))
    import_profiles(actor=profiled.carla, text=write_entries([ProfileEntry(
        Profile("pi_viete", (Point(1, 100, 0.9, 0.02),), config=config, version=7, origin="measured here"))]))
    rough = ProfileRecord.objects.get(task_type="pi_viete", config="")
    ProfileRecord.objects.filter(pk=rough.pk).update(rough=[1])
    proposal = submit_dataflow(actor=profiled.carla, team=profiled.city, text=text, schedule=at(10))
    notes = plan_of(prepare_proposal(proposal_id=proposal.pk).plan).notes
    subjects = [note.partition(":")[0] for note in notes if note.startswith("The profile")]
    assert subjects == ["The profile of pi_viete for few is stale", "The profile of pi_viete for many, most is rough"]


def test_what_is_said_of_profiles_takes_as_many_statements_for_many_as_for_one(profiled: World):
    record = planned(profiled.carla, profiled.city, linear()).dataflow
    question = problem_of(record)
    profiles = question.job(18).profiles

    def statements(records) -> int:
        with CaptureQueriesContext(connection) as queries:
            warnings_about(records)
        return len(queries)

    assert statements([profiles["pi"]]) == statements(profiles.values()) > 0
    assert warnings_about([profiles["sense"]]) == {}, "what a type declares was never measured"


def test_the_bounds_of_a_schedule_stand_on_its_proposal(profiled: World, client):
    proposal = proposed(profiled, at(50, pair=("MBA", "exact")))
    client.force_login(profiled.ana)
    promise = client.get(f"/api/proposals/{proposal.pk}").json()["difference"]["promise"]
    assert promise["slots_bound"] == {"reached": 3, "least": 3, "proved": True}
    assert promise["traffic_bound"] == {"reached": 0, "least": 0, "proved": True}


def test_slots_have_both_sides_of_a_bundle_over_the_api(profiled: World, client):
    record = scheduled(profiled, at(18))
    proposal = rescheduled(profiled, record, at(50))
    client.force_login(profiled.ana)
    rows = client.get("/api/slots", {"proposal": proposal.pk}).json()
    bundles = [bundle for row in rows for bundle in row["bundles"]]
    sides = {bundle["change"]: (bundle["was"], bundle["now"]) for bundle in bundles}
    assert sides["starts"][0] is None and set(sides["starts"][1]) == {"threads", "weight"}
    changed = next(bundle for bundle in bundles if bundle["change"] == "changes")
    assert changed["was"] != changed["now"] and changed["now"]["threads"] == changed["threads"]
    assert {"cpu", "memory"} == set(changed["planned_before"])
    today = client.get("/api/slots").json()
    assert all(bundle["was"] == bundle["now"] for row in today for bundle in row["bundles"])
