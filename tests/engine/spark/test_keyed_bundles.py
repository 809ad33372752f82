"""Keys change hands between bundles on real slots: blocks and averages of each key as they are undivided, whoever is
killed meanwhile."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from typing import Any

import pytest

from scheduler.key_division import whole_groups
from scheduler.model.fragment import Fragment, RunningTask
from scheduler.reuse.division import WantedBundle, keys_divided_anew

from .rig import NODE, Rig, estate_of
from .test_moved_bundles import kill

pytestmark = [pytest.mark.spark, pytest.mark.broker]
SENSORS, READINGS, RATE_PER_S = 11, 3, 60.0
KEPT = {"keep_events": 1_000_000}
OBSERVED = ("SELECT concat('s', _seq % 11) AS sensor_id, 'load' AS obs, CAST(_seq AS double) AS value, "
            "CAST(_seq AS string) AS msg_id, '' AS meta FROM input")


class Keyed:
    """A source whose readings are collected by sensor, and, beside that, smoothed and then averaged; an output each."""

    def __init__(self, rig: Rig, seed: int) -> None:
        self.rig, self.chance = rig, random.Random(seed)
        first = f"f{rig.version + 1}"
        self.tasks = [
            RunningTask("numbers", "numbers", {"rate_per_s": RATE_PER_S}, ()),
            RunningTask("observed", "sql", {"query": OBSERVED}, ("numbers",)),
            RunningTask("blocks", "accumulate", {"window": READINGS, "by": ["sensor_id"]}, ("observed",)),
            RunningTask("collected", "kept", KEPT, ("blocks",)),
            RunningTask("smooth", "interpolate", {"window": 2}, ("observed",)),
            RunningTask("means", "block_average", {"window": READINGS, "by": ["sensor_id", "obs"]}, ("smooth",)),
            RunningTask("averaged", "kept", KEPT, ("means",)),
        ]
        ids = {name: f"{first}-{number}" for number, name in enumerate(
            ("observed", "blocks", "collected", "smooth", "means", "averaged"))}
        self.ids = ids
        self.fragments = {
            ids["observed"]: Fragment(
                ids["observed"], ("numbers", "observed"), self.slot(), 2,
                {"observed": (ids["blocks"], ids["smooth"])}),
            ids["blocks"]: Fragment(ids["blocks"], ("blocks",), self.slot(), 1, {"blocks": (ids["collected"],)}),
            ids["collected"]: Fragment(ids["collected"], ("collected",), self.slot(), 1),
            ids["smooth"]: Fragment(ids["smooth"], ("smooth",), self.slot(), 1, {"smooth": (ids["means"],)}),
            ids["means"]: Fragment(ids["means"], ("means",), self.slot(), 1, {"means": (ids["averaged"],)}),
            ids["averaged"]: Fragment(ids["averaged"], ("averaged",), self.slot(), 1),
        }
        self.publish()

    def slot(self) -> str:
        return f"{NODE}/{self.chance.randint(0, 1)}"

    def publish(self) -> None:
        self.rig.publish(estate_of(list(self.fragments.values()), self.tasks, slots=self.rig.slots))

    def divide(self, bundles: int, *names: str) -> None:
        """Other bundles have the keys of these tasks, so many of each."""
        ids = (f"f{self.rig.version + 1}-{number}" for number in itertools.count())
        weights = whole_groups({place: 1 / bundles for place in range(bundles)})
        for name in names:
            before = self.fragments[self.ids[name]]
            parts = [WantedBundle(f"{NODE}/{place % 2}", 1, weight) for place, weight in weights.items()]
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
        counts = {task: len(self.rows(task)) for task in ("collected", "averaged")}
        self.rig.wait(lambda: all(len(self.rows(task)) > count + by for task, count in counts.items()),
                      what="more blocks")

    def check(self) -> None:
        """Each sensor has all its blocks in order, each once, with its numbers; they are as those of a plain loop."""
        for task, made in (("collected", "values"), ("averaged", "value")):
            by_sensor: dict[str, list] = defaultdict(list)
            for row in self.rows(task):
                by_sensor[row["sensor_id"]].append(row[made])
            assert len(by_sensor) == SENSORS
            for number in range(SENSORS):
                given = by_sensor[f"s{number}"]
                blocks = [[float(number + SENSORS * (READINGS * block + place)) for place in range(READINGS)]
                          for block in range(len(given))]
                assert given == (blocks if made == "values" else [sum(block) / READINGS for block in blocks])


@pytest.fixture(autouse=True)
def afterwards_nothing(rig: Rig):
    yield
    rig.publish(estate_of([], []))
    rig.wait(lambda: not any(slot["fragments"] for slot in rig.report()["slots"].values()), what="nothing runs")


def test_keys_have_two_bundles_then_three_then_one_and_a_slot_dies_in_between(rig: Rig):
    flow = Keyed(rig, seed=1)
    rig.wait_running(*flow.fragments)
    flow.grows()
    flow.divide(2, "blocks", "smooth", "means")
    flow.is_over()
    flow.grows()
    flow.divide(3, "blocks", "means")
    kill(rig, "1")
    flow.is_over()
    flow.grows()
    flow.divide(1, "blocks", "smooth", "means")
    flow.is_over()
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
        names = ("blocks", "smooth", "means")
        flow.divide(chance.randint(1, 4), *chance.sample(names, chance.randint(1, 3)))
        if chance.random() < 0.5:
            kill(rig, chance.choice("01"))
        if chance.random() < 0.7:  # else the next plan comes before this one is in force
            flow.is_over()
    flow.is_over()
    flow.grows()
    flow.check()
