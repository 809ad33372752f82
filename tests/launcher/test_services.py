"""When the agent serves: its slots run; and when it never will."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import redis

from workers.launcher import up_services
from workers.launcher.state_folder import CannotStart

pytestmark = pytest.mark.broker


@pytest.fixture
def agent(broker_url: str, tmp_path: Path, broker: redis.Redis) -> up_services.Service:
    service = up_services.agent(node="n1", slots=2, data_dir=tmp_path, url=broker_url)
    time.sleep(0.01)
    return service


def report(broker: redis.Redis, *slots: dict) -> None:
    broker.set("weir:observed:n1", json.dumps({
        "at_ms": int(time.time() * 1000), "slots": {str(index): slot for index, slot in enumerate(slots)}}))


def test_an_agent_serves_when_every_slot_runs(agent: up_services.Service, broker: redis.Redis) -> None:
    assert not agent.is_ready()
    report(broker, {"state": "running"}, {"state": "starting", "restarts": 2, "error": "It was killed."})
    assert not agent.is_ready()
    report(broker, {"state": "running"}, {"state": "running", "restarts": 5})
    assert agent.is_ready()


def test_a_slot_that_ends_again_and_again_before_it_serves_ends_the_start(
    agent: up_services.Service, broker: redis.Redis
) -> None:
    report(broker, {"state": "running"}, {"state": "backoff", "restarts": 3, "error": "No Spark master answers."})
    with pytest.raises(CannotStart, match=r"Slot 1 does not start\. No Spark master answers\."):
        agent.is_ready()
