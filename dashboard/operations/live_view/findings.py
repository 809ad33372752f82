"""Findings: what is wrong with one part, as pages, API and command line say it, and the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from dashboard.operations.live_view.document_fields import DataflowUser, MovingCount

BAD, WARN, NOTE = "bad", "warn", "note"
UNKNOWN, WELL = "unknown", "well"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    ``part`` is one of ``node``, ``slot``, ``query``, ``key`` (too frequent, of its query), ``channel``, ``spill``,
    ``copies`` (of the state of a node's queries), ``source``, ``broker``, ``disk``, ``worker``, ``package`` (of task
    types), ``limit`` (of a dataflow's latency), ``alert`` and ``dataflow``;
    ``severity`` is ``bad`` (something stands still), ``warn`` (it goes on, or comes back by itself) or ``note``.
    ``dataflows`` are those of the viewer that it concerns.
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


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of findings: the worst severity, ``well`` without any, or ``unknown`` if nothing is heard.

    ``problems`` counts findings that are ``bad`` or ``warn``, ``notes`` the rest.
    """

    state: str
    problems: int
    notes: int

    def __str__(self) -> str:
        if self.state == UNKNOWN:
            return "Not known"
        counted = ((self.problems, "problem"), (self.notes, "note"))
        return ", ".join(f"{count} {word}{'s' * (count != 1)}" for count, word in counted if count) or "All well"


def verdict(severities: Iterable[str], *, is_heard: bool) -> Verdict:
    """The one verdict over findings of these severities, which every page, command and probe shows."""
    counts = Counter(severities)
    worst = next((severity for severity in (BAD, WARN, NOTE) if counts[severity]), WELL)
    return Verdict(worst if is_heard else UNKNOWN, counts[BAD] + counts[WARN], counts[NOTE])
