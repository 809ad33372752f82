"""Chaining on the site: a limit that is not met fuses two queries; too much load takes that back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta

import pytest
from django.utils import timezone

from dashboard import jobs
from dashboard.approvals.lifecycle import DONE, EXECUTING, ROLLING_BACK
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import prepare_proposal
from dashboard.catalog.models import DataflowRecord
from dashboard.controllers import selectors
from dashboard.controllers.models import ReasonRow, RoundRow
from dashboard.controllers.site_world import StoredWorld
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.models import BatchFigures, FragmentRow, LatencyStatus
from dashboard.plans.site_plan_kinds import defragmentation_kind
from dashboard.teams.permissions import viewer_of
from scheduler.contracts.reports import Reports
from scheduler.controllers.batch_opening import LIMITED
from scheduler.controllers.controller_registry import CONTROLLERS
from scheduler.controllers.defragmentation import CORES
from scheduler.controllers.evidence import chains
from scheduler.controllers.evidence.limited import LimitSeries, measured_by
from scheduler.controllers.loop_values import Policy
from scheduler.history.series import Series
from scheduler.latency.limits_met import IMPOSSIBLE, LATE, MET, MISSED
from scheduler.latency.task_chaining import CAPACITY
from scheduler.latency.triggers import BatchCost
from scheduler.model.errors import InvalidTransition
from scheduler.model.fragment import Slot
from scheduler.model.latency_limits import LatencyLimit, to_json
from tests.dashboard.building import World, approved, document, enacted, removal_planned, running
from tests.dashboard.controlling import Loop, made_by_weir, measured, phases
from tests.dashboard.rearranging import prepared

LIMIT = LatencyLimit(0.2)


@pytest.fixture
def loop(world: World, settings, monkeypatch: pytest.MonkeyPatch) -> Loop:
    settings.DEFRAGMENT_RATIO = 1e9  # that nothing is fused for the sake of CPU
    monkeypatch.setattr(jobs, "read_live", lambda *_: reading())
    made = Loop(world)
    made.set("off")
    made.set("acts", controller="chaining")
    return made


def reading(cpu: float | None = 0.1) -> jobs.LiveReading:
    """What the node reports: of each query so much CPU."""
    slots: dict[str, dict] = {}
    for fragment in load_estate().fragments.values():
        slot = slots.setdefault(str(Slot.of(fragment.slot).index), {"state": "running", "fragments": {}})
        slot["fragments"][fragment.id] = {"state": "running", "cpu": cpu}
    return jobs.LiveReading(reports=Reports.of({"n1": {"node": "n1", "slots": slots}}))


@pytest.fixture
def late(world: World, loop: Loop) -> DataflowRecord:
    """A dataflow in two queries whose limit cannot be met with two."""
    first = running(world.carla, world.city, document("traffic"), world.ana)
    record = running(world.carla, world.city, document("jams", window=20), world.ana)
    enacted(approved(removal_planned(world.carla, first), world.ana))
    loop.at = timezone.now()  # however long that took
    status_of(record, IMPOSSIBLE)
    return record


def status_of(
    record: DataflowRecord, state: str, *, lasting: timedelta = timedelta(seconds=chains.LASTS_S),
    hopeless: bool = False, number: int = 0, limit: LatencyLimit = LIMIT,
) -> None:
    estate, now = load_estate(), timezone.now()
    tasks = estate.submitted[str(record.pk)].running
    path = list(dict.fromkeys(estate.places[tasks[name]][0] for name in ("sense", "parse", "average", "out")))
    LatencyStatus.objects.update_or_create(dataflow=record, number=number, defaults={
        "limit": to_json((limit,)), "state": state, "expected_s": 0.5, "measured_s": 0.6, "least_s": 0.4,
        "path": [[query, 0.1, 0.15] for query in path], "since": now, "at": now,
        "late_since": now - lasting if state in LATE else None, "hopeless": hopeless})


def figures(
    loop: Loop, record: DataflowRecord, begin_s: float, end_s: float, *, cores: float, latency_ms: float,
    behind: Mapping[Series, float] | None = None,
) -> None:
    estate = load_estate()
    measured(
        loop.at + timedelta(seconds=begin_s), loop.at + timedelta(seconds=end_s), dataflow=str(record.pk),
        queries=list(estate.fragments), tasks=set(estate.submitted[str(record.pk)].running.values()), cores=cores,
        latency_ms=latency_ms, behind=behind)


def fused(loop: Loop, record: DataflowRecord) -> None:
    """The chain is made, and what was promised came."""
    figures(loop, record, -540, 0, cores=0.3, latency_ms=600.0)
    loop.run()
    (proposal,) = made_by_weir()
    prepared(proposal)
    proposal.refresh_from_db()
    assert proposal.status == EXECUTING
    enacted(proposal)
    status_of(record, MET)
    loop.run()
    figures(loop, record, 0, 960, cores=0.25, latency_ms=180.0)
    loop.run(later_s=960)
    assert phases("chaining") == ["kept"]


def test_a_limit_that_is_not_met_makes_two_queries_one(loop: Loop, late: DataflowRecord) -> None:
    assert len(load_estate().fragments) == 2

    fused(loop, late)

    assert len(load_estate().fragments) == 1
    assert "one less saves a batch" in RoundRow.objects.get().decision["why"]
    loop.run(later_s=1_000)
    assert phases("chaining") == ["kept"]


def cut() -> Proposal:
    """The newest proposal of chaining, with its plan."""
    proposal = made_by_weir()[-1]
    prepare_proposal(proposal_id=proposal.pk)
    proposal.refresh_from_db()
    return proposal


def test_a_chain_that_takes_a_core_is_cut_again(loop: Loop, late: DataflowRecord) -> None:
    fused(loop, late)
    loop.run(later_s=1_000)
    figures(loop, late, -540, 0, cores=0.95, latency_ms=180.0)

    loop.run(later_s=61)

    assert phases("chaining")[-1] in {"begun", "enacting"}
    enacted(cut())
    loop.run()
    assert len(load_estate().fragments) == 2
    assert phases("chaining")[-1] == "checking"


@pytest.mark.long  # tests/scheduler/controllers/test_chaining.py decides it, the test above cuts
def test_a_chain_is_cut_when_somebody_keeps_one_of_its_tasks_apart(
    world: World, loop: Loop, late: DataflowRecord
) -> None:
    fused(loop, late)
    text = json.loads(document("strict"))
    text["tasks"][1]["chain"] = "never"
    running(world.carla, world.city, json.dumps(text), world.ana)
    loop.run(later_s=1_000)

    assert "query of its own" in RoundRow.objects.order_by("pk").last().decision["why"]
    enacted(cut())
    status_of(late, IMPOSSIBLE)
    figures(loop, late, -540, 0, cores=0.3, latency_ms=600.0)
    loop.run(later_s=86_500)
    assert len(load_estate().fragments) == 3


def test_what_did_not_come_sooner_is_cut_again(loop: Loop, late: DataflowRecord) -> None:
    figures(loop, late, -540, 0, cores=0.3, latency_ms=600.0)
    loop.run()
    (proposal,) = made_by_weir()
    prepared(proposal)
    proposal.refresh_from_db()
    enacted(proposal)
    loop.run()
    figures(loop, late, 0, 960, cores=0.25, latency_ms=640.0)
    loop.run(later_s=960)

    proposal.refresh_from_db()
    assert proposal.status == ROLLING_BACK
    assert phases("chaining") == ["rolling_back"]


def test_a_query_whose_cpu_is_not_known_is_left_alone(
    loop: Loop, late: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "read_live", lambda *_: reading(cpu=None))
    loop.run()

    assert made_by_weir() == []
    assert "no two neighbours" in ReasonRow.objects.get(controller="chaining").why


@pytest.mark.long  # test_controllers.py has a rollback that cannot be
def test_a_cut_that_cannot_be_is_said_and_given_up(
    loop: Loop, late: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    fused(loop, late)
    loop.run(later_s=1_000)
    figures(loop, late, -540, 0, cores=0.95, latency_ms=180.0)

    def refused(*_: object, **__: object) -> None:
        raise InvalidTransition("The queries of jams were changed again.", remedy="There is nothing left to undo.")

    monkeypatch.setattr(defragmentation_kind, "undo", refused)
    loop.run(later_s=61)
    assert cut().status == "unplannable"
    loop.run()
    loop.run()

    loop.run(later_s=300)

    assert phases("chaining") == ["kept", "declined"], "it is tried again and again"
    assert "changed again" in RoundRow.objects.order_by("pk").last().why
    assert len(load_estate().fragments) == 1


def test_of_a_chain_that_was_made_in_two_rounds_the_newer_is_cut_first(loop: Loop, late: DataflowRecord) -> None:
    fused(loop, late)
    first, older = RoundRow.objects.get(), RoundRow.objects.get()
    older.pk, older.key, older.begun = None, "an-earlier-round", first.begun - timedelta(hours=1)
    older.save(force_insert=True)
    figures(loop, late, -540, 0, cores=0.95, latency_ms=180.0)

    (chain,) = chains.evidence(StoredWorld(loop.at)).fused

    assert chain.made_by == first.key


@pytest.fixture
def in_four(world: World, loop: Loop) -> DataflowRecord:
    """A dataflow whose four tasks are a query each: one that kept them apart had begun them, and has gone."""
    text = json.loads(document("apart"))
    text["tasks"] = [task | {"chain": "never"} for task in text["tasks"]]
    text["tasks"][-1]["config"] = {"name": "jams-out"}
    first = running(world.carla, world.city, json.dumps(text), world.ana)
    record = running(world.carla, world.city, document("jams"), world.ana)
    enacted(approved(removal_planned(world.carla, first), world.ana))
    loop.at = timezone.now()  # however long that took
    status_of(record, IMPOSSIBLE)
    return record


def shape() -> list[tuple[tuple[str, ...], str]]:
    """Tasks and slots of all queries."""
    return sorted((fragment.tasks, fragment.slot) for fragment in load_estate().fragments.values())


@pytest.mark.long  # tests/scheduler/controllers/test_chaining.py has the longest series
def test_four_queries_become_one_in_one_step_and_four_again(loop: Loop, in_four: DataflowRecord) -> None:
    before, output = shape(), load_estate().channel_of(load_estate().submitted[str(in_four.pk)].running["out"])
    assert len(before) == 4

    fused(loop, in_four)

    (turn,) = RoundRow.objects.all()
    assert "3 less save 3 batches" in turn.decision["why"]
    (only,) = load_estate().fragments.values()
    assert (len(only.tasks), only.slot in {slot for _, slot in before}) == (4, True)
    loop.run(later_s=1_000)
    figures(loop, in_four, -540, 0, cores=0.95, latency_ms=180.0)
    loop.run()
    enacted(cut())
    loop.run()
    assert shape() == before
    assert load_estate().channel_of(load_estate().submitted[str(in_four.pk)].running["out"]) == output


def test_queries_that_take_most_for_their_batches_have_room_as_one(
    loop: Loop, in_four: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "read_live", lambda *_: reading(0.25))
    loop.at += timedelta(seconds=10)
    figures(loop, in_four, -540, 0, cores=1.0, latency_ms=600.0)
    fragments = FragmentRow.objects.all()
    fragments.update(trigger_ms=150)
    for fragment in fragments:
        BatchFigures.objects.create(fragment=fragment, cost=asdict(BatchCost(0.05, 0.04)))
    candidate = chains.evidence(StoredWorld(loop.at)).late[0].steps[-1]
    assert candidate.cores == pytest.approx(0.5)
    assert longest(loop) == 4, "of 0.25 cores 0.22 are for being a query"

    fragments.filter(pk=fragments[0].pk).update(real_time=True)
    assert longest(loop) == 4, "what stays open is a part of a chain as well"
    fragments.update(real_time=True)
    assert longest(loop) == 2
    fragments.update(real_time=False, trigger_ms=2_000)
    assert longest(loop) == 2


def longest(loop: Loop) -> int:
    """How many queries the step that comes first makes one."""
    (first, *_) = CONTROLLERS["chaining"].evaluate(chains.evidence(StoredWorld(loop.at)), {}).decisions
    return len(first.arguments["queries"].split())


def test_a_limit_is_acted_on_once_it_was_not_met_for_two_rounds(loop: Loop, late: DataflowRecord) -> None:
    loop.at = timezone.now()
    status_of(late, MISSED, lasting=timedelta())
    loop.run(later_s=0)
    assert made_by_weir() == []

    loop.run(later_s=10)
    assert made_by_weir() == []

    loop.run(later_s=20)
    assert len(made_by_weir()) == 1


@pytest.mark.long  # test_pacing_at_once.py has what is hopeless
def test_a_limit_that_nothing_else_would_meet_is_acted_on_at_once(loop: Loop, late: DataflowRecord) -> None:
    loop.at = timezone.now()
    status_of(late, IMPOSSIBLE, lasting=timedelta())
    loop.run(later_s=0)
    assert made_by_weir() == []

    status_of(late, IMPOSSIBLE, lasting=timedelta(), hopeless=True)
    loop.run(later_s=10)
    assert len(made_by_weir()) == 1


def test_a_limit_that_is_met_changes_nothing(loop: Loop, late: DataflowRecord) -> None:
    status_of(late, MET)
    loop.run()
    assert made_by_weir() == []


@pytest.mark.parametrize("second", [  # scheduler/controllers/test_chaining.py has a limit however it is counted
    pytest.param(LatencyLimit(0.3), marks=pytest.mark.long), LatencyLimit(0.3, along=("parse", "average")),
    pytest.param(LatencyLimit(0.3, percentile=99.0), marks=pytest.mark.long)])
@pytest.mark.parametrize("comes", [True, False])
def test_a_chain_for_a_second_limit_is_held_to_it_and_cut_where_it_does_not_come(
    loop: Loop, late: DataflowRecord, second: LatencyLimit, comes: bool
) -> None:
    status_of(late, MET)
    status_of(late, IMPOSSIBLE, number=1, limit=second)
    figures(loop, late, -540, 0, cores=0.3, latency_ms=600.0)
    loop.run()

    (turn,) = RoundRow.objects.all()
    assert second.words in turn.decision["why"]
    bounds = {bound["measure"]: bound["at_most"] for bound in turn.decision["promise"]["bounds"]}
    assert bounds == {LIMITED: 525.0, CORES: CAPACITY}
    (proposal,) = made_by_weir()
    prepared(proposal)
    enacted(proposal)
    loop.run()
    behind = at_the_end(late, 500.0 if comes else 560.0, second)
    figures(loop, late, 0, 960, cores=0.25, latency_ms=1_000.0, behind=behind)
    loop.run(later_s=960)
    assert phases("chaining") == ["kept" if comes else "rolling_back"]


def at_the_end(record: DataflowRecord, latency_ms: float, limit: LatencyLimit) -> dict[Series, float]:
    """What is measured of a limit, where that is measured, and of nothing else."""
    estate = load_estate()
    limited = LimitSeries.of(measured_by(estate, str(record.pk), limit), estate)
    before_ms = 0.0 if limited.is_whole else 300.0
    return (dict.fromkeys(limited.begin.ages, before_ms) | dict.fromkeys(limited.begin.twice, 2 * before_ms)
            | dict.fromkeys({*limited.all} - {*limited.begin.series}, latency_ms + before_ms))


def test_of_limits_that_are_not_met_the_worst_is_acted_on(loop: Loop, late: DataflowRecord) -> None:
    status_of(late, IMPOSSIBLE, number=1, limit=LatencyLimit(0.1, along=("sense", "parse")))
    status_of(late, IMPOSSIBLE, number=2, limit=LatencyLimit(0.3))

    (way,) = chains.evidence(StoredWorld(timezone.now())).late

    assert way.limit_s == 0.1
    LatencyStatus.objects.filter(number=1).update(path=[["only", 0.1, 0.15]])
    (way,) = chains.evidence(StoredWorld(timezone.now())).late
    assert way.limit_s == 0.2, "one query less is no help to a way that is one query"


def test_what_cannot_be_chained_is_told(world: World, loop: Loop) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    status_of(record, IMPOSSIBLE)
    loop.run()
    assert made_by_weir() == []
    assert "one query already" in ReasonRow.objects.get(controller="chaining").why


@pytest.mark.parametrize("limit", [
    pytest.param(LIMIT, marks=pytest.mark.long), LatencyLimit(0.1, along=("parse", "average"), percentile=99.0)])
def test_a_dry_run_says_when_it_would_have_chained(
    world: World, loop: Loop, late: DataflowRecord, limit: LatencyLimit
) -> None:
    status_of(late, IMPOSSIBLE, number=1, limit=LatencyLimit(0.1, along=("parse", "average"), percentile=99.0))
    now, history = timezone.now(), DatabaseHistory()
    for at_s in range(int(now.timestamp()) - 3_600, int(now.timestamp()), 10):
        history.append(at_s, at_the_end(late, 600.0, limit))
    history.flush()
    DataflowRecord.objects.update(created=now - timedelta(hours=2))
    viewer = viewer_of(world.vera)
    played = selectors.played(viewer, CONTROLLERS["chaining"], team="city", hours=6, policy=Policy("off"))

    assert [turn.decision.target for turn in played.rounds] == [str(late.pk)]
    assert limit.words in played.rounds[0].decision.why
    assert RoundRow.objects.count() == 0
    assert all(proposal.status == DONE for proposal in made_by_weir())
