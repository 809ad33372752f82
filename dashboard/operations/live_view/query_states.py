"""The state of a query as pages show it: by what flows, not by what was started. Pure."""

from __future__ import annotations

from scheduler.contracts.reports import FAILING, RUNNING, STALLED, STARTING, STOPPED, QueryReport, SlotReport

RECOVERING, THROTTLED, SILENT_SOURCE = "recovering", "throttled", "silent_source"
SILENT = "silent"  # its node does not report
NOT_HEARD = (SILENT, "unknown")
GAVE_UP = "gave_up"  # it failed alike too often: nobody tries it again unless somebody says so
NODE_SILENT_MS = 3_000  # without a report; there is one each second
LONG_BATCH_MS, AS_BEFORE = 10_000, 2
SOURCE_SILENT_MS = 60_000
RECOVERED_MS = 180_000  # a query that has not run in a slot that is as old is a new one


def query_state(query: QueryReport, slot: SlotReport, *, is_source: bool, gets_events: bool, at_ms: int) -> str:
    """The state of a query.

    Returns
    -------
    str
        The reported state, but where more is known: ``gave_up`` (it failed too often to be tried again), ``backoff``
        (it failed more than once, and has done no batch since), ``stalled``
        (its driver does not answer, or a batch does not end), ``recovering`` (it, or its slot, was there before and is
        coming back), ``starting`` (until its first batch has ended, or events go through an open one), ``throttled``
        (a channel that it writes is full), ``silent_source`` (a source makes nothing).
    """
    if slot.state == STALLED:
        return STALLED
    if slot.state != RUNNING:
        return RECOVERING if slot.restarts else STARTING
    if query.state in (STARTING, STOPPED):  # one that is to work is not stopped for long
        return _beginning_state(query, slot, at_ms)
    if query.state != RUNNING:
        return GAVE_UP if query.state == FAILING and query.gave_up else query.state
    if query.throttled_by:
        return THROTTLED
    has_begun = query.batch is not None or (query.real_time and query.rate_per_s)
    if (query.batch_for_ms or 0) >= _long_ms(query):
        # A driver that began lately compiles: the first batch in it takes long, and nobody has to do anything.
        is_young = slot.since_ms is not None and at_ms - slot.since_ms < RECOVERED_MS
        return _beginning_state(query, slot, at_ms) if is_young and not has_begun else STALLED
    if query.error and query.failures > 1 and query.batch is None:
        return FAILING
    if not has_begun and (gets_events or (is_source and at_ms - query.since_ms < SOURCE_SILENT_MS)):
        return _beginning_state(query, slot, at_ms)
    if is_source and (query.idle_ms or 0) >= SOURCE_SILENT_MS:
        return SILENT_SOURCE
    return RUNNING


def _long_ms(query: QueryReport) -> float:
    """The time in ms that a batch may be under way: where the one before took long and ended, this one is slow, and not
    stuck."""
    return LONG_BATCH_MS if query.real_time else max(LONG_BATCH_MS, AS_BEFORE * (query.batch_ms or 0))


def wrong_since_ms(query: QueryReport, *, at_ms: int) -> int | None:
    """The time when a query came into its state, by a report of ``at_ms``; None where the report does not tell."""
    if query.state == SILENT_SOURCE and query.idle_ms is not None:
        return at_ms - query.idle_ms
    if query.state == STALLED and query.batch_for_ms is not None:
        return at_ms - query.batch_for_ms
    return query.since_ms if query.state not in (SILENT_SOURCE, STALLED, THROTTLED) else None


def _beginning_state(query: QueryReport, slot: SlotReport, at_ms: int) -> str:
    is_back = query.restarts or (slot.restarts and at_ms - (slot.since_ms or 0) < RECOVERED_MS)
    return RECOVERING if is_back else STARTING


WORST_FIRST = (
    "unknown", GAVE_UP, FAILING, SILENT, STALLED, RECOVERING, STARTING, "waiting", THROTTLED, SILENT_SOURCE, "draining",
    "stopped")
