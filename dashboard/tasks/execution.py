"""Enacting approved plans: publish what the estate wants, follow what the nodes report."""

from __future__ import annotations

import time
from collections.abc import Iterable

import redis
import structlog
from django.conf import settings
from django.utils import timezone

from dashboard import queue
from dashboard.approvals import selectors, services
from dashboard.approvals.services.following import follow_plans, plan_under_way, touched_nodes
from dashboard.operations.estate_store.reader_terms import needs_in_part
from dashboard.operations.selectors import current_stamp, elements_in_waves, load_part_of
from dashboard.operations.selectors import nodes as all_nodes
from dashboard.queue import app
from dashboard.savepoint_records.savepoint_following import follow_savepoints
from dashboard.savepoint_records.selectors import AskedOfNode, asked_of_nodes
from dashboard.teams.selectors import sealed_secrets
from workers import broker_client
from workers.engine import desired_publishing, observed, wave_publishing
from workers.engine import sealed_secrets as secrets
from workers.library import registry

log = structlog.get_logger(__name__)

MADE_ANEW_S = 60.0  # what changed without a word, such as what teams chose, is published by then


@app.task(name=queue.ENACT)
def enact(*, proposal_id: str) -> None:
    """Publish the desired state that an approved proposal made, and look at once how far it is."""
    plan = plan_under_way(proposal_id)
    publish(None if plan is None else touched_nodes(plan))
    advance_proposals()


@app.task(name=queue.REPUBLISH_DESIRED)
def republish_desired(*, in_full: bool = True) -> None:
    """Publish the desired state again, from the database: whatever the broker lost is there again.

    What has left is looked for, too: a worker that was killed when a plan was done may not have come to it. And named
    savepoints are held to what nodes report of their parts.

    Parameters
    ----------
    in_full : bool
        Whether it is made anew in any case; else only where the estate has moved on since this process made it, the
        broker has lost it, or that was a while ago.
    """
    if in_full or not _PUBLISHED.stands(time.monotonic()):
        publish()
    with _broker() as broker:
        reports = observed.read_reports(broker)
    services.drop_left_bundles(left=reports.left)
    follow_savepoints(reports)


@app.task(name=queue.ADVANCE_PROPOSALS)
def advance_proposals() -> int:
    """Compare every proposal under way with the nodes' reports; how many there were."""
    if not selectors.under_way():
        return 0
    with _broker() as broker:
        return follow_plans(observed.read_reports(broker), at=timezone.now())


def publish(nodes: Iterable[str] | None = None) -> None:
    """Write teams' secrets, sealed, and the desired state of these nodes to the broker; without names, of all.

    Each is made from the node's own part of the estate. What stands there already is left alone.
    """
    stamp = current_stamp()
    saved = asked_of_nodes()
    names = sorted(nodes if nodes is not None else (node.name for node in all_nodes()))
    with _broker() as broker:
        secrets.publish(broker, sealed_secrets())
        elements, generation, revision = elements_in_waves()
        wave_publishing.publish_waves(broker, elements, generation=generation, revision=revision)
        for node in names:
            part = load_part_of(node)
            of_node = saved.get(node, AskedOfNode())
            wanted = desired_publishing.desired_of(
                part, node, registry.task_types(), settings.TRIGGER_MS, needs=needs_in_part(part),
                saving=of_node.saving, kept_savepoints=of_node.kept)
            if not desired_publishing.stands(broker, wanted) and not desired_publishing.publish(broker, wanted):
                log.warning("newer_desired_state_stands", node=node, version=wanted.version, revision=wanted.revision)
        if nodes is None:
            _PUBLISHED.note(names, stamp, desired_publishing.texts(broker, names), time.monotonic())


class _Published:
    """What this process published last of all nodes, so that it need not be made again to know that it stands."""

    def __init__(self) -> None:
        self._nodes: list[str] = []
        self._stamp = (-1, -1)
        self._texts: list[bytes | None] = []
        self._at_s = float("-inf")

    def note(self, nodes: list[str], stamp: tuple[int, int], texts: list[bytes | None], at_s: float) -> None:
        """All of it was made from the estate as it was at this generation and revision."""
        self._nodes, self._stamp, self._texts, self._at_s = nodes, stamp, texts, at_s

    def stands(self, now_s: float) -> bool:
        """Whether that was not long ago, the estate is as it was, and the broker has it, teams' secrets too."""
        if now_s - self._at_s >= MADE_ANEW_S or current_stamp() != self._stamp:
            return False
        nodes = sorted(node.name for node in all_nodes())
        with _broker() as broker:
            secrets.publish(broker, sealed_secrets())
            return nodes == self._nodes and None not in self._texts and desired_publishing.texts(
                broker, nodes) == self._texts


_PUBLISHED = _Published()


def _broker() -> redis.Redis:
    return broker_client.connect(settings.REDIS_URL, socket_connect_timeout=2.0, socket_timeout=10.0)
