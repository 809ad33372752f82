"""A stream whose keys several tasks with state have, each divided by key; and what they give where nobody disturbs
them."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any

from scheduler.key_division import ranges_of, whole_groups
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningBundle, RunningTask
from scheduler.moving import why_not_moved
from scheduler.reuse.activity import Activity, adjust
from scheduler.reuse.division import WantedBundle, divided_back, is_changing_hands, keys_divided_anew
from scheduler.reuse.handover import moved_in
from workers.library.operators import window_fold
from workers.library.repetitions import Deduplicated

from .rig import Hosts, Rig, estate_of
from .test_moved_bundles import kill

SENSORS, READINGS, RATE_PER_S, WITHIN_S, BEGAN_MS = 11, 3, 60.0, 3, 1_700_000_000_000
KEPT = {"keep_events": 1_000_000}
OBSERVED = ("SELECT {sensor} AS sensor_id, 'load' AS obs, CAST(_seq AS double) AS value, "
            "CAST(_seq AS string) AS msg_id, '' AS meta, CAST(_seq % 3 AS string) AS kind{more} FROM input")
WINDOW = {"aggregates": ["n=count(*)", "last=last(kind)"], "size": 2, "by": ["sensor_id"]}
REACH_MS = {"before": 1_200, "after": 100}  # of a pair: the sensor's reading before, or the one at the same time
SIDES = {
    "lefts": "SELECT sensor_id, kind, CAST(_seq AS bigint) AS n, 'l' AS side FROM input",
    "rights": "SELECT sensor_id, CAST(_seq AS bigint) AS n, 'r' AS side FROM input WHERE _seq % 3 = 0"}
CHAINS = {"totalled": ("plain", "t2", "hoard", "totalled")}  # outputs without keys: tasks that one query has
HOARDED = 40  # keys of the last of its states
CONFIGS = {
    "untimely": ("untimely", {"began_ms": BEGAN_MS}),
    **{side: ("sql", {"query": query}) for side, query in SIDES.items()},
    "plain": ("sql", {"query": "SELECT CAST(_seq AS bigint) AS n, t1 FROM input"}),
    **{name: ("total", {"name": name}) for name in ("t1", "t2")},  # the first of them is in the source's query
    "hoard": ("hoard", {"keys": HOARDED, "bytes": 20_000}),
    "pairs": ("join", {
        "on": ["sensor_id"], "left": "side = 'l'", "left_columns": ["kind", "l=n"], "right": "side = 'r'",
        "right_columns": ["r=n"], "unmatched": "emit", **{name: reach / 1000 for name, reach in REACH_MS.items()}}),
    "blocks": ("accumulate", {"window": READINGS, "by": ["sensor_id"]}),
    "smooth": ("interpolate", {"window": 2}),
    "means": ("block_average", {"window": READINGS, "by": ["sensor_id", "obs"]}),
    "heavy": ("heavy", {"by": ["sensor_id"], "bytes": 30_000}),  # its states are in stores
    "windows": ("window", WINDOW),
    "firsts": ("deduplicate", {"by": ["sensor_id", "kind"], "within": WITHIN_S}),
}
BRANCHES = {
    "collected": ("blocks",), "averaged": ("smooth", "means"), "summed": ("heavy",), "counted": ("windows",),
    "passed": ("firsts",), "paired": ("pairs",)}
AT_REST = ("move", "pause", "resume", "lose")  # steps that begin when the one before is over
BY_MARKS = ("windows", "firsts", "pairs")  # who gives keys of these away leaves


class KeyedFlow:
    """A source of readings, some of them late, and for each of some outputs the tasks by key that feed it."""

    rate_per_s = RATE_PER_S
    threads: Mapping[str, int] = {}  # of the queries of these tasks; others have one
    sensor = f"concat('s', _seq % {SENSORS})"  # in SQL

    @staticmethod
    def sensor_of(number: int) -> str:
        return f"s{number % SENSORS}"

    def __init__(self, rig: Rig | Hosts, seed: int, outputs: Sequence[str]) -> None:
        self.rig, self.chance, self.outputs = rig, random.Random(seed), tuple(outputs)
        self.before: dict[str, Fragment] = {}  # the last plan by which keys changed hands takes these fragments back
        self.began_s = monotonic()
        self.rests_behind: dict[str, int] | None = None  # the last sums before a pause that is not over, by sensor
        self.rested: list[tuple[dict[str, int], float]] = []  # pauses that are over, with a number that came after
        self.keyed = tuple(task for output in self.outputs for task in BRANCHES.get(output, ()))
        numbers = (f"f{rig.version + 1}-{number}" for number in itertools.count())
        streams = [stream for output in self.outputs for stream in self._streams_of(output)]
        self.ids = dict(zip(dict.fromkeys(task for stream in streams for task in stream), numbers, strict=False))
        summed = ("t1",) if "totalled" in self.outputs else ()
        query = OBSERVED.format(sensor=self.sensor, more=", t1" if summed else "")
        configs = {
            **CONFIGS, "numbers": ("numbers", {"rate_per_s": self.rate_per_s}), "observed": ("sql", {"query": query})}
        self.tasks, self.fragments = [], {}
        for last, fragment in self.ids.items():
            chain = ("numbers", *summed, "untimely", last) if last == "observed" else CHAINS.get(last, (last,))
            parents = [tuple(parent for parent, child in streams if child == last), *((task,) for task in chain)]
            self.tasks += [
                RunningTask(task, *configs.get(task, ("kept", KEPT)), parents[place])
                for place, task in enumerate(chain)]
            slot, threads = self.slot(), self.threads.get(last, 1)
            bundles = (RunningBundle(fragment, slot, threads),) if threads > 1 else ()
            self.fragments[fragment] = Fragment(fragment, chain, slot, len(chain), bundles=bundles)
        for parent in {parent for parent, _ in streams}:
            readers = tuple(self.ids[child] for other, child in streams if other == parent)
            self.fragments[self.ids[parent]] = replace(self.fragments[self.ids[parent]], outlets={parent: readers})
        self.publish()
        self.is_over()

    @staticmethod
    def _streams_of(output: str) -> list[tuple[str, str]]:
        """What feeds an output: one task after the other, but that a join has two sides."""
        if output == "paired":
            return [*(("observed", side) for side in SIDES), *((side, "pairs") for side in SIDES), ("pairs", output)]
        return [*itertools.pairwise(("observed", *BRANCHES.get(output, ()), output))]

    def slot(self) -> str:
        return self.chance.choice(self.rig.slots).name

    def estate(self) -> Estate:
        return replace(estate_of(list(self.fragments.values()), self.tasks, slots=self.rig.slots),
                       generation=self.rig.version)

    def publish(self) -> None:
        self.rig.publish(self.estate())

    def divide(self, parts: Sequence[WantedBundle], *tasks: str) -> None:
        """These bundles have the keys of these tasks."""
        ids = (f"f{self.rig.version + 1}-{number}" for number in itertools.count())
        self.before = dict(self.fragments)
        for task in tasks:
            change = keys_divided_anew(
                self.fragments[self.ids[task]], parts, ids=ids, left_bundles=self.rig.reports().left,
                works_on=task not in BY_MARKS)
            self.fragments |= change.after
        self.publish()

    def divide_by_chance(self, tasks: Iterable[str]) -> None:
        """These tasks have one bundle to four, of any sizes; ranges are named as where loads are known, or not."""
        slots = [self.slot() for _ in range(self.chance.randint(1, 4))]
        sizes = [self.chance.randint(1, 3) for _ in slots]
        weights = whole_groups({place: size / sum(sizes) for place, size in enumerate(sizes)})
        named = ranges_of(list(weights.values())) if self.chance.random() < 0.5 else ()
        self.divide(
            [WantedBundle(slot, 1, weights[place], named[place:place + 1]) for place, slot in enumerate(slots)],
            *tasks)

    def divide_back(self) -> None:
        """Take the last plan back, be it in force or not."""
        changed = {name: self.fragments[name] for name in self.before if self.fragments[name] != self.before[name]}
        self.fragments |= divided_back(self.before, changed, generation=self.rig.version).after
        self.before = {}
        self.publish()

    def move(self) -> None:
        """A bundle goes to the other slot, where keys are not changing hands."""
        self.before, estate = {}, self.estate()
        fragment, bundle = self.chance.choice([
            (fragment, bundle) for fragment in self.fragments.values() for bundle in fragment.bundles
            if not bundle.leaving and not why_not_moved(estate, fragment, task_types=self.rig.task_types)])
        slot = next(slot.name for slot in self.rig.slots if slot.name != bundle.slot)
        self.fragments |= moved_in(estate, {bundle.id: slot}, outputs=set(), homes={bundle.id: fragment}).after
        self.publish()

    def can_move(self) -> bool:
        return any(fragment.divided and not fragment.paused and not is_changing_hands(fragment)
                   for fragment in self.fragments.values())

    def turn(self, activity: Activity) -> None:
        """Let the sums rest, or go on."""
        self.before = {}
        if activity == "rests":
            self.rests_behind = {row["sensor_id"]: row["_seq"] for row in self.rows("summed")}
        self.fragments |= adjust(self.estate(), dict.fromkeys(("heavy", "summed"), activity)).after
        self.publish()

    def rests(self) -> bool:
        return any(fragment.paused for fragment in self.fragments.values())

    def lose_power(self) -> None:
        """Agent and slots end at once, and are started again."""
        gone = {self.rig.slot_pid(str(slot.index)) for slot in self.rig.slots} | {None}
        self.rig.kill()
        self.rig.start()
        self.rig.wait(lambda: not gone & {self.rig.slot_pid(str(slot.index)) for slot in self.rig.slots},
                      what="the slots are back")

    def steps(self) -> dict[str, tuple[int, Callable[[], object]]]:
        """What may happen next: how likely each is, and what does it."""
        steps: dict[str, tuple[int, Callable[[], object]]] = {
            "divide": (4, lambda: self.divide_by_chance(
                task for task in self.keyed
                if not self.fragments[self.ids[task]].paused and self.chance.random() < 0.7)),
            "kill": (2, lambda: kill(self.rig, self.chance.choice("01"))),
            "lose power": (1, self.lose_power)}
        if self.before:
            steps["take back"] = (3, self.divide_back)
        if self.can_move():
            steps["move"] = (2, self.move)
        if "summed" in self.outputs:
            rests = self.rests()
            steps["resume" if rests else "pause"] = (
                (3, lambda: self.turn("works")) if rests else (1, lambda: self.turn("rests")))
        return steps

    def disturb(self, step: str = "") -> str:
        """That step, or one by chance; its name."""
        steps = self.steps()
        step = step or self.chance.choices(list(steps), [weight for weight, _ in steps.values()])[0]
        if step in AT_REST:
            self.is_over()
        steps[step][1]()
        return step

    def finish(self) -> None:
        """Wait until all is over and all works, and check what has come."""
        self.is_over()
        if self.rests():
            self.turn("works")
            self.is_over()
        self.grows()
        self.check()

    def is_over(self) -> None:
        """Wait until those who are to work do and those before them have left, which are dropped then."""
        working = [
            bundle for fragment in self.fragments.values() for bundle in fragment.queries
            if not bundle.leaving and not fragment.paused]
        leaving = {bundle.id for fragment in self.fragments.values() for bundle in fragment.queries if bundle.leaving}
        moved = {name for bundle in working if bundle.root for name in bundle.inherits}
        self.rig.wait(lambda: self.rig.reports().left >= leaving, what="those before have left")
        self.rig.wait_running(*(bundle.id for bundle in working))
        self.rig.wait(lambda: not moved & {name for name, _ in self.rig.reports().queries()}, what="who moved is gone")
        if leaving:
            self.fragments = {
                name: replace(fragment, bundles=tuple(bundle for bundle in fragment.bundles if not bundle.leaving))
                for name, fragment in self.fragments.items()}
            self.publish()
        if self.rests_behind is not None and not self.rests():  # all later numbers are read
            self.rested.append((self.rests_behind, self.rate_per_s * (monotonic() - self.began_s)))
            self.rests_behind = None

    def rows(self, output: str) -> list[dict[str, Any]]:
        return self.rig.events(self.fragments[self.ids[output]].channel_of(output))

    def grows(self, by: int = 15) -> None:
        working = [output for output in self.outputs if not self.fragments[self.ids[output]].paused]
        counts = {output: len(self.rows(output)) for output in working}
        self.rig.wait(lambda: all(len(self.rows(output)) > count + by for output, count in counts.items()),
                      what="more results")

    def numbers(self, sensor: str) -> Iterator[int]:
        return (number for number in itertools.count() if self.sensor_of(number) == sensor)

    def check(self) -> None:
        """Each key has what it has undisturbed, in order, each once: by plain loops, and folds over all readings."""
        for output in self.outputs:
            if output in CHAINS:
                self._check_totalled(self.rows(output))
                continue
            by_key: dict[str, list[dict[str, Any]]] = defaultdict(list)
            for row in self.rows(output):
                by_key[f"{row['sensor_id']}{row['kind'] if output == 'passed' else ''}"].append(row)
            assert len(by_key) == SENSORS * (3 if output == "passed" else 1), output
            getattr(self, f"_check_{output}")(by_key)

    def _check_totalled(self, rows: list[dict[str, Any]]) -> None:
        """All numbers in order, with the sums up to each: of the source, of the chain, and by key."""
        total, by_key = 0, Counter[int]()
        assert [row["_seq"] for row in rows] == list(range(len(rows)))
        for number, row in enumerate(rows):
            total, key = total + number, number % HOARDED
            by_key[key] += number
            assert (float(row["t1"]), float(row["t2"]), row["sum"]) == (total, total, by_key[key])  # kept as texts

    def _check_collected(self, by_key: dict[str, list[dict[str, Any]]]) -> None:
        for sensor, rows in by_key.items():
            assert [row["values"] for row in rows] == self._blocks(sensor, len(rows))

    def _check_averaged(self, by_key: dict[str, list[dict[str, Any]]]) -> None:
        for sensor, rows in by_key.items():
            assert [row["value"] for row in rows] == [
                sum(block) / READINGS for block in self._blocks(sensor, len(rows))]

    def _blocks(self, sensor: str, count: int) -> list[list[float]]:
        numbers = map(float, self.numbers(sensor))
        return [list(itertools.islice(numbers, READINGS)) for _ in range(count)]

    def _check_summed(self, by_key: dict[str, list[dict[str, Any]]]) -> None:
        """Sums of all that came. What was added up before a pause may have no row; what came during it is in none: at
        any other time a row that is missing is lost."""
        for sensor, rows in by_key.items():
            numbers, total, gaps = self.numbers(sensor), 0, 0
            for row in rows:
                first = last = number = next(numbers)
                if number != row["_seq"]:
                    while total < row["sum"] - row["_seq"]:
                        total, last, number = total + number, number, next(numbers)
                    while number < row["_seq"]:
                        last, number = number, next(numbers)
                    gaps += 1
                    assert any(behind.get(sensor, -1) < first and last <= upto for behind, upto in self.rested)
                total += number
                assert (row["_seq"], row["sum"]) == (number, total)
            assert gaps <= 2 * len(self.rested)  # of each of the two tasks: docs/engine.md, "Pausing"

    def _check_counted(self, by_key: dict[str, list[dict[str, Any]]]) -> None:
        made = ("window_start", "n", "last", "late")
        given = {sensor: [tuple(row[name] for name in made) for row in rows] for sensor, rows in by_key.items()}
        _, fold = window_fold({**WINDOW, "kind": "tumbling", "slide": None, "lateness": 0, "late": "drop", "ahead": 0,
                               "idle": None, "landmark": None}, {"kind": "string", "sensor_id": "string"})
        alone, state = defaultdict(list), fold.start()
        for seq, sensor, kind, time in self._readings(by_key):
            for row in fold.step(state, sensor, time, seq, 1 << 60, sensor, None, kind):
                alone[row[3]].append((row[4], *row[6:9]))
        assert given == {sensor: alone[sensor][:len(rows)] for sensor, rows in given.items()}
        assert any(row[3] for rows in given.values() for row in rows), "events are late"

    def _check_passed(self, by_key: dict[str, list[dict[str, Any]]]) -> None:
        fold, alone = Deduplicated(WITHIN_S * 1000), defaultdict(list)
        state = fold.start()
        for seq, sensor, kind, time in self._readings(by_key):
            if list(fold.step(state, f"{sensor}{kind}", time, seq, 1 << 60)):
                alone[f"{sensor}{kind}"].append(seq)
        given = {key: [row["_seq"] for row in rows] for key, rows in by_key.items()}
        assert given == {key: alone[key][:len(rows)] for key, rows in given.items()}

    def _check_paired(self, by_key: dict[str, list[dict[str, Any]]]) -> None:
        """By plain loops: all pairs of readings that are not late in their stream. A left one that comes alone says
        that all pairs of those before it have come."""
        sides: dict[str, dict[str, list[tuple[int, int]]]] = {side: defaultdict(list) for side in SIDES}
        lates = 0
        for side, readings in sides.items():
            latest = 0
            for seq, sensor, _, time in self._readings(by_key):
                if side == "lefts" or seq % 3 == 0:
                    if time >= latest:
                        readings[sensor].append((seq, time))
                    lates += time < latest
                    latest = max(latest, time)
        assert lates
        for sensor, rows in by_key.items():
            pairs = [
                (left, right) for left, time in sides["lefts"][sensor] for right, other in sides["rights"][sensor]
                if time - REACH_MS["before"] <= other <= time + REACH_MS["after"]]
            alone = {left for left, _ in sides["lefts"][sensor]} - {left for left, _ in pairs}
            all_rows = Counter([*pairs, *((left, None) for left in alone)])
            given = Counter((row["l"], row["r"]) for row in rows)
            settled = max(left for left, right in given if right is None)
            assert not given - all_rows, "none that is not, and none twice"
            assert not [row for row in all_rows - given if row[0] <= settled], "all that is settled has come"
            assert settled > max(left for left, _ in given) / 2

    def _readings(self, by_key: dict[str, list[dict[str, Any]]]) -> Iterator[tuple[int, str, str, int]]:
        """All up to some behind the last one that is in a result: number, sensor, kind and event time."""
        last = max(row["_seq"] for rows in by_key.values() for row in rows)
        for seq in range(last + 10 * SENSORS):
            yield seq, self.sensor_of(seq), str(seq % 3), BEGAN_MS + seq * 100 - (1500 if seq % 9 == 4 else 0)
