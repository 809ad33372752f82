"""One price for one question: whatever tells what a dataflow costs says the same, from the first look to the bill."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from dashboard.approvals.services import pause_dataflow, prepare_proposal, switch_alternate
from dashboard.bills.charging import record_usage
from dashboard.bills.dataflow_costs import DataflowCost, cost_of
from dashboard.bills.models import UsageHour
from dashboard.catalog.models import DataflowRecord
from dashboard.explorer.overlap_reader import overlap_pair
from dashboard.explorer.preview import preview_submission
from dashboard.explorer.task import running_task
from dashboard.operations.estate_store.estate_loader import stored_estate
from dashboard.operations.models import Use
from dashboard.plans.latency_prices import latency_prices
from dashboard.plans.models import PlanRecord
from dashboard.plans.selectors import plan_of
from dashboard.plans.site_plan_kinds.pause_kind import PAUSING, RESUMPTION
from dashboard.plans.site_plan_kinds.removal_kind import REMOVAL
from dashboard.plans.site_plan_kinds.site_plan_kind import SitePlanKind
from dashboard.schedules.as_it_runs import as_it_runs
from dashboard.teams.models import User
from dashboard.teams.permissions import viewer_of
from scheduler.contracts.switches import AlternateSwitch
from scheduler.model.cost_figures import BILLED, ESTIMATED, MEASURED, CostFigure
from scheduler.model.plan import Price
from scheduler.read_set import ReadTrackingView
from tests.dashboard.building import World, approved, document, dynamic, enacted, planned, removal_planned, running
from tests.dashboard.played import Played
from tests.dashboard.slots_at_work import NOON, Slots, passes

SAME = pytest.approx


def price_of_kind(record: DataflowRecord, kind: SitePlanKind) -> Price:
    """What a plan of that kind would be priced with now; it is not kept."""
    record.refresh_from_db()
    plan = kind.compute(PlanRecord(kind=kind.name, dataflow=record, version=1), ReadTrackingView(stored_estate()))
    assert plan.price is not None
    return plan.price


def previewed(world: World, record: DataflowRecord, text: str) -> dict[str, Any]:
    return preview_submission(viewer_of(world.carla), team=record.team, text=text)


@dataclass
class Told:
    """What all places tell of one dataflow that runs, to one of its team."""

    cost: DataflowCost
    whole_cores: dict[str, float]
    whole_per_hour: dict[str, float]
    pays: dict[str, float]

    def agrees(self) -> CostFigure:
        for place, cores in self.whole_cores.items():
            assert cores == SAME(self.cost.whole.cores, abs=2e-6), place
        for place, per_hour in self.whole_per_hour.items():
            assert per_hour == SAME(self.cost.whole.per_hour, abs=2e-6), place
        for place, per_hour in self.pays.items():
            assert per_hour == SAME(self.cost.pays.per_hour, abs=2e-6), place
        return self.cost.whole


def told_of(user: User, record: DataflowRecord) -> Told:
    viewer, client, key = viewer_of(user), Client(), str(record.pk)
    client.force_login(user)
    cost = cost_of(viewer, key)
    api = client.get(f"/api/dataflows/{key}/cost").json()
    page = client.get(f"/dataflows/{key}/")
    offers = client.get(f"/api/dataflows/{key}/latency/prices").json()
    bill = client.get(f"/bills/{key}/") if UsageHour.objects.filter(dataflow=record).exists() else None
    tasks = [running_task(viewer, task)["cost"] for task in
             Use.objects.filter(dataflow=record).values_list("running_task_id", flat=True)]
    answers = Told(
        cost,
        {"API": api["whole"]["cores"], "page": page.context["cost"].whole.cores, "slider": offers["cores"],
         "tasks": sum(task.cores for task in tasks)},
        {"API": api["whole"]["per_hour"], "tasks": sum(task.per_hour for task in tasks)},
        {"API": api["pays"]["per_hour"], "slider": offers["pays_per_hour"]})
    assert f'data-cost="{cost.whole.basis}"' in page.content.decode()
    printed = StringIO()
    call_command("cost", key, "--as", user.username, stdout=printed)
    for figure in (cost.whole, cost.pays):
        assert f"{figure.cores:.3f} cores" in printed.getvalue() and figure.basis in printed.getvalue()
    if cost.works:
        answers.whole_cores["Compare"] = as_it_runs(viewer, record).cores
        answers.whole_cores["removal, whole"] = price_of_kind(record, REMOVAL).cores_alone
    if bill is not None:
        answers.pays["bill"] = bill.context["cost"].pays.per_hour
    return answers


def test_alone_everything_says_the_same_from_the_first_look_to_the_bill(world: World, slots: Slots) -> None:
    text = document("traffic")
    proposal = planned(world.carla, world.city, text)
    record, viewer = proposal.dataflow, viewer_of(world.carla)
    price = plan_of(proposal.plan).price

    # Before approval: preview, plan, API and slider.
    first = cost_of(viewer, record.pk)
    assert (first.works, first.whole.basis, first.planned, first.pays) == (False, ESTIMATED, None, None)
    assert first.whole.low < first.whole.cores < first.whole.high
    assert price.cores_delta == price.cores_alone == SAME(first.whole.cores, abs=1e-6)
    assert price.money_per_hour_delta == SAME(first.whole.per_hour, abs=1e-6)
    shown = previewed(world, record, document("traffic-too", visibility="private"))
    assert shown.cores_added == shown.whole.cores == SAME(first.whole.cores, abs=1e-6)
    assert shown.cores_error == price.cores_error > 0
    assert latency_prices(viewer, record.pk)["cores"] == SAME(first.whole.cores, abs=1e-6)

    # Young: as the plan said.
    record = enacted(approved(proposal, world.ana)).dataflow
    record_usage(at=NOON)
    young = told_of(world.carla, record).agrees()
    assert (young.basis, young.cores) == (ESTIMATED, SAME(price.cores_delta, abs=1e-6))

    # After some minutes: what was measured, whatever was planned.
    at = passes(slots, minutes=4, since=NOON)
    assert cost_of(viewer, record.pk).whole.basis == ESTIMATED, "its compilers have just worked"
    at = passes(slots, minutes=6, since=at)
    answers = told_of(world.carla, record)
    measured = answers.agrees()
    assert measured.basis == MEASURED and measured.since_ms > NOON.timestamp() * 1000
    assert answers.cost.planned.cores == SAME(price.cores_alone, abs=1e-6), "planned … beside measured …"
    busy = max(slots.cpu_ms.values()) / 600 / 1000
    assert measured.cores == SAME(busy, rel=0.02), "all that its slot took"
    for kind in (PAUSING, REMOVAL):
        freed = price_of_kind(record, kind)
        assert freed.cores_delta == SAME(-measured.cores, abs=2e-6) and freed.rests_on == MEASURED
        assert freed.money_per_hour_delta == SAME(-measured.per_hour, abs=2e-6)

    # From the first whole hour: what was billed.
    passes(slots, minutes=75, since=at)
    billed = told_of(world.carla, record).agrees()
    assert billed.basis == BILLED and billed.cores == SAME(measured.cores, rel=0.05)
    hour = UsageHour.objects.filter(dataflow=record, hour=NOON)
    needed_h = max(row.needed_ms for row in hour) / 3_600_000
    assert billed.per_hour == SAME(sum(row.cost_nanos for row in hour) / 1e9 / needed_h, rel=1e-6)
    assert price_of_kind(record, PAUSING).rests_on == BILLED


@pytest.mark.long  # tests/scheduler/test_running_costs.py has when what was billed is told
def test_where_it_costs_something_else_now_what_was_billed_is_not_told(world: World, slots: Slots) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    record_usage(at=NOON)
    at = passes(slots, minutes=70, since=NOON)
    before = told_of(world.carla, record).agrees()
    slots.truth = replace(slots.truth, query_batch_s=4 * slots.truth.query_batch_s)
    passes(slots, minutes=15, since=at)
    now = told_of(world.carla, record).agrees()
    assert (before.basis, now.basis) == (BILLED, MEASURED) and now.cores > 1.5 * before.cores


def test_shared_tasks_are_divided_and_nothing_is_lost(world: World, slots: Slots) -> None:
    first = running(world.carla, world.city, document("traffic"), world.ana)
    record_usage(at=NOON)
    text = document("jams", window=20)
    proposal = planned(world.mo, world.mobility, text)
    price = plan_of(proposal.plan).price
    second = enacted(approved(proposal, world.ben, world.ana)).dataflow
    viewer = viewer_of(world.root)

    at = NOON
    for minutes in (0, 15, 70):  # estimated, measured, billed
        at = passes(slots, minutes=minutes, since=at)
        costs = [told_of(world.root, record) for record in (first, second)]
        for answers in costs:
            answers.agrees()
        (one, other) = (answers.cost for answers in costs)
        tasks = set(Use.objects.values_list("running_task_id", flat=True))
        everything = sum(running_task(viewer, task)["cost"].per_hour for task in tasks)
        shared = overlap_pair(viewer, first.pk, second.pk)["cost"]
        assert one.pays.per_hour + other.pays.per_hour == SAME(everything, abs=2e-6), "nothing is lost"
        assert one.whole.per_hour + other.whole.per_hour - shared.per_hour == SAME(everything, abs=2e-6)
        assert other.pays.per_hour == SAME(other.whole.per_hour - shared.per_hour / 2, abs=2e-6)
        if not minutes:
            assert other.whole.cores == SAME(price.cores_alone, abs=2e-6), "as the plan said"
        [change] = plan_bill_changes(second)
        assert change == SAME(shared.per_hour / 2, abs=2e-6), "the other one pays for all of it then"
        freed = price_of_kind(second, REMOVAL)
        assert freed.cores_delta == SAME(-(other.whole.cores - shared.cores), abs=2e-6)
        again = previewed(world, first, json.dumps(json.loads(text) | {"name": "jams-too"}))
        assert (again.cores_added, again.whole.cores) == (0, SAME(other.whole.cores, abs=2e-6))


def plan_bill_changes(record: DataflowRecord) -> list[float]:
    record.refresh_from_db()
    plan = REMOVAL.compute(
        PlanRecord(kind=REMOVAL.name, dataflow=record, version=1), ReadTrackingView(stored_estate()))
    return [change.money_per_hour_delta for change in plan.bill_changes]


def test_paused_it_pays_nothing_and_removed_it_costs_nothing(world: World, slots: Slots) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    record_usage(at=NOON)
    at = passes(slots, minutes=15, since=NOON)
    before, viewer = cost_of(viewer_of(world.carla), record.pk), viewer_of(world.carla)
    pause = prepare_proposal(proposal_id=pause_dataflow(actor=world.carla, dataflow_id=record.pk).pk)
    assert plan_of(pause.plan).price.cores_delta == SAME(-before.whole.cores, abs=2e-6)
    enacted(approved(pause, world.ana))
    record_usage(at=at)

    paused = cost_of(viewer, record.pk)
    told_of(world.carla, record).agrees()
    assert (paused.works, paused.pays.per_hour, paused.pays.cores) == (False, 0, 0)
    assert paused.whole.cores == SAME(before.whole.cores, abs=2e-6), "what it would cost"
    back = price_of_kind(record, RESUMPTION)
    assert (back.cores_delta, back.rests_on) == (SAME(paused.whole.cores, abs=2e-6), MEASURED)

    gone = enacted(approved(removal_planned(world.carla, record), world.ana)).dataflow
    assert gone.status == "removed" and cost_of(viewer, record.pk) is None
    client = Client()
    client.force_login(world.carla)
    assert client.get(f"/api/dataflows/{record.pk}/cost").status_code == 404


def test_the_slider_stands_at_what_the_dataflow_costs(world: World, played: Played) -> None:
    record = running(world.carla, world.city, document("tuned", latency="500 ms"), world.ana)
    other = running(world.mo, world.mobility, document("slow", window=20, latency="20 s"), world.ben, world.ana)
    played.run(60)
    for dataflow, user, limit_s in ((record, world.carla, 0.5), (other, world.mo, 20.0)):
        answer = latency_prices(viewer_of(user), dataflow.pk)
        cost = cost_of(viewer_of(user), dataflow.pk)
        [of_limit] = [offer for offer in answer["offers"] if offer["limit_s"] == limit_s]
        assert not answer["estimated"] and answer["cores"] == SAME(cost.whole.cores, abs=1e-6)
        assert answer["pays_per_hour"] == SAME(cost.pays.per_hour, abs=1e-6)
        assert of_limit["cores"] == SAME(cost.whole.cores, abs=1e-4)
        assert of_limit["pays_cores"] == SAME(cost.pays.cores, abs=1e-4)
        assert of_limit["pays_per_hour"] == SAME(cost.pays.per_hour, abs=1e-5)


def work_of(client: Client, record: DataflowRecord) -> dict[str, Any]:
    """What the API tells of each alternate of the one dynamic task."""
    [task] = client.get(f"/api/dataflows/{record.pk}/alternates").json()
    return {figures["name"]: figures for figures in task["figures"]}


def switched(world: World, record: DataflowRecord, alternate: str) -> Price:
    """Another alternate is on; what its plan was priced with."""
    proposal = prepare_proposal(proposal_id=switch_alternate(
        actor=world.carla, dataflow_id=record.pk, task="work", alternate=alternate).pk)
    enacted(approved(proposal, world.ana))
    return plan_of(proposal.plan).price


@pytest.mark.long  # tests/scheduler/test_alternate_costs.py has what alternates cost, the first test all places
def test_a_dynamic_task_costs_what_the_alternate_that_is_on_was_seen_to_take(
    world: World, slots: Slots, noted: AlternateSwitch,
) -> None:
    slots.event_us, slots.gives = {"all": 40_000.0, "few": 2_000.0}, {"few": 0.25}
    client = Client()
    client.force_login(world.root)
    proposal = planned(world.carla, world.city, dynamic("traffic"))
    price = plan_of(proposal.plan).price
    first = cost_of(viewer_of(world.carla), proposal.dataflow.pk).whole
    shown = previewed(world, proposal.dataflow, dynamic("traffic-too", visibility="private"))
    assert price.cores_delta == shown.cores_added == SAME(first.cores, abs=1e-6)
    record = enacted(approved(proposal, world.ana)).dataflow
    record_usage(at=NOON)
    young = told_of(world.carla, record).agrees()
    assert (young.basis, young.cores) == (ESTIMATED, SAME(price.cores_delta, abs=1e-6)), "as the plan said"
    assert {ways["selectivity_is_measured"] for ways in work_of(client, record).values()} == {False}

    at = passes(slots, minutes=10, since=NOON)
    with_all = told_of(world.carla, record).agrees()
    ways = work_of(client, record)
    assert (ways["all"]["is_on"], ways["all"]["cost"]["basis"], ways["all"]["selectivity"]) == (True, MEASURED, 1.0)
    assert ways["few"]["cost"]["basis"] == ESTIMATED and not ways["few"]["selectivity_is_measured"]
    assert ways["all"]["event_s"] > 10 * ways["few"]["event_s"] and [way["worth"] for way in ways.values()] == [1, 0.5]

    # Switched: what the other one was seen to take is no figure of this one.
    changes = switched(world, record, "few")
    assert changes.cores_delta == SAME(ways["few"]["cost"]["cores"] - ways["all"]["cost"]["cores"], abs=2e-6)
    told_of(world.carla, record).agrees()
    assert work_of(client, record)["few"]["cost"] == ways["few"]["cost"], "not yet seen at work"
    at = passes(slots, minutes=20, since=at)
    with_few = told_of(world.carla, record).agrees()
    ways_then = work_of(client, record)
    assert ways_then["few"]["cost"]["basis"] == MEASURED and ways_then["few"]["selectivity"] == SAME(0.25, rel=1e-3)
    assert ways_then["all"]["cost"] == ways["all"]["cost"], "as it was when it was on last"
    assert 0 < with_few.cores < with_all.cores / 2

    # Back: the plan says what both were seen to take, here and behind it, and so does the page once it is in force.
    back = switched(world, record, "all")
    now = told_of(world.carla, record).agrees()
    assert back.rests_on == MEASURED
    assert back.cores_delta >= ways["all"]["cost"]["cores"] - ways_then["few"]["cost"]["cores"]
    freed = now.cores - with_few.cores
    assert freed == SAME(ways["all"]["cost"]["cores"] - ways_then["few"]["cost"]["cores"], abs=2e-6)
    at = passes(slots, minutes=75, since=at)
    assert told_of(world.carla, record).agrees().basis == MEASURED, "another was on in the hour that is over"
    passes(slots, minutes=30, since=at)
    billed = told_of(world.carla, record).agrees()
    assert billed.basis == BILLED and billed.cores == SAME(with_all.cores, rel=0.1), "the first hour of it alone"


def test_others_of_another_team_see_the_whole_and_not_the_bill(world: World, slots: Slots) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    client = Client()
    client.force_login(world.mo)
    answer = client.get(f"/api/dataflows/{record.pk}/cost").json()
    assert answer["pays"] is None and answer["latency_per_hour"] is None and answer["whole"]["cores"] > 0
