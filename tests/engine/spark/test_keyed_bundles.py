"""Keys change hands between bundles on real slots: results of each key as they are undisturbed, whatever happens
meanwhile."""

from __future__ import annotations

import pytest

from scheduler.model.ring import KEY_GROUPS, key_group
from workers.engine.key_meters import key_loads
from workers.engine.observed import read_meters

from .keyed_flow import BRANCHES, SENSORS, KeyedFlow
from .rig import Rig, estate_of

pytestmark = [pytest.mark.spark, pytest.mark.broker]
SHORT = (0, 11)  # together: every step but that a node loses power


@pytest.fixture(autouse=True)
def afterwards_nothing(rig: Rig):
    yield
    rig.publish(estate_of([], []))
    rig.wait(lambda: not any(slot["fragments"] for slot in rig.report()["slots"].values()), what="nothing runs")


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", [
    pytest.param(seed, marks=() if seed in SHORT else pytest.mark.long) for seed in range(100)])
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


class Skewed(KeyedFlow):
    """The same where two sensors in the first half of the ring have four readings in five, and more."""

    frequent = tuple(
        name for name in map(KeyedFlow.sensor_of, range(SENSORS)) if key_group(name) < KEY_GROUPS // 2)[:2]
    sensor = (f"CASE WHEN _seq % 5 < 2 THEN '{frequent[0]}' WHEN _seq % 5 < 4 THEN '{frequent[1]}' "
              f"ELSE {KeyedFlow.sensor} END")

    @staticmethod
    def sensor_of(number: int) -> str:
        return Skewed.frequent[number % 5 // 2] if number % 5 < 4 else KeyedFlow.sensor_of(number)


def test_a_skewed_stream_is_divided_by_what_its_writer_counts_of_keys(rig: Rig):
    flow = Skewed(rig, 2, ["collected"])
    flow.divide(2, "blocks")
    flow.is_over()
    blocks, writer = flow.ids["blocks"], flow.ids["observed"]
    before = flow.fragments[blocks]
    loads = rig.wait(lambda: key_loads(rig.broker, {blocks: [writer]}).get(blocks), what="enough events are counted")
    assert {key.text for key in loads.frequent[:2]} == set(flow.frequent)
    assert loads.share(before.ring(("sensor_id",)).ranges[0]) > 0.8
    flow.loads = {blocks: loads}
    flow.divide(2, "blocks")
    flow.is_over()
    own = [bundle.id for bundle in flow.own_bundles("blocks")]
    counts = rig.wait(
        lambda: (read := [read_meters(rig.broker, own).counts[name].get("in:n", 0) for name in own]) and min(
            read) > 100 and read, what="both have events")
    assert max(counts) / sum(counts) < 0.65, "two keys of which each has 0.4 are in two bundles"
    flow.grows()
    flow.check()
