"""Set-ups of latency managers, what reporters send them and what they wish, through the broker. Imports no Spark.

The values are in ``scheduler.contracts.qos``. All of it is bounded: a list of reports is cut and expires, as wishes do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import redis

from scheduler.contracts.codec import InvalidContract
from scheduler.contracts.qos import QOS_REPORTS, QOS_SETUPS, QOS_WISHES, QosReport, QosSetup, QosWishes
from workers.engine.channels import keys

REPORTS_KEPT = 10_000  # of one manager, which takes them every second
REPORTS_LIVE_S = 60
WISHES_LIVE_S = 600  # each manager says all of its wishes again at every round

# An older set-up never replaces a newer one, whichever of two publishers comes last; any replaces what is none.
_PUBLISH = """
local current = redis.call('GET', KEYS[1])
local readable, stands = pcall(cjson.decode, current or '')
if readable and type(stands) == 'table' and (tonumber(stands.version) or 0) >= tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
"""


@dataclass(frozen=True, slots=True)
class Mail:
    """What has come for a node: its set-up as the broker has it, reports for its manager, wishes by manager, and the
    meters that were asked for, by query."""

    setup: bytes | None
    reports: tuple[QosReport, ...]
    wishes: Mapping[str, QosWishes]
    meters: Mapping[str, Mapping[str, int]]


def publish(broker: redis.Redis, setups: Iterable[QosSetup], *, at_ms: int) -> list[str]:
    """Store set-ups that say something else than those that stand, in a version later than theirs; whose they are."""
    setups = list(setups)
    texts = broker.mget([keys.qos(setup.node) for setup in setups]) if setups else []
    changed = []
    for setup, text in zip(setups, texts, strict=True):
        stands = read(text)
        if stands is not None and replace(stands, version=0) == replace(setup, version=0):
            continue
        version = max(at_ms, 0 if stands is None else stands.version + 1)
        if broker.eval(_PUBLISH, 1, keys.qos(setup.node), version, QOS_SETUPS.dumps(replace(setup, version=version))):
            changed.append(setup.node)
    return changed


def read(text: bytes | None) -> QosSetup | None:
    """A set-up as it stands in the broker; None where there is none, or it cannot be read."""
    try:
        return QOS_SETUPS.loads(text) if text else None
    except InvalidContract:
        return None


def set_up_of(broker: redis.Redis, node: str) -> bytes | None:
    """The set-up of a node as the broker has it."""
    return broker.get(keys.qos(node))


def fetch(broker: redis.Redis, node: str, queries: Sequence[str]) -> Mail:
    """All that has come for a node, in one round trip; reports are taken away. What cannot be read is passed over."""
    pipeline = broker.pipeline(transaction=False)
    pipeline.get(keys.qos(node)).lpop(keys.qos_reports(node), REPORTS_KEPT).hgetall(keys.qos_wishes(node))
    for query in queries:
        pipeline.hgetall(keys.meter(query))
    setup, reports, wishes, *meters = pipeline.execute()
    readable = {manager.decode(): wish for manager, text in wishes.items() if (wish := _wishes(text)) is not None}
    return Mail(
        setup, tuple(report for text in reports or () if (report := _report(text)) is not None), readable,
        {query: {name.decode(): int(value) for name, value in fields.items() if value.isdigit()}
         for query, fields in zip(queries, meters, strict=True)})


def send(
    broker: redis.Redis, reports: Iterable[tuple[str, QosReport]], wishes: Mapping[str, QosWishes]
) -> None:
    """Send reports to the managers of nodes, and wishes to the nodes that run the queries."""
    pipeline = broker.pipeline(transaction=False)
    for node, report in reports:
        key = keys.qos_reports(node)
        pipeline.rpush(key, QOS_REPORTS.dumps(report)).ltrim(key, -REPORTS_KEPT, -1).expire(key, REPORTS_LIVE_S)
    for node, wish in wishes.items():
        key = keys.qos_wishes(node)
        pipeline.hset(key, wish.node, QOS_WISHES.dumps(wish)).expire(key, WISHES_LIVE_S)
    if pipeline.command_stack:
        pipeline.execute()


def _report(text: bytes) -> QosReport | None:
    try:
        return QOS_REPORTS.loads(text)
    except InvalidContract:
        return None


def _wishes(text: bytes) -> QosWishes | None:
    try:
        return QOS_WISHES.loads(text)
    except InvalidContract:
        return None
