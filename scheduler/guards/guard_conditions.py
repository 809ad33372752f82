"""Conditions over time: for at least, followed by, not followed by, and on until off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

Evaluated = Callable[[Sequence[Any]], Any]  # gives a part's value from those of figures and words


class ForAtLeast:
    """True where a condition has been true without a break for a time; NULL is a break."""

    def __init__(self, condition: Evaluated, duration_ms: int) -> None:
        self.condition, self.duration_ms = condition, duration_ms
        self.since_ms: int | None = None
        self.due = inf

    def refresh(self, values: Sequence[Any], now_ms: int) -> bool:
        """True if it holds at a moment."""
        if self.condition(values) is not True:
            self.since_ms, self.due = None, inf
            return False
        if self.since_ms is None:
            self.since_ms = now_ms
        full_ms = self.since_ms + self.duration_ms
        self.due = full_ms if now_ms < full_ms else inf
        return now_ms >= full_ms

    def dump(self) -> list[Any]:
        """The time since which the condition holds, as JSON."""
        return [self.since_ms]

    def load(self, state: Sequence[Any]) -> None:
        """Become what was dumped."""
        [self.since_ms] = state


class FollowedBy:
    """True from when B begins to be true, a time at most after A was, until B ends."""

    due = inf

    def __init__(self, first: Evaluated, second: Evaluated, duration_ms: int) -> None:
        self.first, self.second, self.duration_ms = first, second, duration_ms
        self.first_was = self.second_was = self.is_on = False
        self.ended_ms: int | None = None  # when the first was true last, where it is not

    def refresh(self, values: Sequence[Any], now_ms: int) -> bool:
        """True if it holds at a moment."""
        first, second = self.first(values) is True, self.second(values) is True
        if not second:
            self.is_on = False
        elif not self.second_was:  # what becomes true at the same moment was not before
            self.is_on = self.first_was or (
                self.ended_ms is not None and now_ms - self.ended_ms <= self.duration_ms)
        if self.first_was and not first:
            self.ended_ms = now_ms
        self.first_was, self.second_was = first, second
        return self.is_on

    def dump(self) -> list[Any]:
        """The times when its conditions were true, as JSON."""
        return [self.first_was, self.second_was, self.is_on, self.ended_ms]

    def load(self, state: Sequence[Any]) -> None:
        """Become what was dumped."""
        self.first_was, self.second_was, self.is_on, self.ended_ms = state


class NotFollowedBy:
    """True from a time after A began to be true, where B was not true since, until B is."""

    def __init__(self, first: Evaluated, second: Evaluated, duration_ms: int) -> None:
        self.first, self.second, self.duration_ms = first, second, duration_ms
        self.first_was = False
        self.since_ms: int | None = None
        self.due = inf

    def refresh(self, values: Sequence[Any], now_ms: int) -> bool:
        """True if it holds at a moment."""
        first = self.first(values) is True
        if self.second(values) is True:
            self.since_ms = None
        elif first and not self.first_was and self.since_ms is None:
            self.since_ms = now_ms
        self.first_was = first
        if self.since_ms is None:
            self.due = inf
            return False
        full_ms = self.since_ms + self.duration_ms
        self.due = full_ms if now_ms < full_ms else inf
        return now_ms >= full_ms

    def dump(self) -> list[Any]:
        """The conditions that it waits for and since when, as JSON."""
        return [self.first_was, self.since_ms]

    def load(self, state: Sequence[Any]) -> None:
        """Become what was dumped."""
        self.first_was, self.since_ms = state


class Latch:
    """True from when a condition is true until another is; the second one wins where both are. False at first."""

    due = inf

    def __init__(self, on: Evaluated, off: Evaluated) -> None:
        self.on, self.off, self.is_on = on, off, False

    def refresh(self, values: Sequence[Any], now_ms: int) -> bool:
        """True if it holds at a moment."""
        if self.off(values) is True:
            self.is_on = False
        elif self.on(values) is True:
            self.is_on = True
        return self.is_on

    def dump(self) -> list[Any]:
        """Its state, on or off, as JSON."""
        return [self.is_on]

    def load(self, state: Sequence[Any]) -> None:
        """Become what was dumped."""
        [self.is_on] = state
