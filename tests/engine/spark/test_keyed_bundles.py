"""Keys change hands between bundles on real slots: results of each key are as they are undisturbed, whoever is killed
meanwhile."""

from __future__ import annotations

import pytest

from scheduler.key_division import ring_cut
from scheduler.model.key_loads import DividedKeys, KeyLoads
from scheduler.model.ring import KEY_GROUPS, key_group
from scheduler.reuse.division import WantedBundle
from workers.engine.key_meters import key_loads
from workers.engine.observed import read_meters

from .keyed_flow import BRANCHES, SENSORS, KeyedFlow
from .rig import NODE, Rig, estate_of
from .test_moved_bundles import kill

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.xdist_group("slots that die")]


class SkewedFlow(KeyedFlow):
    """Two sensors in the first half of the ring have four readings in five, and more.

    Of so many that a thousand, by which loads are known, are soon there: nobody need wait beside queries that run.
    """

    rate_per_s = 240.0
    frequent = tuple(
        name for name in map(KeyedFlow.sensor_of, range(SENSORS)) if key_group(name) < KEY_GROUPS // 2)[:2]
    sensor = (f"CASE WHEN _seq % 5 < 2 THEN '{frequent[0]}' WHEN _seq % 5 < 4 THEN '{frequent[1]}' "
              f"ELSE {KeyedFlow.sensor} END")

    @staticmethod
    def sensor_of(number: int) -> str:
        return SkewedFlow.frequent[number % 5 // 2] if number % 5 < 4 else KeyedFlow.sensor_of(number)


@pytest.fixture(autouse=True)
def afterwards_nothing(rig: Rig):
    yield
    rig.publish(estate_of([], []))
    rig.wait(lambda: not any(slot["fragments"] for slot in rig.report()["slots"].values()), what="nothing runs")


def bundles(count: int, loads: KeyLoads | None = None) -> list[WantedBundle]:
    """So many, on both slots in turn: by the loads of keys, where these are known."""
    shares = {place: 1 / count for place in range(count)}
    cut = ring_cut(shares, dict.fromkeys(shares, ""), DividedKeys(loads, {}))
    return [WantedBundle(f"{NODE}/{place % 2}", 1, share, cut.get(place, ())) for place, share in shares.items()]


def test_keys_change_hands_also_by_what_was_counted_of_them_and_a_slot_dies_in_between(rig: Rig):
    assert len({key_group(f"s{sensor}") < KEY_GROUPS // 2 for sensor in range(SENSORS)}) == 2, "both have sensors"
    flow = SkewedFlow(rig, 1, ["averaged", "summed", "counted"])  # in a row, in stores, and by marks
    flow.grows()
    flow.divide(bundles(2), *flow.keyed)
    flow.is_over()
    by_what_was_counted(flow)
    flow.grows()
    flow.divide(bundles(3), "means", "heavy")
    kill(rig, "1")
    flow.is_over()
    flow.grows()
    assert any((rig.data_dir / "folds").glob("*.keys.fold")), "rows came ahead"
    flow.divide(bundles(1), *flow.keyed)
    flow.is_over()
    flow.grows()
    flow.check()


def by_what_was_counted(flow: SkewedFlow) -> None:
    """Divide a task of two bundles, one of which has nearly all events, so that each has about half."""
    sums, writer, broker = flow.ids["heavy"], flow.ids["observed"], flow.rig.broker
    divided = flow.fragments[sums]
    loads = flow.rig.wait(lambda: key_loads(broker, {sums: [writer]}).get(sums), what="enough events are counted")
    assert {key.text for key in loads.frequent[:2]} == set(flow.frequent)
    assert loads.share(divided.ring(("sensor_id",)).ranges[0]) > 0.8
    flow.divide(bundles(2, loads), "heavy")
    flow.is_over()
    names = [bundle.id for bundle in flow.fragments[sums].bundles]

    def read() -> list[int]:
        counts = read_meters(broker, names).counts
        return [counts.get(name, {}).get("in:n", 0) for name in names]

    before = read()  # who gives keys away works on
    counts = flow.rig.wait(
        lambda: (
            since := [now - then for now, then in zip(read(), before, strict=True)]) and min(since) > 300 and since,
        what="both have events")
    assert max(counts) / sum(counts) < 0.7, "two keys of which each has 0.4 are in two bundles"


# test_divided_joins.py in tests/library and the played histories in tests/engine/agents have joins by key; above a
# window hands its keys over by marks, as a join does.
@pytest.mark.long
def test_a_join_has_one_bundle_then_three_then_two_and_a_slot_dies_in_between(rig: Rig):
    flow = KeyedFlow(rig, 3, ["paired"])
    flow.grows()
    flow.divide(bundles(3), "pairs")
    flow.is_over()
    flow.grows()
    flow.divide(bundles(2), "pairs")
    kill(rig, "1")
    flow.is_over()
    flow.grows()
    flow.check()


# The tests above have a fixed history of three kinds of outputs, test_copied_histories.py a hundred on several nodes;
# here slots share a node.
@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", range(12))
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
        flow.finish()
    finally:
        print(f"seed {seed}: {', '.join(steps)}")
