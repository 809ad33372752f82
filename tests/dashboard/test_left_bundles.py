"""Bundles that have left, by the nodes' reports: their slots are free, whoever of the workers was killed meanwhile."""

from __future__ import annotations

import json

import pytest
import redis

from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.tasks import execution
from tests.dashboard.building import World, approved, enacted
from tests.dashboard.checks import check_rows
from tests.dashboard.schedules import at, rescheduled, scheduled
from tests.pages.scheduling import measured

pytestmark = pytest.mark.broker


def leaving() -> set[str]:
    return {bundle.id for fragment in load_estate().fragments.values() for bundle in fragment.queries if bundle.leaving}


def report(broker: redis.Redis) -> None:
    """What a node reports of which those that were leaving have left."""
    estate, slots = load_estate(), {}
    for fragment in estate.fragments.values():
        for bundle in fragment.queries:
            index = bundle.slot.rpartition("/")[2]
            state = "left" if bundle.leaving else "running"
            slots.setdefault(index, {"state": "running", "fragments": {}})["fragments"][bundle.id] = {"state": state}
    broker.set("weir:observed:n1", json.dumps({"node": "n1", "version": estate.generation, "at_ms": 0, "slots": slots}))


def test_what_a_killed_worker_left_in_the_estate_is_taken_out_by_the_next(
    world: World, broker: redis.Redis, broker_url: str, settings
):
    settings.REDIS_URL = broker_url
    measured(world)
    record = scheduled(world, at(50))
    enacted(approved(rescheduled(world, record, at(18)), world.ana))  # and the worker is killed
    assert len(leaving()) == 2
    execution.republish_desired()
    assert len(leaving()) == 2, "nothing is told of them"
    report(broker)
    assert execution.advance_proposals() == 0
    execution.republish_desired()
    assert leaving() == set()
    check_rows()
