"""Many elements in one process: an event reaches those that it touches, and each is looked at when its time comes.

On the site each dynamic task has an `ElementWatch` of its own (``dashboard/operations/policies/guard_watches.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Any

from scheduler.guards.element_watch import MOST_SWITCHES_PER_H, ElementSwitch, ElementWatch
from scheduler.guards.guard_compiling import CompiledElement
from scheduler.guards.guard_values import GuardEvent


class GuardEngine:
    """Evaluates the guards of many elements by events in the order in which they become known.

    Its time is the latest that it was told. An event that comes with an earlier one counts from its time on: what
    decides is when something is known. Of equal times the order in which they are told counts; what time alone changes
    at a moment comes before events of that moment. An event that is older than the newest of its stream is late.

    Parameters
    ----------
    now_ms : int
        When it begins, in ms since the epoch.
    """

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self._watches: dict[str, ElementWatch] = {}
        self._by_stream: dict[str, dict[str, ElementWatch]] = {}
        self._timers: list[tuple[float, int, str]] = []
        self._queued: dict[str, float] = {}  # when each element is looked at next, at the latest
        self._numbers = count()

    def put(
        self, name: str, compiled: CompiledElement, *, state: Mapping[str, Any] | None = None,
        most_switches_per_h: int = MOST_SWITCHES_PER_H,
    ) -> list[ElementSwitch]:
        """Evaluate an element from now on under a name that no other has, in place of what has that name already.

        ``state`` is what `state_of` gave for it, or for an earlier version of its guards. Gives what is on at first, or
        what time has changed since.
        """
        self.drop(name)
        watch = ElementWatch(compiled, self.now_ms, state=state, most_switches_per_h=most_switches_per_h)
        self._watches[name] = watch
        for stream in compiled.streams:
            self._by_stream.setdefault(stream, {})[name] = watch
        changes = [*watch.begun, *watch.advance(self.now_ms)]
        self._queue(name, watch)
        return changes

    def drop(self, name: str) -> None:
        """Forget an element; one that is not there is none to forget."""
        if (watch := self._watches.pop(name, None)) is not None:
            self._queued.pop(name, None)
            for stream in watch.compiled.streams:
                del self._by_stream[stream][name]

    def take(self, event: GuardEvent) -> list[ElementSwitch]:
        """Take in an event, after all that time changes until then; gives what changes, in order."""
        at_ms = max(event.at_ms, self.now_ms)
        changes = self.advance(at_ms)
        for name, watch in self._by_stream.get(event.stream, {}).items():
            changes += watch.take(event, at_ms)
            if watch.due < self._queued.get(name, inf):
                self._queue(name, watch)
        return changes

    def advance(self, now_ms: int) -> list[ElementSwitch]:
        """Let time pass; gives what changes by it, in order of time. An earlier time than before changes nothing."""
        changes: list[ElementSwitch] = []
        timers = self._timers
        while timers and timers[0][0] <= now_ms:
            due, _, name = heappop(timers)
            if self._queued.get(name) != due:
                continue  # an earlier moment was queued since, or it is gone
            watch = self._watches[name]
            changes += watch.advance(int(due))
            del self._queued[name]
            self._queue(name, watch)
        self.now_ms = max(self.now_ms, now_ms)
        return changes

    @property
    def due(self) -> float:
        """The next moment at which time alone may change something, in ms since the epoch; infinite where none is."""
        return self._timers[0][0] if self._timers else inf

    def watch(self, name: str) -> ElementWatch:
        """The element of a name, to read from; raises ``KeyError`` where there is none."""
        return self._watches[name]

    def state_of(self, name: str) -> dict[str, Any]:
        """All that an element needs to go on, as JSON; raises ``KeyError`` where there is none."""
        return self._watches[name].state()

    def __iter__(self) -> Iterator[str]:
        return iter(self._watches)

    def _queue(self, name: str, watch: ElementWatch) -> None:
        if watch.due < inf:
            self._queued[name] = watch.due
            heappush(self._timers, (watch.due, next(self._numbers), name))
