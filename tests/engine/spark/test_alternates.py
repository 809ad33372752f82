"""Dynamic dataflows, merged with a static one that shares their source, through switches at random while what runs them
is killed: each delivers just what the recorded sequence of alternates says, and the static one what it does alone.

One switches as soon as it can, the other in waves. Both have two elements, in different slots.
"""

from __future__ import annotations

import os
import random
import signal
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pytest
import redis

from scheduler.contracts.switches import AlternateSwitch
from scheduler.model.canonical import canonical_config
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningTask
from scheduler.model.settings_of_fragments import FragmentSettings
from scheduler.model.task_types import DYNAMIC
from scheduler.model.wave_elements import wave_elements
from workers.engine.noted_switches import noted_switches
from workers.engine.wave_publishing import publish_waves

from .own_broker import OwnBroker, own_broker
from .rig import NODE, Rig, catalogue, estate_of, running_agent

pytestmark = [pytest.mark.spark, pytest.mark.broker]

KEPT = {"keep_events": 1_000_000}
DROPS = {"plain": 0, "few": 3, "odd": 2, "next": 0}  # the alternate lets go what this divides
TURNS = 5  # in the short run; fifty in the long one
ELEMENTS = {"fast": ("f1", "f2"), "wave": ("w1", "w2")}


def element(name: str, parent: str, switching: str, catalog: Mapping) -> RunningTask:
    """A task that is done in one of four ways, one of them a path, and says in a column of its name in which."""
    ways = [
        {"name": way, "value": 4 - number, **done_by(
            f"SELECT *, '{way}' AS {name} FROM input" + (f" WHERE n % {drops} <> 0" if drops else ""), way == "few")}
        for number, (way, drops) in enumerate(DROPS.items())]
    config = canonical_config(catalog[DYNAMIC], {"alternates": ways, "switching": switching})
    return RunningTask(name, DYNAMIC, config, (parent,))


def done_by(query: str, is_path: bool) -> dict[str, Any]:
    """A ``sql`` task; or the same query along a path, once all events have passed a task of their own."""
    if not is_path:
        return {"type": "sql", "config": {"query": query}}
    return {
        "tasks": [{"id": "all", "type": "sql", "config": {"query": "SELECT * FROM input"}},
                  {"id": "work", "type": "sql", "config": {"query": query}}],
        "streams": [{"from": "input", "to": "all"}, {"from": "all", "to": "work"}, {"from": "work", "to": "output"}]}


def line(first: str, second: str, switching: str, catalog: Mapping) -> list[RunningTask]:
    return [
        element(first, "source", switching, catalog), element(second, first, switching, catalog),
        RunningTask(f"{second}-sum", "total", {"name": "sum"}, (second,)),
        RunningTask(f"{second}-out", "kept", KEPT, (f"{second}-sum",))]


class Switching:
    """What runs: a source with the first element of the wave in one slot, what reads them in both; and what is on."""

    def __init__(self, rig: Rig, prefix: str) -> None:
        self.rig = rig
        tasks = [
            RunningTask("source", "numbers", {"rate_per_s": 50.0}, ()),
            *(task for way, names in ELEMENTS.items() for task in line(*names, way, rig.task_types)),
            RunningTask("shift", "shift", {"by": 7}, ("source",)), RunningTask("kept", "kept", KEPT, ("shift",))]
        self.names = [f"{prefix}{number}-0" for number in range(5)]
        head, wave, fast, behind, static = self.names
        fragments = [
            Fragment(head, ("source", "w1"), f"{NODE}/0", 2, {"source": (fast, static), "w1": (wave,)}),
            Fragment(wave, ("w2", "w2-sum", "w2-out"), f"{NODE}/1", 3),
            Fragment(fast, ("f1",), f"{NODE}/1", 1, {"f1": (behind,)}),
            Fragment(behind, ("f2", "f2-sum", "f2-out"), f"{NODE}/0", 3),
            Fragment(static, ("shift", "kept"), f"{NODE}/1", 2)]
        self.places = {"w1": head, "w2": wave, "f1": fast, "f2": behind}
        self.outputs = {"w2": f"{wave}.2", "f2": f"{behind}.2", "static": f"{static}.1"}
        self.estate = estate_of(fragments, tasks, slots=2)
        self.on = dict.fromkeys(self.places, "plain")
        rig.broker.delete(*(f"weir:switches:{task}" for task in self.places))

    def wanted(self) -> Estate:
        settings = {self.places[task]: FragmentSettings(alternates={task: on}) for task, on in self.on.items()}
        return self.estate.set_to(settings, 0)

    def publish(self) -> None:
        self.rig.publish(self.wanted())

    def choose(self, chance: random.Random) -> None:
        """Every element is to be done in another way."""
        self.on = {task: chance.choice([way for way in DROPS if way != on]) for task, on in self.on.items()}

    def begin_wave(self) -> None:
        """All that somebody writes who is killed while he publishes."""
        publish_waves(
            self.rig.broker, wave_elements(self.wanted()), generation=self.rig.version + 1, revision=0)

    def sequences(self) -> dict[str, tuple[AlternateSwitch, ...]]:
        return {task: noted_switches(self.rig.broker, task) for task in self.places}

    def is_in_force(self) -> bool:
        """Whether every element has got its first event since it was switched."""
        with suppress(redis.ConnectionError):
            return {task: known[-1].alternate for task, known in self.sequences().items() if known} == self.on
        return False

    def check(self, turns: int) -> None:
        """Outputs equal what the recorded sequences say, event by event."""
        end = max(known[-1].seq for known in self.sequences().values())

        def behind_the_last() -> bool:
            for channel in self.outputs.values():
                newest = self.rig.channels.tail(channel, 1)
                if not newest or newest[-1]["_seq"] <= end + 10:
                    return False
            return True

        self.rig.wait(behind_the_last, what="events behind the last switch")
        outputs = {name: self.rig.events(channel) for name, channel in self.outputs.items()}
        known = self.sequences()
        assert {task: len(switches) for task, switches in known.items()} == dict.fromkeys(known, turns + 1)
        for first, second in ELEMENTS.values():
            output = outputs[second]
            wanted = [
                (number, *ways) for number in range(output[-1]["_seq"] + 1)
                if (ways := ways_of(number, known[first], known[second]))]
            assert [(event["_seq"], event[first], event[second]) for event in output] == wanted
            total = 0
            for event in output:  # what has state behind them sees each once and in order
                total += event["n"]
                assert event["sum"] == total
        turns_of = {task: [switch.seq for switch in switches] for task, switches in known.items()}
        apart = [
            event["_seq"] for event in outputs["w2"]
            if bisect_right(turns_of["w1"], event["_seq"]) != bisect_right(turns_of["w2"], event["_seq"])]
        assert apart == [], "an event passed the elements in different waves"
        static = outputs["static"]
        assert [(event["_seq"], event["n"]) for event in static] == [(seq, seq + 7) for seq in range(len(static))]


def ways_of(number: int, *sequences: Sequence[AlternateSwitch]) -> tuple[str, ...] | None:
    """In which ways the recorded sequences let a number pass; None where it is let go."""
    ways = tuple(known[bisect_right([switch.seq for switch in known], number) - 1].alternate for known in sequences)
    return None if any(DROPS[way] and number % DROPS[way] == 0 for way in ways) else ways


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("afterwards_nothing")
def test_outputs_are_those_of_the_recorded_sequence(rig: Rig) -> None:
    chance = random.Random(38)
    switching = Switching(rig, "d")
    switching.publish()
    rig.wait(switching.is_in_force, what="first events")
    for turn in range(TURNS):
        switching.choose(chance)
        switching.publish()
        if turn == TURNS // 2:  # wherever the switch is
            os.kill(rig.slot_pid("1"), signal.SIGKILL)
        rig.wait(switching.is_in_force, what=f"switch {turn} to {switching.on}")
    switching.check(TURNS)


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_fifty_switches_and_twenty_kills(tmp_path_factory, test_types, with_jar) -> None:
    plugin_folder, types = test_types
    chance = random.Random(3_838)
    victims = ["slot 0", "slot 1", "agent", "broker", "publisher"] * 4
    chance.shuffle(victims)
    killed_at = dict(zip(sorted(chance.sample(range(50), len(victims))), victims, strict=True))
    with (own_broker(tmp_path_factory.mktemp("broker")) as broker, redis.Redis.from_url(broker.url) as client,
          running_agent(client, broker.url, with_jar(tmp_path_factory.mktemp("data")), slots=2, plugin=plugin_folder,
                        task_types=catalogue(*types)) as rig):
        rig.trigger_ms = 400
        rig.wait_serving()
        switching = Switching(rig, "k")
        switching.publish()
        rig.wait(switching.is_in_force, what="first events")
        for turn in range(50):
            switching.choose(chance)
            victim = killed_at.get(turn, "")
            if victim == "publisher":
                switching.begin_wave()
                time.sleep(chance.random())
            switching.publish()
            if victim:
                time.sleep(chance.random())
                _kill(victim, rig, broker)
            rig.wait(switching.is_in_force, what=f"switch {turn} to {switching.on}, {victim or 'nothing'} killed")
        switching.check(50)


def _kill(victim: str, rig: Rig, broker: OwnBroker) -> None:
    """Kill something, and let it go on."""
    match victim:
        case "broker":
            broker.kill()
            broker.start()
        case "agent":
            rig.kill()
            rig.start()
        case "slot 0" | "slot 1":
            if pid := rig.slot_pid(victim.removeprefix("slot ")):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
