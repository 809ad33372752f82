"""Enacting approved plans: publish what the estate wants, follow what the nodes report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import redis
import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.utils import timezone

from dashboard import queue
from dashboard.approvals import selectors, services
from dashboard.approvals.services.following import follow_plans, plan_under_way, touched_nodes
from dashboard.operations.estate_store.estate_loader import load_part_with
from dashboard.operations.estate_store.reader_terms import needs_in_part
from dashboard.operations.selectors import current_stamp, elements_in_waves
from dashboard.operations.selectors import nodes as all_nodes
from dashboard.queue import app
from dashboard.savepoint_records.savepoint_following import follow_savepoints
from dashboard.savepoint_records.selectors import asked_of_node
from dashboard.teams.selectors import sealed_secrets
from scheduler.model.task_types import TaskType
from workers import broker_client
from workers.engine import desired_publishing, observed, wave_publishing
from workers.engine import sealed_secrets as secrets
from workers.library import registry

log = structlog.get_logger(__name__)


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
        True if it is made anew in any case; else only where the estate has moved on since this process made it, or the
        broker has lost it.
    """
    if in_full or not _PUBLISHED.stands():
        publish()
    with _broker() as broker:
        reports = observed.read_reports(broker)
    services.drop_left_bundles(left_bundles=reports.left)
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

    Each is made from the node's own part of the estate. What stands there already is left alone. A node whose state
    cannot be made or written keeps no other from its own, and is tried again when all are published next.
    """
    stamp = current_stamp()
    types = registry.task_types()
    names = sorted(nodes if nodes is not None else (node.name for node in all_nodes()))
    with _broker() as broker:
        secrets.publish(broker, sealed_secrets())
        elements, generation, revision = elements_in_waves()
        wave_publishing.publish_waves(broker, elements, generation=generation, revision=revision)
        are_all_written = True
        for node in names:
            try:
                _publish_node(broker, node, types)
            except (OperationalError, InterfaceError, redis.ConnectionError, redis.TimeoutError):
                raise  # no node can be written
            except Exception:
                are_all_written = False
                log.exception("node_not_published", node=node)
        if nodes is None and are_all_written:
            _PUBLISHED.note(names, stamp, desired_publishing.texts(broker, names))


def _publish_node(broker: redis.Redis, node: str, types: Mapping[str, TaskType]) -> None:
    part, (needs, savepoints) = load_part_with(node, lambda part: (needs_in_part(part), asked_of_node(node)))
    desired_state = desired_publishing.desired_of(
        part, node, types, settings.TRIGGER_MS, needs=needs, saving=savepoints.saving,
        kept_savepoints=savepoints.kept_ids)
    if not desired_publishing.stands(broker, desired_state) and not desired_publishing.publish(broker, desired_state):
        log.warning("newer_desired_state_stands", node=node, version=desired_state.version,
                    revision=desired_state.revision)


class _Published:
    """The last state of all nodes that this process published, so that it need not be made again to know that it
    stands."""

    def __init__(self) -> None:
        self._nodes: list[str] = []
        self._stamp = (-1, -1)
        self._texts: list[bytes | None] = []

    def note(self, nodes: list[str], stamp: tuple[int, int], texts: list[bytes | None]) -> None:
        """All of it was made from the estate as it was at this generation and revision."""
        self._nodes, self._stamp, self._texts = nodes, stamp, texts

    def stands(self) -> bool:
        """True if the estate is as it was, and the broker has what follows from it, teams' secrets too."""
        if current_stamp() != self._stamp:
            return False
        nodes = sorted(node.name for node in all_nodes())
        with _broker() as broker:
            secrets.publish(broker, sealed_secrets())
            return nodes == self._nodes and None not in self._texts and desired_publishing.texts(
                broker, nodes) == self._texts


_PUBLISHED = _Published()


def _broker() -> redis.Redis:
    return broker_client.connect(settings.REDIS_URL, socket_connect_timeout=2.0, socket_timeout=10.0)
