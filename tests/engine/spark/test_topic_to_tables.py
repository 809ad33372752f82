"""From a topic of Kafka, parsed and counted by windows, to PostgreSQL and Delta: each row once, though connectors,
slot, agent and broker are killed ten times."""

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import deltalake
import psycopg
import pytest
import redis
from deltalake.exceptions import TableNotFoundError

from tests.engine.connectors.rigs import PostgresqlRig, rig_of
from tests.postgresql import cluster
from workers.engine.sealed_secrets import Vault, publish

from .own_broker import OwnBroker, own_broker
from .rig import catalogue, running_agent
from .test_live_sources import living
from .test_sinks import WithTable

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.long, pytest.mark.timeout(1800)]
EVENTS, STEP, KILLS = 100_000, 1_000, 10
MOST_ON_THE_WAY = 6_000  # so that a kill strikes what flows
GROUPS, WINDOW_MS, EVENT_MS, BEGAN_MS = 5, 10_000, 10, 1_700_000_000_000
DOCUMENT = """
name: counted
tasks:
  - {{id: orders, type: kafka, config: {{servers: [{servers}], topics: [{topic}], start: oldest,
      columns: ["n:bigint", "at:bigint"], time_field: at}}}}
  - {{id: parsed, type: sql, config: {{query: "SELECT n, n % {groups} AS part FROM input"}}}}
  - id: counts
    type: window
    config: {{by: [part], size: 10, aggregates: ["events=count(*)", "total=sum(n)"]}}
  - {{id: rows, type: to_postgresql, config: {{database: {{secret: db}}, table: counts,
      columns: [part, window_start, events, total]}}}}
  - {{id: all, type: to_delta, config: {{folder: parsed, columns: [n, part], every: 1}}}}
  - {{id: out, type: to_delta, config: {{folder: counts, columns: [part, window_start, events, total], every: 1}}}}
streams:
  - {{from: orders, to: parsed}}
  - {{from: parsed, to: counts}}
  - {{from: counts, to: rows}}
  - {{from: counts, to: out}}
  - {{from: parsed, to: all}}
"""


@pytest.fixture
def broker_of_its_own(tmp_path_factory):
    with own_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


def message(n: int) -> bytes:
    return b'{"n": %d, "at": %d}' % (n, BEGAN_MS + n * EVENT_MS)


def expected() -> Counter:
    """Each closed window's row, by group and when it begins: how many events, and the sum of their numbers."""
    windows: dict[tuple[int, int], tuple[int, int]] = {}
    for n in range(EVENTS):
        at_ms = BEGAN_MS + n * EVENT_MS
        key = (n % GROUPS, at_ms - at_ms % WINDOW_MS)
        events, total = windows.get(key, (0, 0))
        windows[key] = events + 1, total + n
    return Counter((*key, *row) for key, row in windows.items())


def test_every_row_is_there_once_though_all_parts_are_killed(
    broker_of_its_own, tmp_path_factory, with_jar, monkeypatch
):
    rng = random.Random(5)
    data_dir = with_jar(tmp_path_factory.mktemp("data"))
    with rig_of("kafka") as kafka, cluster() as address, redis.Redis.from_url(broker_of_its_own.url) as client:
        table = PostgresqlRig(address)
        table._run("create table counts (part bigint, window_start bigint, events float8, total float8)")
        kafka.anew()
        environment = {**kafka.environment, **table.environment}
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        publish(client, {"city/db": Vault(data_dir).seal(address)})
        with running_agent(
            client, broker_of_its_own.url, data_dir, task_types=catalogue(), **environment
        ) as agent:
            agent.wait_serving()
            flow = WithTable(agent, kafka, table)
            flow.submit(flow.read(DOCUMENT.format(
                servers=", ".join(kafka.servers), topic=kafka.topics[0], groups=GROUPS)), "city")
            running = flow.estate.submitted["city"].running

            def unwritten(sent: int) -> int:
                """How many events are on their way: what was sent less what the sink of all events has written."""
                hosted = (agent.report().get("connectors") or {}).get("sinks", {})
                return sent - hosted.get(running["all"], {}).get("events", 0)

            kills = sorted(rng.sample(range(STEP, EVENTS, STEP), KILLS))
            for sent in range(0, EVENTS, STEP):
                if kills and sent >= kills[0]:
                    del kills[0]
                    _kill(rng.choice(("host", "slot", "agent", "broker")), agent, broker_of_its_own)
                kafka.produce(*(message(n) for n in range(sent, sent + STEP)))
                agent.wait(lambda sent=sent: unwritten(sent + STEP) < MOST_ON_THE_WAY, what="all parts catch up")
            kafka.produce(*(message(EVENTS + 10 * WINDOW_MS // EVENT_MS + part) for part in range(GROUPS)))
            folder = {name: data_dir / "tables" / f"{name}-{running[task][:12]}" for name, task in (
                ("parsed", "all"), ("counts", "out"))}
            agent.wait(lambda: len(_rows(folder["parsed"])) >= EVENTS + GROUPS, what="all that was parsed")
            agent.wait(lambda: len(_counts(address)) >= len(expected()), what="all windows in PostgreSQL")
            agent.wait(lambda: len(_rows(folder["counts"])) >= len(expected()), what="all windows in Delta")
            time.sleep(3)  # what would come twice
            numbers = Counter(row["n"] for row in _rows(folder["parsed"]))
            assert len(numbers) == EVENTS + GROUPS and max(numbers.values()) == 1
            assert Counter(_counts(address)) == expected()
            assert Counter(tuple(row.values()) for row in _rows(folder["counts"])) == expected()


def _kill(victim: str, agent, broker: OwnBroker) -> None:
    if victim == "broker":
        broker.kill()
        broker.start()
    elif victim == "agent":
        agent.kill()
        agent.start()
    else:
        os.kill(agent.wait(lambda: living(agent, victim)), signal.SIGKILL)


def _rows(folder: Path) -> list[dict]:
    """The rows of a table; none before it is made."""
    try:
        return deltalake.DeltaTable(str(folder)).to_pyarrow_table().to_pylist()
    except TableNotFoundError:
        return []


def _counts(address: str) -> list[tuple]:
    with psycopg.connect(address) as connection:
        return connection.execute("select part, window_start, events, total from counts").fetchall()
