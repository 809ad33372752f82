"""The lease of a node's name: whose it is, and who may serve without asking for it."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
import redis

from scheduler.contracts.desired import DesiredState
from scheduler.elasticity.heartbeats import Heartbeat
from workers.engine.agents.node_agent import NodeAgent
from workers.engine.agents.node_files.node_store import NodeStore
from workers.engine.agents.supervising.broker_sync import ReportPublisher
from workers.engine.agents.supervising.lease import Lease, LeaseState
from workers.engine.channels import keys
from workers.engine.lost_nodes import RENEWS_S, heartbeats, zones
from workers.engine.worker_settings import Settings


def test_who_has_served_serves_while_the_broker_is_away_unless_its_name_was_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    standings = iter([LeaseState.UNKNOWN, LeaseState.UNKNOWN, LeaseState.TAKEN, LeaseState.UNKNOWN, LeaseState.HELD])
    monkeypatch.setattr(Lease, "renew", lambda lease: next(standings))
    agent = NodeAgent(Settings(data_dir=tmp_path))
    assert not agent._may_serve(), "it knows of nothing to serve"
    NodeStore(tmp_path, "n1").write_desired(DesiredState(version=1, node="n1"))
    assert [agent._may_serve() for _ in range(4)] == [True, False, False, True]


@pytest.mark.broker
def test_a_lease_is_a_heartbeat(broker: redis.Redis, tmp_path: Path) -> None:
    """Of who says that it renews it often: an agent of an earlier version does not."""
    for node, facts in {"n1": {RENEWS_S: 0.5}, "n2": {RENEWS_S: "soon"}, "old": {"zone": "z"}}.items():
        broker.hset(keys.HOLDERS, node, json.dumps(facts))
    lease = Lease(broker, "n1", folder=tmp_path)
    lease.renew()
    newest = heartbeats(broker, ["n3"])
    assert newest.keys() == {"n1", "n2", "n3"} and newest["n2"] == newest["n3"] == Heartbeat(None)
    broker.pexpire(keys.lease("n1"), 4_000)
    assert 6 <= heartbeats(broker, ())["n1"].age_s < 10 and newest["n1"].age_s < 6 and newest["n1"].apart_s == 0.5
    lease.give_back()
    assert heartbeats(broker, ())["n1"].age_s is None and zones(broker) == {"old": "z"}


@pytest.mark.broker
def test_a_lease_is_its_folders_not_its_processes(broker: redis.Redis, tmp_path: Path) -> None:
    mine, again = Lease(broker, "n1", folder=tmp_path / "a"), Lease(broker, "n1", folder=tmp_path / "a")
    other = Lease(broker, "n1", folder=tmp_path / "b")
    assert (mine.renew(), other.renew(), again.renew()) == (LeaseState.HELD, LeaseState.TAKEN, LeaseState.HELD)
    other.give_back()
    assert other.renew() is LeaseState.TAKEN
    mine.give_back()
    assert other.renew() is LeaseState.HELD
    with redis.Redis(port=1) as nobody:
        assert Lease(nobody, "n1", folder=tmp_path / "a").renew() is LeaseState.UNKNOWN


@pytest.mark.broker
def test_a_full_disk_keeps_no_node_from_telling_that_it_lives(broker: redis.Redis, tmp_path: Path) -> None:
    heard = threading.Semaphore(0)

    def stands(state: LeaseState) -> None:
        heard.release()
        raise OSError("No space left on device")

    lease = Lease(broker, "n1", folder=tmp_path)
    publisher = ReportPublisher(broker, Settings(node="n1"), lease, on_lease_state=stands)
    publisher.start()
    try:
        assert heard.acquire(timeout=60)
        publisher.send_report({"node": "n1"})
        while publisher.is_alive() and not broker.exists(keys.observed("n1")):
            heard.acquire(timeout=0.01)
        assert publisher.is_alive()
    finally:
        publisher.stop()
