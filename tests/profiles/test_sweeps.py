"""Sweeps, from what is asked for to a profile: driven, paused, hindered, lost and found again."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import pairwise

import pytest

from dashboard.audit.models import AuditEntry
from dashboard.jobs import BrokerAway, TrialProgress, TrialResult
from dashboard.operations.estate_store.reservations import SlotTaken
from dashboard.operations.models import EstateState, SlotRow
from dashboard.plans.selectors import plan_of
from dashboard.profiles import selectors
from dashboard.profiles.estimates import is_estimate
from dashboard.profiles.models import ProfileRecord, SweepRecord, TrialRecord
from dashboard.profiles.services.sweep_driver import advance_sweeps
from dashboard.profiles.services.sweeps import cancel_sweep, pause_sweep, resume_sweep, start_sweep
from dashboard.profiles.stored_profiles import profile_of
from dashboard.profiles.targets import feeds_for, installed, target_of_task, target_of_type
from dashboard.profiles.trial_orders import bounds_of, trial_of
from dashboard.teams.permissions import viewer_of
from scheduler.model.dataflow import Task
from scheduler.model.errors import (
    InvalidDataflow,
    InvalidResources,
    InvalidTransition,
    NotFound,
    PermissionDenied,
    UnknownTaskType,
)
from scheduler.performance.modelling import Sweep, SweepResult, next_step
from tests.dashboard.building import World, document, planned, running
from tests.dashboard.concurrency import at_once
from tests.profiles.building import slot, started
from tests.profiles.nodes import Node, saturating


def test_a_sweep_finds_what_the_science_would_and_stores_it_as_a_profile(world: World, node: Node):
    sweep = node.finish(started(world))
    assert (sweep.status, sweep.machine, slot().reserved_for) == ("done", "cpu-a", "")
    profile = profile_of(sweep.profile)
    for point in profile.points:
        assert 0.95 * saturating(point.threads) / 1.05 <= point.rate_per_s <= saturating(point.threads)
    assert profile.peak.threads in (4, 5) and (profile.machine, profile.version, profile.origin) == (
        "cpu-a", 1, "measured")
    trials = list(sweep.trials.all())
    assert [trial.number for trial in trials] == list(range(1, len(trials) + 1))
    assert len(node.orders) == len(trials) and not sweep.trials.filter(ended=None).exists()
    assert all(trial.stable == (trial.rate_per_s <= saturating(trial.threads)) for trial in trials)
    # The profile can be judged and repeated from its trials alone.
    again = next_step([trial_of(trial) for trial in trials], sweep=bounds_of(sweep))
    assert isinstance(again, SweepResult) and again.points == profile.points
    task = Task("t", "senml_parse", {})
    assert selectors.profiles_for([task]).find(task) == profile
    verbs = list(AuditEntry.objects.filter(subject_type__in=["sweeprecord", "profilerecord"]).order_by("id")
                 .values_list("verb", flat=True))
    assert verbs == ["sweep.start", "sweep.advance", "profile.measure", "sweep.advance"]


def test_while_a_slot_is_measured_nothing_is_planned_there(world: World, node: Node):
    before = planned(world.carla, world.city, document("before"))
    sweep = started(world)
    node.run()
    assert str(sweep.pk) in slot().reserved_for
    before.refresh_from_db()
    assert before.status == "pending"  # it stands, and puts nothing there
    assert {fragment.slot for fragment in plan_of(before.plan).fragments_after.values()} == {"n1/0"}
    for number in range(3):
        proposal = planned(world.carla, world.city, document(f"d{number}", window=20 + number))
        assert {fragment.slot for fragment in plan_of(proposal.plan).fragments_after.values()} == {"n1/0"}
    pause_sweep(actor=world.carla, sweep_id=sweep.pk)
    assert slot().reserved_for == ""


def test_a_slot_that_runs_something_is_not_measured_on(world: World, node: Node):
    running(world.carla, world.city, document("traffic"), world.ana)
    busy = next(row.name for row in SlotRow.objects.all() if row.queries)
    with pytest.raises(SlotTaken) as caught:
        started(world, slot=busy)
    assert "queries" not in caught.value.facts and "nothing runs" in caught.value.remedy
    with pytest.raises(NotFound):
        started(world, slot="n9/0")
    assert not SweepRecord.objects.exists()


def test_two_sweeps_of_one_slot_take_turns(world: World, node: Node):
    first, second = started(world), started(world, seconds=5.0)
    node.run(steps=2)
    second.refresh_from_db()
    assert second.status == "queued" and "n1/1" in second.reason
    assert node.finish(first, most=600).status == "done"
    assert node.finish(second, most=600).status == "done"
    assert [record.active for record in ProfileRecord.objects.order_by("created")] == [False, True]


def test_a_queued_sweep_waits_for_what_came_to_run_on_its_slot_meanwhile(world: World, node: Node):
    sweep = started(world)
    for number in range(2):
        running(world.carla, world.city, document(f"d{number}", window=20 + number), world.ana)
    node.run()
    sweep.refresh_from_db()
    assert sweep.status == "queued" and "Waits" in sweep.reason and not node.orders


def test_a_sweep_whose_slot_is_gone_ends_and_says_so(world: World, node: Node):
    sweep = started(world)
    node.run(steps=3)
    node.dies = 10_000  # nobody takes what is ordered from now on
    node.run()
    SlotRow.objects.filter(name=sweep.slot).delete()
    node.run(steps=400)
    sweep.refresh_from_db()
    assert sweep.status == "failed" and f"No node offers slot {sweep.slot}" in sweep.reason
    assert sweep.trials.exclude(ended=None).exists() and not sweep.trials.filter(ended=None).exists()


def test_a_pause_keeps_trials_and_frees_the_slot_and_the_profile_is_the_same(world: World, node: Node):
    sweep = started(world)
    node.run(steps=7)
    ended = sweep.trials.exclude(ended=None).count()
    order = node.orders[-1].id
    pause_sweep(actor=world.carla, sweep_id=sweep.pk)
    assert sweep.trials.count() == ended and slot().reserved_for == ""
    assert not sweep.trials.filter(ended=None).exists()
    node.run(steps=3)
    assert node.orders[-1].id == order
    resume_sweep(actor=world.carla, sweep_id=sweep.pk)
    sweep = node.finish(sweep)
    undisturbed = node.finish(started(world))
    assert profile_of(sweep.profile).points == profile_of(undisturbed.profile).points


def test_a_cancelled_sweep_ends_its_trial_and_leaves_no_profile(world: World, node: Node):
    sweep = started(world)
    node.run(steps=4)
    node.orders.clear()
    node.run()  # a trial is under way
    cancel_sweep(actor=world.carla, sweep_id=sweep.pk)
    sweep.refresh_from_db()
    assert (sweep.status, slot().reserved_for, ProfileRecord.objects.count()) == ("cancelled", "", 0)
    assert sweep.trials.exclude(stable=None).exists()
    with pytest.raises(InvalidTransition):
        resume_sweep(actor=world.carla, sweep_id=sweep.pk)


def test_a_trial_of_which_nothing_is_heard_is_ordered_again_under_another_id(world: World, node: Node):
    sweep = started(world)
    node.run()
    node.results.clear()
    node.under_way[node.orders[0].id] = TrialProgress("measuring")
    node.now += timedelta(seconds=2)
    advance_sweeps(at=node.now)  # it is under way
    node.under_way.clear()  # and its agent dies
    advance_sweeps(at=node.now)
    assert len(node.orders) == 1  # a word may still come
    node.now += timedelta(seconds=60)
    advance_sweeps(at=node.now)
    assert [order.id[-2:] for order in node.orders] == ["-0", "-1"]
    assert node.finish(sweep).status == "done"


def test_an_order_that_nobody_takes_is_given_again_for_as_long_as_it_takes(world: World, node: Node):
    sweep = started(world)
    advance_sweeps(at=node.now)
    for _ in range(10):  # the node is away, and orders expire
        node.under_way.clear()
        node.now += timedelta(minutes=10)
        advance_sweeps(at=node.now)
    assert len(node.orders) > 4 and len({order.id for order in node.orders}) == 1
    assert node.finish(sweep).status == "done"


def test_a_trial_that_is_lost_again_and_again_ends_the_sweep_and_it_can_go_on(world: World, node: Node):
    died = [TrialResult("", ok=False, code="slot_died", message="The slot died.", remedy="See its log.")] * 3
    node.answers = list(died)
    sweep = node.finish(started(world))
    assert sweep.status == "failed" and "The slot died. See its log." in sweep.reason and slot().reserved_for == ""
    failed = sweep.trials.get()
    assert (failed.error, failed.remedy, failed.attempts) == ("The slot died.", "See its log.", 2)
    resume_sweep(actor=world.carla, sweep_id=sweep.pk)
    assert node.finish(sweep).status == "done" and sweep.trials.filter(error="").count() > 3


def test_what_no_second_attempt_helps_ends_the_sweep_at_once(world: World, node: Node):
    node.answers = [TrialResult("", ok=False, code="task_failed", message="No column x.", remedy="Correct it.")]
    sweep = node.finish(started(world))
    assert (sweep.status, len(node.orders)) == ("failed", 1) and "No column x." in sweep.reason


def test_a_task_that_holds_no_rate_fails_with_the_reason(world: World, node: Node):
    node.peak = lambda threads: 0.1
    sweep = node.finish(started(world))
    assert sweep.status == "failed" and "No rate that was tried is stable" in sweep.reason


def test_a_machine_that_was_busy_is_asked_again_later_and_a_sweep_that_gave_up_begins_anew(world: World, node: Node):
    node.peak = lambda threads: 0.1  # busy with something else
    sweep = started(world)
    node.run(steps=6)
    sweep.refresh_from_db()
    assert (sweep.status, sweep.trials.count()) == ("running", 2) and "may have been busy" in sweep.reason
    assert node.finish(sweep).status == "failed" and "try again" in sweep.reason
    ended = [trial.ended for trial in sweep.trials.all()]
    apart_s = [(later - earlier).seconds for earlier, later in pairwise(ended)]
    assert len(apart_s) == 3 and apart_s[1] >= 15 and apart_s[2] >= 45
    node.peak = saturating
    resume_sweep(actor=world.carla, sweep_id=sweep.pk)
    assert node.finish(sweep).status == "done" and "busy" not in sweep.reason
    assert sweep.trials.filter(set_aside=True, stable=False, error="").count() == 4, "kept for reading"

def test_a_budget_that_ends_leaves_a_rough_profile(world: World, node: Node):
    sweep = node.finish(started(world, bounds=Sweep(largest_threads=8, budget_s=100.0)))
    assert sweep.status == "done" and "budget of 100 s" in sweep.reason and sweep.profile.rough == [1]
    assert sum(trial.took_s for trial in sweep.trials.all()) <= 100


def test_warming_a_driver_up_is_expected_once_of_a_budget(world: World, node: Node):
    node.warms_s = 60.0
    sweep = node.finish(started(world, bounds=Sweep(largest_threads=8, budget_s=130.0)))
    assert sweep.status == "done" and [trial.took_s for trial in sweep.trials.all()] == [70.0, *6 * [10.0]]


def test_trials_of_two_machines_make_no_profile(world: World, node: Node):
    sweep = started(world)
    node.run(steps=4)
    node.machine = "cpu-b"
    sweep = node.finish(sweep)
    assert sweep.status == "failed" and "cpu-b" in sweep.reason and "cpu-a" in sweep.reason


def test_a_broker_that_is_away_delays_and_loses_nothing(world: World, node: Node):
    sweep = started(world)
    node.run(steps=3)
    before = TrialRecord.objects.count()
    node.away = True
    with pytest.raises(BrokerAway):
        node.run()
    node.away = False
    assert TrialRecord.objects.count() - before in (0, 1)
    assert node.finish(sweep).status == "done" and len({order.id for order in node.orders}) == len(node.orders)


def test_a_worker_that_dies_after_ordering_orders_the_trial_once(world: World, node: Node):
    sweep = started(world)
    node.run(steps=2)
    last = node.orders[-1]
    TrialRecord.objects.filter(sweep=sweep, ended=None).update(sent=None)  # it died before it could say so
    node.run(steps=2)
    assert [order.id for order in node.orders].count(last.id) == 1
    assert node.finish(sweep).status == "done"


def test_a_task_of_a_dataflow_is_fed_by_what_is_upstream_of_it(world: World):
    record = planned(world.carla, world.city, document("traffic")).dataflow
    target = target_of_task(viewer_of(world.vera), record.pk, "average")
    assert [task["type"] for task in target.feed] == ["urban_sensing", "senml_parse"]
    assert target.feed[0]["config"]["rate_per_s"] == 50 and target.config["window"] == 10
    assert target.team_id is None and "sense → parse" in target.fed_by
    with pytest.raises(NotFound):
        target_of_task(viewer_of(world.vera), record.pk, "nothing")


def test_what_is_measured_of_a_private_dataflow_is_its_teams_alone(world: World, node: Node):
    record = planned(world.carla, world.city, document("own", visibility="private", window=77)).dataflow
    for stranger in (world.mo, world.outsider):
        with pytest.raises(NotFound):
            target_of_task(viewer_of(stranger), record.pk, "average")
    target = target_of_task(viewer_of(world.carla), record.pk, "average")
    for outside in (world.mo, world.vera):
        with pytest.raises(PermissionDenied):
            start_sweep(actor=outside, target=target, slot="n1/1")
    sweep = started(world, target=target)
    node.run()
    assert "block_average" not in slot().reserved_for  # everybody reads what a slot is reserved for
    sweep = node.finish(sweep)
    for stranger in (world.mo, world.outsider):
        viewer = viewer_of(stranger)
        assert not selectors.sweeps(viewer).exists() and not selectors.profiles(viewer).exists()
        hidden = (
            (selectors.sweep, sweep.pk), (selectors.profile, sweep.profile_id),
            (selectors.trial, sweep.trials.first().pk))
        for read, subject_id in hidden:
            with pytest.raises(NotFound):
                read(viewer, subject_id)
        with pytest.raises(NotFound):
            pause_sweep(actor=stranger, sweep_id=sweep.pk)
    assert selectors.profiles(viewer_of(world.vera)).get() == sweep.profile
    task = Task("t", "block_average", {"window": 77})
    for others in (selectors.profiles_for([task]), selectors.profiles_for([task], team="mobility")):
        assert is_estimate(others.find(task))
    assert selectors.profiles_for([task], team="city").find(task) == profile_of(sweep.profile)


def test_a_config_is_checked_before_anything_is_asked_for(db):
    with pytest.raises(InvalidDataflow, match="problem"):
        target_of_type("block_average", {"windw": 3}, feed_key="source:urban_sensing")
    with pytest.raises(UnknownTaskType):
        target_of_type("nothing", {}, feed_key="")
    with pytest.raises(NotFound):
        target_of_type("block_average", {"window": 3}, feed_key="source:nothing")


def test_samples_say_how_a_type_is_fed(db):
    ways = feeds_for(installed("senml_parse"))
    assert "as in the sample" in ways[0].title and ways[0].chain[0]["type"] != "senml_parse"
    assert feeds_for(installed("urban_sensing"))[0].chain == ()
    assert all("rate_per_s" in way.chain[0]["config"] for way in ways)  # as a running source's has it
    assert json.loads(json.dumps(target_of_type("senml_parse", {}, feed_key="").feed))


def test_a_stateful_type_is_measured_with_one_thread(world: World, node: Node):
    stateful = next(task_type for task_type in selectors.jobs.task_types().values() if task_type.stateful
                    and task_type.kind == "transform"
                    and not any(parameter.required for parameter in task_type.parameters))
    sweep = started(world, target=target_of_type(stateful.name, {}, feed_key="source:urban_sensing"))
    assert node.finish(sweep).status == "done" and {order.threads for order in node.orders} == {1}


def test_a_profile_for_any_config_is_found_for_every_one(world: World, node: Node):
    node.finish(started(world, any_config=True))
    assert ProfileRecord.objects.get().config == ""


def test_what_takes_long_for_an_event_is_measured_by_the_usual_bounds(world: World, node: Node):
    """A service that answers within a third of a second holds 3 events/s with one thread, and 48 with sixteen."""
    node.peak = lambda threads: 3.0 * threads
    profile = profile_of(node.finish(started(world, bounds=None)).profile)
    assert profile.peak.threads == 16 and 45 <= profile.peak.rate_per_s <= 48


@pytest.mark.parametrize("given", [
    {"seconds": 0.0}, {"warm_up_s": -1.0}, {"seconds": 500.0}, {"bounds": Sweep(budget_s=0.0)},
    {"bounds": Sweep(budget_s=float("inf"))}, {"bounds": Sweep(largest_threads=10_000)}, {"seconds": float("nan")},
    {"bounds": Sweep(smallest_rate_per_s=1e100, largest_rate_per_s=1e100)},
    {"bounds": Sweep(smallest_rate_per_s=0.2)}, {"seconds": 0.5},
])
def test_bounds_that_measure_nothing_are_refused(world: World, given):
    with pytest.raises(InvalidResources):
        started(world, **given)


def test_only_engineers_measure_and_steer(world: World, node: Node):
    sweep = started(world)
    for nobody in (world.vera, world.outsider):
        with pytest.raises(PermissionDenied):
            started(world, actor=nobody)
        with pytest.raises(PermissionDenied):
            cancel_sweep(actor=nobody, sweep_id=sweep.pk)


def test_the_estate_is_not_moved_on_by_a_sweep_that_goes_on(world: World, node: Node):
    sweep = started(world)
    node.run()
    generation = EstateState.objects.get().generation
    node.run(steps=5)
    assert EstateState.objects.get().generation == generation
    cancel_sweep(actor=world.carla, sweep_id=sweep.pk)


def test_workers_that_come_at_once_order_each_trial_once(committed_world: World, node: Node):
    sweep = started(committed_world)
    for _ in range(6):
        node.now += timedelta(seconds=2)
        assert at_once(*[lambda: advance_sweeps(at=node.now)] * 3) == [1, 1, 1]
        node.work()
    trials = list(sweep.trials.exclude(ended=None))
    assert len(trials) >= 4 and [trial.number for trial in trials] == list(range(1, len(trials) + 1))
    assert len({order.id for order in node.orders}) == len(node.orders) >= len(trials)
    assert all(trial.rate_per_s != other.rate_per_s or trial.threads != other.threads or not trial.stable
               for trial in trials for other in trials if trial.number < other.number)


def test_a_sweep_outlives_bounds_that_a_new_version_no_longer_knows(world: World, node: Node):
    sweep = started(world)
    sweep.bounds |= {"patience": 3}
    sweep.save()
    assert node.finish(sweep).status == "done"
