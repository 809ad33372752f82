"""Celery tasks with a broker: publishing, following reports, sweeping, history; and through a real worker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import timedelta
from urllib.parse import quote

import pytest
import redis
from django.utils import timezone

from dashboard import jobs
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import submit_dataflow
from dashboard.approvals.services.reader_choices import choose_when_behind
from dashboard.approvals.services.savepoint_commands import take_savepoint
from dashboard.config.environment import ROOT
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.live_reader import live_dataflow, live_estate
from dashboard.operations.live_view.nodes import take_out_node
from dashboard.operations.models import NodeRow
from dashboard.operations.selectors import notable_events, output_tail
from dashboard.operations.services import register_node
from dashboard.plans.models import PlanRecord
from dashboard.queue import LONGEST_TASK_S, VISIBILITY_TIMEOUT_S
from dashboard.tasks import execution, measuring, planning, telemetry
from dashboard.tasks.app import app
from dashboard.tasks.clock import SCHEDULE
from dashboard.teams.permissions import viewer_of
from scheduler.contracts.desired import DESIRED_STATES
from scheduler.model.behind import PAUSE
from tests.dashboard.building import World, approved, document, planned, removal_planned, running
from tests.dashboard.test_carried_over_plans import apart
from workers.engine.channels import keys

pytestmark = pytest.mark.broker
WORKER_WITHIN_S = 600  # it imports all of the site first, which takes minutes where many others do so, too


@pytest.fixture(autouse=True)
def _broker(broker: redis.Redis, broker_url: str, settings) -> None:
    settings.REDIS_URL = broker_url
    jobs._window.cache_clear()  # a reading is shared for a moment, also between two tests


def report(broker: redis.Redis, *, state: str = "running", **fragment) -> None:
    """What a node that does everything the estate wants reports."""
    estate, slots = load_estate(), {}
    for slot in estate.slots:
        slots[str(slot.index)] = {"state": "running", "pid": 1, "cpu": 0.25, "memory_mb": 512, "restarts": 0,
                                  "since_ms": 0, "fragments": {}}
    for part in estate.fragments.values():
        slots[part.slot.rpartition("/")[2]]["fragments"][part.id] = {
            "state": state, "batch": 1, "batch_ms": 3, "rows_per_s": 1.0, "since_ms": 0, "restarts": 0, "error": None,
            "retry_at_ms": None, "throttled_by": None, "active": part.active,
            "outlets": {str(part.tasks.index(task)): list(readers) for task, readers in part.outlets.items()},
        } | fragment
    broker.set("weir:observed:n1", json.dumps({
        "node": "n1", "version": estate.generation, "at_ms": 0, "cores": 2, "memory_mb": 2048, "slots": slots}))


def meter(broker: redis.Redis, events: int) -> None:
    """Every task of every fragment has let this many events pass, a few ms old."""
    for fragment in load_estate().fragments.values():
        fields = {f"{position}:n": events for position in range(len(fragment.tasks))}
        fields |= {f"{position}:lat:10": events for position in range(len(fragment.tasks))}
        fields |= {f"{position}:time": 1_000 * (events + 1) for position in range(len(fragment.tasks))}
        broker.hset(f"weir:meter:{fragment.id}", mapping={"in:n": events} | fields)


def test_plans_that_wait_are_held_to_the_estate_also_where_the_job_was_lost_and_at_most_once_a_second(
    world: World, broker: redis.Redis, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(planning, "CARRIED_AT_MOST_EVERY_MS", 600_000)  # a second passes soon where others work
    waiting, held = planned(world.carla, world.city, apart("turin")), []
    assert planning.carry_over in [job.task for job in SCHEDULE]
    for name in ("busan", "quito", "dakar"):  # whose jobs nobody takes
        approved(planned(world.mo, world.mobility, apart(name)), world.ben)
        held.append(planning.carry_over())
        if name == "quito":
            broker.delete(keys.turn(planning.CARRYING))
    waiting.plan.refresh_from_db()
    assert held == [1, 0, 1] and waiting.plan.generation == load_estate().generation


def test_enacting_publishes_what_the_estate_wants_and_reports_finish_it(world: World, broker: redis.Redis):
    proposal = approved(planned(world.carla, world.city, document("traffic")), world.ana)
    execution.enact(proposal_id=str(proposal.pk))
    desired = json.loads(broker.get("weir:desired:n1"))
    assert desired["version"] == load_estate().generation
    wanted = [fragment["id"] for slot in desired["slots"].values() for fragment in slot["fragments"]]
    assert wanted == list(load_estate().fragments)
    proposal.refresh_from_db()
    assert proposal.status == "executing"
    report(broker)
    assert execution.advance_proposals() == 1
    proposal.refresh_from_db()
    assert proposal.status == "done"
    assert execution.advance_proposals() == 0


def test_a_plan_that_waits_for_a_silent_node_says_so_and_is_done_where_that_is_taken_out(
    world: World, broker: redis.Redis
):
    record = running(world.carla, world.city, document("traffic"), world.ana)
    removal = approved(removal_planned(world.carla, record), world.ana)
    execution.advance_proposals()
    removal.refresh_from_db()
    (failure,) = removal.progress["failing"].values()
    assert removal.status == "executing" and "Not reporting: n1" in failure["cause"]
    report(broker)
    execution.advance_proposals()
    removal.refresh_from_db()
    assert (removal.status, removal.progress["failing"]) == ("done", {})


def test_what_was_to_stop_on_a_machine_that_is_lost_for_good_has_stopped(world: World, broker: redis.Redis):
    record = running(world.carla, world.city, document("traffic"), world.ana)
    removal = approved(removal_planned(world.carla, record), world.ana)
    take_out_node(name="n1")
    execution.advance_proposals()
    removal.refresh_from_db()
    assert removal.status == "done"


def test_a_removal_is_done_when_the_reports_no_longer_have_it(world: World, broker: redis.Redis):
    record = running(world.carla, world.city, document("traffic"), world.ana)
    report(broker)
    removal = approved(removal_planned(world.carla, record), world.ana)
    execution.advance_proposals()
    removal.refresh_from_db()
    assert removal.status == "executing"
    report(broker)
    execution.advance_proposals()
    removal.refresh_from_db()
    record.refresh_from_db()
    assert (removal.status, record.status) == ("done", "removed")


def test_a_failing_query_is_named_with_its_cause(world: World, broker: redis.Redis):
    proposal = approved(planned(world.carla, world.city, document("traffic")), world.ana)
    report(broker, state="backoff", error="No space left on device", retry_at_ms=5)
    execution.advance_proposals()
    proposal.refresh_from_db()
    assert [failure["cause"] for failure in proposal.progress["failing"].values()] == ["No space left on device"]
    state = live_estate(viewer_of(world.vera))
    (failing,) = (finding for finding in state["health"].values() if finding["part"] == "query")
    assert (failing["cause"], failing["dataflows"][0]["name"]) == ("No space left on device", "traffic")
    assert state["dataflows"][str(proposal.dataflow_id)]["state"] == "backoff"


def test_what_the_broker_lost_is_published_again(world: World, broker: redis.Redis):
    running(world.carla, world.city, document("traffic"), world.ana)
    execution.republish_desired()
    before = broker.get("weir:desired:n1")
    broker.flushall()
    execution.republish_desired()
    assert broker.get("weir:desired:n1") == before


def test_what_stands_is_not_made_again_until_it_is_lost_or_the_estate_moves(
    world: World, broker: redis.Redis, monkeypatch: pytest.MonkeyPatch
):
    running(world.carla, world.city, document("traffic"), world.ana)
    execution.republish_desired()
    made, publish = [], execution.publish
    monkeypatch.setattr(execution, "publish", lambda: made.append(1) or publish())
    execution.republish_desired(in_full=False)
    assert not made
    broker.delete("weir:desired:n1")
    execution.republish_desired(in_full=False)
    assert len(made) == 1 and broker.exists("weir:desired:n1")
    running(world.carla, world.city, document("more", window=7), world.ana)
    execution.republish_desired(in_full=False)
    assert len(made) == 2
    execution.republish_desired(in_full=False)
    assert len(made) == 2


def test_a_node_that_cannot_be_written_keeps_no_other_from_its_state(world: World, broker: redis.Redis):
    register_node(name="n2", slots=1)
    running(world.carla, world.city, document("traffic"), world.ana)
    broker.rpush("weir:desired:n1", "no text")
    execution.republish_desired()
    assert DESIRED_STATES.loads(broker.get("weir:desired:n2")).node == "n2"
    broker.delete("weir:desired:n1")
    execution.republish_desired(in_full=False)  # what could not be written is not taken for written
    assert DESIRED_STATES.loads(broker.get("weir:desired:n1")).wanted


@pytest.mark.parametrize("read", ["needs_in_part", "asked_of_node"])
def test_who_publishes_last_with_older_choices_does_not_win(
    world: World, broker: redis.Redis, monkeypatch: pytest.MonkeyPatch, read: str
):
    """Somebody chooses just after a publisher read what was chosen, and is published first."""
    record = running(world.carla, world.city, document("traffic"), world.ana)
    other = running(world.mo, world.mobility, document("speeds", window=9), world.ana, world.ben)
    execution.publish()
    before, reading, chosen = broker.get("weir:desired:n1"), getattr(execution, read), []

    def overtaken(of: object) -> object:
        values = reading(of)
        if not chosen:
            chosen.append(choose_when_behind(actor=world.ben, dataflow_id=other.pk, choice=PAUSE))
            chosen.append(take_savepoint(actor=world.carla, dataflow_id=record.pk, name="monday"))
            execution.publish()
        return values

    monkeypatch.setattr(execution, read, overtaken)
    execution.publish()
    now = DESIRED_STATES.loads(broker.get("weir:desired:n1"))
    assert broker.get("weir:desired:n1") != before
    assert {item.when_behind for fragment in now.wanted.values() for item in fragment.inputs} == {PAUSE}
    assert now.kept_savepoints == (chosen[1].pk,)


def test_publishing_the_same_again_wakes_nobody(world: World, broker: redis.Redis):
    running(world.carla, world.city, document("traffic"), world.ana)
    with broker.pubsub() as listener:
        listener.subscribe("weir:push")
        execution.republish_desired()
        execution.republish_desired()
        time.sleep(0.1)
        messages = [m for _ in range(5) if (m := listener.get_message(timeout=0.1)) and m["type"] == "message"]
    assert len(messages) == 1


def test_a_plan_that_a_dead_worker_left_is_asked_for_again(world: World, sent):
    waiting = submit_dataflow(actor=world.carla, team=world.city, text=document("traffic"))
    fresh = submit_dataflow(actor=world.carla, team=world.city, text=document("jams", window=5))
    PlanRecord.objects.filter(pk=waiting.plan_id).update(enqueued=timezone.now() - timedelta(seconds=60))
    assert planning.sweep() == 1
    assert fresh.status == "computing"
    planning.prepare_proposal(proposal_id=str(waiting.pk))
    waiting.refresh_from_db()
    assert waiting.status == "pending"
    assert planning.sweep() == 0


def test_rates_and_latency_of_tasks_and_streams(world: World, broker: redis.Redis):
    record = running(world.carla, world.city, document("traffic"), world.ana)
    viewer = viewer_of(world.vera)
    report(broker)
    meter(broker, 100)
    first = live_dataflow(viewer, record.pk)
    assert (first["live"]["available"], first["live"]["measured"]) == (True, False)
    assert first["totals"]["events_in_per_s"] is None
    time.sleep(0.5)
    meter(broker, 150)
    second = live_dataflow(viewer, record.pk)
    assert second["totals"]["state"] == "running"
    # 50 events in half a second or somewhat more: the sleep is at least that long.
    assert 1 < second["totals"]["events_in_per_s"] <= 100
    for task in second["tasks"].values():
        assert (task["events"], task["state"]) == (150, "running")
        assert task["latency_p50_ms"] > 0
    assert set(second["streams"]) == {"sense>parse", "parse>average", "average>out"}
    estate = live_estate(viewer)
    assert estate["slots"]["n1/0"]["cpu"] == 0.25
    assert estate["nodes"]["n1"] == {"reporting": True, "cores": 2, "memory_mb": 2048, "spare": None}


def test_a_node_that_does_not_report_is_silent(world: World):
    record = running(world.carla, world.city, document("traffic"), world.ana)
    state = live_estate(viewer_of(world.vera))
    assert state["slots"]["n1/0"]["state"] == "silent"
    assert state["dataflows"][str(record.pk)]["state"] == "silent"


def test_nodes_are_noted_as_seen(world: World, broker: redis.Redis):
    running(world.carla, world.city, document("traffic"), world.ana)
    report(broker)
    telemetry.record_observations()
    assert NodeRow.objects.get().seen is not None


def test_the_newest_events_of_an_output(world: World, broker: redis.Redis):
    import pyarrow as pa

    record = running(world.carla, world.city, document("traffic"), world.ana)
    estate = load_estate()
    channel = estate.channel_of(estate.submitted[str(record.pk)].running["out"])
    table = pa.table({"_seq": [1, 2, 3], "value": [1.5, 2.5, 3.5]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    broker.xadd(f"weir:ch:{channel}", {"b": sink.getvalue().to_pybytes(), "n": 3, "t": 0}, id="1-0")
    assert output_tail(viewer_of(world.vera), record.pk, "out", count=2) == [
        {"_seq": 3, "value": 3.5}, {"_seq": 2, "value": 2.5}]


def test_what_nodes_tell_of_a_dataflows_queries_is_on_its_page(world: World, broker: redis.Redis, client):
    record = running(world.carla, world.city, document("traffic"), world.ana)
    [query] = load_estate().fragments
    for event in (
        {"kind": "fragment_failed", "at_ms": 1_000, "fragment": query, "error": "task count: no such field",
         "slot": "0"},
        {"kind": "fragment_failed", "at_ms": 1_500, "fragment": "f9-9", "error": "of another one", "slot": "0"},
        {"kind": "joined_late", "at_ms": 2_000, "fragment": query, "asked": "oldest", "kept_since_ms": 61_000},
        {"kind": "joined_late", "at_ms": 3_000, "fragment": query, "asked": "oldest", "kept_since_ms": None},
        {"kind": "sink_found_otherwise", "at_ms": 3_500, "fragment": query, "task": "t",
         "what": "The table is another."},
        {"kind": "of a newer node", "at_ms": 4_000, "fragment": query, "slot": "0"},
    ):
        broker.xadd("weir:events", {name: json.dumps(value) for name, value in event.items()})
    events = [event.what for event in notable_events(viewer_of(world.vera), record.pk)]
    assert [part in event for part, event in zip(
        ("is another", "has none", "00:01:01", "no such field"), events, strict=True)] == [True] * 4
    client.force_login(world.vera)
    page = client.get(f"/dataflows/{record.pk}/").content.decode()
    assert "no such field" in page and "of another one" not in page


def test_celery_gives_a_task_out_again_only_long_after_it_could_have_finished():
    options = app.conf.broker_transport_options
    assert options["visibility_timeout"] == VISIBILITY_TIMEOUT_S > 2 * LONGEST_TASK_S
    assert app.conf.task_acks_late and app.conf.task_reject_on_worker_lost and app.conf.task_ignore_result
    assert app.conf.accept_content == ["json"]
    assert measuring.advance_sweeps.name in app.tasks
    app.loader.import_default_modules()
    assert all(job.task.name in app.tasks for job in SCHEDULE if job.is_queued)


@pytest.mark.long  # test_deadlines.py has a real worker that plans, tests/browser all of them
@pytest.mark.django_db(transaction=True)
def test_a_real_worker_plans_what_is_submitted(
    committed_world: World, broker: redis.Redis, broker_url: str, monkeypatch, tmp_path
):
    """The job goes through the broker to a worker process of its own, and its outcome into the database."""
    from django.conf import settings
    from django.db import connection

    monkeypatch.undo()  # send jobs in earnest
    monkeypatch.setattr(settings, "REDIS_URL", broker_url)
    monkeypatch.setattr(app.conf, "broker_url", broker_url)
    database = connection.settings_dict
    if connection.vendor == "sqlite":
        (tmp_path / "weir.sqlite3").symlink_to(database["NAME"])
    environment = os.environ | {"REDIS_URL": broker_url, "WEIR_DATA_DIR": str(tmp_path)}
    if connection.vendor == "postgresql":
        user, host = f"{database['USER']}:{database['PASSWORD']}", quote(database["HOST"], safe="")
        environment["DATABASE_URL"] = f"postgres://{user}@{host}:{database['PORT']}/{database['NAME']}"
    proposal = submit_dataflow(actor=committed_world.carla, team=committed_world.city, text=document("traffic"))
    for _ in range(10):
        if broker.llen("weir:celery:weir"):
            break
        jobs.prepare_proposal(str(proposal.pk))  # a busy machine was late with it, and the sweep sends it again
    assert broker.llen("weir:celery:weir"), "the job waits for a worker"
    log = tmp_path / "worker.log"  # no pipe: one that nobody reads fills, and holds the worker up
    with log.open("w") as output:
        worker = subprocess.Popen(
            (sys.executable, "-m", "celery", "-A", "dashboard.tasks.app", "worker", "--concurrency", "1",
             "--queues", "weir"),
            cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + WORKER_WITHIN_S
        while Proposal.objects.get(pk=proposal.pk).status == "computing":
            assert worker.poll() is None and time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.2)
        while not broker.exists("weir:turn:history"):  # its recorder runs beside
            assert worker.poll() is None and time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.2)
    finally:
        worker.terminate()
        worker.wait(timeout=WORKER_WITHIN_S)
    assert Proposal.objects.get(pk=proposal.pk).status == "pending", log.read_text()[-2000:]
    assert not broker.exists("weir:turn:history"), "it gave its turn back"
    assert "not_recorded" not in log.read_text()
