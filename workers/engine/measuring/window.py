"""Measurements of a running trial: samples from the first event on, and the window that counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from scheduler.contracts.trials import TrialSample

from .trial_figures import TrialBatch


@dataclass(frozen=True, slots=True)
class Weight:
    """Memory in use in a slot: on its heap, and by its Python processes."""

    heap_mb: float
    python_mb: float

    @property
    def total_mb(self) -> float:
        """Both together."""
        return self.heap_mb + self.python_mb


@dataclass
class TrialWindow:
    """The measurements of a trial as they come in; moments in seconds since the epoch."""

    began_s: float = 0.0
    ended_s: float = 0.0
    cpu: float = 0.0
    cpu_before: float = 0.0
    speed: float | None = None  # of its core, as `speed` tells it
    before: dict[int, int] = field(default_factory=dict)
    batches: list[TrialBatch] = field(default_factory=list)
    python_mb: list[float] = field(default_factory=list)
    series: list[TrialSample] = field(default_factory=list)
    latency_s: dict[str, float] = field(default_factory=dict)

    @property
    def measured_s(self) -> float:
        """Seconds since the window began."""
        return self.ended_s - self.began_s

    def begin(self, now_s: float, cpu_s: float, latencies: dict[int, int]) -> None:
        """Begin the window."""
        self.began_s = self.ended_s = now_s
        self.cpu_before, self.before = cpu_s, latencies
        self.python_mb = self.python_mb[-1:]


def sample_of(at_s: float, batches: Sequence[TrialBatch], seconds: float, cpu: float, memory_mb: float) -> TrialSample:
    """The sample of the batches that ended in some seconds; its memory is still in MiB."""
    out = sum(batch.events_out for batch in batches)
    latencies = [(batch.latency_s, batch.events_out) for batch in batches if batch.latency_s is not None]
    latency_s = round(sum(latency * count for latency, count in latencies) / out, 4) if out else None
    through = sum(batch.events_in for batch in batches) / seconds
    return TrialSample(round(at_s, 3), latency_s, round(through, 2), round(cpu, 4), memory_mb)
