"""The sequential algorithms behind the stateful task types, one reading at a time.

A fold is made of a config and holds no state itself. ``start()`` gives a key's first state (lists, numbers, strings:
what JSON can say); ``step(state, …)`` takes one event's values, changes the state and gives the tuples that the event
brings forth. A missing value is None.
Nothing here knows Spark, a batch or a clock, so the output depends on the order of the readings alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Fold(Protocol):
    """The interface of every stateful task: a state by key, and the rows that an event makes of it."""

    def start(self) -> Any:
        """The state of a key that has had no reading."""

    def step(self, state: Any, *reading: Any) -> Iterable[tuple]:
        """Take an event in: change ``state``, give what comes out, nothing or several."""

    # A fold whose state has members that are mappings and grow may have ``parts() -> Parts`` besides (`state_store`):
    # by member, when an entry of it is due. Entries are then read and written one by one, so ``step`` looks at those
    # that it names, and finds others by ``due`` and ``soonest`` alone.
    # One that has a single state may have ``late(state) -> int``, how many events it left out for their time so far,
    # and, with ``idle`` (ms, or None), ``silence(state)``: what comes out when nothing has come for so long.


@dataclass(frozen=True, slots=True)
class KalmanFilter:
    """One-dimensional Kalman filter: ``step`` takes a value and gives (estimate, value).

    References
    ----------
    .. [1] R. E. Kalman, "A New Approach to Linear Filtering and Prediction Problems", 1960.
    """

    process_noise: float
    sensor_noise: float
    estimated_error: float

    def start(self) -> list:
        return [None, self.estimated_error]

    def step(self, state: list, reading: float | None) -> Iterable[tuple]:
        estimate, error = state
        if estimate is None and reading is None:
            return [(None, None)]
        error += self.process_noise
        if reading is not None:
            gain = error / (error + self.sensor_noise)
            estimate = (estimate or 0.0) + gain * (reading - (estimate or 0.0))
            error *= 1.0 - gain
        state[:] = [estimate, error]
        return [(estimate, reading)]


@dataclass(frozen=True, slots=True)
class BlockAverage:
    """``step`` takes a value and gives (mean, count) when a block is full; a missing value does not count."""

    window: int

    def start(self) -> list:
        return [0, 0.0]

    def step(self, state: list, reading: float | None) -> Iterable[tuple]:
        if reading is None:
            return ()
        state[0] += 1
        state[1] += reading
        if state[0] < self.window:
            return ()
        count, total = state
        state[:] = self.start()
        return [(total / count, count)]


@dataclass(frozen=True, slots=True)
class Accumulate:
    """``step`` takes a value and its time and gives (values, times) when a block is full."""

    window: int

    def start(self) -> list:
        return [[], []]

    def step(self, state: list, value: float | None, time_ms: int) -> Iterable[tuple]:
        if value is None:
            return ()
        state[0].append(value)
        state[1].append(time_ms)
        if len(state[0]) < self.window:
            return ()
        block = tuple(state)
        state[:] = self.start()
        return [block]


@dataclass(frozen=True, slots=True)
class SecondOrderMoment:
    """Estimate of the second frequency moment, Σ (how often each value came)², in bounded memory.

    ``variables`` positions of the stream are sampled evenly (reservoir sampling, with chance from ``seed``); each
    counts how often its value came from there on. While the stream is no longer than the reservoir the result is
    exact. ``step`` takes a value and gives (estimate, readings so far).

    References
    ----------
    .. [1] N. Alon, Y. Matias and M. Szegedy, "The Space Complexity of Approximating the Frequency Moments",
       STOC 1996, section 2.1.
    """

    variables: int
    decimals: int
    seed: int

    def start(self) -> list:
        return [0, []]  # readings so far; [value, how often it came] of each sampled position

    def step(self, state: list, reading: float | None) -> Iterable[tuple]:
        if reading is None:
            return ()
        value = round(reading, self.decimals) + 0.0  # −0.0 and 0.0 are one value
        state[0] += 1
        count, samples = state
        for sample in samples:
            if sample[0] == value:
                sample[1] += 1
        if len(samples) < self.variables:
            samples.append([value, 1])
        else:
            index = splitmix64(self.seed, count) % count
            if index < self.variables:
                samples[index] = [value, 1]
        total = sum(2 * times - 1 for _, times in samples)
        return [(count * total / len(samples), count)]


@dataclass(frozen=True, slots=True)
class Interpolate:
    """``step`` takes a value, its time and its observation, and gives (value, whether it was filled in).

    A missing value becomes the mean of the last ``window`` readings, or lies on the line through them; without any
    it stays missing. Later gaps are filled from real readings, not from filled-in values. With ``fields``, other
    observations stay as they are.
    """

    window: int
    method: str
    fields: frozenset[str] = frozenset()

    def start(self) -> list:
        return []

    def step(self, state: list, value: float | None, time_ms: int, name: str) -> Iterable[tuple]:
        if self.fields and name not in self.fields:
            return [(value, False)]
        if value is not None:
            state.append([time_ms, value])
            del state[: -self.window]
            return [(value, False)]
        if not state:
            return [(None, False)]
        if self.method == "mean":
            return [(sum(value for _, value in state) / len(state), True)]
        return [(line_through([(time - time_ms, value) for time, value in state])[0], True)]


@dataclass(frozen=True, slots=True)
class SlidingLinearRegression:
    """Least squares over the last ``train`` readings, by their number, continued ``predict`` readings ahead.

    ``step`` takes a value and gives (prediction, steps ahead) for every step, after each ``every``-th reading.
    """

    train: int
    predict: int
    every: int

    def start(self) -> list:
        return [0, []]

    def step(self, state: list, reading: float | None) -> Iterable[tuple]:
        if reading is None:
            return ()
        state[0] += 1
        count, values = state
        values.append(reading)
        del values[: -self.train]
        if count < self.train or (count - self.train) % self.every:
            return ()
        last = len(values) - 1
        at_last, slope = line_through([(index - last, value) for index, value in enumerate(values)])
        return [(at_last + slope * ahead, ahead) for ahead in range(1, self.predict + 1)]


@dataclass(frozen=True, slots=True)
class JoinByMessage:
    """``step`` takes a message, an observation, its value and whatever travels along, and gives the latter and a value
    for each field.

    A message goes out when all of its fields have come; what travels along is that of its last observation.
    When more than ``open_messages`` wait, the oldest goes out with what it has, or is dropped.
    """

    fields: tuple[str, ...]
    open_messages: int
    keep_incomplete: bool

    def start(self) -> list:
        return []  # [message, what travels along, {observation: value}] in the order of their first observation

    def step(self, state: list, message: str, name: str, value: float | None, *along: Any) -> Iterable[tuple]:
        if name not in self.fields:
            return ()
        waiting = next((waiting for waiting in state if waiting[0] == message), None)
        if waiting is None:
            waiting = [message, along, {}]
            state.append(waiting)
        waiting[1] = along
        waiting[2][name] = value
        if len(waiting[2]) == len(self.fields):
            state.remove(waiting)
            return [self._joined(waiting)]
        if len(state) <= self.open_messages:
            return ()
        oldest = state.pop(0)
        return [self._joined(oldest)] if self.keep_incomplete else ()

    def _joined(self, waiting: list) -> tuple:
        return (*waiting[1], *(waiting[2].get(name) for name in self.fields))


def line_through(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Intercept at 0 and slope of the least-squares line; level where all points stand at one place."""
    count = len(points)
    mean_x = sum(x for x, _ in points) / count
    mean_y = sum(y for _, y in points) / count
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if spread == 0:
        return mean_y, 0.0
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    return mean_y - slope * mean_x, slope


def splitmix64(seed: int, number: int) -> int:
    """A well-mixed 64-bit integer of two others (Steele, Lea and Flood, "Fast Splittable Generators", 2014)."""
    mask = 2**64 - 1
    z = (seed * 0x9E3779B97F4A7C15 + (number + 1) * 0xD1B54A32D192ED03) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def hash64(value: Hashable) -> int:
    """64 bits of a value's text, the same in every process."""
    return int.from_bytes(hashlib.blake2b(str(value).encode(), digest_size=8).digest(), "big")
