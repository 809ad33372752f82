"""Measurements of a schedule while it ran: values that its outcome is judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.model.promise import Load

_NOT_MEASURED = Load()


@dataclass(frozen=True, slots=True)
class BundleSeen:
    """The measurements of one bundle. ``waits_for`` are the readers of the full channel that holds it back; ``silent``
    says why nothing is heard of it, where something should be."""

    rate_per_s: float | None = None
    load: Load = _NOT_MEASURED
    waits_for: tuple[str, ...] = ()
    failing: str = ""
    silent: str = ""


@dataclass(frozen=True)
class DataflowSeen:
    """The measurements of a dataflow.

    ``read_per_s``: what each task takes in (a source: what it makes); ``offered_per_s``: what its parents make;
    ``over_s``: for how long events were counted for these rates, None where it was not noted (it counts as long
    enough); ``slots``: whole slots, with whatever else runs there; ``latencies_s``: from the source to the end of a
    task; ``mixed``: slots with queries of others. The usage of a slot is divided among its queries by their busy time,
    so a query that waits counts like one that works.
    """

    rate_per_s: float | None = None
    latency_s: float | None = None
    read_per_s: Mapping[str, float] = field(default_factory=dict)
    offered_per_s: Mapping[str, float] = field(default_factory=dict)
    bundles: Mapping[str, BundleSeen] = field(default_factory=dict)
    slots: Mapping[str, Load] = field(default_factory=dict)
    latencies_s: Mapping[str, float] = field(default_factory=dict)
    mixed: tuple[str, ...] = ()
    over_s: float | None = None
