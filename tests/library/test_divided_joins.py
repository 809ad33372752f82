"""Joins divided by key: each key has the rows that an undivided join gives it, however its two streams interleave."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from itertools import chain, pairwise

import pytest

from scheduler.key_division import divisible_by_key
from scheduler.model.columns import NUMBER_BITS
from scheduler.model.dataflow import Dataflow, Stream, Task
from scheduler.model.ring import Ring, key_group
from workers.library.key_states import states_of_keys
from workers.library.registry import columns_of, task_types
from workers.library.state import NOTHING, fold_rows, keeping, parts_of
from workers.library.watermarks import NO_EVENT, TOLD
from workers.library.windows import JoinFold

from .test_marks import ARRIVES_MS, JOIN_READS
from .told_marks import PartitionMarks


def _of_two_streams(chance: random.Random, *, fall_silent: bool) -> tuple[list[dict], list[dict]]:
    """Left events and right ones, whose partitions have the same numbers; some lefts lack the key."""
    streams: tuple[list[dict], list[dict]] = ([], [])
    for number, events in enumerate(streams):
        born = ARRIVES_MS
        times = {partition: born for partition in range(chance.choice([1, 3]) if fall_silent else 1)}
        for place in range(250):
            born += chance.choice([0, 1, 30, 400, 1_100] if fall_silent else [0, 0, 1])
            partition = chance.choice([*times]) if chance.random() < 0.5 else place // 40 % len(times)
            times[partition] += chance.randint(0, 2)
            key = "!none" if number == 0 and chance.random() < 0.05 else f"=k{chance.randint(0, 9)}"
            label = f"{key} {place}"
            events.append({
                "_key": "", "of": key, "time": times[partition] - chance.choice([0, 0, 2, 20]), "born": born,
                "seq": (partition << NUMBER_BITS) + place, "left": None if number else label,
                "right": label if number else None, "stream": number})
    return streams


def _cut(count: int, chance: random.Random) -> list[tuple[int, int]]:
    """The first and last of each batch, of so many events."""
    cuts = sorted({0, count, *(chance.randint(0, count) for _ in range(12))})
    return [*pairwise(cuts)]


def _joined(
    fold: JoinFold, bundles: list[int], batches: Callable[[int], list[list[list[list[dict]]]]]
) -> dict[str, list[tuple]]:
    """What comes out of each key where so many bundles have the keys, one number after the other. ``batches`` gives
    those of a bundle in stretches, each batch the events of each stream; the writers of streams tell it marks."""
    reads = (*JOIN_READS, "stream")
    results: dict[str, list[tuple]] = defaultdict(list)
    texts: list[str | None] = [None]
    for turn, several in enumerate(bundles):
        ring = Ring.even(("of",), [str(place) for place in range(several)])
        left, texts = texts, []
        for place, piece in enumerate(ring.ranges):
            state = states_of_keys((text, [(piece.token, piece.size)]) for text in left) or NOTHING
            stretches = batches(place)
            own_ones = stretches[len(stretches) * turn // len(bundles):len(stretches) * (turn + 1) // len(bundles)]
            for streams in chain.from_iterable(own_ones):
                columns: dict[str, list] = {name: [] for name in ("_key", "_seq", TOLD, *reads)}
                for number, events in enumerate(streams):
                    for row in _part_of_stream(number, events, ring, place, fold.ahead):
                        for name, values in columns.items():
                            values.append(row.get(name))
                keeper = keeping(state, None, parts_of(fold))
                for row in fold_rows(fold, keeper.states, columns, reads=reads, kept=()):
                    results[str(row[3] or row[4]).split(" ")[0]].append(row)
                state = keeper.save()
            texts.append(state)
    return results


def _part_of_stream(number: int, events: list[dict], ring: Ring, place: int, ahead_ms: int) -> list[dict]:
    """A batch of one stream as one bundle reads it; with a lone one, nothing is told."""
    marks, rows = PartitionMarks(ahead_ms=ahead_ms, parts=len(ring.served)), []

    def as_text(text: str | None) -> str | None:
        return text and f"{number}.{text.replace(';', f';{number}.')}"

    for event in events:
        part = int(ring.owner(key_group(event["of"][1:])))
        text = marks.before(event["seq"], event["time"], event["born"], part)
        if part == place:
            rows.append({**event, "_seq": event["seq"], TOLD: as_text(text)})
    if (text := marks.behind(place)) is not None:
        rows.append({"_key": "", "_seq": NO_EVENT, TOLD: as_text(text)})
    return rows


@pytest.mark.parametrize("seed", range(8))
def test_a_join_of_several_bundles_gives_each_key_what_one_gives_row_by_row(seed: int) -> None:
    """Where all read streams in one order: partitions fall silent and come back, and rings change meanwhile."""
    chance = random.Random(seed)
    fold = JoinFold(6, 9, 3, True, True, ahead=chance.choice([0, 5]), idle=chance.choice([None, 2_500]), streams=2)
    streams = _of_two_streams(chance, fall_silent=seed % 2 == 1)
    cuts = [_cut(len(events), chance) for events in streams]
    count = min(map(len, cuts))
    batches = [[[events[slice(*cut)] for events, cut in zip(streams, both, strict=True)]]
               for both in zip(cuts[0][:count], cuts[1][:count], strict=True)]
    alone = _joined(fold, [1], lambda _: batches)
    kinds = {(row[3] is None, row[4] is None, row[5]) for rows in alone.values() for row in rows}
    assert kinds == {(False, False, 0), (False, True, 0), (False, True, 1), (True, False, 1)}, "pairs, alone and late"
    for bundles in ([2], [5], [1, 3, 2, 5, 1]):
        assert _joined(fold, bundles, lambda _: batches) == alone, bundles


@pytest.mark.parametrize("seed", range(4))
def test_a_join_gives_the_same_pairs_however_each_bundle_reads_the_streams(seed: int) -> None:
    chance = random.Random(seed)
    fold = JoinFold(6, 9, 3, True, True, streams=2)
    streams = _of_two_streams(chance, fall_silent=False)

    def read(_: int) -> list[list[list[list[dict]]]]:
        """In two halves, between which keys may change hands."""
        halves = []
        for half in range(2):
            read_half = [events[125 * half:125 * (half + 1)] for events in streams]
            cuts = [_cut(125, chance) for _ in read_half]
            halves.append([
                [read_half[number][slice(*cut[at])] if at < len(cut) else [] for number, cut in enumerate(cuts)]
                for at in range(max(map(len, cuts)))])
        return halves

    def pairs(bundles: list[int]) -> dict[str, list]:
        return {key: sorted((row[3:] for row in rows), key=repr) for key, rows in _joined(fold, bundles, read).items()}

    alone = pairs([1])
    assert sum(map(len, alone.values())) > 100
    for bundles in ([1], [2], [5], [2, 5], [5, 1]):
        assert pairs(bundles) == alone, bundles


@pytest.mark.parametrize(("right", "divided"), [
    ("SELECT sensor_id, 'r' AS side FROM input", True),
    ("SELECT CAST(_seq AS string) AS sensor_id, 'r' AS side FROM input", True),
    ("SELECT _seq AS sensor_id, 'r' AS side FROM input", False),  # its writer would hash another text
    ("SELECT 'r' AS side FROM input", False),
])
def test_a_join_is_divided_where_the_columns_of_its_streams_have_one_type(right: str, divided: bool) -> None:
    types = task_types()
    tasks = (
        Task("meters", "smart_meter"), Task("in", "senml_parse"),
        Task("lefts", "sql", {"query": "SELECT *, 'l' AS side FROM input"}),
        Task("rights", "sql", {"query": right}),
        Task("pairs", "join", {"on": ["sensor_id"], "left": "side = 'l'", "left_columns": ["l=side"],
                               "right": "side = 'r'", "right_columns": ["r=side"]}))
    streams = (("meters", "in"), ("in", "lefts"), ("in", "rights"), ("lefts", "pairs"), ("rights", "pairs"))
    flow = Dataflow("d", tasks, tuple(Stream(*ends) for ends in streams))
    by_key = divisible_by_key(flow, {task.id: types[task.type] for task in tasks}, columns_of)
    assert by_key == ({"pairs"} if divided else set())
