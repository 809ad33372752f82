"""Charging through the Celery task, from reports and meters in a real broker; and where the broker is away."""

from __future__ import annotations

import json

import pytest
import redis
from django.test import Client

from dashboard import jobs
from dashboard.bills.models import SlotReading, UsageHour
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.tasks import telemetry
from dashboard.tasks.clock import SCHEDULE
from tests.dashboard.building import World, document, running


def report(broker: redis.Redis, *, cpu_ms: int, busy_ms: int, spilled_kb_s: dict[str, int] | None = None) -> None:
    slots = {
        str(index): {"state": "running", "used": {"since_ms": 1, "cpu_ms": cpu_ms, "memory_mb_s": 10}, "fragments": {}}
        for index in range(2)}
    for fragment in load_estate().fragments.values():
        reports = slots[fragment.slot.rpartition("/")[2]]["fragments"]
        reports[fragment.id] = {"busy_ms": busy_ms, "batches": busy_ms // 10}
        broker.hset(f"weir:meter:{fragment.id}", mapping={f"{n}:n": busy_ms for n in range(len(fragment.tasks))})
        broker.hset(f"weir:ch:{fragment.id}.0:meta", "bytes", 3 * busy_ms)
    broker.set("weir:observed:n1", json.dumps({
        "node": "n1", "slots": slots, "spilled_kb_s": spilled_kb_s or {}}))


@pytest.mark.broker
def test_what_reports_and_meters_say_is_charged(
    world: World, broker: redis.Redis, broker_url: str, settings
) -> None:
    settings.REDIS_URL = broker_url
    record = running(world.carla, world.city, document("traffic"), world.ana)
    report(broker, cpu_ms=1_000, busy_ms=100)
    assert telemetry.record_usage() == 0
    report(broker, cpu_ms=1_600, busy_ms=150)
    assert telemetry.record_usage() == 2
    assert sum(UsageHour.objects.values_list("cpu_us", flat=True)) == 1_200_000
    assert sum(record.usage.values_list("cpu_us", flat=True)) == 600_000  # the other slot worked for nobody
    assert sum(record.usage.values_list("traffic_bytes", flat=True)) == 150
    assert record.usage.values("fingerprint").distinct().count() == 4
    broker.flushall()  # and nothing is reported any more
    assert telemetry.record_usage() == 0
    assert SlotReading.objects.count() == 2


@pytest.mark.broker
def test_the_disk_of_a_slow_reader_is_paid_by_those_who_need_the_reader(
    world: World, broker: redis.Redis, broker_url: str, settings
) -> None:
    settings.REDIS_URL, settings.SPILL_GB_HOUR_PRICE, settings.CORE_HOUR_PRICE = broker_url, 1.0, 0.0
    owner = running(world.carla, world.city, document("traffic"), world.ana)
    slow = [
        running(world.mo, world.mobility, document(name, window=9), world.ana, world.ben) for name in ("one", "two")]
    estate = load_estate()
    reader = next(name for name, fragment in estate.fragments.items() if estate.tasks[fragment.tasks[0]].parents)
    report(broker, cpu_ms=1_000, busy_ms=100)
    telemetry.record_usage()
    report(broker, cpu_ms=1_000, busy_ms=100, spilled_kb_s={reader: 7_200_000})
    telemetry.record_usage()
    paid = [
        (sum(record.usage.values_list("disk_kb_s", flat=True)), sum(record.usage.values_list("cost_nanos", flat=True)))
        for record in (owner, *slow)]
    assert paid == [(0, 0), (3_600_000, 1_000_000), (3_600_000, 1_000_000)]
    client = Client()
    client.force_login(world.mo)
    page = client.get(f"/bills/{slow[0].pk}/").content.decode()
    assert "Disk, as slow readers" in page and "Disk for slow readers, a GB for an hour" in page
    assert client.get("/api/bills").json()["total"]["disk_gb_hours"] == 0.002


def test_a_broker_that_is_away_costs_nothing(world: World) -> None:
    assert telemetry.record_usage() == 0
    with pytest.raises(jobs.BrokerAway):
        jobs.slot_counters(lambda ids: {})


def test_the_clock_charges() -> None:
    assert telemetry.record_usage in [job.task for job in SCHEDULE]
