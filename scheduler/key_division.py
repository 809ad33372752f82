"""Division by key: which tasks with state may have several bundles, what reads them, and the ranges of these bundles.

A bundle has all events of its keys, in their order, and no order holds between keys. So what reads a task that is
divided by key gets each key's events in order, from one bundle, as long as a result has its event's key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter

from .model.alternates import is_dynamic
from .model.canonical import canonical_config
from .model.columns import STREAM_TYPES, Columns, ColumnsOf, interleaved
from .model.dataflow import Dataflow
from .model.errors import WeirError
from .model.fragment import Fragment, RunningBundle
from .model.key_loads import NEAR, DividedKeys, KeyLoads, KeyRanges
from .model.ring import KEY_GROUPS, KeyRange
from .model.task_types import TaskType

VALUE = "value"  # statistics read it as a number with a fraction, whose text as a key is another one


def divisible_by_key(
    dataflow: Dataflow, types: Mapping[str, TaskType], columns_of: ColumnsOf | None = None
) -> frozenset[str]:
    """The tasks of a dataflow that a schedule may divide by key.

    Such a task has a type whose results follow by key, a key, and one stream to read, or several, if its type brings
    them together and the key has one text in all of them (`_of_one_text`). Each task with state downstream must be
    content with the order within the key: each task on the way passes the key on, and all that follow it go by these
    columns or more. A task that goes by marks of partitions is not content: it needs the order within each partition.

    Parameters
    ----------
    types : mapping of str to TaskType
        Of each task, by its id.
    columns_of : callable, optional
        The columns that a task gives. Without it no task that reads several streams may be divided.
    """
    parents, children = dataflow.parents(), dataflow.children()
    keys = {task.id: key_of(types[task.id], task.config) for task in dataflow.tasks}
    ordered: dict[str, bool] = {}  # whether the task, or one downstream of it, has state
    content: dict[str, bool] = {}  # whether what reads a task has enough in the order within its key
    for task_id in reversed(list(TopologicalSorter(parents).static_order())):  # downstream first
        below = children[task_id]
        ordered[task_id] = types[task_id].stateful or any(ordered[child] for child in below)
        content[task_id] = all(
            not ordered[child] or (
                types[task_id].passes_key and keys[child] and types[child].by_marks is None
                and set(keys[task_id]) <= set(keys[child]) and content[child])
            for child in below)
    chosen = {task_id for task_id, key in keys.items() if key and content[task_id]
              and (len(parents[task_id]) > 1) == types[task_id].several_streams and parents[task_id]}
    several = {task_id: keys[task_id] for task_id in chosen if types[task_id].several_streams}
    return frozenset(chosen - several.keys() | _of_one_text(dataflow, types, several, columns_of))


def _of_one_text(
    dataflow: Dataflow, types: Mapping[str, TaskType], keys: Mapping[str, Sequence[str]], columns_of: ColumnsOf | None
) -> frozenset[str]:
    """The tasks whose streams all have the key's columns, each column with one known type in all of them. The writer of
    a stream hashes a key by its text, which follows from the type, and knows no other stream."""
    if not keys or columns_of is None:
        return frozenset()
    parents, tasks = dataflow.parents(), {task.id: task for task in dataflow.tasks}
    columns_by_task: dict[str, Columns] = {}
    for task_id in TopologicalSorter(parents).static_order():
        task, columns_by_task[task_id] = tasks[task_id], Columns.unknown()
        if is_dynamic(task.type):
            continue
        try:
            inputs = interleaved([(parent, columns_by_task[parent]) for parent in dict.fromkeys(parents[task_id])])
            columns_by_task[task_id] = columns_of(
                types[task_id], inputs if parents[task_id] else Columns(STREAM_TYPES),
                canonical_config(types[task_id], task.config))
        except WeirError:
            continue

    def has_one(task_id: str, column: str) -> bool:
        kinds = {columns_by_task[parent].types.get(column) for parent in parents[task_id]}
        return len(kinds) == 1 and None not in kinds

    return frozenset(task_id for task_id, key in keys.items() if all(has_one(task_id, column) for column in key))


def key_of(task_type: TaskType, config: Mapping[str, object]) -> tuple[str, ...]:
    """The columns by which a task may be divided; none where its results do not follow by key."""
    is_across = task_type.across_keys is not None and config.get(task_type.across_keys) is not None
    key = task_type.key_columns(config) if task_type.by_key and not is_across else ()
    return () if VALUE in key else key


def whole_groups(shares: Mapping[int, float]) -> dict[int, float]:
    """Shares that add up to 1 as whole key groups, one at least each, by the largest remainder."""
    exact = {index: max(1.0, share * KEY_GROUPS) for index, share in shares.items()}
    groups = {index: int(number) for index, number in exact.items()}
    by_remainder = sorted(exact, key=lambda index: (groups[index] - exact[index], index))
    remaining_groups = KEY_GROUPS - sum(groups.values())
    for index in by_remainder[:max(0, remaining_groups)]:
        groups[index] += 1
    largest = max(groups, key=lambda index: (groups[index], -index))
    groups[largest] += KEY_GROUPS - sum(groups.values())
    return {index: number / KEY_GROUPS for index, number in groups.items()}


def ring_cut(
    shares: Mapping[int, float], slots: Mapping[int, str], keys: DividedKeys | None
) -> dict[int, KeyRanges]:
    """The ranges of each of a task's bundles, by place, so that each gets its share of the events; none at all where it
    is not known how these spread over keys.

    Ranges that are there stay, for keys that change hands cost a pause: unless others would spare the bundle that has
    most, for its share, a tenth of it.

    Parameters
    ----------
    shares : mapping of int to float
        Of the task's events; they add up to 1.
    slots : mapping of int to str
        The slot of each bundle.
    """
    if keys is None or keys.loads is None:
        return {}
    sizes = keys.loads.sizes(list(shares.values()))
    anew = {index: (key_range,) for index, key_range in zip(
        shares, ranges_of([size / KEY_GROUPS for size in sizes]), strict=True)}
    if keys.ranges.keys() == {slots[index] for index in shares}:
        ranges_now = {index: keys.ranges[slots[index]] for index in shares}
        if fullest(ranges_now, shares, keys.loads) <= (1 + NEAR) * fullest(anew, shares, keys.loads):
            return ranges_now
    return anew


def fullest(ranges: Mapping[int, KeyRanges], shares: Mapping[int, float], loads: KeyLoads) -> float:
    """The load of the fullest bundle for each event that it was to get; 1 where all get their shares."""
    return max(
        sum(loads.share(KeyRange(first, size, "")) for first, size in ranges[index]) / share
        for index, share in shares.items() if share)


def ranges_of(weights: Sequence[float]) -> tuple[tuple[int, int], ...]:
    """The range of each bundle that has so large a part of the ring, one behind the other from 0 on: its first key
    group, and how many it has."""
    ranges, reached = [], 0
    for weight in weights:
        size = round(weight * KEY_GROUPS)
        ranges.append((reached, size))
        reached += size
    return tuple(ranges)


@dataclass(frozen=True, slots=True)
class KeyPiece:
    """Key groups that one bundle has before keys change hands: the first, how many, and whose they are."""

    first: int
    size: int
    giver: str


def cut_off(pieces: Sequence[KeyPiece], size: int) -> tuple[list[KeyPiece], list[KeyPiece]]:
    """The first so many groups of some pieces, and the others. A piece is cut in two where that falls into it."""
    first: list[KeyPiece] = []
    remaining_pieces: list[KeyPiece] = []
    for piece in pieces:
        taken = min(piece.size, size - sum(taken_piece.size for taken_piece in first))
        if taken:
            first.append(replace(piece, size=taken))
        if taken < piece.size:
            remaining_pieces.append(KeyPiece((piece.first + taken) % KEY_GROUPS, piece.size - taken, piece.giver))
    return first, remaining_pieces


def within(pieces: Iterable[KeyPiece], ranges: KeyRanges) -> list[KeyPiece]:
    """The parts of some pieces that lie in some ranges."""
    cuts = [(max(piece.first, first), min(piece.first + piece.size, first + size), piece.giver)
            for piece in pieces for first, size in ranges]
    return [KeyPiece(begin, end - begin, giver) for begin, end, giver in cuts if begin < end]


def has_given(was: Iterable[RunningBundle], fragment: Fragment) -> bool:
    """True if one of these bundles has given keys away since, and works on: then bundles of the fragment's task may."""
    now = {bundle.id: bundle.key_ranges for bundle in fragment.bundles if not bundle.leaving}
    return any(now.get(bundle.id, bundle.key_ranges) != bundle.key_ranges for bundle in was)


def joined(pieces: Sequence[KeyPiece]) -> KeyRanges:
    """The ranges that pieces make up, in their order on the ring; those that touch each other are one."""
    ranges: list[tuple[int, int]] = []
    for piece in sorted(pieces, key=lambda piece: piece.first):
        if ranges and sum(ranges[-1]) == piece.first:
            ranges[-1] = (ranges[-1][0], ranges[-1][1] + piece.size)
        else:
            ranges.append((piece.first, piece.size))
    return tuple(ranges)


def one_thread_a_slot(threads: Mapping[str, tuple[int, ...]], by_key: Collection[str]) -> dict[str, tuple[int, ...]]:
    """The slots of each thread, where those of a task that is divided by key are one query on a slot, with one
    thread."""
    return {
        task: tuple(dict.fromkeys(positions)) if task in by_key else positions for task, positions in threads.items()}
