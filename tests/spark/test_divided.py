"""Divided dataflows on real slots: whatever becomes of their schedule, they deliver what they deliver alone.

A short one is in ``test_slot.py``, whose slots run already.
"""

import itertools
import os
import random
import signal

import pytest

from scheduler.reuse.division import Part, divided_anew

from .flow import Flow, bundle
from .rig import NODE, Rig, estate_of

pytestmark = [pytest.mark.spark, pytest.mark.broker]


@pytest.fixture(autouse=True)
def afterwards_nothing(rig: Rig):
    yield
    rig.publish(estate_of([], []))
    rig.wait(lambda: not any(slot["fragments"] for slot in rig.report()["slots"].values()), what="nothing runs")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_schedules_change_and_slots_die_at_any_time(rig: Rig, seed: int):
    chance = random.Random(seed)
    name = f"h{seed}-"
    flow = Flow(rig, name, [bundle(f"{name}1-1", 0, 2)], [bundle(f"{name}1-2", 1)])
    flow.publish()
    rig.wait_running(*(fragment.id for fragment in flow.fragments))
    flow.grows()
    for generation in range(2, 7):
        ids = (f"{name}{generation}-{number}" for number in itertools.count())
        gone = flow.left()
        for number in chance.sample([1, 2], chance.randint(1, 2)):
            slots = chance.choices([0, 1], k=chance.randint(1, 3))
            parts = [Part(f"{NODE}/{slot}", chance.randint(1, 3), 1 / len(slots)) for slot in slots]
            before = flow.fragments[number]
            flow.fragments[number] = divided_anew(before.tasks[0], before, parts, ids=ids, left=gone).after[before.id]
        flow.publish()
        if chance.random() < 0.6:
            chance_s = chance.random() * 3
            end = rig.report()["at_ms"] + 1000 * chance_s
            rig.wait(lambda: rig.report()["at_ms"] >= end)  # noqa: B023
            slot = chance.choice("01")
            pid = rig.slot_pid(slot)
            os.kill(pid, signal.SIGKILL)
            rig.wait(lambda: rig.slot_pid(slot) not in (None, pid), within_s=120, what="the slot is back")  # noqa: B023
        flow.grows(by=chance.randint(1, 300))
    leaving = {part.id for fragment in flow.fragments for part in fragment.parts if part.leaving}
    rig.wait(lambda: flow.left() == leaving, within_s=240, what=f"{leaving} have left")
    rig.wait_running(*(part.id for fragment in flow.fragments for part in fragment.parts if not part.leaving))
    flow.grows()
    flow.check()
