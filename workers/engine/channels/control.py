"""A fragment's control hash: outlets, the tail, and routes, and the batch from which each change is in force.

Whoever sees a change first sets its boundary, the next batch, unless it is set already: so that every valve of the
fragment changes between two batches, and decides the same way where a batch is repeated. Valves do so in
``Control.java``; here it is done for a fragment at rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import itemgetter

import redis

from scheduler.contracts.partitioning import Partitioning, partitioning_of

from . import keys

_ROUTE = re.compile(r"(?P<position>\d+):(?:route:(?P<reader>[^:]+)|(?P<of>alternate|keys)):(?P<number>\d+)")
WAS = "was:"  # before the field of a change that was forgotten, while there are copies of the query's state
WAVE = "wave:"  # and the first batch of it
PART = ":part:"  # between position and bundle: a part of a stream that was opened
# In the place of a reader: which alternate works at an element is a route, too, with one part; or for which key.
_ELEMENT, _KEYS = "", ":"


@dataclass(frozen=True, slots=True)
class Route:
    """The division of a stream among the bundles of one reader, by the last request.

    ``partitioning``: without bundles if the stream is no longer to be divided for the reader; ``from_batch``: the first
    batch with this division, None until the writer's valve has set it; ``effective``: that batch has begun, and all
    before it are done, so bundles that are not in ``partitioning`` get no more events.
    """

    partitioning: Partitioning
    from_batch: int | None
    effective: bool


@dataclass(frozen=True, slots=True)
class RouteChange:
    """One change of a route: its field in the control hash, what it says (JSON), and its first batch."""

    field: str
    text: str
    from_batch: int | None

    @property
    def partitioning(self) -> Partitioning:
        """The partitioning of the stream among part channels."""
        return partitioning_of(json.loads(self.text))


def route_prefix(position: int, reader: str) -> str:
    """The prefix of the fields of a route's changes; their numbers follow."""
    return f"{position}:route:{reader}:"


def alternate_prefix(position: int) -> str:
    """The prefix of the fields that say which alternate works at an element; their numbers follow."""
    return f"{position}:alternate:"


def keys_prefix(position: int) -> str:
    """The prefix of the fields that say which alternate works for which key; their numbers follow."""
    return f"{position}:keys:"


def changes_of(state: Mapping[str, str]) -> dict[tuple[int, str], list[RouteChange]]:
    """The changes of each route in a control hash, oldest first, by position and reader; an element's without one."""
    numbered: dict[tuple[int, str], list[tuple[int, RouteChange]]] = {}
    for field, value in state.items():
        match = _ROUTE.fullmatch(field)
        if match:
            first = state.get(f"{field}:from")
            change = RouteChange(field, value, None if first is None else int(first))
            reader = match["reader"] or (_KEYS if match["of"] == "keys" else _ELEMENT)
            route = numbered.setdefault((int(match["position"]), reader), [])
            route.append((int(match["number"]), change))
    return {
        key: [change for _, change in sorted(route, key=itemgetter(0))]
        for key, route in sorted(numbered.items())
    }


def routes_of(state: Mapping[str, str]) -> dict[tuple[int, str], Route]:
    """The routes that a control hash asks for, by position and reader."""
    return {
        key: replace(route, partitioning=route.partitioning.renamed(keys.reader_of))
        for key, route in _newest(state).items() if key[1] != _ELEMENT}


def alternates_of(state: Mapping[str, str]) -> dict[int, tuple[str, bool]]:
    """The alternate that is to work at each element, by position, and whether all batches before its first are done."""
    return {
        position: (route.partitioning.bundles[0], route.effective)
        for (position, reader), route in _newest(state).items() if reader == _ELEMENT}


def active_of(state: Mapping[str, str], *, of: int) -> int:
    """The number of tasks that are to work, from the first, of so many."""
    return int(state["tail"]) + 1 if "tail" in state else of


def _newest(state: Mapping[str, str]) -> dict[tuple[int, str], Route]:
    routes = {}
    for key, changes in changes_of(state).items():
        if key[1] == _KEYS:
            continue
        newest = changes[-1]
        routes[key] = Route(
            newest.partitioning, newest.from_batch, effective=newest.from_batch is not None and len(changes) == 1)
    return routes


def begin_batch(connection: redis.Redis, fragment: str, batch_id: int) -> dict[str, str]:
    """Note in the control hash, for a valve, that a batch begins; the hash as the batch sees it.

    The boundary of every change that has none is set to the next batch, and what no batch can need any more is
    forgotten.
    """
    state = _fetch(connection, fragment)
    unset = without_boundary(state)
    for name in unset:
        connection.hsetnx(keys.valve(fragment), name, batch_id + 1)
    over = _overtaken(state, batch_id)
    if over and keys.COPIED in state:
        connection.hset(keys.valve(fragment), mapping={
            f"{WAS}{name}": state[name] for name in over if name in state})
    if over:
        connection.hdel(keys.valve(fragment), *over)
    return _fetch(connection, fragment) if unset else state


def _fetch(connection: redis.Redis, fragment: str) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in connection.hgetall(keys.valve(fragment)).items()}


def restored(state: Mapping[str, str]) -> dict[str, str]:
    """A control hash with the changes that were forgotten, which older batches were decided by."""
    return {**{name.removeprefix(WAS): value for name, value in state.items() if name.startswith(WAS)},
            **{name: value for name, value in state.items() if not name.startswith(WAS)}}


def forget_before(connection: redis.Redis, fragment: str, batch_id: int) -> None:
    """Forget the changes for good by which only batches before this one were decided."""
    state = _fetch(connection, fragment)
    whole = restored(state)
    waves = [int(name.removeprefix(WAVE)) for name in whole if name.startswith(WAVE)]
    newest = max((first for first in waves if first <= batch_id), default=-1)
    old = [*_overtaken(whole, batch_id), *(f"{WAVE}{first}" for first in waves if first < newest)]
    fields = [f"{WAS}{name}" for name in old if f"{WAS}{name}" in state]
    if fields:
        connection.hdel(keys.valve(fragment), *fields)


def is_route(field: str) -> bool:
    """True where a field of a control hash is a change of a route."""
    return _ROUTE.fullmatch(field) is not None


def without_boundary(state: Mapping[str, str]) -> list[str]:
    """The boundaries that changes in a control hash have still to get."""
    names = [
        name.replace(":outlet", ":from") for name, value in state.items()
        if name.endswith(":outlet") and value == "open"
    ]
    names += ["tail:from"] if "tail" in state else []
    names += [f"{name}:from" for name in state if _ROUTE.fullmatch(name)]
    return [name for name in names if name not in state]


def _overtaken(state: Mapping[str, str], batch_id: int) -> list[str]:
    """Fields of changes that a later one has followed: a batch that begins is the oldest that can be repeated."""
    fields: list[str] = []
    for changes in changes_of(state).values():
        begun = [change for change in changes if change.from_batch is not None and change.from_batch <= batch_id]
        is_over = begun == changes and begun[-1].text == "{}"  # the route ends, and nothing follows
        fields += [change.field for change in (begun if is_over else begun[:-1])]
    return [name for field in fields for name in (field, f"{field}:from")]
