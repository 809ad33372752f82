"""Findings: what is wrong with one part, as pages, API and command line say it."""

from __future__ import annotations

from dataclasses import dataclass, field

from dashboard.operations.document_fields import DataflowUser, MovingCount

BAD, WARN, NOTE = "bad", "warn", "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    ``part`` is one of ``node``, ``slot``, ``query``, ``channel``, ``spill``, ``source``, ``broker``, ``disk``,
    ``worker`` and ``dataflow``; ``severity`` is ``bad`` (something stands still), ``warn`` (it goes on, or comes back
    by itself) or ``note``. ``dataflows`` are those of the viewer that it concerns.
    """

    part: str
    name: str
    state: str
    severity: str
    cause: str
    remedy: str
    slot: str | None = None
    since_ms: MovingCount = None
    retry_at_ms: MovingCount = None
    dataflows: list[DataflowUser] = field(default_factory=list)

    @property
    def key(self) -> str:
        """Its name among all findings."""
        return f"{self.part}/{self.name}"
