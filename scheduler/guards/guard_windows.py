"""Windows over the last seconds to days of figures, in panes: bounded memory, and constant work an event.

A window of length t is cut into panes of t / n, where n is the greatest number up to `PANES` that divides t in ms.
Panes begin at multiples of their length since the epoch. It has the values of the current pane and of the n - 1 before
it, so it moves on by whole panes [1]. What is folded over closed panes is folded anew, in their order, when a pane
closes or leaves (n steps at most); so nothing drifts, and a window that was restored goes on to the last bit.

References
----------
.. [1] Li, Maier, Tufte, Papadimos and Tucker, "No Pane, No Gain: Efficient Evaluation of Sliding-Window Aggregates over
   Data Streams", SIGMOD Record 34(1), 2005.
.. [2] Masson, Rim and Lee, "DDSketch: A Fast and Fully-Mergeable Quantile Sketch with Relative-Error Guarantees",
   PVLDB 12(12), 2019.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Sequence
from heapq import nsmallest
from math import ceil, inf, log
from typing import Any

from .guard_tree import GuardNode

PANES = 60
QUANTILE_PANES = 20  # a pane has a table of counts, so there are fewer
ACCURACY = 0.02  # a quantile is so near, relative to itself
MOST_BINS = 256  # of a pane: the largest is 27,000 times the smallest then; what is less counts as the smallest
_GAMMA = (1 + ACCURACY) / (1 - ACCURACY)
_LOG_GAMMA = log(_GAMMA)
LEAST, MOST = 1e-6, 1e12  # what is nearer to 0 counts as 0 in a quantile, what is beyond as the most
_SHIFT = 1 - ceil(log(LEAST) / _LOG_GAMMA)  # so that bins of positive numbers are positive


def panes_of(duration_ms: int, most: int = PANES) -> int:
    """The number of panes of a window of that length.

    Examples
    --------
    >>> panes_of(300_000), panes_of(7_000), panes_of(60_000, QUANTILE_PANES)
    (60, 56, 20)
    """
    return next(count for count in range(most, 0, -1) if duration_ms % count == 0)


class PaneWindow(ABC):
    """Common parts of all windows: the numbers of closed panes and of the open one, and when the oldest leaves.

    ``due`` is that moment in ms since the epoch; infinite where the window is empty.
    """

    def __init__(self, duration_ms: int, most_panes: int = PANES) -> None:
        self.panes = panes_of(duration_ms, most_panes)
        self.pane_ms = duration_ms // self.panes
        self.numbers: deque[int] = deque()  # of closed panes
        self.number: int | None = None  # of the open one
        self.due = inf

    def take(self, value: Any, at_ms: int) -> None:
        """Take in a value; times never go back."""
        number = at_ms // self.pane_ms
        if number == self.number:
            self._add(value, at_ms)
            return
        if self.number is not None:
            self.numbers.append(self.number)
            self._close()
        else:
            self.due = (number + self.panes) * self.pane_ms
        self.number = number
        self._open(value, at_ms)

    def refresh(self, values: Sequence[Any], now_ms: int) -> float | None:
        """The value of the window at a moment, after the panes that are over by then have left."""
        if self.due <= now_ms:
            oldest = now_ms // self.pane_ms - self.panes  # it, and those before
            numbers, leaving = self.numbers, 0
            while numbers and numbers[0] <= oldest:
                numbers.popleft()
                leaving += 1
            if leaving:
                self._drop(leaving)
            if self.number is not None and self.number <= oldest:
                self.number = None
                self._empty()
            first = numbers[0] if numbers else self.number
            self.due = inf if first is None else (first + self.panes) * self.pane_ms
        return self._result()

    def dump(self) -> list[Any]:
        """Its panes as JSON, the open one last."""
        numbers = [*self.numbers, *([] if self.number is None else [self.number])]
        return [[number, *pane] for number, pane in zip(numbers, self._panes(), strict=True)]

    def load(self, panes: Sequence[Sequence[Any]]) -> None:
        """Become what was dumped."""
        for index, (number, *pane) in enumerate(panes):
            if index:
                self.numbers.append(self.number or 0)
                self._close()
            self.number = number
            self._reopen(pane)
        self.due = (panes[0][0] + self.panes) * self.pane_ms if panes else inf

    @abstractmethod
    def _open(self, value: Any, at_ms: int) -> None:
        """Open a pane with its first value."""

    @abstractmethod
    def _add(self, value: Any, at_ms: int) -> None:
        """Add a value to the open pane."""

    @abstractmethod
    def _close(self) -> None:
        """Put the open pane behind the closed ones."""

    @abstractmethod
    def _drop(self, leaving: int) -> None:
        """Forget so many of the oldest closed panes."""

    def _empty(self) -> None:  # noqa: B027 - most have nothing to forget
        """Forget the open pane, which is the last."""

    @abstractmethod
    def _result(self) -> float | None:
        """The window's value."""

    @abstractmethod
    def _panes(self) -> list[tuple[Any, ...]]:
        """All panes as JSON, the open one last."""

    @abstractmethod
    def _reopen(self, pane: Sequence[Any]) -> None:
        """Make the open pane of what was dumped."""


class FoldWindow(PaneWindow):
    """Mean, sum, count, min or max: one number and a count for each pane."""

    def __init__(self, word: str, duration_ms: int) -> None:
        super().__init__(duration_ms)
        self.word = word
        self.fold: Callable[[Any], float] = {"min": min, "max": max}.get(word, sum)
        self.folds: deque[float] = deque()
        self.counts: deque[int] = deque()
        self.closed: float = 0.0  # the fold of the closed panes, where there are any
        self.open, self.open_count, self.count = 0.0, 0, 0

    def _open(self, value: Any, at_ms: int) -> None:
        self.open = 0.0 if self.word == "count" else value
        self.open_count = 1
        self.count += 1

    def _add(self, value: Any, at_ms: int) -> None:
        self.open_count += 1
        self.count += 1
        if self.word == "min":
            self.open = min(self.open, value)
        elif self.word == "max":
            self.open = max(self.open, value)
        elif self.word != "count":
            self.open += value

    def _close(self) -> None:
        self.folds.append(self.open)
        self.counts.append(self.open_count)
        self.closed = self.fold(self.folds)

    def _drop(self, leaving: int) -> None:
        for _ in range(leaving):
            self.folds.popleft()
            self.count -= self.counts.popleft()
        if self.folds:
            self.closed = self.fold(self.folds)

    def _empty(self) -> None:
        self.count = 0

    def _result(self) -> float | None:
        if self.word == "count":
            return float(self.count)
        if not self.count:
            return None
        result = self.open
        if self.folds:
            if self.word == "min":
                result = min(self.closed, result)
            elif self.word == "max":
                result = max(self.closed, result)
            else:
                result = self.closed + result
        return result / self.count if self.word == "mean" else result

    def _panes(self) -> list[tuple[Any, ...]]:
        closed = list(zip(self.folds, self.counts, strict=True))
        return closed if self.number is None else [*closed, (self.open, self.open_count)]

    def _reopen(self, pane: Sequence[Any]) -> None:
        self.open, self.open_count = pane
        self.count += self.open_count


class ChangeWindow(PaneWindow):
    """Rate of change: from the first value of the window to its last, by the seconds between them."""

    def __init__(self, duration_ms: int) -> None:
        super().__init__(duration_ms)
        self.firsts: deque[tuple[int, float]] = deque()  # of closed panes
        self.first, self.last = (0, 0.0), (0, 0.0)

    def _open(self, value: Any, at_ms: int) -> None:
        self.first = self.last = (at_ms, value)

    def _add(self, value: Any, at_ms: int) -> None:
        self.last = (at_ms, value)

    def _close(self) -> None:
        self.firsts.append(self.first)

    def _drop(self, leaving: int) -> None:
        for _ in range(leaving):
            self.firsts.popleft()

    def _result(self) -> float | None:
        if self.number is None:
            return None
        (begin_ms, first), (end_ms, last) = (self.firsts[0] if self.firsts else self.first), self.last
        if end_ms == begin_ms:
            return None
        return (last - first) / ((end_ms - begin_ms) / 1000)

    def _panes(self) -> list[tuple[Any, ...]]:
        closed = [(*first, *first) for first in self.firsts]
        return closed if self.number is None else [*closed, (*self.first, *self.last)]

    def _reopen(self, pane: Sequence[Any]) -> None:
        at_ms, first, last_ms, last = pane
        self.first, self.last = (at_ms, first), (last_ms, last)


class QuantileWindow(PaneWindow):
    """A quantile by nearest rank from counts in logarithmic bins [2]: within `ACCURACY` of the exact one.

    A pane has `MOST_BINS` bins at most: of more the lowest become one, so that high quantiles stay as near as they are
    [2]. So a window has that many times `QUANTILE_PANES` counts at the very most.
    """

    def __init__(self, share: float, duration_ms: int) -> None:
        super().__init__(duration_ms, QUANTILE_PANES)
        self.share = share
        self.closed: deque[dict[int, int]] = deque()
        self.open: dict[int, int] = {}
        self.totals: dict[int, int] = {}
        self.bins: list[int] = []  # those of the totals, in order
        self.count = 0
        self.result: float | None = None
        self.has_changed = False

    def _open(self, value: Any, at_ms: int) -> None:
        self.open = {}
        self._add(value, at_ms)

    def _add(self, value: Any, at_ms: int) -> None:
        number = bin_of(value)
        self.open[number] = self.open.get(number, 0) + 1
        self._count(number, 1)
        self._collapse()

    def _collapse(self) -> None:
        while len(self.open) > MOST_BINS:
            lowest, next_one = nsmallest(2, self.open)
            times = self.open.pop(lowest)
            self.open[next_one] += times
            self._count(lowest, -times)
            self._count(next_one, times)

    def _count(self, number: int, times: int) -> None:
        total = self.totals.get(number, 0) + times
        if total == times and times > 0:
            insort(self.bins, number)
        self.totals[number] = total
        if not total:
            del self.totals[number]
            del self.bins[bisect_left(self.bins, number)]
        self.count += times
        self.has_changed = True

    def _close(self) -> None:
        self.closed.append(self.open)

    def _drop(self, leaving: int) -> None:
        for _ in range(leaving):
            for number, times in self.closed.popleft().items():
                self._count(number, -times)

    def _empty(self) -> None:
        for number, times in self.open.items():
            self._count(number, -times)

    def _result(self) -> float | None:
        if self.has_changed:
            self.has_changed = False
            remaining_count, number = max(1, ceil(self.share * self.count)), None
            for number in self.bins:
                remaining_count -= self.totals[number]
                if remaining_count <= 0:
                    break
            self.result = None if number is None else middle_of(number)
        return self.result

    def _panes(self) -> list[tuple[Any, ...]]:
        tables = [*self.closed, *([] if self.number is None else [self.open])]
        return [(sorted(table.items()),) for table in tables]

    def _reopen(self, pane: Sequence[Any]) -> None:
        self.open = {number: times for number, times in pane[0]}
        for number, times in self.open.items():
            self._count(number, times)
        self._collapse()  # of an earlier version


def bin_of(value: float) -> int:
    """The bin of a number: 0 of what counts as 0, negative ones of negative numbers; in the order of numbers.

    Examples
    --------
    >>> bin_of(0.0), bin_of(5.0) == -bin_of(-5.0), bin_of(5.0) < bin_of(6.0)
    (0, True, True)
    """
    size = abs(value)
    if size < LEAST:
        return 0
    number = ceil(log(min(size, MOST)) / _LOG_GAMMA) + _SHIFT
    return number if value > 0 else -number


def middle_of(number: int) -> float:
    """The number that stands for those of a bin."""
    if not number:
        return 0.0
    size = 2 * _GAMMA ** (abs(number) - _SHIFT) / (_GAMMA + 1)
    return size if number > 0 else -size


def window_of(node: GuardNode) -> PaneWindow:
    """The window of a node."""
    written: tuple[Any, ...] = node.value if isinstance(node.value, tuple) else ()
    if node.word == "quantile":
        return QuantileWindow(*written)
    if node.word == "rate_of_change":
        return ChangeWindow(*written)
    return FoldWindow(node.word, *written)
