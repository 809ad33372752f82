"""Marks by partition: what comes out for a key follows from its own events and its partition's, and from nothing else.

Folds are run as Spark runs them, in batches that are cut anywhere, with the state as a text or in a store.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from scheduler.model.columns import NUMBER_BITS
from scheduler.model.ring import Ring, key_group
from workers.library.aggregates import read_aggregates
from workers.library.key_states import states_of_keys
from workers.library.repetitions import Deduplicated
from workers.library.state import NOTHING, fold_rows, keeping, parts_of
from workers.library.state_store import StoreLocation
from workers.library.watermarks import NO_EVENT, TOLD
from workers.library.windows import JoinFold, Windowed

from .told_marks import PartitionMarks

INTERLEAVINGS = 100
ARRIVES_MS = 10_000_000
WINDOW_READS, JOIN_READS = ("of", "time", "seq", "born", "of", "n", "n"), ("of", "time", "seq", "born", "left", "right")
COUNT = read_aggregates(["n=count(*)", "all=collect(n)"])


@dataclass(frozen=True)
class Case:
    """A fold, what it reads of an event, and what of a row says what came out, by key."""

    fold: Any
    reads: tuple[str, ...]
    row: Callable[[tuple], tuple]


def _tumbling(**more: Any) -> Windowed:
    return Windowed(10, 10, 5, False, 1, COUNT, **more)


CASES = {
    "tumbling": Case(_tumbling(), WINDOW_READS, lambda row: (row[3], row[4:])),
    "sliding": Case(Windowed(12, 4, 3, True, 1, COUNT), WINDOW_READS, lambda row: (row[3], row[4:])),
    "session": Case(Windowed(4, 0, 2, True, 1, COUNT), WINDOW_READS, lambda row: (row[3], row[4:])),
    "deduplicate": Case(Deduplicated(9), ("of", "time", "seq", "born"), lambda row: row),
    # Of a pair the later event gives Weir's columns, and which one that is does depend.
    "join": Case(JoinFold(6, 6, 3, True, True), JOIN_READS, lambda row: ("pairs", row[3:])),
}


def partition(number: int, *, count: int, keys: tuple[str, ...], begins: int, chance: random.Random) -> list[dict]:
    """A partition's events: its own keys, its own place in time, some of them late."""
    time, events = begins, []
    for place in range(count):
        time += chance.randint(0, 4)
        key = chance.choice(keys)
        seq = (number << NUMBER_BITS) + place
        at = time - chance.choice([0, 0, 0, 2, 20])
        events.append({"of": key, "time": at, "seq": seq, "n": float(place), "left": f"l{number}.{place}",
                       "right": None})
    events.append({"of": f"end{number}", "time": 1_000_000, "seq": (number << NUMBER_BITS) + count, "n": 0.0,
                   "left": None, "right": None})
    return events


def interleaved(partitions: list[list[dict]], chance: random.Random) -> list[dict]:
    """The partitions in one stream, each in its order; they arrive as they come."""
    turns = [number for number, events in enumerate(partitions) for _ in events]
    if chance.random() < 0.2:
        turns.sort(reverse=chance.random() < 0.5)  # one after the other, as a backlog is read
    else:
        chance.shuffle(turns)
    waiting = [iter(events) for events in partitions]
    return [{"_key": "", "born": ARRIVES_MS + place, **next(waiting[turn])} for place, turn in enumerate(turns)]


def come_out(
    case: Case, events: list[dict], chance: random.Random, place: StoreLocation | None
) -> tuple[dict[str, list], str]:
    """The rows of each key and the state, of batches that are cut anywhere; some of them end before they are saved, and
    come again."""
    text, rows, at = NOTHING, [], 0
    while at < len(events):
        size = chance.randint(1, 40)
        columns = {name: [event[name] for event in events[at:at + size]] for name in {"_key", *case.reads}}
        for ends in (*[False] * (chance.random() < 0.2), True):
            keeper = keeping(text, place, parts_of(case.fold))
            try:
                out = fold_rows(case.fold, keeper.states, columns, reads=case.reads,
                                kept=("of",) if isinstance(case.fold, Deduplicated) else ())
                saved = keeper.save() if ends else text
            finally:
                keeper.close()
        text, at = saved, at + size
        rows += out
    results = defaultdict(list)
    for row in rows:
        key, result = case.row(row) if len(row) > 1 else (row[0], ())
        results[key].append(result)
    if isinstance(case.fold, JoinFold):
        results["pairs"].sort(key=repr)
    return results, text


@pytest.mark.parametrize("name", CASES)
def test_the_same_rows_for_each_key_however_partitions_interleave(name: str, tmp_path: Path) -> None:
    case, chance = CASES[name], random.Random(7)
    partitions = [
        partition(1, count=60, keys=("a", "b"), begins=0, chance=chance),
        partition(2, count=50, keys=("c",), begins=600_000, chance=chance),  # ten minutes ahead of the others
        partition(3, count=60, keys=("d", "e"), begins=20, chance=chance)]
    if isinstance(case.fold, JoinFold):  # two sources whose events match: each has its own partition
        partitions = [partition(number, count=70, keys=("a", "b", "c"), begins=0, chance=chance) for number in (4, 5)]
        for event in partitions[1]:
            event.update(left=None, right=event["left"] and event["left"].replace("l", "r"))
    expected = None
    for number in range(INTERLEAVINGS):
        place = StoreLocation(str(tmp_path), f"f{number}", large=200) if number % 4 == 0 else None
        results, _ = come_out(case, interleaved(partitions, chance), chance, place)
        expected = expected or results
        assert results == expected, number
    assert expected is not None
    assert sum(map(len, expected.values())) > 40


def test_events_of_one_sender_with_a_fast_clock_make_nobody_late() -> None:
    """Where the source lets times be ahead, a mark moves to the arrival and no further."""
    fold, state, rows = _tumbling(), None, []
    for second in range(300):
        born = ARRIVES_MS + 1000 * second
        for key, time in (("fast", born + 240_000), ("slow", born - 4)):
            state = state or fold.start()
            rows += fold.step(state, key, time, 2 * second, born, key, 0.0, 0.0)
    assert fold.late(state) == 0
    assert sum(row[6] for row in rows if row[3] == "slow") == 299, "each of its windows has come out but the last"


def test_times_that_are_ahead_by_intention_move_the_mark_where_the_config_lets_them() -> None:
    events = [("a", ARRIVES_MS + ahead, 0, ARRIVES_MS, "a", 0.0, 0.0) for ahead in (0, 50, 1_000)]
    for ahead, closed in ((0, 0), (1_000, 2)):
        fold = _tumbling(ahead=ahead)
        state = fold.start()
        assert sum(len(list(fold.step(state, *event))) for event in events) == closed


@pytest.mark.parametrize("place", ["text", "store"])
def test_keys_that_only_ever_were_late_are_freed(place: str, tmp_path: Path) -> None:
    fold, chance = _tumbling(), random.Random(1)
    events = [{"_key": "", "of": "live", "time": 1000, "seq": 0, "born": ARRIVES_MS, "n": 0.0}]
    for number in range(2_000):
        events.append({**events[0], "of": f"late{number}", "time": 10})
        events.append({**events[0], "time": 1000 + number})
    store = StoreLocation(str(tmp_path), "f", large=200) if place == "store" else None
    _, text = come_out(Case(fold, WINDOW_READS, lambda row: (row[3], row)), events, chance, store)
    keeper = keeping(text, store, parts_of(fold))
    state = keeper.states.get("")
    assert fold.late(state) == 2_000 and len(state["keys"]) <= 20
    keeper.close()


def test_a_key_in_several_partitions_waits_for_each_that_it_was_seen_in() -> None:
    fold = _tumbling()
    state = fold.start()

    def come(number: int, time: int, born: int = ARRIVES_MS) -> list:
        return list(fold.step(state, "k", time, number << NUMBER_BITS, born, "k", 0.0, 0.0))

    assert come(1, 3) == come(2, 4) == come(1, 100) == [], "the second has not passed the window"
    assert [row[4:7] for row in come(2, 101)] == [(0, 10, 2)]
    assert come(1, 300) == []
    silent = come(1, 301, ARRIVES_MS + 3_600_000)
    assert [row[4] for row in silent] == [100], "the second is silent: nobody waits for it"


def test_a_silent_partition_is_given_up_where_the_document_asks_for_it() -> None:
    fold = _tumbling(idle=1_000)
    state = fold.start()

    def come(number: int, key: str, time: int, born: int) -> list:
        return [(row[3], row[4]) for row in fold.step(state, key, time, number << NUMBER_BITS, born, key, 0.0, 0.0)]

    assert come(1, "a", 3, ARRIVES_MS) == come(2, "b", 500, ARRIVES_MS + 500) == []
    assert come(2, "b", 501, ARRIVES_MS + 1_000) == [("a", 0)]
    assert come(1, "a", 4, ARRIVES_MS + 1_001) == [] and fold.late(state) == 1, "what has come out does not come again"
    assert [(row[3], row[4]) for row in fold.silence(state)] == [("b", 500)]
    assert not state["keys"] or all(not here["open"] for here in state["keys"].values())


def test_a_join_gives_left_events_alone_when_all_is_silent() -> None:
    fold = JoinFold(5, 5, 0, True, idle=1_000)
    state = fold.start()
    list(fold.step(state, "=k", 10, 0, ARRIVES_MS, "left", None))
    assert [row[3:5] for row in fold.silence(state)] == [("left", None)]
    assert not state["left"] and list(fold.silence(state)) == []


# -- divided by key --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in CASES if name != "join"])
@pytest.mark.parametrize("seed", range(6))
def test_the_same_rows_for_each_key_however_many_bundles_have_the_keys(name: str, seed: int) -> None:
    """Partitions fall silent and come back, events are late, batches are cut anywhere and rings change meanwhile."""
    chance = random.Random(f"{name}{seed}")
    case = CASES[name]
    if name != "deduplicate":
        case = replace(case, fold=replace(
            case.fold, idle=chance.choice([None, 1_000, 2_500]), ahead=chance.choice([0, 5])))
    events, born = [], ARRIVES_MS
    times = {number: born + chance.choice([0, 0, 30]) for number in range(chance.choice([1, 3]))}
    for place in range(400):
        born += chance.choice([0, 1, 30, 400, 1_100] if seed % 2 else [0, 0, 1])
        number = chance.choice([*times]) if chance.random() < 0.5 else place // 60 % len(times)
        times[number] += chance.randint(0, 2)
        key = f"k{chance.choice([number, number, chance.randint(3, 9)])}"  # some keys are in several partitions
        time = times[number] - chance.choice([0, 0, 2, 20])  # ahead of its arrival, where that does not move so fast
        events.append({
            "_key": "", "of": key, "time": time, "seq": (number << NUMBER_BITS) + place, "n": float(place),
            "born": born})
    alone = _divided(case, events, [1], chance)
    assert sum(map(len, alone.values())) > 20
    for bundles in ([2], [5], [1, 3, 2, 5, 1]):
        assert _divided(case, events, bundles, chance) == alone, bundles


def _divided(case: Case, events: list[dict], bundles: list[int], chance: random.Random) -> dict[str, list]:
    """The rows of each key where so many bundles have the keys, one number after the other."""
    results: dict[str, list] = defaultdict(list)
    texts: list[str | None] = [None]
    cuts = [len(events) * place // len(bundles) for place in range(len(bundles) + 1)]
    for count, (first, last) in zip(bundles, pairwise(cuts), strict=True):
        ring = Ring.even(("of",), [str(place) for place in range(count)])
        states = [
            states_of_keys((text, [(piece.token, piece.size)]) for text in texts) or NOTHING for piece in ring.ranges]
        while first < last:
            size = min(chance.randint(1, 120), last - first)
            for place, columns in enumerate(_parts(case, events[first:first + size], ring)):
                keeper = keeping(states[place], None, parts_of(case.fold))
                rows = fold_rows(case.fold, keeper.states, columns, reads=case.reads,
                                 kept=("of",) if isinstance(case.fold, Deduplicated) else ())
                states[place] = keeper.save()
                for row in rows:
                    key, result = case.row(row) if len(row) > 1 else (row[0], ())
                    results[key].append(result)
            first += size
        texts = [*states]
    return results


def _parts(case: Case, events: list[dict], ring: Ring) -> list[dict[str, list]]:
    """A batch as each bundle reads it."""
    names = {"_key", "_seq", TOLD, *case.reads}
    parts: list[dict[str, list]] = [{name: [] for name in names} for _ in ring.served]
    marks = PartitionMarks(ahead_ms=getattr(case.fold, "ahead", 0), parts=len(parts))
    for event in events:
        part = int(ring.owner(key_group(event["of"])))
        text = marks.before(event["seq"], event["time"], event["born"], part)
        for name in names:
            parts[part][name].append({**event, "_seq": event["seq"], TOLD: text}[name])
    for place, part in enumerate(parts):
        if (text := marks.behind(place)) is not None:
            for name in names:
                part[name].append({"_key": "", "_seq": NO_EVENT, TOLD: text}.get(name))
    return parts


# -- states of earlier versions --------------------------------------------------------------------------------------

EARLIER = {  # as c3b94a08 kept them: one mark for all
    "window": (_tumbling(), {"mark": 95, "next": 110, "keys": {
        "k": {"key": ["k"], "open": [[100, 110, 3, 101, 101, [[2], [0.0, 1.0]]]], "late": 1},
        "late": {"key": ["late"], "open": [], "late": 7}}}),
    "deduplicate": (Deduplicated(10), {"latest": 100, "next": 110, "passed": {"k": 100, "old": 60}}),
    "join": (JoinFold(5, 5, 0, True), {"mark": 100, "next": 105, "swept": 90, "left": {"=k": [[100, 1, 100, "l", 0]]},
                                     "right": {"=k": [[99, 2, 99, "r"]]}}),
}


def _had_partitions_in_common(fold: JoinFold, state: dict) -> dict:
    """The state of a join whose streams had their partitions in common: both were in the partition 0."""
    marks = {"mark": state["mark"], "born": ARRIVES_MS, "next": None, "silent": False}
    others = {name: value for name, value in state.items() if name != "mark"}
    return json.loads(json.dumps({
        **fold.start(), **others, "partitions": {"0": marks}, "clock": ARRIVES_MS, "begun": ARRIVES_MS, "sides": "LR"}))


def _of_earlier(name: str) -> tuple[Any, dict]:
    fold, state = EARLIER[name]
    state = json.loads(json.dumps(state))
    if name == "window":
        for window in state["keys"]["k"]["open"]:
            window[5] = [aggregate.kind.start() for aggregate in fold.aggregates]
            for value in (0.0, 1.0):
                for aggregate, summed in zip(fold.aggregates, window[5], strict=True):
                    aggregate.kind.add(summed, value)
    return fold, state


def test_windows_of_an_earlier_version_go_on() -> None:
    fold, state = _of_earlier("window")
    seq = 9 << NUMBER_BITS

    def come(time: int) -> list:
        return [row[4:] for row in fold.step(state, "k", time, seq, ARRIVES_MS, "k", None, 2.0)]

    assert come(105) == [], "it goes into the window that was open"
    assert come(80) == [], "what was settled stays so"
    assert come(120) == [(100, 110, 3, [0.0, 1.0, 2.0], 2)] and fold.late(state) == 1
    assert "late" not in state["keys"]


def test_a_mark_that_an_event_of_the_future_had_moved_comes_back() -> None:
    fold, state = _of_earlier("window")
    state.update(mark=ARRIVES_MS + 86_400_000, keys={})
    events = [("k", ARRIVES_MS + 20 * number, number, ARRIVES_MS + 20 * number + 1) for number in range(10)]
    rows = [row for key, time, seq, born in events for row in fold.step(state, key, time, seq, born, key, None, 0.0)]
    assert len(rows) == 9 and fold.late(state) == 0


def test_repetitions_and_pairs_of_an_earlier_version_go_on() -> None:
    fold, state = _of_earlier("deduplicate")
    assert list(fold.step(state, "k", 105, 9 << NUMBER_BITS, ARRIVES_MS)) == []
    assert list(fold.step(state, "new", 106, 9 << NUMBER_BITS, ARRIVES_MS)) == [()]
    fold, state = _of_earlier("join")
    two = replace(fold, streams=2)
    for now in (json.loads(json.dumps(state)), _had_partitions_in_common(two, state)):
        later = [two.step(now, "=k", time, time, ARRIVES_MS, None, f"r{time}", 1) for time in (103, 90)]
        assert [row[3:5] for rows in later for row in rows] == [("l", "r103")] and now["late"] == 1, "which was settled"
        assert [row[3:] for row in two.step(now, "=k", 500, 500, ARRIVES_MS, "m", None, 0)] == []
        assert [row[3:5] for row in two.step(now, "=n", 501, 501, ARRIVES_MS, None, "r501", 1)] == [] and len(
            now["partitions"]) == 2 and "=k" not in now["right"], "both have come as far"
    assert [row[3:5] for row in fold.step(state, "=k", 103, 8, ARRIVES_MS, None, "r2")] == [("l", "r2")]
    assert list(fold.step(state, "=k", 90, 9, ARRIVES_MS, None, "r3")) == [] and fold.late(state) == 1
