"""Marks of event time: how far the events of each partition have come, kept in the state of a fold.

An event's number says which partition of which source it came from (``partition_of``). The **mark** of a partition is
the latest event time in it, less the lateness that is waited for: nothing at or before the mark is waited for. An event
moves the mark of its own partition alone, and no further than to its arrival (``_born``, plus the margin of the
config): so neither a lagging partition nor a fast clock decides for others.

A result of several partitions waits for the one that is furthest behind. A **silent** partition, from which nothing has
arrived for `hold_ms`, holds up nobody. Arrival is read from the events, so that a repetition agrees.

A bundle that gets only some keys is **told** of the others by the writer that divides the stream
(``PartitionMarks.java``): before an event, and behind the last one of a batch, how far each partition has come since
(`marks_in`). So at each of its events its marks are those of a reader of all events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from scheduler.model.columns import partition_of

NEVER, FOREVER = -(1 << 62), 1 << 62  # before and after all times
TOLD = "_weir_marks"  # the column of what a part of a stream is told before an event
STREAM_NUMBER = "_weir_stream"  # the column with the number of the stream that an event came in, of several
NO_EVENT = -1  # the `_seq` of a row that is there for what it tells alone
HOLD_MS = 3_600_000  # for how long a partition that gives nothing holds up what waits for others as well


class Punctuality(Protocol):
    """Bounds of a fold on events out of order, in ms: how much later than the latest of their partition they may come,
    how far ahead of their arrival they move its mark, and after which silence nothing more is waited for (None: it
    is)."""

    @property
    def lateness(self) -> int: ...

    @property
    def ahead(self) -> int: ...

    @property
    def idle(self) -> int | None: ...


def hold_ms(punctuality: Punctuality) -> int:
    """The silence in ms after which a partition holds up nobody else."""
    return HOLD_MS if punctuality.idle is None else punctuality.idle


def start() -> dict[str, Any]:
    """A new state's members, besides its fold's own. ``floor`` is where the mark of a partition begins that has not
    been heard of, ``clock`` the latest arrival, ``late`` how many events came too late."""
    return {"partitions": {}, "floor": NEVER, "clock": NEVER, "late": 0}


def is_of_one_mark(state: dict[str, Any]) -> bool:
    """True where a state is of a version that kept one mark for all partitions."""
    return "partitions" not in state


def divide(state: dict[str, Any], mark: int | None, born: int, punctuality: Punctuality) -> None:
    """Give a state of one mark marks by partition.

    Parameters
    ----------
    mark : int, optional
        The mark that each partition begins with, but not beyond what has arrived by now.
    """
    furthest = born + punctuality.ahead - punctuality.lateness
    state.update(start(), floor=NEVER if mark is None else min(mark, furthest))


def arrive(state: dict[str, Any], seq: int, born: int, punctuality: Punctuality) -> tuple[str, bool]:
    """Note an event's arrival.

    Parameters
    ----------
    seq, born : int
        Weir's columns of the event.

    Returns
    -------
    tuple of str and bool
        The event's partition, and whether another one has fallen silent meanwhile.
    """
    name = str(partition_of(seq))
    return name, hear(state, name, born, punctuality)


def hear(state: dict[str, Any], name: str, born: int, punctuality: Punctuality) -> bool:
    """Note that something of a partition has arrived; whether another one has fallen silent meanwhile."""
    partitions, fell = state["partitions"], False
    # What a state of one mark has open is due for whichever partition comes first.
    first = None if state["floor"] == NEVER else NEVER
    partition = partitions.get(name)
    if partition is None:
        partition = partitions[name] = {"mark": state["floor"], "born": born, "next": first, "silent": False}
    if born > partition["born"]:
        partition["born"] = born
    partition["silent"] = False
    if born > state["clock"]:
        state["clock"] = born
        if len(partitions) > 1:
            hold = hold_ms(punctuality)
            for neighbour in partitions.values():
                if not neighbour["silent"] and born - neighbour["born"] >= hold:
                    neighbour["silent"] = fell = True
    return fell


def advance(partition: dict[str, Any], time: int, born: int, punctuality: Punctuality) -> None:
    """Move a partition's mark on by an event.

    Parameters
    ----------
    partition : dict
        The partition's, as the state has it; changed in place.
    time, born : int
        Weir's columns of the event.
    """
    reach(partition, min(time, born + punctuality.ahead), punctuality)


def reach(partition: dict[str, Any], time: int, punctuality: Punctuality) -> None:
    """Move a partition's mark forward to that time, if it is later."""
    partition["mark"] = max(partition["mark"], time - punctuality.lateness)


def marks_in(text: str) -> Iterator[tuple[str, int, int]]:
    """Marks that a part has received: partitions, how far each has come, and when the latest of its events arrived, in
    turn. One may come several times."""
    for entry in text.split(";"):
        name, time, born = entry.split(",")
        yield name, int(time), int(born)


def of_stream(stream: int, partition: str) -> str:
    """The name of a partition of one of several streams."""
    return f"{stream}.{partition}"


def is_of_stream(name: str) -> bool:
    """True where a partition's name is that of one of several streams."""
    return "." in name


def streams_in(state: dict[str, Any]) -> int:
    """The number of streams, of several, that have been heard of."""
    return len({name.partition(".")[0] for name in state["partitions"]})


def settled(state: dict[str, Any], names: Iterable[str]) -> int:
    """The least mark of these partitions, silent ones too."""
    partitions = state["partitions"]
    return min((partitions[name]["mark"] for name in names if name in partitions), default=state["floor"])


def expect(partition: dict[str, Any], moment: int) -> None:
    """Something of a partition is due at that moment, or before."""
    partition["next"] = moment if partition["next"] is None else min(partition["next"], moment)


def is_due(partition: dict[str, Any]) -> bool:
    """True where something of a partition may be due by its mark."""
    return partition["next"] is not None and partition["next"] <= partition["mark"]


def least(state: dict[str, Any], names: Iterable[str], punctuality: Punctuality) -> int:
    """The mark of what waits for these partitions; where they are not known, of whichever has come furthest."""
    partitions = state["partitions"]
    if len(partitions) == 1:  # as most have
        [only] = partitions.values()
        return FOREVER if only["silent"] and punctuality.idle is not None else only["mark"]
    waited_for = [partitions[name] for name in names if name in partitions]
    if not waited_for:
        return max((partition["mark"] for partition in partitions.values()), default=state["floor"])
    heard = [partition["mark"] for partition in waited_for if not partition["silent"]]
    if heard:
        return min(heard)
    return min(partition["mark"] for partition in waited_for) if punctuality.idle is None else FOREVER


def silence(state: dict[str, Any]) -> None:
    """Nothing has come from any partition for as long as is waited for."""
    for partition in state["partitions"].values():
        partition["silent"] = True


# What states of all keys have by key. Folds that go by marks keep one state, for their keys have the marks in common.
_PAIRED = ("left", "right")  # these keys' texts stand behind a sign
_BY_KEY = ("keys", "passed", *_PAIRED)


def is_of_all_keys(state: Any) -> bool:
    """True where a state is that of a fold whose keys have their marks in common."""
    return isinstance(state, dict) and {"partitions", "floor", "clock", "late"} <= state.keys() and any(
        member in state for member in _BY_KEY)


def of_keys(state: Mapping[str, Any], has: Callable[[str], bool]) -> dict[str, Any]:
    """A state of all keys with some of these alone, and all marks. What has windows is to look when the next closes."""
    partitions = {
        name: {**partition, "next": NEVER if "keys" in state else partition["next"]}
        for name, partition in state["partitions"].items()}
    return {**state, "partitions": partitions, **{
        member: {key: value for key, value in state[member].items() if has(key[1:] if member in _PAIRED else key)}
        for member in _BY_KEY if member in state}}


def joined(state: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Two states with the keys of both, from which their bundles ended at the same place of a stream: so both had the
    same marks, but that a bundle without events knows of no partition."""
    partitions = dict(state["partitions"])
    for name, theirs in other["partitions"].items():
        mine = partitions.get(name, theirs)
        partitions[name] = {
            **mine, **{member: max(mine[member], theirs[member]) for member in ("mark", "born")},
            "silent": mine["silent"] and theirs["silent"]}
    furthest = {
        member: max(state[member], other[member]) for member in ("floor", "clock", "swept") if member in state}
    if "begun" in state:  # of a join
        furthest["sides"] = max(state["sides"], other["sides"], key=len)
        for member in ("begun", "next"):
            furthest[member] = min((part[member] for part in (state, other) if part[member] is not None), default=None)
    return {**state, **furthest, "partitions": partitions, **{
        member: {**state[member], **other[member]} for member in _BY_KEY if member in state}}
