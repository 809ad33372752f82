"""The history in the site's database: seconds are written as they come, coarser grains are made of them later.

Seconds are the log from which all grains are made. A killed process loses the seconds that it had not flushed. The next
tidying makes coarser points of stored seconds, one window in one transaction: whole or not at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dashboard.history import annotations, downsampling, point_reading, series_ids
from dashboard.history.block_layout import LAYOUTS
from dashboard.history.blocks import encoded, sharded
from dashboard.history.models import Block
from scheduler.history.points import Points
from scheduler.history.series import SECOND, Annotation, Grain, Series

MOST_WAITING_S = 60  # of seconds that cannot be written the oldest are given up


@dataclass(frozen=True, slots=True)
class _Second:
    """Values of one second, by the ids of their series."""

    at_s: int
    ids: NDArray[np.int64]
    values: NDArray[np.float32]


class DatabaseHistory:
    """A history in Django's database (``scheduler.history.port.History``).

    Any number of processes may read. One at a time appends and tidies; where two do, the first block of a time stays.
    An object is for one thread.
    """

    def __init__(self) -> None:
        self._ids: dict[Series, int] = {}
        self._lines: list[Series] = []
        self._lines_ids = np.empty(0, np.int64)
        self._waiting: deque[_Second] = deque(maxlen=MOST_WAITING_S)
        self._newest_s = -1

    def append(self, at_s: int, values: Mapping[Series, float]) -> None:
        """Take in what was measured in one second, newer than the last one."""
        if at_s <= self._newest_s:
            return
        numbers = self._numbers(list(values), at_s)
        self._newest_s = at_s
        measured = np.fromiter(values.values(), np.float32, len(values))
        present = ~np.isnan(measured)
        self._waiting.append(_Second(at_s, numbers[present], measured[present]))

    def _numbers(self, lines: list[Series], at_s: int) -> NDArray[np.int64]:
        """The ids of series; mostly the same ones in the same order as a second ago, and the same objects."""
        if lines != self._lines:
            ids = self._ids
            unknown = [series for series in lines if series not in ids]
            if unknown:
                ids |= series_ids.ids_of(unknown, at_s=at_s)
            self._lines = lines
            self._lines_ids = np.array([ids[series] for series in lines], np.int64)
        return self._lines_ids

    def flush(self) -> None:
        """Write the seconds that were appended; where that fails they wait for the next time."""
        waiting = list(self._waiting)
        blocks: list[Block] = []
        for group in _by_minute(waiting):
            blocks += _blocks_of(group)
        Block.objects.bulk_create(blocks, ignore_conflicts=True)
        self._waiting.clear()

    def annotate(self, notes: Collection[Annotation]) -> None:
        """Keep what happened."""
        annotations.store(notes)

    def read(
        self, series: Collection[Series], grain: Grain, *, begin_s: int, end_s: int
    ) -> Mapping[Series, Points]:
        """Points of a grain in a range, for each series that is known."""
        return point_reading.read(series, grain, begin_s=begin_s, end_s=end_s)

    def series_of(self, kind: str, subjects: Collection[str]) -> Sequence[Series]:
        """The series that are known of some subjects of a kind."""
        return series_ids.series_of(kind, subjects)

    def annotations(
        self, *, begin_s: int, end_s: int, subjects: Collection[tuple[str, str]], teams: Collection[str] | None = None
    ) -> Sequence[Annotation]:
        """The annotations of any of these in a range, the oldest first."""
        return annotations.read(begin_s=begin_s, end_s=end_s, subjects=subjects, teams=teams)

    def tidy(self, now_s: int) -> None:
        """Make coarser points of what is complete, and forget what each grain no longer has to keep."""
        self.flush()  # or what waits would come too late for its window
        downsampling.seal(now_s)
        if downsampling.prune(now_s):
            self._ids.clear()
            self._lines = []


def _by_minute(seconds: Sequence[_Second]) -> list[list[_Second]]:
    """Seconds in groups of which none crosses the end of a block's longest time."""
    groups: dict[int, list[_Second]] = {}
    for second in seconds:
        groups.setdefault(second.at_s // LAYOUTS[SECOND].span_s, []).append(second)
    return list(groups.values())


def _blocks_of(seconds: Sequence[_Second]) -> list[Block]:
    """The blocks of some seconds, one for each shard."""
    begins_s = seconds[0].at_s
    ids = np.unique(np.concatenate([second.ids for second in seconds]))
    values = np.full((len(ids), seconds[-1].at_s - begins_s + 1), np.nan, dtype=np.float32)
    for second in seconds:
        values[np.searchsorted(ids, second.ids), second.at_s - begins_s] = second.values
    return [
        Block(grain_s=SECOND.step_s, shard=shard, begins_s=begins_s, payload=encoded(matrix))
        for shard, matrix in sharded(ids, values, LAYOUTS[SECOND].series)]

