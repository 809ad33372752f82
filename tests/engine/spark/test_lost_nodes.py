"""A machine is lost with all that is on it: its queries go on at the node that holds copies of their state."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from scheduler.key_division import whole_groups
from scheduler.model.fragment import Fragment, RunningBundle, RunningTask, node_of
from scheduler.model.settings_of_fragments import FragmentSettings
from scheduler.reuse.division import WantedBundle
from scheduler.reuse.handover import moved_in
from workers.engine.channels import keys
from workers.engine.lost_nodes import all_holders_of
from workers.engine.noted_switches import noted_switches

from .conftest import NODES
from .keyed_flow import KeyedFlow
from .lost_machines import are_copied, copying_nodes, empty, end_machine
from .rig import Hosts, estate_of
from .switching_estate import DROPS, line
from .test_alternates import expected
from .test_moved_bundles import kill
from .test_moves_between_nodes import Moving, check

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.xdist_group("nodes")]

COPY_S = 1.0


class Copied(Moving):
    """A source and a chain with sums and state by key, on one node; somebody else reads the first sum on the other."""

    def begin(self, name: str) -> tuple[Fragment, ...]:
        self.out, self.looked = f"{name}1.3", f"{name}2.1"
        return (
            Fragment(f"{name}0", ("count", "t1"), "n1/0", 2, {"t1": (f"{name}1", f"{name}2")}),
            Fragment(f"{name}1", ("shift", "t2", "hoard", "out"), "n1/0", 4),
            Fragment(f"{name}2", ("look", "looked"), "n2/0", 2))

    def on(self, node: str) -> list[str]:
        """The queries on a node."""
        return [name for name, part in self.fragments.items() if node_of(part.slot) == node]

    def are_copied(self, node: str) -> None:
        """Wait until all queries of a node have a whole copy on the other one, newer than what is there now."""
        are_copied(self.hosts, self.on(node), [other_than(node)])

    def lose(self, node: str, *, with_disk: bool = True) -> list[str]:
        """The machine is gone, with its disk or without, and what ran there goes on elsewhere; the new names."""
        lose(self.hosts, node, with_disk=with_disk)
        began_s = time.monotonic()
        heirs = self._go(self.on(node))
        for name in heirs:
            self.hosts.wait_running(name)
            print(f"{name} works {time.monotonic() - began_s:.1f} s after the plan")
        return heirs

    def is_back(self, node: str) -> None:
        """A machine of that name comes, with what is on its disk."""
        self.hosts.nodes[node].start()
        self.hosts.wait_serving()


class Rested(Copied):
    """A source whose first sum others read, with a further sum behind it in the same query, and a query with state by
    key that reads that: the two of them are one dataflow, which is paused."""

    def begin(self, name: str) -> tuple[Fragment, ...]:
        self.out, self.looked = f"{name}1.1", f"{name}2.1"
        return (
            Fragment(
                f"{name}0", ("count", "t1", "shift", "t2"), "n1/0", 4, {"t1": (f"{name}2",), "t2": (f"{name}1",)}),
            Fragment(f"{name}1", ("hoard", "out"), "n1/0", 2),
            Fragment(f"{name}2", ("look", "looked"), "n2/0", 2))

    def turn(self, *, rests: bool) -> str:
        """It is paused, or resumed; its query."""
        source, query = (
            next(part for part in self.fragments.values() if task in part.tasks) for task in ("count", "hoard"))
        outlets = {"t1": source.outlets["t1"], **({} if rests else {"t2": (query.id,)})}
        resting = 2 if rests else 0
        self.fragments |= {
            source.id: replace(source, active=4 - resting, resting=resting, outlets=outlets),
            query.id: replace(query, active=2 - resting, resting=resting)}
        self.publish()
        return query.id

    def has_state(self, query: str, state: str) -> None:
        self.hosts.wait(lambda: (self.hosts.fragment(query) or {}).get("state") == state, what=f"{query} is {state}")

    def check_sums(self, before: int) -> None:
        """Whatever came before the pause and after it, the sums are of just that; ``before`` events came before."""
        events = self.hosts.events(self.out)
        seqs = [event["_seq"] for event in events]
        assert seqs[:before] == list(range(before)) and seqs == sorted(set(seqs)) and seqs[before] > before
        assert seqs[before:] == list(range(seqs[before], seqs[before] + len(seqs) - before))
        by_key: dict[int, float] = {}
        for event in events:
            key, seq = event["_seq"] % 40, event["_seq"]
            by_key[key] = by_key.get(key, 0.0) + seq + 7
            assert event["sum"] == by_key[key], "the state by key of the query that was paused"
            assert float(event["t1"]) == seq * (seq + 1) / 2, "it never rested"
        # The tail may have got some events more than its reader, before the pause and as both go on.
        least, most = (last * (last + 1) / 2 + 7 * (last + 1) for last in (seqs[before - 1], seqs[before] - 1))
        assert least <= events[before]["t2"] - (seqs[before] + 7) <= most, "the state of the tail that rested"
        shifted = events[before]["t2"] - (seqs[before] + 7)
        for event in events[before:]:
            shifted += event["_seq"] + 7
            assert event["t2"] == shifted
        looked = [event["_seq"] for event in self.hosts.events(self.looked)]
        assert looked == list(range(looked[0], looked[0] + len(looked))), "and who reads does not notice"


class Switched(Copied):
    """A source with two elements behind it, the second one with state, and a sum, all of them one query."""

    outputs = frozenset({"f2-out"})

    def __init__(self, hosts: Hosts, seed: int) -> None:
        catalog = next(iter(hosts.nodes.values())).task_types
        self.tasks = [RunningTask("source", "numbers", {"rate_per_s": 50.0}, ()), *line("f1", "f2", "fast", catalog)]
        self.ways = dict.fromkeys(("f1", "f2"), "plain")
        hosts.broker.delete(*map(keys.switches, self.ways))
        super().__init__(hosts, seed)

    def begin(self, name: str) -> tuple[Fragment, ...]:
        self.out = f"{name}0.4"
        return (Fragment(f"{name}0", ("source", "f1", "f2", "f2-sum", "f2-out"), "n1/0", 5),)

    def publish(self) -> None:
        estate = estate_of(list(self.fragments.values()), self.tasks, slots=self.hosts.slots)
        self.hosts.publish(estate.set_to(
            {name: FragmentSettings(alternates=self.ways) for name in self.fragments}, 0))

    def switch(self) -> None:
        """Both are to be done in another way."""
        self.ways = {task: self.chance.choice([way for way in DROPS if way != on]) for task, on in self.ways.items()}

    def is_in_force(self) -> bool:
        return {task: switches[-1].alternate for task in self.ways
                if (switches := noted_switches(self.hosts.broker, task))} == self.ways

    def check(self) -> None:
        """Each event went the ways that the recorded sequence says, once, and so did the state behind it."""
        sequences = [noted_switches(self.hosts.broker, task) for task in ("f1", "f2")]
        events = self.hosts.events(self.out)
        assert [(event["_seq"], event["f1"], event["f2"], event["since"]) for event in events] == list(
            expected(events[-1]["_seq"], *sequences))
        total = 0
        for event in events:
            total += event["n"]
            assert event["sum"] == total


def other_than(node: str) -> str:
    return next(name for name in NODES if name != node)


def lose(hosts: Hosts, node: str, *, with_disk: bool = True) -> None:
    """The machine is gone, with its disk or without, and others may go on with what ran there."""
    end_machine(hosts.nodes[node], with_disk=with_disk)
    hosts.broker.hset(keys.LOST, node, 1)


class Spread(KeyedFlow):
    """A task that is divided by key, whose bundles come to be on two nodes, and whoever else reads the same."""

    def slot(self) -> str:
        return "n1/0"

    def rows(self, output: str) -> list:
        return self.rig.events(self.channels[output])

    @property
    def channels(self) -> dict[str, str]:
        """Where outputs are, whoever goes on with them."""
        return self.__dict__.setdefault("_channels", {output: f"{self.ids[output]}.0" for output in self.outputs})

    def on(self, node: str) -> dict[str, Fragment]:
        """The queries on a node, and the fragment of each."""
        return {bundle.id: fragment for fragment in self.fragments.values() for bundle in fragment.queries
                if node_of(bundle.slot) == node and not bundle.leaving}

    def bundles(self) -> tuple[RunningBundle, ...]:
        return self.fragments[self.ids["heavy"]].bundles

    def go(self, queries: dict[str, Fragment], node: str) -> None:
        """These go on in the slot of that node, by one plan."""
        self.channels  # noqa: B018  as they are before
        slots = dict.fromkeys(queries, f"{node}/0")
        change = moved_in(self.estate(), slots, outputs=set(self.outputs), homes=queries)
        for name in change.before.keys() - change.after.keys():
            heir = next(after for after in change.after.values() if name in after.inherits)
            self.ids = {task: heir.id if bundle == name else bundle for task, bundle in self.ids.items()}
            del self.fragments[name]
        self.fragments |= change.after
        self.publish()
        self.rig.wait_running(*(bundle.id for fragment in change.after.values() for bundle in fragment.queries))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, test_types, with_jar) -> Iterator[Hosts]:
    """Two agents with a slot and a data folder each, which hold copies for one another."""
    with copying_nodes(tmp_path_factory, test_types, with_jar, NODES, copy_s=COPY_S) as hosts:
        yield hosts


@pytest.fixture
def nodes(both: Hosts) -> Hosts:
    return empty(both)


@pytest.mark.long  # in the short run: test_copied_histories.py
@pytest.mark.timeout(1_500)
def test_a_lost_machine_changes_no_output(nodes: Hosts) -> None:
    """Nor do moves by a plan behind that, of the source with its state and of a reader."""
    copied = Copied(nodes, 1)
    copied.publish()
    nodes.wait_running(*copied.fragments)
    copied.grows(50)
    copied.are_copied("n1")
    copied.are_copied("n1")  # what is new since, too
    copied.lose("n1")
    copied.grows(100)
    copied.is_back("n1")
    copied.are_copied("n2")
    for task in ("count", "looked"):
        copied.is_over(copied.move(task))
    copied.grows()
    check(copied)


@pytest.mark.long  # in the short run: test_paused_copies.py, played
@pytest.mark.timeout(1_500)
def test_what_rests_on_a_lost_machine_rests_elsewhere_and_is_resumed_there(nodes: Hosts) -> None:
    """A query that is paused, and the tail of one that works: each with the state that it had."""
    flow = Rested(nodes, 1)
    flow.publish()
    nodes.wait_running(*flow.fragments)
    flow.grows(50)
    query = flow.turn(rests=True)
    flow.has_state(query, "stopped")
    before = len(nodes.events(flow.out))
    on_first = flow.on("n1")
    nodes.wait(lambda: all_holders_of(nodes.broker, on_first, living={"n2"}).keys() == {*on_first}, what="copies")
    lose(nodes, "n1")
    heirs = dict(zip(on_first, flow._go(on_first), strict=True))
    flow.has_state(heirs[query], "stopped")
    source = next(heir for name, heir in heirs.items() if name != query)
    nodes.wait_running(source)
    count = len(nodes.events(flow.looked))
    nodes.wait(lambda: len(nodes.events(flow.looked)) > count + 50, what="more events for others")
    assert len(nodes.events(flow.out)) == before
    flow.turn(rests=False)
    nodes.wait_running(heirs[query])
    flow.grows(50)
    flow.check_sums(before)


@pytest.mark.long  # in the short run: test_copied_alternates.py, played
@pytest.mark.timeout(1_500)
def test_each_event_goes_its_way_once_where_the_machine_is_lost_right_behind_a_switch(nodes: Hosts) -> None:
    """And where another switch is asked for while batches are repeated."""
    flow = Switched(nodes, 5)
    flow.publish()
    nodes.wait_running(*flow.fragments)
    for node in NODES:
        flow.grows(30)
        flow.are_copied(node)
        for _ in range(2):
            flow.switch()
            flow.publish()
            nodes.wait(flow.is_in_force, what="a switch")
        flow.switch()
        flow.lose(node)
        nodes.wait(flow.is_in_force, what="the switch that was asked for meanwhile")
        if node == "n1":
            flow.is_back(node)
    flow.grows(30)
    flow.check()


@pytest.mark.long  # in the short run: test_copied_histories.py
@pytest.mark.timeout(1_500)
def test_keys_change_hands_between_nodes_and_slots_die_in_between(nodes: Hosts) -> None:
    """Of two tasks in a row, and of one whose states are in stores: from one query to three bundles, and to two."""
    flow = KeyedFlow(nodes, 4, ["averaged", "summed"])
    flow.grows()
    for count, dies in ((3, "n2"), (2, "n1")):
        parts = whole_groups(dict.fromkeys(range(count), 1 / count))
        flow.divide([WantedBundle(f"{NODES[place % 2]}/0", 1, part) for place, part in parts.items()], *flow.keyed)
        kill(nodes.nodes[dies], "0")
        flow.is_over()
        flow.grows()
    assert all({node_of(bundle.slot) for bundle in flow.fragments[flow.ids[task]].bundles} == set(NODES)
               for task in flow.keyed)
    flow.check()


@pytest.mark.long  # in the short run: test_copied_histories.py
@pytest.mark.timeout(1_500)
def test_a_task_that_is_divided_over_nodes_loses_one_after_the_other_and_no_key_notices(nodes: Hosts) -> None:
    """With the source that divides the stream, with a bundle of each, with who reads both, and with a join: of its two
    streams one comes from each node at first, and one is of two threads."""
    flow = Spread(nodes, 3, ["summed", "paired"])
    lefts = flow.ids["lefts"]
    flow.fragments[lefts] = replace(flow.fragments[lefts], bundles=(RunningBundle(lefts, "n1/0", 2),))
    flow.publish()
    flow.grows()
    flow.divide([WantedBundle("n1/0", 1, 0.5), WantedBundle("n1/0", 1, 0.5)], "heavy")
    flow.is_over()
    _, second = flow.bundles()
    others = {name: flow.fragments[name] for name in (flow.ids["summed"], lefts)}
    flow.go({second.id: flow.fragments[flow.ids["heavy"]], **others}, "n2")
    assert {node_of(bundle.slot) for bundle in flow.bundles()} == set(NODES)
    for node in NODES:
        queries = flow.on(node)
        assert len(queries) == (5 if node == "n1" else 8)
        flow.grows()
        are_copied(nodes, queries, [other_than(node)])
        are_copied(nodes, queries, [other_than(node)])  # what is new since, too
        lose(nodes, node)
        flow.go(queries, other_than(node))
        flow.grows(60)
        if node == "n1":
            nodes.nodes[node].start()
            nodes.wait_serving()
    flow.check()


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_machines_that_are_lost_one_after_the_other_change_no_output(nodes: Hosts) -> None:
    copied, chance = Copied(nodes, 2), random.Random(2)
    copied.publish()
    nodes.wait_running(*copied.fragments)
    copied.grows(50)
    for number in range(6):
        node = NODES[number % 2]
        copied.are_copied(node)
        time.sleep(chance.uniform(0, 2))
        copied.lose(node, with_disk=chance.random() < 0.5)
        if chance.random() < 0.5:
            copied.grows(50)
        copied.is_back(node)
        copied.grows(50)
        check(copied)
