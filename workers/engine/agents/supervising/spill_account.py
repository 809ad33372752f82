"""The account of blocks on disk for slow readers: which reader needs which segment, and what each team is charged.
Pure.

Readers of the same segment share it in equal parts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from scheduler.contracts.offsets import Offset
from workers.engine.channels.channel_info import ChannelInfo
from workers.engine.channels.spill import ChannelSpill, Segment

MOST_READERS = 1_000  # whose counters are kept
Reader = tuple[str, str]  # channel, fragment or bundle


def parts_of(spill: ChannelSpill, info: ChannelInfo, node_readers: Collection[str]) -> dict[str, int]:
    """By reader of a channel that is the node's own, its part in bytes of what the node has on disk of it."""
    parts: dict[str, int] = {}
    for segment in spill.segments:
        readers = [
            reader for reader, offset in info.readers.items()
            if reader in node_readers and _needs(info, reader, offset, segment)]
        for reader in readers:
            parts[reader] = parts.get(reader, 0) + segment.size // len(readers)
    return parts


def _needs(info: ChannelInfo, reader: str, offset: Offset, segment: Segment) -> bool:
    spilled_to = info.spills.get(reader)
    return spilled_to is not None and info.reads_on_after(reader, offset) < segment.end and segment.start < spilled_to


def by_team(parts: Mapping[Reader, int], teams: Mapping[Reader, Iterable[str]]) -> dict[str, int]:
    """The size of what each team's readers have on disk, in bytes; a reader that several teams need counts its even
    part for each."""
    taken: dict[str, int] = {}
    for reader, size in parts.items():
        team_names = tuple(teams.get(reader, ()))
        for team in team_names:
            taken[team] = taken.get(team, 0) + size // len(team_names)
    return taken


@dataclass(slots=True)
class SpillMeter:
    """Adds up bytes over time for each reader, since the agent began.

    Attributes
    ----------
    kb_s : dict of str to float
        By reader: KB that were on disk for it, times the seconds that they were.
    """

    kb_s: dict[str, float] = field(default_factory=dict)
    _last_ms: int | None = None

    def add(self, parts: Mapping[Reader, int], *, now_ms: int) -> None:
        """Count what was on disk since the last time."""
        if self._last_ms is not None and now_ms > self._last_ms:
            for (_, reader), size in parts.items():
                total = self.kb_s.pop(reader, 0.0)  # the newest stand last
                self.kb_s[reader] = total + size / 1000 * (now_ms - self._last_ms) / 1000
            while len(self.kb_s) > MOST_READERS:
                del self.kb_s[next(iter(self.kb_s))]
        self._last_ms = now_ms
