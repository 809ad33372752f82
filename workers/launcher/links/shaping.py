"""The arrival of bytes that go over a link with a delay and a bandwidth. Pure: time is an argument."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Shaper:
    """One direction of a link: bytes leave one after the other at its bandwidth, and arrive a delay later.

    Parameters
    ----------
    bytes_per_s : float, optional
        Bandwidth; without it bytes take no time to leave.
    """

    delay_s: float
    bytes_per_s: float | None = None
    _free_s: float = 0.0  # when all that was sent before has left

    def arrives_s(self, now_s: float, size: int) -> float:
        """The time at which so many bytes arrive that are sent now, by the clock of ``now_s``."""
        self._free_s = max(now_s, self._free_s)
        if self.bytes_per_s is not None:
            self._free_s += size / self.bytes_per_s
        return self._free_s + self.delay_s
