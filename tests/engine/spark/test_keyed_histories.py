"""Histories by chance of tasks whose keys change hands on real slots: results of each key as they are undisturbed."""

from __future__ import annotations

import pytest

from .keyed_flow import BRANCHES, KeyedFlow
from .rig import Rig, estate_of

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.long, pytest.mark.timeout(1_800)]


@pytest.fixture(autouse=True)
def afterwards_nothing(rig: Rig):
    yield
    rig.publish(estate_of([], []))
    rig.wait(lambda: not any(slot["fragments"] for slot in rig.report()["slots"].values()), what="nothing runs")


@pytest.mark.parametrize("seed", range(100))
def test_a_history_by_chance_changes_no_result_of_any_key(rig: Rig, seed: int):
    """Other bundles and other parts of the ring, moves, pauses, plans that are taken back, slots that are killed, a
    node that loses power; some of it before the step before is over."""
    outputs = list(BRANCHES)
    flow = KeyedFlow(rig, seed, [outputs[seed % len(outputs)], outputs[(seed + 2) % len(outputs)]])
    flow.divide_by_chance()
    steps = ["divide"]
    try:
        for _ in range(4):
            if flow.chance.random() < 0.6:
                flow.is_over()
                flow.grows(flow.chance.randint(1, 40))
            steps.append(flow.disturb())
        flow.is_over()
        if flow.rests():
            steps.append("resume")
            flow.turn("works")
            flow.is_over()
        flow.grows()
        flow.check()
    finally:
        print(f"seed {seed}: {', '.join(steps)}")
