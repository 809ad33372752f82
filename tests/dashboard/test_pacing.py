"""Pacing: intervals follow limits and what is measured; who asks for less pays for it; nothing else changes."""

from __future__ import annotations

import random

import pytest
from django.test import Client

from dashboard import jobs, queue
from dashboard.alerts.readers import READERS, EvaluationScope
from dashboard.audit.models import AuditEntry
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.services import choose_latency
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.estate_store.fragment_settings import SET
from dashboard.operations.latency_control import pacer
from dashboard.operations.latency_control.latency_view import latency_of
from dashboard.operations.latency_control.pacer import EVERY_S, REPACED
from dashboard.operations.models import BatchFigures, LatencyStatus
from dashboard.plans.latency_prices import latency_prices
from dashboard.plans.latency_remedies import latency_with_remedies
from dashboard.plans.price_settings import prices_in_force
from dashboard.teams.permissions import viewer_of
from dashboard.teams.services import set_freshness
from scheduler.contracts.qos import QosSetup
from scheduler.contracts.reports import COPIES_ASKED_FOR
from scheduler.latency import batch_costs
from scheduler.model.latency_limits import LatencyLimit
from tests.dashboard.building import World, approved, document, enacted, planned, removal_planned, running
from tests.dashboard.played import Played, intervals, opened, status


def test_a_team_that_says_nothing_gets_five_seconds_and_few_batches(world: World, played: Played) -> None:
    record = running(world.carla, world.city, document("plain"), world.ana)

    notes = played.run(120)

    assert status(record).state == "met"
    assert status(record).measured_s <= 5.0
    assert min(intervals(record)) > 5_000, "batches as they were, 500 ms apart, cost twelve times more"
    assert {note.what for note in notes} == {REPACED}
    assert {note.subject for note in notes} == {str(record.pk)}


@pytest.mark.long  # tests/scheduler/latency/test_pacing.py has what stands
def test_queries_that_have_all_got_another_interval_do_not_go_back(world: World, played: Played) -> None:
    for module in (batch_costs, pacer):  # what is assumed before any query was seen is far from what batches take
        played.patch.setattr(module, "TIMES_ITS_CPU", 20.0)
    played.batch_s = 0.01
    record = running(world.carla, world.city, document("quick"), world.ana)

    played.run(90)
    settled = intervals(record)

    assert not played.run(120)
    assert intervals(record) == settled


@pytest.mark.long  # tests/scheduler/latency/test_status.py learns what the model lacks
def test_a_limit_is_met_though_events_take_longer_than_is_modelled(world: World, played: Played) -> None:
    played.beyond_s = 0.25
    record = running(world.carla, world.city, document("fast", latency="800 ms"), world.ana)

    played.run(200)

    assert status(record).state == "met"
    assert status(record).measured_s <= 0.8
    assert status(record).other_s == pytest.approx(0.25, abs=0.1)


@pytest.mark.long  # test_open_batches.py acts, tests/scheduler/latency/test_real_time.py chooses
def test_batches_stay_open_where_no_intervals_meet_a_limit(world: World, played: Played) -> None:
    played.refusal = ""
    record = running(world.carla, world.city, document("live", latency="50 ms"), world.ana)
    notes = played.run(120)
    assert opened(record)
    assert status(record).state == "met"
    assert status(record).measured_s < 0.05
    assert any("batches open" in note.text for note in notes)
    limit = latency_of(viewer_of(world.carla), record.pk)["limits"][0]
    assert all(part["real_time"] for part in limit["path"])
    played.state = "starting"  # as it is while its mode changes
    played.run(30)
    assert opened(record)
    played.state = "running"
    played.run(10)
    choose_latency(actor=world.carla, dataflow_id=record.pk, limits=(LatencyLimit(10.0),))
    played.run(60)
    assert opened(record), "with groups far apart that takes less than micro-batches"
    assert intervals(record) == {2000}
    played.refusal = "it runs Python (MapInArrow)"
    notes = played.run(20)
    assert not opened(record)
    assert any("micro-batches again" in note.text for note in notes)


def test_why_batches_cannot_stay_open_is_told_where_a_limit_lacks_it(world: World, played: Played) -> None:
    played.refusal = "it runs Python (MapInArrow)"
    record = running(world.carla, world.city, document("python", latency="50 ms"), world.ana)
    played.run(60)
    assert not opened(record)
    limit = latency_of(viewer_of(world.carla), record.pk)["limits"][0]
    assert limit["state"] == "impossible"
    assert "it runs Python (MapInArrow)" in limit["why"]


def test_copies_come_before_open_batches(world: World, played: Played) -> None:
    played.refusal = ""
    record = running(world.carla, world.city, document("copied", latency="50 ms"), world.ana)
    played.run(60)
    assert opened(record), "nobody asks for copies"
    played.copies = 1
    played.run(60)
    assert not opened(record)
    limit = latency_of(viewer_of(world.carla), record.pk)["limits"][0]
    assert limit["state"] == "impossible" and COPIES_ASKED_FOR in limit["why"]


def test_an_installation_may_have_micro_batches_alone(world: World, played: Played, settings) -> None:
    played.refusal, settings.REAL_TIME = "", False
    record = running(world.carla, world.city, document("batches", latency="50 ms"), world.ana)
    played.run(60)
    assert not opened(record)


def test_the_papers_steps_are_taken_by_nodes_and_noted_here(
    world: World, played: Played, settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    published: list[dict[str, QosSetup]] = []
    monkeypatch.setattr(
        jobs, "publish_qos", lambda setups, at_ms: published.append({setup.node: setup for setup in setups}))
    settings.PACING = "steps"
    record = running(world.carla, world.city, document("stepped", latency="300 ms"), world.ana)

    assert not played.run(60)
    assert status(record).state == "missed"
    assert intervals(record) <= {settings.TRIGGER_MS}, "the site chooses nothing"
    setup = published[-1]["n1"]
    assert {share.limit_s for share in setup.shares} == {0.3}
    assert all(query.managers == ("n1",) and query.longest_ms == 30_000 for query in setup.own.values())

    played.by_managers_ms = 125
    notes = played.run(60)
    assert status(record).state == "met"
    assert intervals(record) == {125}, "what is in force is kept for a node that takes a query over"
    assert [(note.what, note.subject) for note in notes] == [(REPACED, str(record.pk))]

    settings.PACING, played.qos = "planned", setup.version or 1
    played.run(10)
    assert published[-1] == {"n1": QosSetup(node="n1")}, "the site chooses intervals from now on"
    played.qos, number = 0, len(published)
    played.run(20)
    assert len(published) == number


def test_steps_that_cannot_get_there_are_not_awaited(world: World, played: Played, settings) -> None:
    settings.PACING, played.batch_s, played.by_managers_ms, played.refusal = "steps", 0.3, 375, ""
    record = running(world.carla, world.city, document("hasty", latency="100 ms"), world.ana)

    played.run(60)
    (limit,) = latency_with_remedies(viewer_of(world.carla), record.pk)["limits"]

    assert limit["state"] == "impossible"
    assert limit["least_s"] > 0.3
    assert limit["why"].startswith("With the shortest intervals")
    assert [remedy["kind"] for remedy in limit["remedies"]] == ["ask"], "batches do not stay open by steps"
    assert limit["remedies"][0]["limit_s"] > limit["least_s"]


def test_what_cannot_be_met_says_why_and_what_would(world: World, played: Played) -> None:
    played.batch_s = 0.3
    record = running(world.carla, world.city, document("hasty", latency="100 ms"), world.ana)

    played.run(60)
    (limit,) = latency_with_remedies(viewer_of(world.carla), record.pk)["limits"]

    assert limit["state"] == "impossible"
    assert limit["least_s"] > 0.3
    assert "300 ms" in limit["why"]
    (ask,) = limit["remedies"]
    assert ask["kind"] == "ask", "it is one query, and its slot has room"
    assert ask["words"].startswith("Ask for")
    assert ask["limit_s"] > limit["least_s"]
    assert ask["per_hour"] > 0, "batches would follow one another"
    rule = READERS["latency_limit"](EvaluationScope(world.city, played.now_s))
    (reading,) = [reading for reading in rule.values() if reading.value]
    assert "cannot be met" in reading.text and "hasty" in reading.text
    (other_rule,) = [READERS["latency_limit"](EvaluationScope(world.mobility, played.now_s))]
    assert not any(reading.value for reading in other_rule.values())


@pytest.mark.long  # tests/scheduler/latency/test_status.py has it
def test_a_limit_that_held_over_its_span_is_met_though_the_model_says_it_cannot_be(
    world: World, played: Played
) -> None:
    played.batch_s, played.beyond_s = 0.3, -0.4  # events take less than any model would believe
    record = running(world.carla, world.city, document("better", latency="100 ms"), world.ana)

    played.run(60)
    assert status(record).state == "impossible", "it was not measured over a whole span yet"
    played.run(60)

    assert (status(record).state, status(record).hopeless, status(record).late_since) == ("met", False, None)
    assert status(record).least_s > 0.1
    (limit,) = latency_of(viewer_of(world.carla), record.pk)["limits"]
    assert limit["by_measurement"]
    assert limit["why"].startswith("It is met by measurement")
    rule = READERS["latency_limit"](EvaluationScope(world.city, played.now_s))
    assert not any(reading.value for reading in rule.values())
    played.beyond_s = 0.0
    played.run(60)
    assert status(record).state == "impossible"


def test_the_estate_says_how_many_limits_are_held(world: World, played: Played) -> None:
    played.batch_s = 0.3
    hasty = running(world.carla, world.city, document("hasty", latency="100 ms"), world.ana)
    running(world.carla, world.city, document("plain", window=20), world.ana)
    played.run(60)
    client = Client()
    client.force_login(world.carla)

    page = client.get("/").content.decode()

    assert '<dd class="text-warn" id="limits-held" data-refresh>1 of 2</dd>' in page
    assert page.count("latency limit impossible") == 1
    html = client.get(f"/dataflows/{hasty.pk}/").content.decode()
    assert "impossible" in html
    assert "300 ms" in html
    assert client.get(f"/dataflows/{hasty.pk}/latency/prices").json()["offers"]
    LatencyStatus.objects.update(state="waiting")
    waiting = client.get("/").content.decode()
    assert ('<dd class="" id="limits-held" data-refresh>–<span class="sub">2 not settled yet</span></dd>'
            in waiting)


def test_other_limits_hold_within_rounds_and_nothing_is_restarted(
    world: World, played: Played, sent: list, django_capture_on_commit_callbacks
) -> None:
    record = running(world.carla, world.city, document("tuned"), world.ana)
    played.run(60)
    before, generation = intervals(record), load_estate().generation
    sent.clear()

    choose_latency(actor=world.carla, dataflow_id=record.pk, limits=(LatencyLimit(0.4),))
    with django_capture_on_commit_callbacks(execute=True):
        played.run(EVERY_S)

    assert max(intervals(record)) < min(before) / 5
    assert load_estate().generation == generation
    assert queue.REPUBLISH_DESIRED in [name for name, _ in sent]
    assert AuditEntry.objects.get(verb="dataflow.choose_latency").details["after"] == 0.4
    choose_latency(actor=world.carla, dataflow_id=record.pk, limits=None)
    played.run(60)
    assert intervals(record) == before
    rows = AuditEntry.objects.filter(verb=SET).values_list("details", flat=True)
    entered = [name for details in rows for name in details if name != "name"]
    assert sorted(entered) == sorted(load_estate().settings), "each query's first change, and no more of the hour"


def test_the_strictest_limit_holds_where_a_query_is_shared_and_pays_for_it(world: World, played: Played) -> None:
    slow = running(world.carla, world.city, document("slow", latency="20 s"), world.ana)
    fast = running(world.carla, world.city, document("quick", window=20, latency="500 ms"), world.ana)
    played.run(60)

    assert {status(slow).state, status(fast).state} == {"met"}
    assert max(intervals(fast)) < 1_000
    pays = {name: next(offer for offer in latency_prices(viewer_of(world.carla), record.pk)["offers"]
                       if offer["limit_s"] == limit_s)
            for name, record, limit_s in (("slow", slow, 20.0), ("fast", fast, 0.5))}
    (alone_ms,) = BatchFigures.objects.exclude(alone_ms={}).values_list("alone_ms", flat=True)
    assert alone_ms[str(slow.pk)] > 20 * alone_ms[str(fast.pk)], "bills divide batches by how often each needs them"
    # The slow one's own query reads the fast one's: it has its intervals, and so pays for its batches.
    assert pays["slow"]["pays_cores"] < 0.7 * pays["fast"]["pays_cores"]
    offers = latency_prices(viewer_of(world.carla), fast.pk)["offers"]
    assert offers[-1]["words"] == "none"
    costs = [offer["pays_cores"] for offer in offers if offer["met"]]
    assert costs == sorted(costs, reverse=True), "the later events may be, the less it pays"


def test_what_changes_queries_that_run_is_priced_with_their_batches(world: World, played: Played) -> None:
    assert prices_in_force().trigger_ms == 500
    running(world.carla, world.city, document("rare", latency="none"), world.ana)
    played.run(30)

    assert prices_in_force().trigger_ms == 30_000


def test_before_it_runs_and_by_a_schedule_what_latency_costs_is_estimated(world: World, played: Played) -> None:
    proposal = planned(world.carla, world.city, document("early"))
    viewer, key = viewer_of(world.carla), proposal.dataflow_id

    early = latency_prices(viewer, key)
    approved_and_done = enacted(approved(proposal, world.ana)).dataflow
    played.run(30)
    seen = latency_prices(viewer, approved_and_done.pk)
    by_schedule = latency_prices(viewer, key, scheduled=True)

    assert (early["estimated"], seen["estimated"], by_schedule["estimated"]) == (True, False, True)
    for offers in (early["offers"], by_schedule["offers"]):
        cores = [offer["cores"] for offer in offers if offer["met"]]
        assert cores == sorted(cores, reverse=True)
        assert cores[0] > cores[-1]
    strict = [offers["offers"][-3]["cores"] for offers in (early, by_schedule)]
    assert strict[1] > strict[0], "a query for each task, and batches no further apart than its promise allows"


def test_who_needs_nothing_has_the_fewest_batches(world: World, played: Played) -> None:
    record = running(world.carla, world.city, document("rare", latency="none"), world.ana)

    played.run(30)

    assert intervals(record) == {30_000}
    assert not LatencyStatus.objects.filter(dataflow=record).exists()


def test_nothing_is_chosen_while_nothing_is_heard_and_rows_of_what_left_go(world: World, played: Played) -> None:
    record = running(world.carla, world.city, document("brief"), world.ana)
    played.available = False
    played.run(30)
    assert not BatchFigures.objects.exists()

    played.available = True
    played.run(30)
    assert BatchFigures.objects.exists()
    enacted(approved(removal_planned(world.carla, record), world.ana))
    played.run(30)
    assert not BatchFigures.objects.exists()
    assert not LatencyStatus.objects.exists()


def test_a_teams_freshness_is_of_those_that_ask_for_nothing(world: World, played: Played) -> None:
    plain = running(world.carla, world.city, document("plain"), world.ana)
    limited = running(world.carla, world.city, document("own", window=20, latency="2 s"), world.ana)

    set_freshness(actor=world.dev, team=world.city, limit_s=None)

    assert DataflowRecord.objects.get(pk=plain.pk).latency_limits == ()
    assert DataflowRecord.objects.get(pk=limited.pk).latency_limits == (LatencyLimit(2.0),)


@pytest.mark.parametrize(
    ("seed", "changes"), [(1, 3), *(pytest.param(seed, 20, marks=pytest.mark.long) for seed in range(1, 12))])
def test_limits_hold_while_dataflows_come_and_go_and_what_batches_cost_changes(
    world: World, played: Played, seed: int, changes: int
) -> None:
    """Merges, removals, other limits, other costs, at random: between them all limits come to hold."""
    chance = random.Random(seed)
    present: dict[str, DataflowRecord] = {}
    limits_s = (0.4, 1.0, 3.0, 12.0)

    def submit(number: int) -> None:
        name = f"flow-{number}"
        text = document(name, window=chance.choice((10, 20, 30)), latency=chance.choice(limits_s))
        present[name] = running(world.carla, world.city, text, world.ana)

    submit(0)
    for number in range(1, changes + 1):
        change = chance.choice(("submit", "submit", "remove", "limit", "cost"))
        if change == "submit":
            submit(number)
        elif change == "remove" and len(present) > 1:
            leaving = present.pop(chance.choice(sorted(present)))
            enacted(approved(removal_planned(world.carla, leaving), world.ana))
        elif change == "limit":
            record = present[chance.choice(sorted(present))]
            choose_latency(actor=world.carla, dataflow_id=record.pk, limits=(LatencyLimit(chance.choice(limits_s)),))
        else:
            played.batch_s, played.beyond_s = chance.choice((0.03, 0.08)), chance.choice((0.0, 0.05))
        played.run(60)
        rows = LatencyStatus.objects.all()
        assert {str(row.dataflow_id) for row in rows} == {str(record.pk) for record in present.values()}
        for row in rows:
            limit_s = row.limit if isinstance(row.limit, float) else row.limit[0]["limit"]
            assert row.state != "missed", (number, change, row.measured_s, row.limit)
            if row.state == "met":
                assert row.measured_s <= 1.1 * limit_s
