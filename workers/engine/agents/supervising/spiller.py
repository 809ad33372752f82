"""Spiller: keeps a slow reader from holding back a stream that others need.

Where a reader has held a shared channel full for long enough, its node takes what it has not read from the broker to
disk. The reader goes on from there by the same block ids, and in the channel when it has caught up; the others notice
nothing. Where its team chose so, it is asked to give up the oldest instead, and what it reads meanwhile is on disk. See
docs/decisions/0041-slow-readers-spill.md and 0042-a-team-chooses-for-its-slow-readers.md.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import redis

from scheduler.contracts.desired import DesiredState
from scheduler.contracts.offsets import Offset
from scheduler.contracts.reports import LossReport, SpillReport
from scheduler.model.behind import LOSE_OLDEST, SPILL
from workers.engine.channels.channel_info import ChannelInfo
from workers.engine.channels.channel_registry import Channels
from workers.engine.channels.spill import ChannelSpill
from workers.engine.slot_values import MOST_DIGITS, UNREADABLE

from ..agent_logs import logger
from ..reconciling.handover_stages import remote_successors
from .spill_account import Reader, SpillMeter, by_team, parts_of

TURN_S = 0.5
CHUNK_BLOCKS = 64  # that are in memory at once
FULL, TEAM_FULL = "full", "team_full"


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a reader: the choice for when it is behind, and the teams that need it."""

    when_behind: str = SPILL
    teams: tuple[str, ...] = ()


@dataclass(slots=True)
class _State:
    held_since_ms: int | None = None
    since_ms: int | None = None
    refused: str = ""
    size: int = 0


def shared_inputs(desired: DesiredState) -> dict[Reader, Terms]:
    """The channels that fragments of a node read, or read to the end, and that also serve dataflows of others.

    One that goes on on another node gets no more on this one's disk, where its heir could not read it.
    """
    outgoing = (fragment for fragment in desired.outgoing.values() if not remote_successors(desired, fragment.id))
    fragments = [*outgoing, *desired.wanted.values()]
    return {
        (item.channel, fragment.id): Terms(item.when_behind, item.teams)
        for fragment in fragments for item in fragment.inputs if item.shared}


class Spiller:
    """Spills for the readers of one node.

    Parameters
    ----------
    readers : callable
        The readers that may be spilled for, each with its terms; asked each turn.
    hold_ms : int
        For how long a reader may hold back others.
    most_bytes : int
        The most bytes on disk for the whole node.
    team_bytes : int, optional
        The most of these for the readers of one team; all of them if not given.
    """

    def __init__(
        self, channels: Channels, folder: Path, *, readers: Callable[[], Mapping[Reader, Terms]], hold_ms: int,
        most_bytes: int, team_bytes: int | None = None,
    ) -> None:
        self._channels = channels
        self._folder = folder
        self._readers = readers
        self._hold_ms = hold_ms
        self._most_bytes = most_bytes
        self._team_bytes = most_bytes if team_bytes is None else team_bytes
        self._states: dict[Reader, _State] = {}
        self._spills: dict[str, ChannelSpill] | None = None  # by channel; None until the first turn
        self._terms: Mapping[Reader, Terms] = {}
        self._bytes_by_team: dict[str, int] = {}  # bytes by team
        self._meter = SpillMeter()
        self._losses: tuple[LossReport, ...] = ()
        self._problems: dict[str, str] = {}  # by channel, what was logged of it

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
        self._terms = self._readers()
        infos, unread = self._channels.look_apart(
            sorted({channel for channel, _ in self._terms} | self._spills.keys()))
        self._count(infos, now_ms)
        for channel, reader in sorted(self._terms):
            info = infos.get(channel)
            if info is not None and reader in info.readers:
                with self._apart(channel):
                    self._serve(info, reader, now_ms)
            else:
                self._states.pop((channel, reader), None)
        self._states = {key: state for key, state in self._states.items() if key in self._terms}
        for channel in self._spills.keys() - unread:
            self._prune(channel, infos.get(channel))

    @contextmanager
    def _apart(self, channel: str) -> Iterator[None]:
        """A context in which what a slot wrote of a channel, and is none, stops what is done for that channel alone."""
        try:
            yield
        except UNREADABLE as error:
            if (problem := f"{type(error).__name__}: {error}"[:300]) != self._problems.get(channel):
                self._problems[channel] = problem
                logger().warning("a slow reader was not served", channel=channel, error=problem)

    def spilled(self) -> dict[str, SpillReport]:
        """Reports on blocks on disk, by reader that is behind; of one that reads several such streams, the largest."""
        largest: dict[str, SpillReport] = {}
        for (channel, reader), state in sorted(list(self._states.items()), key=lambda item: item[1].size):
            since_ms = state.since_ms or (state.held_since_ms if state.refused else None)
            if since_ms is not None:
                terms = self._terms.get((channel, reader), Terms())
                largest[reader] = SpillReport(
                    channel, round(state.size / 2**20, 3), since_ms, state.refused, terms.when_behind)
        return largest

    def report(self) -> dict[str, Any]:
        """The report of the node on its slow readers: fields of `NodeReport`."""
        return {
            "spills": {reader: asdict(spill) for reader, spill in self.spilled().items()},
            "spilled_kb_s": {reader: round(total) for reader, total in list(self._meter.kb_s.items())},
            "losses": [asdict(loss) for loss in self._losses],
        }

    def _count(self, infos: Mapping[str, ChannelInfo], now_ms: int) -> None:
        """Who has how much on disk, and who lost how much so far."""
        parts: dict[Reader, int] = {}
        for channel, spill in self._spills.items():
            if channel in infos:
                readers = {reader for name, reader in self._terms if name == channel}
                parts |= {(channel, name): size for name, size in parts_of(spill, infos[channel], readers).items()}
        self._meter.add(parts, now_ms=now_ms)
        self._bytes_by_team = by_team(parts, {reader: terms.teams for reader, terms in self._terms.items()})
        self._losses = tuple(
            LossReport(reader, channel, lost.blocks, lost.events)
            for channel, info in sorted(infos.items()) for reader, lost in sorted(info.lost.items())
            if (channel, reader) in self._terms and max(lost.blocks, lost.events) < 10**MOST_DIGITS)

    def _serve(self, info: ChannelInfo, reader: str, now_ms: int) -> None:
        state = self._states.setdefault((info.channel, reader), _State())
        spill = self._spills.get(info.channel)
        offset, spilled_to = info.readers[reader], info.spills.get(reader)
        needs_from = max(offset, spilled_to or offset)
        holds_back = self._holds_back(info, needs_from)
        on_disk = needs_from if spill is None else spill.end_of(needs_from)
        if on_disk > needs_from and (needs_from < info.trimmed or holds_back):
            # An heir, or another slow reader: what it needs is there already.
            needs_from = spilled_to = self._channels.spill(info.channel, reader, on_disk) or needs_from
            holds_back = self._holds_back(info, needs_from)
        is_behind = spilled_to is not None and offset < spilled_to
        if spilled_to is not None and not is_behind:
            self._channels.spill(info.channel, reader, offset)  # it has caught up: the mark goes
        state.since_ms = (state.since_ms or now_ms) if is_behind else None
        state.size = spill.behind(offset) if spill is not None and is_behind else 0
        if not holds_back:
            state.held_since_ms, state.refused = None, ""
        else:
            if state.held_since_ms is None and (info.is_full or is_behind):
                state.held_since_ms = now_ms
            if state.held_since_ms is not None and (is_behind or now_ms - state.held_since_ms >= self._hold_ms):
                spilled_to = self._take(info, reader, needs_from, state, now_ms)
                is_behind = True
        self._let_lose(info, reader, spilled_to if is_behind else None)

    def _let_lose(self, info: ChannelInfo, reader: str, spilled_to: Offset | None) -> None:
        """Ask a reader that is behind to give up the oldest, where its team chose so; take that back where not."""
        skip = info.skips.get(reader)
        is_due = (
            spilled_to is not None and self._terms[info.channel, reader].when_behind == LOSE_OLDEST
            and (skip is None or spilled_to > skip.to))
        if is_due and reader not in info.losing:
            self._channels.ask_to_lose(info.channel, reader, keep_blocks=max(1, info.capacity // 4))
        elif reader in info.losing and not is_due:
            self._channels.ask_to_lose_nothing(info.channel, reader)

    def _holds_back(self, info: ChannelInfo, needs_from: Offset) -> bool:
        """Whether nobody reads more slowly, and the channel is more than half full of what this one needs."""
        return needs_from < info.last and needs_from <= min(info.holders.values()) and (
            info.filling > info.retain + info.capacity // 2)

    def _take(self, info: ChannelInfo, reader: str, needs_from: Offset, state: _State, now_ms: int) -> Offset:
        """Take to disk what the reader needs, until the channel is a quarter full; up to where it is there then."""
        spill = self._spills.setdefault(info.channel, ChannelSpill(self._folder / info.channel))
        after, blocks_due, state.refused = needs_from, info.filling - info.retain - info.capacity // 4, ""
        while blocks_due > 0:
            state.refused = self._why_full(info.channel, reader)
            if state.refused:
                break
            entries = self._channels.entries(info.channel, after=after, count=min(blocks_due, CHUNK_BLOCKS))
            next_start = spill.room_after(after)
            entries = [entry for entry in entries if next_start is None or entry.offset <= next_start]
            if not entries:
                break
            try:
                spill.append(after, entries)
            except OSError as error:
                state.refused = error.strerror or str(error)
                break
            self._add_to_teams(info.channel, reader, sum(len(entry.payload) for entry in entries))
            after, blocks_due = spill.end_of(after), blocks_due - len(entries)
        if after > needs_from:
            state.since_ms = state.since_ms or now_ms
            self._channels.spill(info.channel, reader, after)
            state.size = spill.behind(info.readers[reader])
        return after

    def _why_full(self, channel: str, reader: str) -> str:
        """Why no more may be on disk for a reader, or nothing."""
        if sum(spill.size for spill in self._spills.values()) >= self._most_bytes:
            return FULL
        teams = self._terms[channel, reader].teams
        if teams and all(self._bytes_by_team.get(team, 0) >= self._team_bytes for team in teams):
            return TEAM_FULL
        return ""

    def _add_to_teams(self, channel: str, reader: str, size: int) -> None:
        teams = self._terms[channel, reader].teams
        for team in teams:
            self._bytes_by_team[team] = self._bytes_by_team.get(team, 0) + size // len(teams)

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
            except (redis.RedisError, OSError, *UNREADABLE) as error:
                if str(error) != problem:
                    problem = str(error)
                    logger().warning("a slow reader was not served", error=problem)
