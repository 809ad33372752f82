"""Windows and repetitions that are divided by key on real slots: each key's results as they are undivided, though late
events and marks are those of all keys, whoever is killed meanwhile."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

import pytest

from scheduler.model.fragment import Fragment, RunningTask
from scheduler.model.ring import key_group
from scheduler.reuse.division import WantedBundle, keys_divided_anew
from workers.library.operators import window_fold
from workers.library.repetitions import Deduplicated

from .rig import NODE, Rig, estate_of
from .test_moved_bundles import kill

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.xdist_group("slots that die")]
SENSORS, RATE_PER_S, BEGAN_MS = 7, 60.0, 1_700_000_000_000
KEPT = {"keep_events": 1_000_000}
READINGS = f"SELECT concat('s', _seq % {SENSORS}) AS sensor, CAST(_seq % 3 AS string) AS kind FROM input"
WINDOW = {"aggregates": ["n=count(*)", "last=last(kind)"], "size": 2, "by": ["sensor"]}
WITHIN_S = 3
TASKS = ("windows", "firsts")


class Divided:
    """A source whose readings are counted in windows and, beside that, passed on once in a while; an output each."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        first = f"f{rig.version + 1}"
        self.tasks = [
            RunningTask("numbers", "numbers", {"rate_per_s": RATE_PER_S}, ()),
            # Some are so late that their windows may have closed by events of other sensors alone.
            RunningTask("untimely", "untimely", {"began_ms": BEGAN_MS}, ("numbers",)),
            RunningTask("readings", "sql", {"query": READINGS}, ("untimely",)),
            RunningTask("windows", "window", WINDOW, ("readings",)),
            RunningTask("counted", "kept", KEPT, ("windows",)),
            RunningTask("firsts", "deduplicate", {"by": ["sensor", "kind"], "within": WITHIN_S}, ("readings",)),
            RunningTask("passed", "kept", KEPT, ("firsts",)),
        ]
        names = ("readings", "windows", "counted", "firsts", "passed")
        self.ids = ids = {name: f"{first}-{number}" for number, name in enumerate(names)}
        self.fragments = {
            ids["readings"]: Fragment(
                ids["readings"], ("numbers", "untimely", "readings"), f"{NODE}/0", 3,
                {"readings": (ids["windows"], ids["firsts"])}),
            ids["windows"]: Fragment(ids["windows"], ("windows",), f"{NODE}/1", 1, {"windows": (ids["counted"],)}),
            ids["counted"]: Fragment(ids["counted"], ("counted",), f"{NODE}/0", 1),
            ids["firsts"]: Fragment(ids["firsts"], ("firsts",), f"{NODE}/0", 1, {"firsts": (ids["passed"],)}),
            ids["passed"]: Fragment(ids["passed"], ("passed",), f"{NODE}/1", 1),
        }
        self.publish()

    def publish(self) -> None:
        self.rig.publish(estate_of(list(self.fragments.values()), self.tasks, slots=self.rig.slots))

    def divide(self, bundles: int) -> None:
        """So many bundles have the keys of both tasks, and no bundle before works on."""
        ids = (f"f{self.rig.version + 1}-{number}" for number in itertools.count())
        parts = [WantedBundle(f"{NODE}/{place % 2}", 1, 1 / bundles) for place in range(bundles)]
        for name in TASKS:
            before = self.fragments[self.ids[name]]
            change = keys_divided_anew(
                name, before, parts, ids=ids, left=self.rig.reports().left, works_on=False)
            self.fragments[before.id] = change.after[before.id]
        self.publish()

    def is_over(self) -> None:
        queries = [bundle for fragment in self.fragments.values() for bundle in fragment.queries]
        self.rig.wait(lambda: self.rig.reports().left >= {bundle.id for bundle in queries if bundle.leaving},
                      what="those before have left")
        self.rig.wait_running(*(bundle.id for bundle in queries if not bundle.leaving))

    def rows(self, task: str) -> list[dict[str, Any]]:
        return self.rig.events(f"{self.ids[task]}.0")

    def grows(self) -> None:
        counts = {task: len(self.rows(task)) for task in ("counted", "passed")}
        self.rig.wait(lambda: all(len(self.rows(task)) > count + 20 for task, count in counts.items()),
                      what="more results")

    def check(self) -> None:
        """Each key has what plain folds over all readings give it, in order."""
        windows, firsts = defaultdict(list), defaultdict(list)
        for row in self.rows("counted"):
            windows[row["sensor"]].append(tuple(row[name] for name in ("window_start", "n", "last", "late")))
        for row in self.rows("passed"):
            firsts[row["sensor"], row["kind"]].append(row["_seq"])
        most = max(row["_seq"] for row in (*self.rows("counted"), *self.rows("passed")))
        alone, passed = self._undivided(most + 10 * SENSORS)
        assert (len(windows), len(firsts)) == (SENSORS, 3 * SENSORS)
        for given, expected in ((windows, alone), (firsts, passed)):
            assert given == {key: expected[key][:len(own)] for key, own in given.items()}
        assert sum(row[3] for own in windows.values() for row in own) > SENSORS, "events are late"

    @staticmethod
    def _undivided(count: int) -> tuple[dict[str, list], dict[tuple[str, str], list]]:
        _, fold = window_fold({**WINDOW, "kind": "tumbling", "slide": None, "lateness": 0, "late": "drop",
                               "ahead": 0, "idle": None, "landmark": None}, {"kind": "string", "sensor": "string"})
        distinct = Deduplicated(WITHIN_S * 1000)
        windows, firsts = defaultdict(list), defaultdict(list)
        state, seen = fold.start(), distinct.start()
        for seq in range(count):
            sensor, kind, born = f"s{seq % SENSORS}", str(seq % 3), 1 << 60
            time = BEGAN_MS + seq * 100 - (1500 if seq % 9 == 4 else 0)
            for row in fold.step(state, sensor, time, seq, born, sensor, None, kind):
                windows[row[3]].append((row[4], row[6], row[7], row[8]))
            if list(distinct.step(seen, f"{sensor}\x1f{kind}", time, seq, born)):
                firsts[sensor, kind].append(seq)
        return windows, firsts


@pytest.fixture(autouse=True)
def afterwards_nothing(rig: Rig):
    yield
    rig.publish(estate_of([], []))
    rig.wait(lambda: not any(slot["fragments"] for slot in rig.report()["slots"].values()), what="nothing runs")


def test_windows_have_two_bundles_then_one_and_a_slot_dies_in_between(rig: Rig):
    assert len({key_group(f"s{sensor}") < 1 << 15 for sensor in range(SENSORS)}) == 2, "both bundles have sensors"
    flow = Divided(rig)
    rig.wait_running(*flow.fragments)
    flow.grows()
    flow.divide(2)
    flow.is_over()
    flow.grows()
    kill(rig, "1")
    flow.grows()
    flow.divide(1)
    flow.is_over()
    flow.grows()
    flow.check()
