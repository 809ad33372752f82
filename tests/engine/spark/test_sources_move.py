"""What is read of another system and written to it goes with its queries from node to node and back, while it grows and
connector hosts, slots and agents are killed: each number once and in order, or again where that is documented."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate, pairwise
from pathlib import Path

import pytest

from scheduler.model.columns import number_of
from scheduler.model.fragment import Fragment, RunningTask, node_of
from tests.postgresql import cluster

from .conftest import NODES
from .outside import Outside, growing, outside_of
from .rig import Hosts
from .test_moves_between_nodes import Moving, disturb

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.long, pytest.mark.xdist_group("nodes")]


class WithOutside(Moving):
    """Numbers of another system are read, added up and kept; each with its sum is written there, too."""

    outputs = frozenset({"kept", "rows"})

    def __init__(self, hosts: Hosts, seed: int, outside: Outside) -> None:
        self.outside, self.disturbances = outside, 0
        self.tasks = (
            outside.source(),
            RunningTask("sums", "total", {"name": "sum"}, (outside.reads,)),
            RunningTask("kept", "kept", {"keep_events": 1_000_000}, ("sums",)),
            outside.sink())
        super().__init__(hosts, seed)

    def begin(self, name: str) -> tuple[Fragment, ...]:
        self.out, self.sunk = f"{name}0.2", f"{name}1.0"
        return (
            Fragment(f"{name}0", (self.outside.reads, "sums", "kept"), "n1/0", 3, {"sums": (f"{name}1",)}),
            Fragment(f"{name}1", ("rows",), "n1/0", 1))

    @contextmanager
    def working(self) -> Iterator[None]:
        """All runs, and numbers are given meanwhile."""
        self.publish()
        self.are_held()
        self.outside.begin(self.hosts, self.out)
        with growing(self.outside):
            self.arrives()
            yield

    def holders(self) -> tuple[str, str]:
        """The nodes that have the source and the sink."""
        keys = f"weir:connector:{self.outside.reads}", f"weir:sink:{self.sunk}"
        return tuple((self.hosts.broker.hget(key, "node") or b"").decode() for key in keys)

    def are_held(self) -> None:
        """Wait until source and sink are where their queries are, and are read and written there."""
        where = tuple(
            node_of(part.slot) for task in (self.outside.reads, "rows") for part in self.fragments.values()
            if task in part.tasks)
        self.hosts.wait(lambda: self.holders() == where, what=f"source and sink on {where}, not {self.holders()}")

    def kept_rows(self) -> list[tuple[int, float]]:
        """Numbers and sums in the output."""
        return [(event["n"], event["sum"]) for event in self.hosts.events(self.out)]

    def arrives(self, number: int | None = None) -> None:
        """Wait until a number has arrived at both ends, one that is given from now on unless told."""
        newest = self.outside.given + 1 if number is None else number
        for what, rows in (("the output", self.kept_rows), ("the other system", self.outside.rows)):
            self.hosts.wait(lambda: newest in {n for n, _ in rows()}, what=f"{newest} in {what}")  # noqa: B023

    def signal_host(self, node: str, number: signal.Signals) -> bool:
        """Send a signal to a node's connector host; False where it has none now."""
        pid = (self.hosts.nodes[node].report().get("connectors") or {}).get("pid")
        if pid:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
                self.disturbances += 1
                return True
        return False

    def tell_of(self, task: str, *, began_s: float) -> None:
        """Print for how long nothing was read, or written, while a task moved: between two that came at once before."""
        born_s = [event["_born"] / 1000 for event in self.hosts.events(self.out)]
        for what, times_s in (("read", born_s), ("written", self.outside.times_s())):
            during = [at_s for at_s in times_s if at_s > began_s - 1]
            longest_s = max(after - before for before, after in pairwise(during))
            print(f"{self.outside.reads}, {task} moved: nothing was {what} for {longest_s:.2f} s")

    def check(self) -> None:
        """Each number in order, with the sum up to it, in the output and in the other system; what was under way at a
        disturbance again, where that may be."""
        self.arrives(self.outside.given - 1)
        time.sleep(2)  # what would come twice
        place = {row: number for number, row in enumerate(self.check_output())}
        written = [place[row] for row in self.outside.rows()]
        assert sorted(set(written)) == sorted(place.values())
        goes_back(written, by=self.outside.sink_again, times=self.disturbances)

    def check_output(self) -> list[tuple[int, float]]:
        """Likewise in the output alone; its numbers and sums."""
        given, outside = self.outside.given, self.outside
        events, output = self.hosts.events(self.out), self.kept_rows()
        assert [number_of(event["_seq"]) for event in events] == list(range(len(events)))
        numbers = [n for n, _ in output]
        assert sorted(set(numbers)) == list(range(given))
        assert [total for _, total in output] == list(accumulate(map(float, numbers)))
        goes_back(numbers, by=outside.source_again, times=self.disturbances)
        return output

    def leaves_nothing(self) -> None:
        """End all; no node has a source or sink, nor a connector host, and what was noted of them goes."""
        hosts, broker = self.hosts, self.hosts.broker
        hosts.end()
        hosts.wait(
            lambda: not any(rig.report().get("connectors") for rig in hosts.nodes.values()), what="no host is left")
        noted = [
            key.decode() for pattern in ("connector*", "ch:in-*", "sink*") for key in broker.keys(f"weir:{pattern}")]
        assert [key for key in noted if broker.ttl(key) < 0] == []


def goes_back(numbers: Sequence[int], *, by: int, times: int) -> None:
    """Numbers go up one by one, but for so often as they go back by so much at most."""
    steps = [before + 1 - number for before, number in pairwise(numbers)]
    assert numbers[0] == 0 and min(steps, default=0) >= 0, "something is missing, or came before its turn"
    back = [step for step in steps if step]
    print(f"{len(numbers)} numbers, back by {back} after {times} disturbances")
    assert len(back) <= times and max(back, default=0) <= by


@pytest.fixture(scope="module")
def address(postgresql_folder):
    with cluster(folder=postgresql_folder) as address:
        yield address


@pytest.fixture(params=["postgresql", "mqtt", "s3"])
def outside(request, hosts: Hosts, ports: Mapping[str, int], tmp_path: Path) -> Iterator[Outside]:
    with outside_of(request.param, hosts, ports, tmp_path, lambda: request.getfixturevalue("address")) as outside:
        yield outside


@pytest.mark.timeout(1_500)
def test_source_and_sink_go_there_and_back_though_the_host_that_lets_go_is_killed(
    hosts: Hosts, outside: Outside
) -> None:
    moving = WithOutside(hosts, 1, outside)
    with moving.working():
        for task in (outside.reads, "rows", "rows", outside.reads):
            name = moving.move(task)
            hosts.wait_running(name)  # from now on the source or sink is passed on
            if task == outside.reads:
                assert moving.signal_host(moving.fragments[name].origin, signal.SIGKILL)
            moving.is_over(name)
            moving.are_held()
            moving.arrives()
    moving.check()
    moving.leaves_nothing()


@pytest.mark.timeout(1_500)
def test_where_nothing_is_disturbed_nothing_comes_twice(hosts: Hosts, outside: Outside) -> None:
    moving = WithOutside(hosts, 5, outside)
    with moving.working():
        for task in (outside.reads, "rows", "rows", outside.reads):
            began_s = time.time()
            moving.is_over(moving.move(task))
            moving.are_held()
            moving.arrives()
            moving.tell_of(task, began_s=began_s)
    moving.check()
    moving.leaves_nothing()


@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("seed", [2, 3])
def test_ten_moves_with_kills_at_random_moments_lose_nothing(hosts: Hosts, outside: Outside, seed: int) -> None:
    moving = WithOutside(hosts, seed, outside)
    victims = ["leaving host", "taking host", "agent", "slot", "leaving host", "wire", "taking host", "agent"]
    moving.chance.shuffle(victims)
    with moving.working():
        for _ in range(10):
            name = moving.move()
            moved = moving.fragments[name]
            if victims:
                time.sleep(moving.chance.uniform(0, 6))
                match victims.pop():
                    case "leaving host":
                        moving.signal_host(moved.origin, signal.SIGKILL)
                    case "taking host":
                        moving.signal_host(node_of(moved.slot), signal.SIGKILL)
                    case what:
                        moving.disturbances += 1
                        disturb(hosts, moving.chance.choice(NODES), what, moving.chance)
            moving.is_over(name)
            moving.are_held()
            moving.arrives()
    moving.check()
    moving.leaves_nothing()


@pytest.mark.timeout(3_600)
def test_what_a_dead_node_has_not_let_go_is_taken_by_force_and_a_move_is_taken_back(
    hosts: Hosts, outside: Outside
) -> None:
    moving = WithOutside(hosts, 4, outside)

    def move(task: str) -> None:
        moving.is_over(moving.move(task))
        moving.are_held()

    def move_off_a_dying_node(task: str, origin: str) -> None:
        """All runs on the other node then, while this one is away; it comes back."""
        assert moving.signal_host(origin, signal.SIGSTOP)  # so that it lets nothing go
        name = moving.move(task)
        hosts.wait_running(name)
        hosts.nodes[origin].kill()
        moving.are_held()
        moving.arrives()
        hosts.nodes[origin].start()
        moving.is_over(name)
        moving.arrives()

    with moving.working():
        for task in (outside.reads, "rows"):
            name = moving.move(task)
            time.sleep(moving.chance.uniform(0, 2))
            moving.is_over(*moving.take_back(name))
            moving.are_held()
            moving.arrives()
        move("rows")
        move_off_a_dying_node(outside.reads, "n1")
        move(outside.reads)
        move_off_a_dying_node("rows", "n2")
    moving.check()
    moving.leaves_nothing()
