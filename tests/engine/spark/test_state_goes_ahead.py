"""A query with much state moves between two nodes: a copy goes ahead, then in rounds what is new; its output is as of
one that nobody moves."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from scheduler.contracts.desired import made_in
from scheduler.model.fragment import Fragment, RunningTask
from scheduler.reuse.handover import CutPiece, recut
from workers.engine.agents.transport.ahead import LIMITS, is_worth_another

from .rig import Hosts, estate_of

# In the short run test_moves_between_nodes.py moves state on Spark, test_store_copies.py has copies and rounds.
pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.long, pytest.mark.xdist_group("nodes")]


class Hoarding:
    """A source, and a query that keeps a text of each key and sums up what came for it.

    Each key comes once, and then only the first of them (``often``) again and again, so that what changes while a copy
    goes ahead has a bound, however slow the machine is.
    """

    def __init__(self, hosts: Hosts, *, keys: int, often: int, length: int, rate_per_s: float) -> None:
        self.hosts, self.length, name = hosts, length, f"f{hosts.version + 1}"
        self.keys, self.often = keys, often
        self.tasks = [
            RunningTask("count", "numbers", {"rate_per_s": rate_per_s}, ()),
            RunningTask("hoard", "hoard", {"keys": keys, "often": often, "bytes": length}, ("count",)),
            RunningTask("out", "kept", {"keep_events": 1_000_000}, ("hoard",))]
        self.source = Fragment(f"{name}-0", ("count",), "n1/0", 1, {"count": (f"{name}-1",)})
        self.query = Fragment(f"{name}-1", ("hoard", "out"), "n1/0", 2)
        self.out = f"{name}-1.1"

    def publish(self) -> None:
        self.hosts.publish(estate_of([self.source, self.query], self.tasks, slots=self.hosts.slots))

    def move(self) -> None:
        """The query goes to the other node; nothing is waited for."""
        slot = next(slot.name for slot in self.hosts.slots if slot.name != self.query.slot)
        change = recut(
            [self.query], [CutPiece(2, slot)], upstream=[self.source], outputs={"out"}, generation=self.hosts.version)
        self.query = change.after[change.steps[0].fragment]
        self.source = change.after.get(self.source.id, self.source)
        self.publish()

    def is_over(self) -> None:
        """Wait until the query runs where it went, and the node that it left has nothing more to do for it."""
        moved = self.query

        def has_settled() -> bool:
            report = self.hosts.reports().node(moved.origin)
            return report is not None and report.version >= made_in(moved.id) and not (
                set(report.handing_over) & set(moved.inherits))

        self.hosts.wait_running(moved.id, within_s=600)
        self.hosts.wait(has_settled, within_s=600, what="the other node is done")

    def grows(self, until: int) -> None:
        self.hosts.wait(lambda: self.length_of_out() >= until, within_s=900, what="more events")

    def length_of_out(self) -> int:
        return len(self.hosts.events(self.out))

    def reported_kb(self) -> int:
        """How much state the query has, as its node reports it."""
        report = self.hosts.reports().query(self.query.slot, self.query.id)
        return (report.state_kb if report is not None else None) or 0

    def check(self) -> None:
        """Every number once and in order, with the sum of its key up to it and the text made with the first."""
        sums = dict.fromkeys(range(self.keys), 0.0)
        events = self.hosts.events(self.out)
        assert [event["_seq"] for event in events] == list(range(len(events)))
        for event in events:
            number = event["_seq"]
            key = number if number < self.keys else number % self.often
            sums[key] += number
            assert (event["sum"], event["held"]) == (sums[key], self.length)

    def logged(self, what: str) -> list[dict]:
        """What the nodes logged of the last move."""
        lines = [line for rig in self.hosts.nodes.values() for line in rig.log.read_text().splitlines()]
        records = [json.loads(line) for line in lines if what in line and line.startswith("{")]
        return [record for record in records if record["to"] == self.query.id]


def play(
    hosts: Hosts, *, keys: int, often: int, length: int, rate_per_s: float, kill_after_s: float | None
) -> None:
    """The query moves, moves back, maybe while a slot is killed, and then moves once more."""
    hoarding = Hoarding(hosts, keys=keys, often=often, length=length, rate_per_s=rate_per_s)
    hoarding.publish()
    hoarding.grows(keys + 10)
    hoarding.grows(hoarding.length_of_out() + 10)  # a batch with all of it is over
    hosts.wait(
        lambda: hoarding.reported_kb() >= LIMITS.least_bytes >> 10, within_s=120, what="its state is reported")
    hoarding.move()
    hoarding.is_over()
    [ahead], [record] = hoarding.logged("state went ahead"), hoarding.logged("record sent")
    copy, *rounds = ahead["bytes"]
    assert ahead["is_stored"] and rounds and not is_worth_another(ahead["bytes"], LIMITS)
    assert copy > keys * length > 3 * record["bytes"], "only what was new was sent at last"
    print(f"ahead {copy}, in rounds {rounds}, at last {record['bytes']} bytes")
    hoarding.grows(hoarding.length_of_out() + 10)
    hoarding.move()
    if kill_after_s is not None:
        time.sleep(kill_after_s)
        os.kill(hosts.slot_pid("n1/0"), signal.SIGKILL)
        hoarding.is_over()
        hoarding.move()
    hoarding.is_over()
    hoarding.grows(hoarding.length_of_out() + 10)
    hoarding.check()
    hosts.end()


@pytest.mark.timeout(1_500)
@pytest.mark.parametrize("kill_after_s", [None, 1.0], ids=["undisturbed", "killed"])
def test_some_mb_of_state_go_ahead_and_change_no_output(hosts: Hosts, kill_after_s: float | None) -> None:
    play(hosts, keys=150, often=10, length=20_000, rate_per_s=50.0, kill_after_s=kill_after_s)


@pytest.mark.timeout(7_200)
def test_a_hundred_mb_of_state_go_ahead_and_change_no_output(hosts: Hosts) -> None:
    play(hosts, keys=2_000, often=500, length=50_000, rate_per_s=100.0, kill_after_s=10.0)
