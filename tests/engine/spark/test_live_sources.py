"""Live sources end to end: planned, hosted by a node's agent, read by Spark; killed at any moment, and shared."""

import os
import random
import signal
import time

import psutil
import pytest
import redis

from tests.engine.connectors.rigs import rig_of

from .planned import PlannedEstate
from .rig import Rig, catalogue, running_agent

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.long, pytest.mark.timeout(900)]
DOCUMENT = """
name: {name}
tasks:
  - {{id: orders, type: kafka, config: {{servers: [{servers}], topics: [{topic}], start: {start},
      columns: ["n:bigint", text]}}}}
  - {{id: people, type: annotate, config: {{field: text, table: {table}}}}}
  - {{id: out, type: output, config: {{name: "{name}", keep_events: 1000000}}}}
streams:
  - {{from: orders, to: people}}
  - {{from: people, to: out}}
"""


class WithTopic(PlannedEstate):
    """Dataflows that read a topic."""

    def __init__(self, rig: Rig, kafka) -> None:
        super().__init__(rig)
        self.kafka = kafka

    def begin(self, name: str, *, team: str = "city", table: str = "people", start: str = "oldest") -> None:
        self.submit(self.read(DOCUMENT.format(
            name=name, servers=", ".join(self.kafka.servers), topic=self.kafka.topics[0], table=table,
            start=start)), name, team=team)

    def source(self, name: str) -> dict:
        """What is reported of the dataflow's source."""
        return self.hosted("sources", name, "orders")


def living(rig: Rig, what: str) -> int | None:
    """The process of the slot or of the host of connectors, by a report that is not of an agent before."""
    pid = rig.slot_pid() if what == "slot" else (rig.report().get("connectors") or {}).get("pid")
    return pid if pid is not None and psutil.pid_exists(pid) else None


@pytest.fixture(scope="module")
def kafka():
    with rig_of("kafka") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def agent(broker_url, tmp_path_factory, with_jar, kafka):
    with redis.Redis.from_url(broker_url) as client:
        client.flushall()
        with running_agent(
            client, broker_url, with_jar(tmp_path_factory.mktemp("data")), task_types=catalogue(),
            WEIR_CONNECTOR_HOSTS=kafka.environment["WEIR_CONNECTOR_HOSTS"],
        ) as rig:
            rig.wait_serving()
            yield rig
        client.flushall()


@pytest.fixture
def planned(agent, kafka, monkeypatch):
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", kafka.environment["WEIR_CONNECTOR_HOSTS"])
    kafka.anew()
    flow = WithTopic(agent, kafka)
    yield flow
    for name in list(flow.estate.submitted):
        flow.remove(name)
    agent.wait(lambda: agent.report().get("connectors") is None, what="the host of connectors ends")
    assert not [key for key in agent.broker.keys("weir:*") if b"connector:" in key or b":in-" in key]


def test_every_event_arrives_once_though_host_slot_and_agent_are_killed(planned, kafka, agent):
    planned.begin("city")
    agent.wait(lambda: planned.source("city").get("state") == "running")
    rng, sent = random.Random(3), 0
    for victim in ("host", "slot", "agent", "host"):
        for _ in range(5):
            kafka.send(range(sent, sent + 100))
            sent += 100
            time.sleep(rng.random() * 0.3)
        if victim == "agent":
            agent.kill()
            agent.start()
        else:
            os.kill(agent.wait(lambda: living(agent, victim)), signal.SIGKILL)  # noqa: B023
    agent.wait(lambda: len(planned.numbers("city")) == sent, what="all that was sent")
    assert set(planned.numbers("city")) == set(range(sent)) and max(planned.numbers("city").values()) == 1


def test_every_event_arrives_once_though_the_dataflow_is_paused_while_they_come(planned, kafka, agent):
    planned.begin("city")
    agent.wait(lambda: planned.source("city").get("state") == "running")
    head = planned.estate.places[planned.estate.submitted["city"].running["orders"]][0]
    sent = 0
    for _ in range(3):
        planned.pause("city")
        while (agent.fragment(head) or {}).get("state") != "stopped":
            kafka.send(range(sent, sent + 10))
            sent += 10
        planned.resume("city")
        agent.wait_running(head)
    agent.wait(lambda: len(planned.numbers("city")) == sent, what="all that was sent")
    assert set(planned.numbers("city")) == set(range(sent)) and max(planned.numbers("city").values()) == 1


def test_two_teams_on_one_topic_share_one_connector_and_who_joins_reads_from_then_on(planned, kafka, agent):
    planned.begin("city")
    agent.wait(lambda: planned.source("city").get("state") == "running")
    kafka.send(range(100))
    agent.wait(lambda: len(planned.numbers("city")) == 100)
    planned.begin("mobility", team="mobility", table="taxis")
    assert planned.estate.submitted["city"].running["orders"] == planned.estate.submitted["mobility"].running["orders"]
    fragment = planned.estate.places[planned.estate.submitted["mobility"].running["out"]][0]
    agent.wait_running(fragment)
    kafka.send(range(100, 200))
    agent.wait(lambda: len(planned.numbers("city")) == 200 and len(planned.numbers("mobility")) == 100, within_s=60,
               what="who runs gets what comes, from the first event on")
    assert set(planned.numbers("mobility")) == set(range(100, 200))
    assert len(agent.report()["connectors"]["sources"]) == 1
    planned.remove("city")
    kafka.send(range(200, 250))
    agent.wait(lambda: set(planned.numbers("mobility")) == set(range(100, 250)), within_s=60,
               what="all from then on, though the other is gone")
    assert max(planned.numbers("mobility").values()) == 1
