"""Keys change hands between bundles on real slots: blocks and averages of each key as they are undivided, whoever is
killed meanwhile."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from typing import Any

import pytest

from scheduler.key_division import ring_cut
from scheduler.model.fragment import Fragment, RunningTask
from scheduler.model.key_loads import DividedKeys, KeyLoads
from scheduler.model.ring import KEY_GROUPS, key_group
from scheduler.reuse.division import WantedBundle, keys_divided_anew
from workers.engine.key_meters import key_loads
from workers.engine.observed import read_meters

from .rig import NODE, Rig, estate_of
from .test_moved_bundles import kill

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.xdist_group("slots that die")]
SENSORS, READINGS, RATE_PER_S = 11, 3, 60.0
KEPT = {"keep_events": 1_000_000}
OBSERVED = ("SELECT {sensor} AS sensor_id, 'load' AS obs, CAST(_seq AS double) AS value, "
            "CAST(_seq AS string) AS msg_id, '' AS meta FROM input")


class Keyed:
    """A source whose readings are collected by sensor; beside that smoothed and then averaged; and added up by a task
    whose state is in a store. An output each."""

    sensor = "concat('s', _seq % 11)"  # in SQL

    @staticmethod
    def sensor_of(number: int) -> str:
        return f"s{number % SENSORS}"

    def __init__(self, rig: Rig, seed: int) -> None:
        self.rig, self.chance = rig, random.Random(seed)
        self.loads: dict[str, KeyLoads] = {}
        first = f"f{rig.version + 1}"
        self.tasks = [
            RunningTask("numbers", "numbers", {"rate_per_s": RATE_PER_S}, ()),
            RunningTask("observed", "sql", {"query": OBSERVED.format(sensor=self.sensor)}, ("numbers",)),
            RunningTask("blocks", "accumulate", {"window": READINGS, "by": ["sensor_id"]}, ("observed",)),
            RunningTask("collected", "kept", KEPT, ("blocks",)),
            RunningTask("smooth", "interpolate", {"window": 2}, ("observed",)),
            RunningTask("means", "block_average", {"window": READINGS, "by": ["sensor_id", "obs"]}, ("smooth",)),
            RunningTask("averaged", "kept", KEPT, ("means",)),
            RunningTask("heavy", "heavy", {"by": ["sensor_id"], "bytes": 30_000}, ("observed",)),
            RunningTask("summed", "kept", KEPT, ("heavy",)),
        ]
        ids = {name: f"{first}-{number}" for number, name in enumerate(
            ("observed", "blocks", "collected", "smooth", "means", "averaged", "heavy", "summed"))}
        self.ids = ids
        self.fragments = {
            ids["observed"]: Fragment(
                ids["observed"], ("numbers", "observed"), self.slot(), 2,
                {"observed": (ids["blocks"], ids["smooth"], ids["heavy"])}),
            ids["blocks"]: Fragment(ids["blocks"], ("blocks",), self.slot(), 1, {"blocks": (ids["collected"],)}),
            ids["collected"]: Fragment(ids["collected"], ("collected",), self.slot(), 1),
            ids["smooth"]: Fragment(ids["smooth"], ("smooth",), self.slot(), 1, {"smooth": (ids["means"],)}),
            ids["means"]: Fragment(ids["means"], ("means",), self.slot(), 1, {"means": (ids["averaged"],)}),
            ids["averaged"]: Fragment(ids["averaged"], ("averaged",), self.slot(), 1),
            ids["heavy"]: Fragment(ids["heavy"], ("heavy",), self.slot(), 1, {"heavy": (ids["summed"],)}),
            ids["summed"]: Fragment(ids["summed"], ("summed",), self.slot(), 1),
        }
        self.publish()

    def slot(self) -> str:
        return f"{NODE}/{self.chance.randint(0, 1)}"

    def publish(self) -> None:
        self.rig.publish(estate_of(list(self.fragments.values()), self.tasks, slots=self.rig.slots))

    def divide(self, bundles: int, *names: str) -> None:
        """Other bundles have the keys of these tasks, so many of each: by the loads of keys, where these are known."""
        ids = (f"f{self.rig.version + 1}-{number}" for number in itertools.count())
        shares = {place: 1 / bundles for place in range(bundles)}
        for name in names:
            before = self.fragments[self.ids[name]]
            cut = ring_cut(shares, dict.fromkeys(shares, ""), DividedKeys(self.loads.get(before.id), {}))
            parts = [
                WantedBundle(f"{NODE}/{place % 2}", 1, share, cut.get(place, ())) for place, share in shares.items()]
            change = keys_divided_anew(name, before, parts, ids=ids, left=self.rig.reports().left)
            self.fragments[before.id] = change.after[before.id]
        self.publish()

    def is_over(self) -> None:
        """Wait until those who are to work do, and those before them have left."""
        queries = [bundle for fragment in self.fragments.values() for bundle in fragment.queries]
        self.rig.wait(lambda: self.rig.reports().left >= {bundle.id for bundle in queries if bundle.leaving},
                      what="those before have left")
        self.rig.wait_running(*(bundle.id for bundle in queries if not bundle.leaving))

    def rows(self, task: str) -> list[dict[str, Any]]:
        return self.rig.events(f"{self.ids[task]}.0")

    def grows(self, by: int = 15) -> None:
        counts = {task: len(self.rows(task)) for task in ("collected", "averaged", "summed")}
        self.rig.wait(lambda: all(len(self.rows(task)) > count + by for task, count in counts.items()),
                      what="more blocks")

    def check(self) -> None:
        """Each sensor has all its blocks in order, each once, with its numbers; they are as those of a plain loop."""
        for task, made in (("collected", "values"), ("averaged", "value"), ("summed", "sum")):
            by_sensor: dict[str, list] = defaultdict(list)
            for row in self.rows(task):
                by_sensor[row["sensor_id"]].append(row[made])
            assert len(by_sensor) == SENSORS
            for sensor, given in by_sensor.items():
                numbers = (float(number) for number in itertools.count() if self.sensor_of(number) == sensor)
                if made == "sum":
                    assert given == list(itertools.islice(itertools.accumulate(numbers), len(given)))
                    continue
                blocks = [list(itertools.islice(numbers, READINGS)) for _ in given]
                assert given == (blocks if made == "values" else [sum(block) / READINGS for block in blocks])


class Skewed(Keyed):
    """The same where two sensors in the first half of the ring have four readings in five, and more."""

    frequent = tuple(
        name for name in map(Keyed.sensor_of, range(SENSORS)) if key_group(name) < KEY_GROUPS // 2)[:2]
    sensor = (f"CASE WHEN _seq % 5 < 2 THEN '{frequent[0]}' WHEN _seq % 5 < 4 THEN '{frequent[1]}' "
              f"ELSE {Keyed.sensor} END")

    @staticmethod
    def sensor_of(number: int) -> str:
        return Skewed.frequent[number % 5 // 2] if number % 5 < 4 else Keyed.sensor_of(number)


@pytest.fixture(autouse=True)
def afterwards_nothing(rig: Rig):
    yield
    rig.publish(estate_of([], []))
    rig.wait(lambda: not any(slot["fragments"] for slot in rig.report()["slots"].values()), what="nothing runs")


def test_keys_have_two_bundles_then_three_then_one_and_a_slot_dies_in_between(rig: Rig):
    flow = Keyed(rig, seed=1)
    rig.wait_running(*flow.fragments)
    flow.grows()
    flow.divide(2, "blocks", "smooth", "means", "heavy")
    flow.is_over()
    flow.grows()
    flow.divide(3, "blocks", "means", "heavy")
    kill(rig, "1")
    flow.is_over()
    flow.grows()
    assert any((rig.data_dir / "folds").glob("*.keys.fold")), "rows came ahead"
    flow.divide(1, "blocks", "smooth", "means", "heavy")
    flow.is_over()
    flow.grows()
    flow.check()


def test_a_skewed_stream_is_divided_by_what_its_writer_counts_of_keys(rig: Rig):
    flow = Skewed(rig, seed=2)
    rig.wait_running(*flow.fragments)
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
    own = [bundle.id for bundle in flow.fragments[blocks].bundles if not bundle.leaving]
    counts = rig.wait(
        lambda: (read := [read_meters(rig.broker, own).counts[name].get("in:n", 0) for name in own]) and min(
            read) > 100 and read, what="both have events")
    assert max(counts) / sum(counts) < 0.65, "two keys of which each has 0.4 are in two bundles"
    flow.grows()
    flow.check()


@pytest.mark.long
@pytest.mark.timeout(2_400)
@pytest.mark.parametrize("seed", range(3))
def test_keys_change_hands_again_and_again_and_slots_die(rig: Rig, seed: int):
    chance, flow = random.Random(seed), Keyed(rig, seed)
    rig.wait_running(*flow.fragments)
    for _ in range(6):
        flow.grows(chance.randint(1, 60))
        names = ("blocks", "smooth", "means", "heavy")
        flow.divide(chance.randint(1, 4), *chance.sample(names, chance.randint(1, 3)))
        if chance.random() < 0.5:
            kill(rig, chance.choice("01"))
        if chance.random() < 0.7:  # else the next plan comes before this one is in force
            flow.is_over()
    flow.is_over()
    flow.grows()
    flow.check()
