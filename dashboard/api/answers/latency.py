"""Answers about latency limits of dataflows."""

from __future__ import annotations

from datetime import datetime

from dashboard.api.answers.common import Answer


class LatencyPart(Answer):
    """One query on the slowest way of a limit: what events wait for its batch, and what the batch takes.

    Of one in ``real_time`` mode batches stay open; ``not_real_time`` says why those of another cannot.
    """

    query: str
    tasks: list[str]
    wait_s: float
    batch_s: float
    trigger_ms: int
    real_time: bool
    not_real_time: str


class LatencyLimitStatus(Answer):
    """One latency limit of a dataflow, and what became of it. Times are in seconds.

    ``state`` is ``met``, ``missed``, ``impossible`` (no intervals would meet it; ``least_s`` would) or ``waiting``.
    """

    number: int
    words: str
    limit_s: float
    along: list[str]
    over_s: float
    percentile: float | None
    state: str
    expected_s: float | None
    measured_s: float | None
    least_s: float | None
    other_s: float | None
    since: datetime | None
    path: list[LatencyPart]
    why: str
    remedies: list[str]


class DataflowLatency(Answer):
    """The latency limits of a dataflow; ``said_by`` is ``chosen``, ``document`` or ``team``."""

    id: str
    said_by: str
    limits: list[LatencyLimitStatus]


class LatencyOffer(Answer):
    """What another limit of the whole would take: cores of its queries' batches, and the dataflow's part of them."""

    limit_s: float | None
    words: str
    met: bool
    cores: float
    pays_cores: float
    pays_per_hour: float


class LatencyPrices(Answer):
    """What latency costs a dataflow, by limit; none where nothing is known of its batches yet."""

    id: str
    currency: str
    offers: list[LatencyOffer]
