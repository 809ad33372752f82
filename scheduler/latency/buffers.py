"""Adaptive output buffer sizing (paper [5], 3.5.1, equation 2): buffers of sequences that violate a limit shrink.

Equation 3, by which buffers grow in which nothing waits, is in ``stepping`` and ``growing``, with how far.
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.model.checks import require_finite


@dataclass(frozen=True, slots=True)
class BufferSizing:
    """The paper's parameters. Sizes are in bytes."""

    smallest: float = 200.0  # epsilon
    shrink: float = 0.98  # r: for each ms that events wait in the buffer
    least_latency_s: float = 0.005  # below that a buffer's latency is not worth a change

    def __post_init__(self) -> None:
        require_finite(self)
        if not self.smallest > 0:
            raise ValueError(f"the smallest size of a buffer is above 0, not {self.smallest:g}")
        if not 0 < self.shrink < 1:
            raise ValueError(f"a buffer shrinks by a factor from 0 to 1, not {self.shrink:g}")


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
    """
    latency_s = lifetime_s / 2
    if latency_s > max(sizing.least_latency_s, source_latency_s):
        return max(sizing.smallest, size * sizing.shrink ** (latency_s * 1000))
    return size
