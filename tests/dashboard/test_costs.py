"""Costs in the database: what slots take is kept, learned from, and what plans and pages say of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from django.conf import settings
from django.test import Client

from dashboard import jobs
from dashboard.approvals.difference import difference
from dashboard.approvals.services import pause_dataflow, prepare_proposal
from dashboard.audit.models import AuditEntry
from dashboard.bills.charging import record_usage
from dashboard.catalog.models import DataflowRecord
from dashboard.explorer.merged import sheet, tasks_working
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.live_reader import live_estate
from dashboard.operations.live_view import cost_learning
from dashboard.operations.live_view.learned_costs import costs_here
from dashboard.operations.models import CostFit, CostObservation, NodeRow, RunningTaskRow
from dashboard.plans.price_settings import prices
from dashboard.plans.scheduling_problem import problem_of
from dashboard.plans.selectors import plan_of
from dashboard.profiles.services.importing import import_profiles
from dashboard.tasks import measuring
from dashboard.tasks.clock import SCHEDULE
from dashboard.teams.permissions import viewer_of
from scheduler.latency.batch_costs import batch_cost
from scheduler.latency.real_time import open_cost
from scheduler.latency.triggers import SMALLEST_S, BatchCost
from scheduler.model.costs import DECLARED, Costs
from tests.dashboard.building import PASSWORD, World, approved, document, enacted, planned, removal_planned, running
from tests.dashboard.slots_at_work import MACHINE, MINUTE, NOON, Slots, passes
from tests.pages.scheduling import PROFILES, linear


def started(world: World, slots: Slots) -> tuple[DataflowRecord, datetime]:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    record_usage(at=NOON)
    return record, NOON


def schedule_ends_as_seen(world: World, costs: Costs) -> None:
    """Sources and sinks without a profile take in schedules what such tasks were seen to take."""
    import_profiles(actor=world.carla, text=PROFILES)
    problem = problem_of(planned(world.carla, world.city, linear(visibility="private")).dataflow)
    sense, sensing = problem.job().profiles["sense"], jobs.task_types()["urban_sensing"]
    batch_s = costs.query_batch_s + costs.task_batch_s(sensing)
    assert sense.origin == "learned" and sense.one_thread.cpu == pytest.approx(
        batch_s * 1000 / settings.TRIGGER_MS + 50 * costs.task_event_us(sensing) / 1e6)


def test_what_slots_take_is_learned_and_plans_are_priced_with_it(world: World, slots: Slots) -> None:
    _, at = started(world, slots)
    running(world.carla, world.city, document("smog", window=20), world.ana)
    assert costs_here() == DECLARED
    text = document("jams", window=30, visibility="private")
    before = plan_of(planned(world.mo, world.mobility, text).plan)
    at = passes(slots, minutes=20, since=at)
    assert CostObservation.objects.filter(machine=MACHINE).exists()
    assert cost_learning.learn(at=at) == 1
    costs = costs_here()
    assert (costs.machine, costs.version) == (MACHINE, 1) and costs.queries >= 1
    assert costs.scale == pytest.approx(2.5, rel=0.02) and prices().costs == costs
    schedule_ends_as_seen(world, costs)
    plan = plan_of(planned(world.ben, world.mobility, document("trams", window=30, visibility="private")).plan)
    learned, declared = (  # without the driver's part: a query is declared with a third of it, and has all of it here
        price.cores_delta - price.queries_started * assumed.fixed_cores
        for price, assumed in ((plan.price, costs), (before.price, DECLARED)))
    assert learned == pytest.approx(2.5 * declared, rel=0.05) and costs.fixed_cores > DECLARED.fixed_cores
    assert plan.price.machine == MACHINE and plan.price.cores_error > 0 and plan.price.not_measured == ()
    assert before.price.measured_queries == 0


def test_the_price_of_a_frozen_plan_stays_when_more_is_learned(world: World, slots: Slots) -> None:
    _, at = started(world, slots)
    proposal = planned(world.mo, world.mobility, document("jams", window=30))
    frozen = plan_of(proposal.plan)
    cost_learning.learn(at=passes(slots, minutes=20, since=at))
    proposal.plan.refresh_from_db()
    assert plan_of(proposal.plan) == frozen
    assert approved(proposal, world.ben, world.ana).status == "executing", "and it is not stale by that"


def test_only_what_has_warmed_up_and_settled_is_kept(world: World, slots: Slots) -> None:
    slots.since = NOON - 5 * MINUTE  # a driver that has just started
    _, at = started(world, slots)
    at = passes(slots, minutes=4, since=at)
    assert not CostObservation.objects.exists(), "its compilers work"
    at = passes(slots, minutes=6, since=at)
    [row] = CostObservation.objects.all()
    seconds = row.seconds
    assert seconds < 600 and {len(query["tasks"]) for query in row.queries.values()} == {4}
    running(world.carla, world.city, document("smog", window=20, visibility="private"), world.ana)
    running(world.carla, world.city, document("rain", window=25, visibility="private"), world.ana)
    at = passes(slots, minutes=2, since=at)
    assert sum(CostObservation.objects.values_list("seconds", flat=True)) == pytest.approx(seconds, abs=61), (
        "what is new is not settled, on whatever slot it is")
    passes(slots, minutes=6, since=at)
    assert CostObservation.objects.count() > 1


def test_open_batches_are_learned_apart(world: World, slots: Slots, monkeypatch: pytest.MonkeyPatch) -> None:
    _, at = started(world, slots)
    running(world.carla, world.city, document("smog", window=20, visibility="private"), world.ana)
    at = passes(slots, minutes=20, since=at)
    assert cost_learning.learn(at=at) == 1
    before, observed = costs_here(), CostObservation.objects.count()
    assert before.group_cpu_s == pytest.approx(before.scale * DECLARED.group_cpu_s)

    slots.open = {next(iter(load_estate().fragments))}
    slots.truth = replace(slots.truth, group_cpu_s=0.02)
    at = passes(slots, minutes=2, since=at)
    assert CostObservation.objects.count() == observed, "the new mode has not settled"
    at = passes(slots, minutes=20, since=at)
    rows = [row for row in CostObservation.objects.all() if any("groups" in query for query in row.queries.values())]
    assert rows
    for row in rows:
        (query,) = [query for query in row.queries.values() if "groups" in query]
        assert query["groups"] == pytest.approx(10 * row.seconds, rel=0.01), "so many events came, one by one"
    assert cost_learning.learn(at=at) == 1
    learned = costs_here()
    assert 3 * before.group_cpu_s < learned.group_cpu_s < 0.02, "of one slot alone what is declared counts as well"
    assert learned.query_batch_s == pytest.approx(before.query_batch_s, rel=0.05)
    cost = batch_cost([], costs=learned, rate_per_s=10.0)
    assert opened_cores(cost) > opened_cores(batch_cost([], costs=before, rate_per_s=10.0)), "modes are chosen by it"


def opened_cores(cost: BatchCost) -> float:
    return open_cost(cost).cores(SMALLEST_S)


def test_what_says_nothing_new_makes_no_version_and_what_is_old_is_forgotten(world: World, slots: Slots) -> None:
    _, at = started(world, slots)
    at = passes(slots, minutes=20, since=at)
    assert [cost_learning.learn(at=at) for _ in range(3)] == [1, 0, 0]
    assert CostFit.objects.count() == 1
    assert cost_learning.learn(at=at + timedelta(days=30)) == 0
    assert not CostObservation.objects.exists() and costs_here().version == 1, "what was learned stays"


def test_repeating_a_reading_notes_nothing_twice(world: World, slots: Slots) -> None:
    _, at = started(world, slots)
    at = passes(slots, minutes=8, since=at)
    before = list(CostObservation.objects.values_list("seconds", "cpu_us"))
    record_usage(at=at)
    assert list(CostObservation.objects.values_list("seconds", "cpu_us")) == before


def test_a_node_whose_class_nobody_knows_teaches_nothing(world: World, slots: Slots) -> None:
    NodeRow.objects.update(machine="")
    _, at = started(world, slots)
    passes(slots, minutes=10, since=at)
    assert not CostObservation.objects.exists() and measuring.fit_costs() == 0
    assert measuring.fit_costs in [job.task for job in SCHEDULE]


def test_the_other_team_is_told_what_a_removal_does_to_its_bill(world: World, slots: Slots, client: Client) -> None:
    started(world, slots)
    second = running(world.mo, world.mobility, document("jams", window=20), world.ben, world.ana)
    proposal = removal_planned(world.mo, second)
    [change] = difference(viewer_of(world.mo), proposal)["bill_changes"]
    assert change["team"] == "City" and change["money_per_hour_delta"] > 0
    client.login(username="ben", password=PASSWORD)
    page = client.get(f"/proposals/{proposal.pk}/").content.decode()
    assert 'data-part="bill-changes"' in page and "Bill of City" in page
    before = AuditEntry.objects.filter(verb="bill.change").count()
    assert before == 1, "the submission made it smaller"
    enacted(approved(proposal, *(user for user in (world.ben,))))
    entry = AuditEntry.objects.filter(verb="bill.change").first()
    assert entry.team == world.city and entry.details["of"] == "Mobility"
    assert entry.details["money_per_hour"] == change["money_per_hour_delta"]
    client.login(username="carla", password=PASSWORD)
    bills = client.get("/bills/").content.decode()
    assert "Changed by others" in bills and 'data-team="city"' in bills
    client.login(username="mo", password=PASSWORD)
    assert "Changed by others" not in client.get("/bills/").content.decode()


def test_the_graph_counts_the_tasks_that_the_estate_counts(world: World, slots: Slots) -> None:
    first, _ = started(world, slots)
    running(world.mo, world.mobility, document("jams", window=20), world.ben, world.ana)
    proposal = prepare_proposal(proposal_id=pause_dataflow(actor=world.carla, dataflow_id=first.pk).pk)
    enacted(approved(proposal, world.ana))
    for user in (world.carla, world.mo, world.root):
        viewer = viewer_of(user)
        counted = live_estate(viewer)["counts"]["running_tasks"]
        assert sheet(viewer)["tasks_running"] == tasks_working(viewer) == counted < RunningTaskRow.objects.count()
