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
from workers.engine.channels.scripts import ALONE
from workers.engine.slot_values import answers_of, counts_of

REPORTS_KEPT = 10_000  # of one manager, which takes them every second
REPORTS_LIVE_S = 60
WISHES_LIVE_S = 600  # each manager says all of its wishes again at every round

# An older set-up never replaces a newer one, whichever of two publishers comes last; any replaces what is none.
_PUBLISH = ALONE + """
local current = redis.call('GET', KEYS[1])
local readable, stands = pcall(cjson.decode, current or '')
if readable and type(stands) == 'table' and (tonumber(stands.version) or 0) >= tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
"""


@dataclass(frozen=True, slots=True)
class Mail:
    """Messages for a node: its set-up as the broker has it, and wishes by manager.

    ``reports``: by the manager's node, for its own manager and those that it stands in for; ``heard``: of the nodes
    that it watches, those with a report; ``meters``, ``channels``: of the requested queries, and of each channel that
    they read.
    """

    setup: bytes | None
    reports: Mapping[str, tuple[QosReport, ...]]
    wishes: Mapping[str, QosWishes]
    heard: frozenset[str]
    meters: Mapping[str, Mapping[str, int]]
    channels: Mapping[str, Mapping[str, int]]


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
    """A set-up from its text in the broker; None without one, or if it cannot be read."""
    try:
        return QOS_SETUPS.loads(text) if text else None
    except InvalidContract:
        return None


def set_up_of(broker: redis.Redis, node: str) -> bytes | None:
    """The set-up of a node as the broker has it."""
    return broker.get(keys.qos(node))


def fetch(
    broker: redis.Redis, node: str, queries: Sequence[str], *, managers: Iterable[str] = (),
    listened_for: Iterable[str] = (),
) -> Mail:
    """All that has come for a node, in one round trip; reports are taken away. What cannot be read is passed over.

    Parameters
    ----------
    listened_for : iterable of str, optional
        The nodes of which it wants to know whether there is a report.
    """
    taking, nodes = (node, *managers), tuple(listened_for)
    pipeline = broker.pipeline(transaction=False)
    pipeline.get(keys.qos(node)).hgetall(keys.qos_wishes(node))
    for manager in taking:
        pipeline.lpop(keys.qos_reports(manager), REPORTS_KEPT)
    for node_name in nodes:
        pipeline.exists(keys.observed(node_name))
    for query in queries:
        pipeline.hgetall(keys.meter(query)).hgetall(keys.channel_meters(query))
    setup, wishes, *answers = answers_of(pipeline)
    reports, answers = answers[:len(taking)], answers[len(taking):]
    heard, meters = answers[:len(nodes)], answers[len(nodes):]
    wishes = wishes or {}
    readable = {manager.decode(): wish for manager, text in wishes.items() if (wish := _wishes(text)) is not None}
    return Mail(
        setup,
        {manager: tuple(report for text in texts or () if (report := _report(text)) is not None)
         for manager, texts in zip(taking, reports, strict=True)},
        readable, frozenset(node_name for node_name, is_there in zip(nodes, heard, strict=True) if is_there),
        _counts(queries, meters[::2]), _counts(queries, meters[1::2]))


def send(
    broker: redis.Redis, reports: Iterable[tuple[str, QosReport]], wishes: Iterable[tuple[str, QosWishes]]
) -> None:
    """Send reports to the managers of nodes, and wishes to the nodes that run the queries."""
    pipeline = broker.pipeline(transaction=False)
    for node, report in reports:
        key = keys.qos_reports(node)
        pipeline.rpush(key, QOS_REPORTS.dumps(report)).ltrim(key, -REPORTS_KEPT, -1).expire(key, REPORTS_LIVE_S)
    for node, wish in wishes:
        key = keys.qos_wishes(node)
        pipeline.hset(key, wish.node, QOS_WISHES.dumps(wish)).expire(key, WISHES_LIVE_S)
    if pipeline.command_stack:
        pipeline.execute()


def _counts(queries: Sequence[str], hashes: Iterable[Mapping[bytes, bytes] | None]) -> dict[str, dict[str, int]]:
    return dict(zip(queries, map(counts_of, hashes), strict=True))


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
