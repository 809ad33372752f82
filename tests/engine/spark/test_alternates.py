"""Dynamic dataflows, merged with a static one that shares their source, through switches at random while what runs them
is killed: each delivers just what the recorded sequence of alternates says, and the static one what it does alone.

One switches as soon as it can, the other in waves. Both have two elements, in different slots; the second has paths
with state, which each begin without when they are switched on.
"""

from __future__ import annotations

import os
import random
import signal
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest
import redis

from scheduler.contracts.switches import AlternateSwitch
from workers.engine.noted_switches import noted_switches

from .own_broker import OwnBroker, own_broker
from .policy_manager import MEASURED, ManagerProcess, measured_for
from .rig import Rig, catalogue, running_agent
from .switching_estate import DROPS, ELEMENTS, since, static_alone, switching_estate

pytestmark = [pytest.mark.spark, pytest.mark.broker]
TURNS = 2  # in the short run: 8 switches
SWITCHES, KILLS, LONG_S = 50, 20, 1_200.0  # of the long form


class Switching:
    """What runs, and what is on of it."""

    def __init__(self, rig: Rig, prefix: str) -> None:
        self.rig = rig
        self.made = switching_estate(prefix, rig.task_types)
        self.places, self.outputs = self.made.places, self.made.outputs
        self.on = dict.fromkeys(self.places, "plain")
        rig.broker.delete(*(f"weir:switches:{task}" for task in self.places))

    def publish(self) -> None:
        self.rig.publish(self.made.wanted(self.on))

    def choose(self, chance: random.Random) -> None:
        """Every element is to be done in another way."""
        self.on = {task: chance.choice([way for way in DROPS if way != on]) for task, on in self.on.items()}

    def sequences(self) -> dict[str, tuple[AlternateSwitch, ...]]:
        return {task: noted_switches(self.rig.broker, task) for task in self.places}

    def is_in_force(self) -> bool:
        """Whether every element has got its first event since it was switched."""
        with suppress(redis.ConnectionError):
            return {task: switches[-1].alternate for task, switches in self.sequences().items() if switches} == self.on
        return False

    def measure(self) -> None:
        """Let what is measured be such that guards want what is to be on."""
        with suppress(redis.ConnectionError):
            self.rig.broker.hset(MEASURED, mapping=measured_for(self.on))

    def is_measured_and_in_force(self) -> bool:
        """The same where guards decide: what is measured is measured again and again."""
        self.measure()
        return self.is_in_force()

    def static(self) -> list[tuple[int, int]]:
        """What the static dataflow has delivered."""
        return [(event["_seq"], event["n"]) for event in self.rig.events(self.outputs["static"])]

    def check(self, turns: int) -> None:
        """Outputs equal what the recorded sequences say, event by event."""
        end = max(switches[-1].seq for switches in self.sequences().values())

        def behind_the_last() -> bool:
            for channel in self.outputs.values():
                newest = self.rig.channels.tail(channel, 1)
                if not newest or newest[-1]["_seq"] <= end + 10:
                    return False
            return True

        self.rig.wait(behind_the_last, within_s=LONG_S, what="events behind the last switch")
        outputs = {name: self.rig.events(channel) for name, channel in self.outputs.items()}
        sequences = self.sequences()
        assert {task: len(switches) for task, switches in sequences.items()} == dict.fromkeys(sequences, turns + 1)
        for first, second in ELEMENTS.values():
            output = outputs[second]
            wanted = list(expected(output[-1]["_seq"], sequences[first], sequences[second]))
            assert [(event["_seq"], event[first], event[second], event["since"]) for event in output] == wanted
            total = 0
            for event in output:  # what has state behind them sees each once and in order
                total += event["n"]
                assert event["sum"] == total
        turns_of = {task: [switch.seq for switch in switches] for task, switches in sequences.items()}
        apart = [
            event["_seq"] for event in outputs["w2"]
            if bisect_right(turns_of["w1"], event["_seq"]) != bisect_right(turns_of["w2"], event["_seq"])]
        assert apart == [], "an event passed the elements in different waves"
        static = outputs["static"]
        assert [(event["_seq"], event["n"]) for event in static] == [(seq, seq + 7) for seq in range(len(static))]


def ways_of(number: int, *sequences: Sequence[AlternateSwitch]) -> tuple[str, ...] | None:
    """In which ways the recorded sequences let a number pass; None where it is let go."""
    ways = tuple(_at(number, switches) for switches in sequences)
    return None if any(DROPS[way] and number % DROPS[way] == 0 for way in ways) else ways


def expected(end: int, *sequences: Sequence[AlternateSwitch]) -> Iterator[tuple[int, str, str, float]]:
    """What leaves both elements: the second sums up what an alternate has got since it was switched on."""
    on, seen, passed = "", 0, 0
    for number in range(end + 1):
        if ways_of(number, sequences[0]) is None:
            continue
        ways = ways_of(number, *sequences)
        now = _at(number, sequences[1])
        seen, passed, on = (seen, passed, on) if now == on else (0, 0, now)
        seen += number
        if ways is not None:
            passed += number
            yield (number, *ways, since(now, seen, passed))


def _at(number: int, switches: Sequence[AlternateSwitch]) -> str:
    return switches[bisect_right([switch.seq for switch in switches], number) - 1].alternate


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
@pytest.mark.timeout(7_200)
def test_fifty_switches_and_twenty_kills(tmp_path_factory, test_types, with_jar) -> None:
    """Guards switch, in a process that is killed like all others; and the static dataflow is held to itself alone."""
    plugin_folder, types = test_types
    chance = random.Random(3_838)
    victims = ["slot 0", "slot 1", "agent", "broker", "policy manager"] * (KILLS // 5)
    chance.shuffle(victims)
    killed_at = dict(zip(sorted(chance.sample(range(SWITCHES), len(victims))), victims, strict=True))
    with (own_broker(tmp_path_factory.mktemp("broker")) as broker, redis.Redis.from_url(broker.url) as client,
          running_agent(client, broker.url, with_jar(tmp_path_factory.mktemp("data")), slots=2, plugin=plugin_folder,
                        task_types=catalogue(*types)) as rig):
        rig.trigger_ms = 400
        rig.wait_serving()
        switching = Switching(rig, "k")
        manager = ManagerProcess(
            broker.url, tmp_path_factory.mktemp("manager"), "k", rig.trigger_ms, rig.environment)
        try:
            rig.wait(switching.is_measured_and_in_force, within_s=LONG_S, what="first events")
            for turn in range(SWITCHES):
                switching.choose(chance)
                switching.measure()
                victim = killed_at.get(turn, "")
                if victim:
                    time.sleep(2 * chance.random())  # guards wait a second
                    _kill(victim, rig, broker, manager)
                rig.wait(switching.is_measured_and_in_force, within_s=LONG_S,
                         what=f"switch {turn} to {switching.on}, {victim or 'nothing'} killed")
            switching.check(SWITCHES)
            shared = switching.static()
        finally:
            manager.kill()
        alone, channel = static_alone("alone", 2_000.0)
        rig.version = 1_000_000  # beyond all that the manager has published
        rig.publish(alone)
        rig.wait(lambda: (rig.channels.tail(channel, 1) or [{"_seq": -1}])[-1]["_seq"] >= len(shared),
                 within_s=LONG_S, what="it alone")
        assert [(event["_seq"], event["n"]) for event in rig.events(channel)][:len(shared)] == shared


def _kill(victim: str, rig: Rig, broker: OwnBroker, manager: ManagerProcess) -> None:
    """Kill something, and let it go on."""
    match victim:
        case "broker":
            broker.kill()
            broker.start()
        case "agent":
            rig.kill()
            rig.start()
        case "policy manager":
            manager.kill()
            manager.start()
        case "slot 0" | "slot 1":
            if pid := rig.slot_pid(victim.removeprefix("slot ")):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
