"""Adaptive output buffer sizing (paper [5], 3.5.1, equations 2 and 3)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BufferSizing:
    """The paper's parameters. Sizes are in bytes."""

    smallest: float = 200.0  # epsilon
    largest: float = 1024 * 1024.0  # omega
    shrink: float = 0.98  # r: for each ms that events wait in the buffer
    grow: float = 1.1  # s
    least_latency_s: float = 0.005  # below that a buffer's latency is not worth a change
    no_latency_s: float = 0.0005  # below that it counts as none

    def __post_init__(self) -> None:
        if not 0 < self.smallest <= self.largest:
            raise ValueError(f"buffer sizes go from above 0 up: {self.smallest:g} to {self.largest:g} do not")
        if not 0 < self.shrink < 1 < self.grow:
            raise ValueError(f"a buffer shrinks by a factor below 1 and grows by one above it: {self.shrink:g} and "
                             f"{self.grow:g} do not")


def adapted_size(size: float, *, lifetime_s: float, source_latency_s: float, sizing: BufferSizing) -> float:
    """The size that a buffer should have, by the mean time that it takes to fill.

    Parameters
    ----------
    size : float
        Its size now, in bytes.
    lifetime_s : float
        oblt: how long it took to fill, the mean over the constraint's span. Events wait half of that.
    source_latency_s : float
        The latency of the task that writes to it: a buffer that holds events for less is not what is slow.
    sizing : BufferSizing
        The parameters.
    """
    latency_s = lifetime_s / 2
    if latency_s > max(sizing.least_latency_s, source_latency_s):
        return max(sizing.smallest, size * sizing.shrink ** (latency_s * 1000))
    if latency_s <= sizing.no_latency_s:
        return min(sizing.largest, size * sizing.grow)
    return size
