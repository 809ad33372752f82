"""Bundles that adaptation adds and takes on the site: the plan is that of any other schedule, and can be taken back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest
from django.utils import timezone

from dashboard import jobs, node_calls
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import prepare_proposal, propose_schedule, roll_back_proposal, set_rules
from dashboard.approvals.services.plan_holds import enact_held
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.services import choose_goals
from dashboard.controllers.models import ReasonRow, RoundRow
from dashboard.controllers.offered_schedules import schedule_for, schedule_in_force
from dashboard.operations.estate_store.estate_loader import load_estate
from scheduler.approving import Freeze, Rules
from scheduler.controllers.evidence.minute_forecasts import MinuteForecast, MinuteForecasts
from scheduler.history.series import QUERY, Series
from scheduler.model.costs import Costs
from scheduler.model.dataflow_goals import DataflowGoals
from scheduler.model.errors import NotEnactable
from scheduler.model.key_loads import KeyLoads
from scheduler.model.ring import KEY_GROUPS, KeyRange
from tests.dashboard.building import World, approved, enacted, running
from tests.dashboard.controlling import Loop, measured, phases
from tests.dashboard.schedules import at, rescheduled, scheduled
from tests.dashboard.test_keyed_schedules import keyed, mean, run  # noqa: F401 - a fixture
from tests.pages.scheduling import linear

ADAPTATION = "adaptation"
GOALS = DataflowGoals(most_per_hour=5.0, least_per_hour=0.01)


@pytest.fixture
def loop(profiled: World, monkeypatch: pytest.MonkeyPatch) -> Loop:
    monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading())
    event_us = Costs.task_event_us
    monkeypatch.setattr(
        Costs, "task_event_us", lambda costs, kind: 8_000.0 if kind.name == "pi_viete" else event_us(costs, kind))
    loop = Loop(profiled)
    loop.set("acts", controller=ADAPTATION)
    return loop


@pytest.fixture
def record(profiled: World) -> DataflowRecord:
    """Its schedule is for 20 events/s."""
    record = scheduled(profiled, at(20))
    choose_goals(actor=profiled.carla, dataflow_id=record.pk, goals=GOALS)
    return record


def comes(loop: Loop, record: DataflowRecord, per_s: float, behind: Mapping[Series, float] | None = None) -> None:
    """Two minutes of that."""
    estate = load_estate()
    tasks = set(estate.submitted[str(record.pk)].running.values())
    queries = {bundle.id for task in tasks for bundle in estate.fragments[estate.places[task][0]].queries}
    measured(loop.at - timedelta(seconds=120), loop.at, dataflow=str(record.pk), queries=queries, tasks=tasks,
             cores=1.0, rate_per_s=per_s, behind={
                 **{Series(QUERY, query, "trigger_ms"): 1000.0 for query in queries}, **(behind or {})})


def bundles(record: DataflowRecord) -> int:
    estate = load_estate()
    return sum(
        not bundle.leaving for task in estate.submitted[str(record.pk)].running.values()
        for bundle in estate.fragments[estate.places[task][0]].queries)


def decided() -> Proposal:
    turn = RoundRow.objects.filter(controller=ADAPTATION).first()
    assert turn is not None, [row.why for row in ReasonRow.objects.filter(controller=ADAPTATION)]
    return prepare_proposal(proposal_id=Proposal.objects.get(round=turn).pk)


def test_more_comes_than_the_schedule_holds_and_bundles_are_added(loop: Loop, record: DataflowRecord) -> None:
    before = bundles(record)
    comes(loop, record, 40.0)
    loop.run()
    proposal = decided()
    assert (proposal.plan.kind, proposal.status, proposal.author) == ("schedule", "executing", None)
    assert proposal.plan.options["schedule"] == {
        "pair": ["MBA", "SAM"], "rate_per_s": 50.0, "routing": "slot_aware"}
    enacted(proposal)
    assert bundles(record) > before
    now = schedule_in_force(str(record.pk))
    assert now is not None and now.sustained_per_s >= 50.0
    loop.run()
    assert phases(ADAPTATION) == ["checking"]


def test_bundles_are_added_before_a_rise_that_is_forecast(
    loop: Loop, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = bundles(record)
    comes(loop, record, 16.0)
    loop.run()
    assert not RoundRow.objects.filter(controller=ADAPTATION).exists(), "what comes now fits"
    monkeypatch.setattr(MinuteForecasts, "rates", lambda _, history, sources, now_s: {
        source: MinuteForecast(now_s, 16.0, (40.0,) * 7, (0.05,) * 7, 0.05, "season") for source in sources})
    loop.at += timedelta(seconds=120)
    comes(loop, record, 16.0)
    loop.run()
    proposal = decided()
    assert proposal.plan.options["schedule"]["rate_per_s"] == 50.0, "for what is to come"
    enacted(proposal)
    assert bundles(record) > before


def test_little_comes_and_bundles_are_taken(profiled: World, loop: Loop, record: DataflowRecord) -> None:
    enacted(approved(rescheduled(profiled, record, at(50)), profiled.ana))
    many = bundles(record)
    comes(loop, record, 10.0)
    loop.run()
    enacted(decided())
    assert bundles(record) < many
    [change] = RoundRow.objects.get(controller=ADAPTATION).decision["changes"]
    assert (change["before"], change["after"]) == ("50", "12.5")


def test_what_does_not_keep_its_promise_is_taken_back(loop: Loop, record: DataflowRecord) -> None:
    before = bundles(record)
    comes(loop, record, 40.0)
    loop.run()
    enacted(decided())
    loop.run()
    for _ in range(13):  # most of what could leave still does not
        loop.at += timedelta(seconds=60)
        estate = load_estate()
        tasks = estate.submitted[str(record.pk)].running
        measured(loop.at - timedelta(seconds=60), loop.at, dataflow=str(record.pk), queries={"none"},
                 tasks=set(tasks.values()) - {tasks["out"]}, cores=1.0, rate_per_s=40.0,
                 behind={Series("task", tasks["out"], "rate_per_s"): 4.0})
    loop.run()
    turn = RoundRow.objects.get(controller=ADAPTATION)
    assert turn.phase == "rolling_back", turn.why
    proposal = Proposal.objects.get(round=turn)
    assert proposal.status == "rolling_back"
    enacted(proposal)
    assert bundles(record) == before
    now = schedule_in_force(str(record.pk))
    assert now is not None and now.source_per_s == 20.0, "the schedule before is the one in force"


def test_a_schedule_that_is_done_is_taken_back_by_hand_too(profiled: World, record: DataflowRecord) -> None:
    before = bundles(record)
    done = enacted(approved(rescheduled(profiled, record, at(50)), profiled.ana))
    assert done.status == "done" and bundles(record) > before
    enacted(roll_back_proposal(actor=profiled.ana, proposal_id=done.pk))
    assert bundles(record) == before


def test_what_a_person_chooses_in_its_place_is_reviewed(profiled: World, loop: Loop, record: DataflowRecord) -> None:
    """In a freeze the plan of a controller that acts is held, and an engineer may still choose another schedule."""
    now_ms = round(timezone.now().timestamp() * 1000)
    freeze = Rules(freezes=(Freeze(now_ms - 1000, now_ms + 3_600_000, "holidays"),))
    set_rules(actor=profiled.ana, team=profiled.city, rules=freeze)
    comes(loop, record, 40.0)
    loop.run()
    held = decided()
    assert held.status == "pending" and held.held and not held.teams.exists()
    chosen = prepare_proposal(
        proposal_id=propose_schedule(actor=profiled.carla, dataflow_id=record.pk, choice=at(30)).pk)
    assert (chosen.pk, chosen.chosen_by, chosen.held) == (held.pk, profiled.carla, None)
    assert enact_held(at=timezone.now() + timedelta(hours=2)) == []
    assert [team.slug for team in chosen.teams.all()] == ["city"], "it has to approve"


@pytest.mark.long  # test_controllers.py has recommendations
def test_a_recommended_schedule_waits_for_people(profiled: World, loop: Loop, record: DataflowRecord) -> None:
    loop.set("recommends", controller=ADAPTATION)
    before = bundles(record)
    comes(loop, record, 40.0)
    loop.run()
    proposal = decided()
    assert proposal.status == "pending" and bundles(record) == before
    enacted(approved(proposal, profiled.ana))
    assert bundles(record) > before


def test_a_ring_is_cut_anew_where_its_fullest_bundle_is_behind(
    keyed: World, loop: Loop, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    record = run(keyed, 50)
    choose_goals(actor=keyed.carla, dataflow_id=record.pk, goals=GOALS)
    before = mean(record)
    loads = KeyLoads((90.0,) * 85 + (9.0,) * 171)  # the first third has most
    monkeypatch.setattr(node_calls, "key_loads", lambda writers: {before.id: loads} if before.id in writers else {})
    full = max(before.bundles, key=lambda bundle: loads.share(KeyRange(*bundle.key_ranges[0], bundle.id)))
    comes(loop, record, 38.0)
    loop.run()
    assert not RoundRow.objects.filter(controller=ADAPTATION).exists(), "all keep up"
    loop.at += timedelta(seconds=150)
    comes(loop, record, 38.0, {Series(QUERY, full.id, "cpu"): 0.97, Series(QUERY, full.id, "backlog_blocks"): 200.0})
    loop.run()
    proposal = decided()
    assert proposal.plan.options["schedule"]["rate_per_s"] == 50.0
    [change] = RoundRow.objects.get(controller=ADAPTATION).decision["changes"]
    assert (change["aspect"], change["subject"]) == ("keys of", before.tasks[0])
    enacted(proposal)
    after = [bundle for bundle in mean(record).bundles if not bundle.leaving]
    shares = [sum(loads.share(KeyRange(*keys, "")) for keys in bundle.key_ranges) for bundle in after]
    assert len(after) == len(before.bundles) and shares == pytest.approx([bundle.weight for bundle in after], abs=0.01)
    assert change["after"] == " + ".join(
        f"{100 * size / KEY_GROUPS:.2f}%" for _, size in sorted(keys for bundle in after for keys in bundle.key_ranges))


@pytest.mark.long  # tests/scheduler/controllers/test_bundle_adaptation.py has what stands against it
def test_slots_that_are_not_there_are_said(loop: Loop, record: DataflowRecord) -> None:
    comes(loop, record, 200.0)
    loop.run()
    assert not RoundRow.objects.filter(controller=ADAPTATION).exists()
    assert "more than there are" in ReasonRow.objects.get(controller=ADAPTATION, dataflow=record).why


def test_without_a_schedule_nothing_is_offered(profiled: World, loop: Loop) -> None:
    record = running(profiled.carla, profiled.city, linear("plain"), profiled.ana)
    assert schedule_in_force(str(record.pk)) is None
    with pytest.raises(NotEnactable):
        schedule_for(str(record.pk), 50.0)
