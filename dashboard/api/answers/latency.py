"""Answers about latency limits of dataflows."""

from __future__ import annotations

from datetime import datetime

from dashboard.api.answers.common import Answer


class LatencyPart(Answer):
    """One query on the slowest way of a limit: what events wait for its batch, and what the batch takes, as expected;
    and how much later they left it than they came from the one before, as measured in the mean over the limit's span.

    Of one in ``real_time`` mode batches stay open; ``not_real_time`` says why those of another cannot. Where a limit
    begins or ends with a stream, ``batch_s`` is 0 of the query that only writes or reads that.
    """

    query: str
    tasks: list[str]
    wait_s: float
    batch_s: float
    measured_s: float | None
    trigger_ms: int
    real_time: bool
    not_real_time: str


class LatencyRemedy(Answer):
    """A remedy for a limit that is not met as things are: ``open`` batches, which wait for what the words say, to
    ``ask`` for ``limit_s``, ``chain`` queries, more ``slots``, or ``chain_and_slots``.

    It leads to ``latency_s``. ``cores`` is how much more CPU the limit's queries then take, ``per_hour`` its price;
    ``slots_per_hour`` is that of ``slots`` more slots as capacity, which is in no bill. ``fused`` are queries that
    become one each, ``moved`` those that go to the new slots.
    """

    kind: str
    words: str
    limit_s: float
    latency_s: float
    cores: float
    per_hour: float
    slots: int
    slots_per_hour: float
    fused: list[list[str]]
    moved: list[str]
    currency: str


class LatencyLimitStatus(Answer):
    """One latency limit of a dataflow, and what became of it. Times are in seconds.

    ``state`` is ``met``, ``missed``, ``impossible`` (no intervals meet it with the modes that its queries have;
    ``least_s`` would be met) or ``waiting``. One that is met ``by_measurement`` held over its whole span, though by the
    model it cannot be met. Of one that is not met ``tried`` says what intervals and controllers did about it, or why
    not; ``is_lasting`` is one that was missed over its whole span. ``along`` is in the form of documents: tasks, and
    where it begins or ends with a stream that, as ``a -> b``. Before ``warm_at``, given where a driver on its way began
    lately, what is expected is no promise, and a limit that seems impossible is ``waiting``, with its ``least_s``.
    """

    number: int
    words: str
    limit_s: float
    along: list[str]
    over_s: float
    percentile: float | None
    state: str
    by_measurement: bool
    expected_s: float | None
    measured_s: float | None
    least_s: float | None
    other_s: float | None
    since: datetime | None
    is_lasting: bool
    warm_at: datetime | None
    path: list[LatencyPart]
    why: str
    tried: list[str]
    remedies: list[LatencyRemedy]


class DataflowLatency(Answer):
    """The latency limits of a dataflow; ``said_by`` is ``chosen``, ``document`` or ``team``.

    ``remarks`` tell of limits that are below what micro-batches of its tasks take at the least: out of reach, or
    resting on open batches.
    """

    id: str
    said_by: str
    limits: list[LatencyLimitStatus]
    remarks: list[str]


class LatencyOffer(Answer):
    """The cost of another limit of the whole: cores of all that executes the dataflow, its own part of them, and how
    many of the queries would leave their batches open."""

    limit_s: float | None
    words: str
    met: bool
    cores: float
    pays_cores: float
    pays_per_hour: float
    queries: int
    open_queries: int


class LatencyPrices(Answer):
    """The cost of latency for a dataflow, by limit; ``estimated`` as if it ran alone, where its batches were not seen.
    ``cores``, ``pays_cores`` and ``pays_per_hour`` are what it costs under its own limits, and ``basis`` what that
    rests on."""

    id: str
    currency: str
    estimated: bool
    cores: float
    pays_cores: float
    pays_per_hour: float
    basis: str
    offers: list[LatencyOffer]
