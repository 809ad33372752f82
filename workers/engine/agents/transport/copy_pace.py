"""The speed at which copies of states reach their holders, and the time that those on their way still take. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from workers.engine.channels import keys

from .ahead import Sent
from .parcels import PIECE_BYTES, WINDOW

WINDOW_BYTES = WINDOW * PIECE_BYTES  # that are on their way at once: more of a copy does not go faster
_LATELY = 64  # looks at copies that were on their way


@dataclass(frozen=True, slots=True)
class SentWhile:
    """The bytes of a copy that a holder took in some ms, and those that were left of it at their beginning."""

    left_bytes: int
    taken_bytes: int
    for_ms: int


class CopyPace:
    """The copies that one slot sends. Each goes beside the others, so the pace is that of one copy."""

    def __init__(self) -> None:
        self._remainders: dict[str, tuple[int | None, int]] = {}  # by copy: bytes that are left, and when that was seen
        self._lately: deque[SentWhile] = deque(maxlen=_LATELY)

    def noted(self, name: str, sent: Sent, *, at_ms: int) -> Sent:
        """The progress of a copy, once it is seen how much of it was taken since the last time."""
        before, seen_ms = self._remainders.get(name, (None, at_ms))
        remaining_bytes = sent.left_bytes if sent.has_copy else None
        self._remainders[name] = remaining_bytes, at_ms
        if before and remaining_bytes is not None and remaining_bytes <= before and at_ms > seen_ms:
            self._lately.append(SentWhile(before, before - remaining_bytes, at_ms - seen_ms))
        return sent

    def keep(self, names: Collection[str]) -> None:
        """No other copies are sent any more."""
        self._remainders = {name: remaining for name, remaining in self._remainders.items() if name in names}

    def with_times(self, fragment_id: str, facts: Mapping[str, Any]) -> Mapping[str, Any]:
        """The facts for a report on a fragment's copies, and while it has too few in how many ms about those are there
        that are on their way (``copy_left_ms``). That is left out where one is not made yet, or nothing of its kind was
        sent lately."""
        if facts.get("survives", 0) >= facts.get("copies", 0):
            return facts
        times = [
            self._time_of(remaining_bytes) for name, (remaining_bytes, _) in self._remainders.items()
            if name.partition(keys.COPY_MARK)[0] == fragment_id]
        measured = [time_ms for time_ms in times if time_ms is not None]
        return {**facts, "copy_left_ms": max(measured)} if measured and len(measured) == len(times) else facts

    def _time_of(self, left_bytes: int | None) -> int | None:
        """How many ms so much takes. How fast less goes than fits into the window depends on how often both nodes look,
        so only what was no less tells."""
        if not left_bytes:
            return left_bytes
        alike = [sent for sent in self._lately if sent.left_bytes >= min(left_bytes, WINDOW_BYTES)]
        taken = sum(sent.taken_bytes for sent in alike)
        return round(left_bytes * sum(sent.for_ms for sent in alike) / taken) if taken else None
