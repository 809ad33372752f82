"""Sizes of the states that a slot's queries have on its node's disk, looked at now and then: reports tell them, so that
who thinks of a move knows what would go along."""

from __future__ import annotations

from collections.abc import Callable

LOOK_MS = 10_000  # a look lists the folders of a query's state


class StateSizes:
    """Sizes by fragment, in KB."""

    def __init__(self, bytes_of: Callable[[str], int]) -> None:
        self._bytes_of = bytes_of
        self._sizes: dict[str, tuple[int, int | None]] = {}  # when it was looked at, and what it was

    def kb(self, fragment_id: str, *, now_ms: int) -> int | None:
        """About how much it is, as of the last ten seconds; None where that cannot be told."""
        at_ms, size = self._sizes.get(fragment_id, (None, None))
        if at_ms is None or now_ms - at_ms >= LOOK_MS:
            try:
                size = round(self._bytes_of(fragment_id) / 1024)
            except OSError:  # a file went while it was looked at
                size = None
            self._sizes = {name: size for name, size in self._sizes.items() if now_ms - size[0] < 2 * LOOK_MS}
            self._sizes[fragment_id] = (now_ms, size)
        return size
