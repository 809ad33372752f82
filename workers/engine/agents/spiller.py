"""Spiller: keeps a slow reader from holding back a stream that others need.

Where a reader has held a shared channel full for long enough, its node takes what it has not read from the broker to
disk. The reader goes on from there by the same block ids, and in the channel when it has caught up; the others notice
nothing. See docs/decisions/0041-slow-readers-spill.md.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import redis

from scheduler.contracts.desired import DesiredState
from scheduler.contracts.offsets import Offset
from workers.engine.channels.registry import ChannelInfo, Channels
from workers.engine.channels.spill import ChannelSpill

from .logs import logger

TURN_S = 0.5
CHUNK_BLOCKS = 64  # that are in memory at once

Reader = tuple[str, str]  # channel, fragment or bundle


@dataclass(frozen=True, slots=True)
class Spilled:
    """What a node has on disk for one reader: bytes, since when (ms since the epoch), and why it takes no more."""

    channel: str
    size: int
    since_ms: int
    refused: str = ""


@dataclass(slots=True)
class _State:
    held_since_ms: int | None = None
    since_ms: int | None = None
    refused: str = ""
    size: int = field(default=0)


def shared_inputs(desired: DesiredState) -> frozenset[Reader]:
    """The channels that fragments of a node read, or read to the end, and that also serve dataflows of others."""
    fragments = [*desired.wanted.values(), *desired.outgoing.values()]
    return frozenset(
        (item.channel, fragment.id) for fragment in fragments for item in fragment.inputs if item.shared)


class Spiller:
    """Spills for the readers of one node.

    Parameters
    ----------
    channels : Channels
        The broker's side.
    folder : Path
        What is on disk, a folder a channel.
    readers : callable
        The readers that may be spilled for; asked each turn.
    hold_ms : int
        For how long a reader may hold back others.
    most_bytes : int
        How much may be on disk for the whole node.
    """

    def __init__(
        self, channels: Channels, folder: Path, *, readers: Callable[[], frozenset[Reader]], hold_ms: int,
        most_bytes: int,
    ) -> None:
        self._channels = channels
        self._folder = folder
        self._readers = readers
        self._hold_ms = hold_ms
        self._most_bytes = most_bytes
        self._states: dict[Reader, _State] = {}
        self._spills: dict[str, ChannelSpill] | None = None  # by channel; None until the first turn

    def turn(self, now_ms: int) -> None:
        """Look at every reader once, and do what is due.

        Raises
        ------
        redis.RedisError
            The broker does not answer: what was done stands, and the next turn goes on.
        """
        if self._spills is None:
            names = [path.name for path in self._folder.iterdir()] if self._folder.is_dir() else []
            self._spills = {name: ChannelSpill(self._folder / name) for name in names}
        readers = self._readers()
        infos, _ = self._channels.look(sorted({channel for channel, _ in readers} | self._spills.keys()))
        for channel, reader in sorted(readers):
            info = infos.get(channel)
            if info is not None and reader in info.readers:
                self._serve(info, reader, now_ms)
            else:
                self._states.pop((channel, reader), None)
        self._states = {key: state for key, state in self._states.items() if key in readers}
        for channel in list(self._spills):
            self._prune(channel, infos.get(channel))

    def spilled(self) -> Mapping[str, Spilled]:
        """What is on disk, by reader; of one that reads several such streams, the largest."""
        largest: dict[str, Spilled] = {}
        for (channel, reader), state in sorted(list(self._states.items()), key=lambda item: item[1].size):
            since_ms = state.since_ms or (state.held_since_ms if state.refused else None)
            if since_ms is not None:
                largest[reader] = Spilled(channel, state.size, since_ms, state.refused)
        return largest

    def _serve(self, info: ChannelInfo, reader: str, now_ms: int) -> None:
        state = self._states.setdefault((info.channel, reader), _State())
        spill = self._spills.get(info.channel)
        place, known = info.readers[reader], info.spills.get(reader)
        needs_from = max(place, known or place)
        holds_back = self._holds_back(info, reader, needs_from)
        on_disk = needs_from if spill is None else spill.end_of(needs_from)
        if on_disk > needs_from and (needs_from < info.trimmed or holds_back):
            # An heir, or another slow reader: what it needs is there already.
            needs_from = known = self._channels.spill(info.channel, reader, on_disk) or needs_from
            holds_back = self._holds_back(info, reader, needs_from)
        is_behind = known is not None and place < known
        if known is not None and not is_behind:
            self._channels.spill(info.channel, reader, place)  # it has caught up: the mark goes
        state.since_ms = (state.since_ms or now_ms) if is_behind else None
        state.size = spill.behind(place) if spill is not None and is_behind else 0
        if not holds_back:
            state.held_since_ms, state.refused = None, ""
            return
        if state.held_since_ms is None and (info.is_full or is_behind):
            state.held_since_ms = now_ms
        if state.held_since_ms is not None and (is_behind or now_ms - state.held_since_ms >= self._hold_ms):
            self._take(info, reader, needs_from, state, now_ms)

    def _holds_back(self, info: ChannelInfo, reader: str, needs_from: Offset) -> bool:
        """Whether nobody reads more slowly, and the channel is more than half full of what this one needs."""
        slowest = min(max(place, info.spills.get(name, place)) for name, place in info.readers.items())
        return needs_from < info.last and needs_from <= slowest and info.blocks > info.retain + info.capacity // 2

    def _take(self, info: ChannelInfo, reader: str, needs_from: Offset, state: _State, now_ms: int) -> None:
        """Take to disk what the reader needs, until the channel is a quarter full."""
        spill = self._spills.setdefault(info.channel, ChannelSpill(self._folder / info.channel))
        after, wanted, state.refused = needs_from, info.blocks - info.retain - info.capacity // 4, ""
        while wanted > 0:
            if sum(known.size for known in self._spills.values()) >= self._most_bytes:
                state.refused = "full"
                break
            entries = self._channels.entries(info.channel, after=after, count=min(wanted, CHUNK_BLOCKS))
            next_start = spill.room_after(after)
            entries = [entry for entry in entries if next_start is None or entry.offset <= next_start]
            if not entries:
                break
            try:
                spill.append(after, entries)
            except OSError as error:
                state.refused = error.strerror or str(error)
                break
            after, wanted = spill.end_of(after), wanted - len(entries)
        if after > needs_from:
            state.since_ms = state.since_ms or now_ms
            self._channels.spill(info.channel, reader, after)
            state.size = spill.behind(info.readers[reader])

    def _prune(self, channel: str, info: ChannelInfo | None) -> None:
        spill = self._spills[channel]
        spill.prune(info.readers.values() if info is not None else ())
        if not spill.size:
            del self._spills[channel]
            shutil.rmtree(spill.folder, ignore_errors=True)


class SpillThread(threading.Thread):
    """Turns a spiller until it is stopped."""

    def __init__(self, spiller: Spiller, *, clock_ms: Callable[[], int]) -> None:
        super().__init__(name="spiller", daemon=True)
        self._spiller = spiller
        self._clock_ms = clock_ms
        self._stopping = threading.Event()

    def stop(self) -> None:
        """End after the turn that is under way."""
        self._stopping.set()

    def run(self) -> None:
        """Turn until stopped; a turn that fails is logged once, and the next one tries again."""
        problem = ""
        while not self._stopping.wait(TURN_S):
            try:
                self._spiller.turn(self._clock_ms())
                problem = ""
            except (redis.RedisError, OSError) as error:
                if str(error) != problem:
                    problem = str(error)
                    logger().warning("a slow reader was not served", error=problem)


def documents(spilled: Mapping[str, Spilled]) -> Iterator[tuple[str, dict[str, object]]]:
    """What a node reports of each reader."""
    for reader, spill in spilled.items():
        yield reader, {
            "channel": spill.channel, "mb": round(spill.size / 2**20, 3), "since_ms": spill.since_ms,
            "refused": spill.refused}
