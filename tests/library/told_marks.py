"""What a writer tells the parts of a stream of the marks of partitions, as ``PartitionMarks.java`` does."""

from __future__ import annotations

from scheduler.model.columns import partition_of

STRETCH_MS = 500


class PartitionMarks:
    """Of one batch."""

    def __init__(self, *, ahead_ms: int, parts: int) -> None:
        self.ahead_ms, self.clock = ahead_ms, -(1 << 62)
        self.arrivals: dict[int, int] = {}
        self.parts = [_Untold() for _ in range(parts)]

    def before(self, seq: int, time: int, born: int, part: int) -> str | None:
        """What the part that gets an event is told before it."""
        partition, reach = partition_of(seq), min(time, born + self.ahead_ms)
        self.clock = max(self.clock, born)
        latest = self.arrivals.get(partition)
        may_have_been_silent = latest is None or self.clock - latest >= STRETCH_MS
        self.arrivals[partition] = max(born, self.arrivals.get(partition, born))
        text = self.parts[part].take()
        for place, other in enumerate(self.parts):
            if place != part:
                other.note(partition, reach, born, may_have_been_silent, self.clock)
        return text

    def behind(self, part: int) -> str | None:
        """What a part has still to be told behind its last event."""
        return self.parts[part].take()


class _Untold:
    def __init__(self) -> None:
        self.entries: list[tuple[int, int, int]] = []
        self.reached: dict[int, tuple[int, int]] = {}
        self.began = 0

    def note(self, partition: int, reach: int, born: int, may_have_been_silent: bool, clock: int) -> None:
        if may_have_been_silent or clock - self.began >= STRETCH_MS:
            self._write()
        if not self.reached:
            self.began = clock
        before = self.reached.get(partition, (reach, born))
        self.reached[partition] = (max(before[0], reach), max(before[1], born))

    def take(self) -> str | None:
        self._write()
        text = ";".join(",".join(map(str, entry)) for entry in self.entries)
        self.entries = []
        return text or None

    def _write(self) -> None:
        self.entries += [(partition, *reached) for partition, reached in self.reached.items()]
        self.reached = {}
