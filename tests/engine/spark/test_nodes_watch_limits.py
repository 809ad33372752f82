"""Two agents hold a latency limit by themselves on Spark: no site runs, and every event comes once."""

from __future__ import annotations

import time

import pytest

from scheduler.latency.constraints import LatencyConstraint, along
from scheduler.latency.runtime_graph import Channel, RuntimeGraph, Vertex
from scheduler.latency.setting_up import qos_setups
from scheduler.model.fragment import Fragment, RunningTask, node_of
from workers.engine import qos_store
from workers.engine.channels import keys

from .conftest import NODES
from .rig import Hosts, estate_of

pytestmark = [
    pytest.mark.spark, pytest.mark.broker, pytest.mark.long, pytest.mark.timeout(1_500),
    pytest.mark.xdist_group("nodes")]

BEGIN_MS, LIMIT_S = 4_000, 2.0  # events wait two seconds for the first batch alone
LOOSER_S = 7.0


def test_managers_make_a_violated_limit_hold_and_take_no_more_for_a_looser_one_while_no_site_runs(
    hosts: Hosts,
) -> None:
    name = f"f{hosts.version + 1}"
    first, then = f"{name}-0", f"{name}-1"
    tasks = [
        RunningTask(f"{name}-count", "numbers", {"rate_per_s": 20.0}, ()),
        RunningTask(f"{name}-shift", "shift", {"by": 1_000_000}, (f"{name}-count",)),
        RunningTask(f"{name}-out", "kept", {"keep_events": 100_000}, (f"{name}-shift",))]
    fragments = [
        Fragment(first, (f"{name}-count",), f"{NODES[0]}/0", 1, {f"{name}-count": (then,)}),
        Fragment(then, (f"{name}-shift", f"{name}-out"), f"{NODES[1]}/0", 2)]
    for rig in hosts.nodes.values():
        rig.paces_ms = {first: BEGIN_MS, then: BEGIN_MS}
    hosts.publish(estate_of(fragments, tasks, slots=hosts.slots))
    hosts.wait_running(first, then)
    hosts.wait(lambda: len(hosts.events(f"{then}.1")) > 50, what="events arrive")

    def intervals_ms() -> list[int]:
        return [hosts.fragment(query)["trigger_ms"] for query in (first, then)]

    def latency_s(over_s: float = 12.0) -> float:
        """The mean age of events at the end, over some seconds."""
        meter = keys.meter(then)
        before = [int(value or 0) for value in hosts.broker.hmget(meter, "1:age", "1:aged")]
        time.sleep(over_s)
        after = [int(value or 0) for value in hosts.broker.hmget(meter, "1:age", "1:aged")]
        return (after[0] - before[0]) / max(1, after[1] - before[1]) / 1000

    assert intervals_ms() == [BEGIN_MS, BEGIN_MS]
    assert latency_s() > LIMIT_S, "it is violated to begin with"
    begun = [hosts.fragment(query)["run_id"] for query in (first, then)]

    graph = RuntimeGraph(
        [Vertex(fragment.id, fragment.id, node_of(fragment.slot)) for fragment in fragments], [Channel(first, then)])

    def watch(limit_s: float, version: int) -> None:
        setups = qos_setups(
            graph, [LatencyConstraint(along((first, then)), limit_s, 60.0)], version=version,
            longest_ms={first: 8_000, then: 8_000}, sources={first}, reads={then: {f"{first}.0": first}})
        qos_store.publish(hosts.broker, setups.values(), at_ms=time.time_ns() // 1_000_000)

    watch(LIMIT_S, 1)
    hosts.wait(lambda: min(intervals_ms()) < BEGIN_MS, what="a manager has stepped")
    hosts.wait(lambda: latency_s() <= LIMIT_S, what="the limit holds")
    hosts.wait(lambda: all(report.qos for _, report in hosts.reports().items()), what="agents say so")

    held_ms = intervals_ms()
    watch(LOOSER_S, 2)
    hosts.wait(lambda: sum(intervals_ms()) > 1.5 * sum(held_ms), what="intervals grow again", within_s=400)
    assert latency_s() <= LOOSER_S, "and the looser limit holds"

    assert [hosts.fragment(query)["run_id"] for query in (first, then)] == begun, "nothing was restarted"
    received = [event["_seq"] for event in hosts.events(f"{then}.1")]
    assert received == list(range(received[0], received[0] + len(received))), "each event once, in order"
    stepped = [fields for _, fields in hosts.broker.xrange(keys.EVENTS) if fields[b"kind"] == b'"stepped"']
    assert stepped, "what managers changed is for the site to note when it is back"
    qos_store.publish(hosts.broker, [qos_store.QosSetup(node=node) for node in NODES], at_ms=0)
    for rig in hosts.nodes.values():
        rig.paces_ms = {}
    hosts.end()
