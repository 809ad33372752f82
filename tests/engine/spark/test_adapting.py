"""Adaptation on Spark: the rate of a dynamic dataflow rises threefold and falls again, what is measured decides which
of its ways is on, and a slot is killed in mid-switch; what comes out is what the recorded switches say, one by one.

A source counts, and a gate lets every third number pass, for a while all of them: which, is known by the number. What
an event takes in either way is declared to adaptation, so that what it decides does not depend on the machine.
"""

from __future__ import annotations

import math
import os
import signal
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
import redis

from scheduler.adaptation.shared_slots import AdaptationRoom
from scheduler.controllers.alternate_adaptation import Adaptations, AdaptedDataflow, Adapting
from scheduler.controllers.loop_values import ACTS, Policy
from scheduler.model.canonical import canonical_config
from scheduler.model.dataflow_goals import DataflowGoals
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningTask
from scheduler.model.settings_of_fragments import FragmentSettings
from scheduler.model.task_types import DYNAMIC
from scheduler.simulation.elastic import Alternate, ElasticDataflow
from tests.conftest import running_broker
from workers.engine.agents.supervising.supervision import READY
from workers.engine.channels import keys
from workers.engine.noted_switches import noted_switches

from .rig import NODE, Rig, catalogue, estate_of, running_agent

TASK, HEAD, WORK = "adapted", "adapting0-0", "adapting1-0"
OUT = f"{WORK}.1"  # a channel
KEPT = {"keep_events": 1_000_000}
RATE_PER_S = 60.0
RISES, FALLS, LAST = (round(RATE_PER_S * 60 * minutes) for minutes in (3, 7, 12))
WAYS = {  # a core does 30 a second in the one way, 90 in the other
    "dear": Alternate("dear", 1.0, 1 / 30, 1.0), "cheap": Alternate("cheap", 0.5, 1 / 90, 1.0)}
RESTS_S, WINDOW_S, ON_ITS_WAY_S = 30.0, 15.0, 3.0
POLICY = Policy(ACTS, 20, 100, RESTS_S)
GOALS = DataflowGoals(most_per_hour=0.4, least_per_hour=0.04)


def passes(number: int) -> bool:
    """Whether the gate lets a number through."""
    return number % 3 == 0 or RISES <= number < FALLS


def passed(number: int) -> int:
    """How many the gate has let through up to a number, which is among them."""
    more = max(0, min(number + 1, FALLS) - RISES)  # of which each third passes in any case: it rises at one of these
    return number // 3 + 1 + more - math.ceil(more / 3)


def adapting_estate(rig: Rig) -> Estate:
    config = canonical_config(rig.task_types[DYNAMIC], {"alternates": [
        {"name": way, "value": 2 - number, "type": "sql", "config": {"query": f"SELECT *, '{way}' AS way FROM input"}}
        for number, way in enumerate(WAYS)]})
    gate = f"SELECT * FROM input WHERE n % 3 = 0 OR (n >= {RISES} AND n < {FALLS})"
    return estate_of(
        [Fragment(HEAD, ("count", "gate"), f"{NODE}/0", 2, {"gate": (WORK,)}),
         Fragment(WORK, (TASK, "out"), f"{NODE}/1", 2)],
        [RunningTask("count", "numbers", {"rate_per_s": RATE_PER_S}, ()),
         RunningTask("gate", "sql", canonical_config(rig.task_types["sql"], {"query": gate}), ("count",)),
         RunningTask(TASK, DYNAMIC, config, ("gate",)), RunningTask("out", "kept", KEPT, (TASK,))], slots=2)


@dataclass
class Adapted:
    """The dataflow, what was seen of it, and which way is on."""

    rig: Rig
    on: str = "dear"
    looks: list[tuple[float, int, int]] = field(default_factory=list)  # when; how many had come, and had left
    switched_s: float = float("-inf")

    def publish(self) -> None:
        self.rig.publish(adapting_estate(self.rig).set_to({WORK: FragmentSettings(alternates={TASK: self.on})}, 0))

    def newest(self, channel: str) -> int:
        tail = self.rig.channels.tail(channel, 1)
        return tail[-1]["_seq"] if tail else -1

    def look(self) -> None:
        """See how far it is. What left is read first: it came before."""
        left = passed(self.newest(OUT))
        came = int(self.rig.broker.hget(keys.meter(HEAD), "1:n") or 0)  # what was read is in its channel no longer
        self.looks.append((time.monotonic(), came, left))

    def decide(self) -> str:
        """What adaptation would have on, by what was seen lately."""
        now_s, came, left = self.looks[-1]
        then_s, came_then, _ = next(look for look in self.looks if look[0] >= now_s - WINDOW_S)
        noted = noted_switches(self.rig.broker, TASK)
        is_in_force = bool(noted) and noted[-1].alternate == self.on
        if not is_in_force or now_s - then_s < WINDOW_S / 2 or now_s - self.switched_s < RESTS_S:
            return self.on
        per_s = (came - came_then) / (now_s - then_s)
        waiting = max(0.0, came - left - ON_ITS_WAY_S * per_s)
        seen = AdaptedDataflow(
            "d", "city", GOALS,
            ElasticDataflow({"gate": {"": Alternate("", 1.0, 1e-9, 1.0)}, TASK: WAYS}, (("gate", TASK),)),
            {"gate": "", TASK: self.on}, {TASK: "work"}, {}, {"gate": per_s}, {TASK: waiting},
            AdaptationRoom({"0": 1.0, "1": 1.0}, {"gate": {"0": 1.0}, TASK: {"1": 1.0}}), 0.1,
            1e6 * WAYS[self.on].event_s)
        decisions = Adapting().evaluate(Adaptations((seen,)), {"city": POLICY}).decisions
        return str(decisions[0].changes[0].after) if decisions else self.on

    def by_minute(self) -> list[float]:
        """Ω of each minute: of what waited and came the part that left."""
        marks = [self.looks[0]]
        for look in self.looks:
            if look[0] >= marks[-1][0] + 60:
                marks.append(look)
        return [(after[2] - before[2]) / max(1, after[1] - before[2])
                for before, after in pairwise(marks)]


def value_and_cores(begins: Sequence[tuple[int, str]]) -> Mapping[str, tuple[float, float]]:
    """Mean value and mean cores until `LAST`: of what was on, by the numbers from which it was, and of each way alone.

    A way alone is a static deployment: its cores are those with which Ω is Ω̂ while most comes, for all the time.
    """
    ends = [*(min(begin, LAST) for begin, _ in begins[1:]), LAST]
    stays = [(WAYS[way], begin, end) for (begin, way), end in zip(begins, ends, strict=True)]
    return {
        "adapted": (
            sum(way.worth * (end - begin) for way, begin, end in stays) / LAST,
            sum(way.event_s * (passed(end - 1) - passed(begin - 1)) for way, begin, end in stays)
            * RATE_PER_S / LAST),
        **{name: (way.worth, GOALS.throughput * RATE_PER_S * way.event_s) for name, way in WAYS.items()}}


def test_cost_is_set_beside_that_of_static_deployments() -> None:
    costs = value_and_cores([(0, "dear"), (RISES, "cheap"), (FALLS, "dear")])

    assert costs["adapted"] == pytest.approx((8 / 12 + 0.5 * 4 / 12, (8 * 20 / 30 + 4 * 60 / 90) / 12))
    assert costs["cheap"] == pytest.approx((0.5, 0.8 * 60 / 90))
    assert costs["dear"] == pytest.approx((1.0, 0.8 * 60 / 30))  # more than the one core that it has


@pytest.fixture
def spared(
    tmp_path_factory: pytest.TempPathFactory, test_types: tuple[Path, list[type]], with_jar: Callable[[Path], Path]
) -> Iterator[Rig]:
    """An agent with two slots and a spare driver, which takes the place of one that dies."""
    plugin, types = test_types
    data_dir = with_jar(tmp_path_factory.mktemp("data"))
    with running_broker(tmp_path_factory.mktemp("broker")) as url, redis.Redis.from_url(url) as client, running_agent(
        client, url, data_dir, slots=2, plugin=plugin, task_types=catalogue(*types),
        WEIR_SPARES="1",
    ) as rig:
        rig.wait(lambda: (rig.report().get("spare") or {}).get("state") == READY, within_s=600, what="a spare is ready")
        yield rig


def test_what_the_gate_lets_through_is_known_by_the_number() -> None:
    assert [number for number in range(7) if passes(number)] == [0, 3, 6]
    for number in (-1, 0, 6, RISES - 1, RISES, RISES + 1, RISES + 2, FALLS - 1, FALLS, FALLS + 4):
        assert passed(number) == sum(map(passes, range(number + 1)))


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.broker
@pytest.mark.timeout(3_600)
def test_the_cheap_way_is_on_while_three_times_as_much_comes(spared: Rig) -> None:
    rig = spared
    adapted, on = Adapted(rig), ["dear"]
    adapted.publish()
    rig.wait_running(HEAD, WORK)
    rig.wait(lambda: adapted.newest(OUT) > 0, what="first events")

    def is_over() -> bool:
        adapted.look()
        wanted = adapted.decide()
        if wanted != adapted.on:
            adapted.on, adapted.switched_s = wanted, time.monotonic()
            on.append(wanted)
            adapted.publish()
            if len(on) == 2 and (pid := rig.slot_pid("1")):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)  # in mid-switch
        return adapted.newest(OUT) >= LAST and adapted.on == "dear"

    rig.wait(is_over, within_s=3_000, what="it has fallen again, and what is worth more is on")
    rig.wait(lambda: noted_switches(rig.broker, TASK)[-1].alternate == "dear", what="the last switch is noted")
    end = noted_switches(rig.broker, TASK)[-1].seq
    rig.wait(lambda: adapted.newest(OUT) > end + 30, what="events behind the last switch")

    switches = noted_switches(rig.broker, TASK)
    assert "cheap" in on and [switch.alternate for switch in switches] == on
    output = [(event["_seq"], event["way"]) for event in rig.events(OUT)]
    begins = [switch.seq for switch in switches]
    assert output == [(number, switches[bisect_right(begins, number) - 1].alternate)
                      for number in range(output[-1][0] + 1) if passes(number)]
    print("Ω by minute:", *(f"{reached:.2f}" for reached in adapted.by_minute()))
    for name, (value, cores) in value_and_cores([(switch.seq, switch.alternate) for switch in switches]).items():
        print(f"{name}: value {value:.2f} by {cores:.2f} cores")
