"""A table that is read and one that is written go with their queries from node to node and back, while rows are
inserted and connector hosts, slots and agents are killed: each row once, and in order."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import accumulate

import psycopg
import pytest

from scheduler.model.fragment import Fragment, RunningTask, node_of
from tests.postgresql import cluster
from workers.engine.secrets import Vault, publish

from .conftest import NODES
from .rig import Hosts
from .test_moves_between_nodes import Moving, disturb

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.long, pytest.mark.xdist_group("nodes")]
SECRET = {"secret": "db", "team": "city"}
EVERY_S = 0.05


class WithTables(Moving):
    """Rows of one table are read, added up and kept; each with its sum is written to another table."""

    tasks = (
        RunningTask("orders", "postgresql", {
            "database": SECRET, "table": "orders", "column": "id", "columns": ["n:bigint"], "every": 0.1,
            "start": "oldest"}, ()),
        RunningTask("sums", "total", {"name": "sum"}, ("orders",)),
        RunningTask("kept", "kept", {"keep_events": 1_000_000}, ("sums",)),
        RunningTask("rows", "to_postgresql", {"database": SECRET, "table": "sunk", "columns": ["n", "sum"]}, ("sums",)),
    )
    outputs = frozenset({"kept", "rows"})

    def begin(self, name: str) -> tuple[Fragment, ...]:
        self.out, self.sunk = f"{name}0.2", f"{name}1.0"
        return (
            Fragment(f"{name}0", ("orders", "sums", "kept"), "n1/0", 3, {"sums": (f"{name}1",)}),
            Fragment(f"{name}1", ("rows",), "n1/0", 1))

    def holders(self) -> tuple[str, str]:
        """The nodes that have the source and the sink."""
        keys = "weir:connector:orders", f"weir:sink:{self.sunk}"
        return tuple((self.hosts.broker.hget(key, "node") or b"").decode() for key in keys)

    def are_held(self) -> None:
        """Wait until source and sink are where their queries are, and are read and written there."""
        where = tuple(
            node_of(part.slot) for task in ("orders", "rows") for part in self.fragments.values() if task in part.tasks)
        self.hosts.wait(lambda: self.holders() == where, what=f"source and sink on {where}, not {self.holders()}")


def signal_host(hosts: Hosts, node: str, number: signal.Signals) -> bool:
    """Send a signal to a node's connector host; False where it has none now."""
    pid = (hosts.nodes[node].report().get("connectors") or {}).get("pid")
    if pid:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
            return True
    return False


class Database:
    """A table that grows and one that is written."""

    def __init__(self, address: str) -> None:
        self.address, self.inserted = address, 0

    def anew(self) -> None:
        self.inserted = 0
        with psycopg.connect(self.address) as connection:
            connection.execute("drop table if exists orders, sunk")
            connection.execute("create table orders (id bigserial primary key, n bigint)")
            connection.execute("create table sunk (place bigserial, n float8, sum float8)")

    @contextmanager
    def growing(self) -> Iterator[None]:
        """Rows with numbers from 0 on are inserted meanwhile."""
        done = threading.Event()

        def insert() -> None:
            with psycopg.connect(self.address, autocommit=True) as connection:
                while not done.wait(EVERY_S):
                    connection.execute("insert into orders (n) values (%s)", (self.inserted,))
                    self.inserted += 1

        thread = threading.Thread(target=insert, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def rows(self) -> list[tuple[int, float]]:
        """What was written, in that order."""
        with psycopg.connect(self.address) as connection:
            return connection.execute("select n, sum from sunk order by place").fetchall()


@pytest.fixture(scope="module")
def address(postgresql_folder):
    with cluster(folder=postgresql_folder) as address:
        yield address


@pytest.fixture
def database(address, hosts: Hosts) -> Database:
    node = hosts.nodes[NODES[0]]
    publish(hosts.broker, {"city/db": Vault(node.data_dir, node.environment).seal(address)})
    database = Database(address)
    database.anew()
    return database


def grows(moving: WithTables, database: Database) -> None:
    """Wait until a row that is inserted from now on has arrived at both ends."""
    newest = database.inserted + 1
    moving.hosts.wait(lambda: len(database.rows()) > newest, what="more rows in the table")
    moving.hosts.wait(lambda: len(moving.hosts.events(moving.out)) > newest, what="more rows in the output")


def check(moving: WithTables, database: Database) -> None:
    """Each row once and in order, with the sum up to it, in the output and in the table."""
    inserted = database.inserted
    moving.hosts.wait(
        lambda: min(len(database.rows()), len(moving.hosts.events(moving.out))) >= inserted, what="all rows")
    time.sleep(2)  # what would come twice
    expected = list(enumerate(accumulate(float(n) for n in range(inserted))))
    events = moving.hosts.events(moving.out)
    assert [event["_seq"] for event in events] == list(range(inserted))
    assert [(event["n"], event["sum"]) for event in events] == expected
    assert database.rows() == expected


def leaves_nothing(moving: WithTables) -> None:
    """End all; no node has a source or sink, nor a connector host, and what was noted of them goes."""
    hosts, broker = moving.hosts, moving.hosts.broker
    hosts.end()
    hosts.wait(lambda: not any(rig.report().get("connectors") for rig in hosts.nodes.values()), what="no host is left")
    noted = [
        key.decode() for pattern in ("connector*", "ch:in-*", "sink*") for key in broker.keys(f"weir:{pattern}")]
    assert [key for key in noted if broker.ttl(key) < 0] == []


@pytest.mark.timeout(1_500)
def test_source_and_sink_go_there_and_back_though_the_host_that_lets_go_is_killed(
    hosts: Hosts, database: Database
) -> None:
    moving = WithTables(hosts, 1)
    with database.growing():
        moving.publish()
        moving.are_held()
        grows(moving, database)
        for task in ("orders", "rows", "rows", "orders"):
            name = moving.move(task)
            hosts.wait_running(name)  # from now on the source or sink is passed on
            if task == "orders":
                assert signal_host(hosts, moving.fragments[name].origin, signal.SIGKILL)
            moving.is_over(name)
            moving.are_held()
            grows(moving, database)
    check(moving, database)
    leaves_nothing(moving)


@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("seed", [2, 3])
def test_ten_moves_with_kills_at_random_moments_lose_and_double_no_row(
    hosts: Hosts, database: Database, seed: int
) -> None:
    moving = WithTables(hosts, seed)
    victims = ["leaving host", "taking host", "agent", "slot", "leaving host", "wire", "taking host", "agent"]
    moving.chance.shuffle(victims)
    with database.growing():
        moving.publish()
        moving.are_held()
        for _ in range(10):
            name = moving.move()
            moved = moving.fragments[name]
            if victims:
                time.sleep(moving.chance.uniform(0, 6))
                match victims.pop():
                    case "leaving host":
                        signal_host(hosts, moved.origin, signal.SIGKILL)
                    case "taking host":
                        signal_host(hosts, node_of(moved.slot), signal.SIGKILL)
                    case what:
                        disturb(hosts, moving.chance.choice(NODES), what, moving.chance)
            moving.is_over(name)
            moving.are_held()
            grows(moving, database)
    check(moving, database)
    leaves_nothing(moving)


@pytest.mark.timeout(3_600)
def test_what_a_dead_node_has_not_let_go_is_taken_by_force_and_a_move_is_taken_back(
    hosts: Hosts, database: Database
) -> None:
    moving = WithTables(hosts, 4)

    def move(task: str) -> None:
        moving.is_over(moving.move(task))
        moving.are_held()

    def move_off_a_dying_node(task: str, origin: str) -> None:
        """All runs on the other node then, while this one is away; it comes back."""
        assert signal_host(hosts, origin, signal.SIGSTOP)  # so that it lets nothing go
        name = moving.move(task)
        hosts.wait_running(name)
        hosts.nodes[origin].kill()
        moving.are_held()
        grows(moving, database)
        hosts.nodes[origin].start()
        moving.is_over(name)
        grows(moving, database)

    with database.growing():
        moving.publish()
        moving.are_held()
        grows(moving, database)
        for task in ("orders", "rows"):
            name = moving.move(task)
            time.sleep(moving.chance.uniform(0, 2))
            moving.is_over(*moving.take_back(name))
            moving.are_held()
            grows(moving, database)
        move("rows")
        move_off_a_dying_node("orders", "n1")
        move("orders")
        move_off_a_dying_node("rows", "n2")
    check(moving, database)
    leaves_nothing(moving)
