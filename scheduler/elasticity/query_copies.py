"""Copies of a query's state on other nodes: their holders, the losses that they survive, and the copy to go on from.

A copy is of one batch: its state, and the last entry of each input that the batch read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from scheduler.model.xxhash64 import xxhash64

from .copies import BundleHome, next_home

Entry = tuple[int, int]  # of a channel: the batch that wrote it, and its number there
MOST_NOTED = 1_000  # batches that a copy lacks


@dataclass(frozen=True, slots=True)
class CopiedQuery:
    """A query whose state is copied: its node, the size of its state in bytes, and the nodes that hold it so far."""

    node: str
    state_bytes: int
    holders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HoldingNode:
    """A node that may hold copies: its fault zone, and the bytes that copies of other nodes' queries may take there."""

    zone: str
    room_bytes: int


@dataclass(frozen=True, slots=True)
class BatchCopy:
    """A copy at a holder: of which batch, and by channel the last entry which that had read.

    Batches are counted on by whoever goes on with the query. Where its channels change while it works, copies of some
    batches lack one that others have. ``is_whole`` once all of it is on the holder's disk. Only a whole copy is one.
    """

    holder: str
    batch: int
    places: Mapping[str, Entry]
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class CopiedPlaces:
    """The ``holders`` whose copies count, the newest first, and up to which entry each input of the query may be freed.

    Once that is done, copies of batches before ``kept_from`` count no more. Channels that are not ``needed`` were read
    to their end, and left out since: nothing has to be kept there.
    """

    holders: tuple[str, ...]
    freed_to: Mapping[str, Entry]
    kept_from: int
    needed: frozenset[str]

    @property
    def survives(self) -> int:
        """The number of machines whose simultaneous loss the query survives."""
        return len(self.holders)


def choose_holders(
    queries: Mapping[str, CopiedQuery], nodes: Mapping[str, HoldingNode], *, copies: int
) -> Mapping[str, tuple[str, ...]]:
    """Nodes that are to hold each query's state, by rendezvous hashing (Thaler and Ravishankar, 1998) within zones.

    Zones take turns, as on a ring (`copies.next_home`). Within a zone a node that has a copy keeps it; then the highest
    hash of query and node decides, so that the copies of a lost node spread over many. Present copies take precedence
    for room. Where no node has room there are fewer copies.

    Parameters
    ----------
    queries : Mapping
        By name. Queries of lost nodes count only with the copies that are held.
    copies : int
        Copies besides the state on the query's own node, from 0: r of the thesis.
    """
    free = {name: node.room_bytes for name, node in nodes.items()}
    staying: dict[str, list[str]] = {}
    for name, query in sorted(queries.items()):
        staying[name] = []
        for holder in dict.fromkeys(query.holders):
            if holder != query.node and free.get(holder, -1) >= query.state_bytes:
                free[holder] -= query.state_bytes
                staying[name].append(holder)
    chosen: dict[str, tuple[str, ...]] = {}
    for name, query in sorted(queries.items()):
        chosen[name] = _chosen(name, query, staying[name], nodes, free, copies)
        for holder in staying[name]:
            free[holder] += query.state_bytes
        for holder in chosen[name]:
            free[holder] -= query.state_bytes
    return chosen


def _chosen(
    name: str, query: CopiedQuery, staying: Sequence[str], nodes: Mapping[str, HoldingNode], free: Mapping[str, int],
    copies: int
) -> tuple[str, ...]:
    others = sorted(nodes.keys() - set(staying), key=lambda node: (-xxhash64(f"{name} {node}".encode()), node))
    order = [*staying, *(node for node in others if free[node] >= query.state_bytes)]
    homes = {node: BundleHome(node, holding.zone) for node, holding in nodes.items()}
    taken = [homes.get(query.node, BundleHome(query.node, ""))]
    holders: list[str] = []
    while len(holders) < copies:
        holder = next_home(taken, ((node, homes[node]) for node in order))
        if holder is None:
            break
        holders.append(holder)
        taken.append(homes[holder])
    return tuple(holders)


def copied_places(
    query: BatchCopy, copies: Collection[BatchCopy], living: Collection[str], *, kept_from: int
) -> CopiedPlaces:
    """The losses that the counted copies survive, and the entries that neither they nor the query still need.

    Any of the copies may be the last one left. So an input is freed up to the oldest copy's offset, if all copies have
    one: a copy without it is older than the input, or has dropped it since. Without copies nothing is freed.

    Parameters
    ----------
    query : BatchCopy
        The state on the query's own node. It may be older than a copy whose holder was away when the query took over.
    living : Collection of str
        The nodes that answer.
    kept_from : int
        The oldest batch that was kept when entries were last freed; 0 before that.
    """
    by_holder = counting_copies(copies, set(living) - {query.holder}, kept_from=kept_from)
    counting = by_holder.values()
    all_ = [query, *counting]
    shared = set(query.places).intersection(*(copy.places for copy in counting)) if counting else set()
    return CopiedPlaces(
        tuple(by_holder), {channel: min(copy.places[channel] for copy in all_) for channel in sorted(shared)},
        max(kept_from, min(copy.batch for copy in all_)) if counting else kept_from,
        frozenset(channel for copy in all_ for channel in copy.places))


def counting_copies(
    copies: Collection[BatchCopy], living: Collection[str], *, kept_from: int
) -> Mapping[str, BatchCopy]:
    """The counted copies by living holder, the newest first: its newest whole copy, unless what comes next for that is
    freed: it was away meanwhile."""
    whole = sorted((copy for copy in copies if copy.is_whole and copy.holder in living), key=lambda copy: copy.batch)
    newest = {copy.holder: copy for copy in whole}
    return {
        copy.holder: copy for copy in sorted(newest.values(), key=lambda copy: (-copy.batch, copy.holder))
        if copy.batch >= kept_from}


def lacked_batches(
    noted_ms: Mapping[int, int] | None, *, begun: int, copied: int, whole_ms: int, now_ms: int
) -> dict[int, int]:
    """The batches that the oldest copy of a query lacks, with when each was seen first; none where it has all.

    Parameters
    ----------
    noted_ms : mapping or None
        The result of the look before; None before the first one.
    begun, copied : int
        The number of batches that the query has begun, and of those that the copy has.
    whole_ms : int
        The time when the copy was whole: the first look cannot know more of what it lacks.
    """
    lacked_ms = {batch: at_ms for batch, at_ms in (noted_ms or {}).items() if batch > copied}
    if begun > copied and begun not in lacked_ms:
        is_full = len(lacked_ms) >= MOST_NOTED  # then what begins counts as old as the last one that was noted
        since_ms = lacked_ms.pop(max(lacked_ms)) if is_full else now_ms
        lacked_ms[begun] = whole_ms if noted_ms is None else since_ms
    return lacked_ms
