"""Sinks that write to another system, end to end: planned, run by Spark, written by the node's connector host; killed
at any moment, and away while another team reads the same stream."""

import os
import random
import signal
import time
from collections import Counter

import psycopg
import pytest
import redis

from tests.engine.connectors.rigs import PostgresqlRig, rig_of
from tests.postgresql import cluster
from workers.engine.sealed_secrets import Vault, publish

from .planned import PlannedEstate
from .rig import Rig, catalogue, running_agent
from .test_live_sources import living

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.long, pytest.mark.timeout(900)]
SOURCE = """
name: {name}
tasks:
  - {{id: orders, type: kafka, config: {{servers: [{servers}], topics: [{topic}], start: oldest,
      columns: ["n:bigint", text]}}}}
  - {{id: people, type: annotate, config: {{field: text, table: people}}}}
  - {{id: out, type: {sink}}}
streams:
  - {{from: orders, to: people}}
  - {{from: people, to: out}}
"""
TABLE = "to_postgresql, config: {database: {secret: db}, table: sunk, columns: [n, text]}"
OUTPUT = "output, config: {name: mobility, keep_events: 1000000}"


class WithTable(PlannedEstate):
    """Dataflows that read a topic; what some of them write is a table."""

    def __init__(self, rig: Rig, kafka, table: PostgresqlRig) -> None:
        super().__init__(rig)
        self.kafka, self.table = kafka, table

    def begin(self, name: str, sink: str, *, team: str = "city") -> None:
        self.submit(self.read(SOURCE.format(
            name=name, servers=", ".join(self.kafka.servers), topic=self.kafka.topics[0], sink=sink)), name, team=team)

    def sink(self, name: str) -> dict:
        return self.hosted("sinks", name, "out")

    def rows(self) -> Counter:
        with psycopg.connect(self.table.address) as connection:
            return Counter(n for n, in connection.execute("select n from sunk").fetchall())


@pytest.fixture(scope="module")
def kafka():
    with rig_of("kafka") as rig:
        yield rig


@pytest.fixture(scope="module")
def table():
    with cluster() as address:
        yield PostgresqlRig(address)


@pytest.fixture(scope="module")
def agent(broker_url, tmp_path_factory, with_jar, kafka, table):
    with redis.Redis.from_url(broker_url) as client:
        client.flushall()
        data_dir = with_jar(tmp_path_factory.mktemp("data"))
        publish(client, {"city/db": Vault(data_dir).seal(table.address)})
        with running_agent(
            client, broker_url, data_dir, task_types=catalogue(), WEIR_HOLD_S="3", **kafka.environment,
            **table.environment,
        ) as rig:
            rig.wait_serving()
            yield rig
        client.flushall()


@pytest.fixture
def planned(agent, kafka, table, monkeypatch):
    for name, value in {**kafka.environment, **table.environment}.items():
        monkeypatch.setenv(name, value)
    kafka.anew()
    table._run("drop table if exists sunk")
    table._run("create table sunk (n bigint, text text)")
    flow = WithTable(agent, kafka, table)
    yield flow
    for name in list(flow.estate.submitted):
        flow.remove(name)
    agent.wait(lambda: agent.report().get("connectors") is None, within_s=90, what="the host of connectors ends")


def test_every_row_is_there_once_though_host_slot_and_agent_are_killed(planned, kafka, agent):
    planned.begin("city", TABLE)
    agent.wait(lambda: planned.sink("city").get("state") == "running")
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
    agent.wait(lambda: len(planned.rows()) == sent, within_s=120, what="all that was sent")
    assert set(planned.rows()) == set(range(sent)) and max(planned.rows().values()) == 1


def test_a_table_that_is_away_holds_up_nobody_else(planned, kafka, agent, table):
    planned.begin("city", TABLE)
    planned.begin("mobility", OUTPUT, team="mobility")
    city, mobility = planned.estate.submitted["city"].running, planned.estate.submitted["mobility"].running
    assert city["people"] == mobility["people"]
    agent.wait(lambda: planned.sink("city").get("state") == "running")
    agent.wait_running(planned.estate.places[mobility["out"]][0])
    kafka.send(range(20))
    agent.wait(lambda: len(planned.rows()) == 20)
    channel = planned.estate.channel_of(city["out"])
    table.leave()
    try:
        agent.broker.hset(f"weir:ch:{channel}:meta", "capacity", 3)
        agent.broker.hset(f"weir:ch:{planned.estate.channel_of(city['people'])}:meta", "capacity", 4)
        sent = 20
        for _ in range(60):
            kafka.send(range(sent, sent + 20))
            sent += 20
            time.sleep(0.2)
        agent.wait(lambda: max(planned.numbers("mobility")) == sent - 1, within_s=60, what="the other team has all")
        report = agent.wait(lambda: (told_state := planned.sink("city")).get("state") == "away" and told_state)
        assert report["error"] and report["waiting"] and report["waiting_since_ms"]
    finally:
        table.return_()
    agent.wait(lambda: len(planned.rows()) == sent, within_s=120, what="all of it, once the table is back")
    assert max(planned.rows().values()) == 1 and set(planned.rows()) == set(range(sent))
