"""Lost nodes, and the copies of queries' state by which these go on elsewhere: what the site reads and says of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

import redis

from scheduler.contracts.copy_reports import CopyReport, copies_told
from scheduler.elasticity.heartbeats import Heartbeat
from scheduler.elasticity.query_copies import BatchCopy, counting_copies
from workers.engine.channels import keys
from workers.engine.channels.batch_ranges import kept_from
from workers.engine.channels.channel_info import texts
from workers.engine.observed import read_heartbeats
from workers.engine.slot_values import answers_of

RENEWS_S = "renews_s"  # of what a node says of itself: every how many seconds it renews its lease


def zones(broker: redis.Redis) -> dict[str, str]:
    """The fault zone of each node that has named one; raises ``redis.RedisError``."""
    return {node: str(facts["zone"]) for node, facts in _holders(broker).items() if facts.get("zone")}


def _holders(broker: redis.Redis) -> dict[str, Mapping[str, Any]]:
    """What each node that may hold copies says of itself."""
    facts = {}
    for node, text in texts(broker.hgetall(keys.HOLDERS)).items():
        with suppress(ValueError):
            parsed = json.loads(text)
            facts[node] = parsed if isinstance(parsed, dict) else {}
    return facts


def read_copies(broker: redis.Redis, queries: Iterable[str]) -> dict[str, dict[str, CopyReport]]:
    """The whole copies of each query's state by holder; nothing of one without.

    Raises
    ------
    redis.RedisError
        The broker does not answer.
    """
    names = list(queries)
    pipeline = broker.pipeline(transaction=False)
    for name in names:
        pipeline.hgetall(keys.copies(name))
    reports = {}
    for name, copies in zip(names, answers_of(pipeline) if names else (), strict=True):
        with suppress(UnicodeDecodeError):  # slots write there, and one keeps nobody from the others
            if copies:
                reports[name] = copies_told(texts(copies))
    return reports


def holders_of(broker: redis.Redis, queries: Iterable[str], *, living: Collection[str]) -> dict[str, str]:
    """The node from whose copy each query would go on; nothing of one without a copy that counts."""
    return {name: holders[0] for name, holders in all_holders_of(broker, queries, living=living).items()}


def all_holders_of(
    broker: redis.Redis, queries: Iterable[str], *, living: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """The nodes whose copy of each query counts, the newest copy first; nothing of one without such a copy."""
    holders = {}
    for name, reports in read_copies(broker, queries).items():
        copies = [BatchCopy(holder, report.batch, report.places) for holder, report in reports.items()]
        with suppress(ValueError, redis.ResponseError):  # slots write there
            counting = counting_copies(copies, living, kept_from=kept_from(broker, name))
            if counting:
                holders[name] = tuple(counting)
    return holders


def heartbeats(broker: redis.Redis, nodes: Iterable[str]) -> dict[str, Heartbeat]:
    """The newest heartbeat of each of these nodes, and of those that hold copies.

    Of an agent of an earlier version nothing is read: it renews its lease every 3 s.
    """
    apart_s = {node: _apart_s(facts[RENEWS_S]) for node, facts in _holders(broker).items() if RENEWS_S in facts}
    ages_s = read_heartbeats(broker, sorted(apart_s.keys() | set(nodes)))
    return {node: Heartbeat(age_s, apart_s.get(node, 0.0)) for node, age_s in ages_s.items()}


def _apart_s(stated: object) -> float:
    """Of what a node says, whatever that is: nobody is watched for longer than earlier versions are."""
    return min(3.0, max(0.0, stated)) if isinstance(stated, int | float) else 0.0


def lost_nodes(broker: redis.Redis) -> frozenset[str]:
    """The nodes whose queries go on elsewhere, from copies."""
    return frozenset(name.decode() for name in broker.hkeys(keys.LOST))


def declare_lost(broker: redis.Redis, nodes: Mapping[str, int]) -> None:
    """Let queries of these nodes go on elsewhere: each node with when that was said, in ms."""
    for node, at_ms in nodes.items():
        broker.hsetnx(keys.LOST, node, at_ms)
