"""Enacting approved plans: publish what the estate wants, follow what the nodes report."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

import redis
import structlog
from django.conf import settings
from django.utils import timezone

from dashboard import queue
from dashboard.approvals import selectors, services
from dashboard.approvals.services.enacting import Observed
from dashboard.operations.estate_reader import current_generation
from dashboard.operations.pacing import open_of, trigger_ms_of
from dashboard.operations.reader_terms import needs_in_part
from dashboard.operations.selectors import fragments_where, load_part_of, slots_around, slots_gone
from dashboard.operations.selectors import nodes as all_nodes
from dashboard.plans.selectors import plan_of
from dashboard.queue import app
from dashboard.teams.selectors import sealed_secrets
from scheduler.contracts.reports import FAILING, Reports
from scheduler.model.fragment import RunningBundle, node_of
from scheduler.model.plan import Plan
from scheduler.step_kinds import ROUTE, Evidence, steps_done
from workers.engine import desired, observed, secrets
from workers.library import registry

log = structlog.get_logger(__name__)

MADE_ANEW_S = 60.0  # what changed without a word, such as what teams chose, is published by then


@app.task(name=queue.ENACT)
def enact(*, proposal_id: str) -> None:
    """Publish the desired state that an approved proposal made, and look at once how far it is."""
    plan = next(
        (
            plan_of(proposal.rollback_plan or proposal.plan)
            for proposal in selectors.under_way()
            if str(proposal.pk) == proposal_id
        ),
        None,
    )
    publish(None if plan is None else touched_nodes(plan))
    advance_proposals()


@app.task(name=queue.REPUBLISH_DESIRED)
def republish_desired(*, in_full: bool = True) -> None:
    """Publish the desired state again, from the database: whatever the broker lost is there again.

    What has left is looked for, too: a worker that was killed when a plan was done may not have come to it.

    Parameters
    ----------
    in_full : bool
        Whether it is made anew in any case; else only where the estate has moved on since this process made it, the
        broker has lost it, or that was a while ago.
    """
    if in_full or not _PUBLISHED.stands(time.monotonic()):
        publish()
    with _broker() as broker:
        services.drop_left_bundles(left=observed.read_reports(broker).left)


@app.task(name=queue.ADVANCE_PROPOSALS)
def advance_proposals() -> int:
    """Compare every proposal under way with the nodes' reports; how many there were."""
    proposals = selectors.under_way()
    if not proposals:
        return 0
    with _broker() as broker:
        reports = observed.read_reports(broker)
    nodes = {node.name for node in all_nodes() if node.slots}
    for proposal in proposals:
        record = proposal.rollback_plan or proposal.plan
        plan = where_it_runs(plan_of(record))
        touched, slots = touched_nodes(plan), {part.slot for part in _parts(plan)}
        awaited = touched & nodes
        done = steps_done(plan, Evidence(reports, gone=(touched - nodes) | slots_gone(slots), awaited=awaited))
        services.record_progress(
            proposal_id=proposal.pk, at=timezone.now(),
            observed=Observed(
                record.pk, done, silent(plan, reports, done=done, awaited=awaited) | failing(plan, reports)))
    services.drop_left_bundles(left=reports.left)
    return len(proposals)


def publish(nodes: Iterable[str] | None = None) -> None:
    """Write teams' secrets, sealed, and the desired state of these nodes to the broker; without names, of all.

    Each is made from the node's own part of the estate. What stands there already is left alone.
    """
    generation = current_generation()
    names = sorted(nodes if nodes is not None else (node.name for node in all_nodes()))
    with _broker() as broker:
        secrets.publish(broker, sealed_secrets())
        for node in names:
            part = load_part_of(node)
            wanted = desired.desired_of(
                part, node, registry.task_types(), settings.TRIGGER_MS, needs=needs_in_part(part),
                paces_ms=trigger_ms_of(part.fragments), real_time=open_of(part.fragments))
            if not desired.stands(broker, wanted) and not desired.publish(broker, wanted):
                log.warning("newer_desired_state_stands", node=node, version=wanted.version)
        if nodes is None:
            _PUBLISHED.note(names, generation, desired.texts(broker, names), time.monotonic())


class _Published:
    """What this process published last of all nodes, so that it need not be made again to know that it stands."""

    def __init__(self) -> None:
        self._nodes: list[str] = []
        self._generation = -1
        self._texts: list[bytes | None] = []
        self._at_s = float("-inf")

    def note(self, nodes: list[str], generation: int, texts: list[bytes | None], at_s: float) -> None:
        """All of it was made from this generation."""
        self._nodes, self._generation, self._texts, self._at_s = nodes, generation, texts, at_s

    def stands(self, now_s: float) -> bool:
        """Whether that was not long ago, the estate is as it was, and the broker has it, teams' secrets too."""
        if now_s - self._at_s >= MADE_ANEW_S or current_generation() != self._generation:
            return False
        nodes = sorted(node.name for node in all_nodes())
        with _broker() as broker:
            secrets.publish(broker, sealed_secrets())
            return nodes == self._nodes and None not in self._texts and desired.texts(broker, nodes) == self._texts


_PUBLISHED = _Published()


def touched_nodes(plan: Plan) -> set[str]:
    """The nodes whose desired state a plan changes: those of what is divided otherwise read and write for others."""
    before, after = plan.fragments_before, plan.fragments_after
    divided = [
        fragment for fragment_id, fragment in (before | after).items()
        if fragment_id in before and fragment_id in after and before[fragment_id].bundles != after[fragment_id].bundles]
    slots = {part.slot for part in _parts(plan)}
    return {node_of(slot) for slot in slots | slots_around(divided)}


def where_it_runs(plan: Plan) -> Plan:
    """The plan with its queries on the slots where the estate has them: some have moved, where a node came back with
    fewer slots than there were when it was planned."""
    fragments = {
        bundle.id: bundle.slot for fragment in fragments_where(pk__in=list(plan.fragments_after)).values()
        for bundle in fragment.queries}
    return replace(plan, fragments_after={
        fragment_id: fragment.placed(lambda part: fragments.get(part.id, part.slot))
        for fragment_id, fragment in plan.fragments_after.items()})


def _parts(plan: Plan) -> Iterator[RunningBundle]:
    for fragment in (*plan.fragments_before.values(), *plan.fragments_after.values()):
        yield from fragment.queries


def failing(plan: Plan, reports: Reports) -> dict[str, str]:
    """The plan's fragments that fail by the reports, with the cause."""
    causes = {}
    for fragment in plan.fragments_after.values():
        for bundle in fragment.queries:
            query = reports.query(bundle.slot, bundle.id)
            if query is not None and query.state == FAILING:
                causes[fragment.id] = (query.error or "The query fails.")[:2000]
    return causes


def silent(
    plan: Plan, reports: Reports, *, done: Collection[str], awaited: Collection[str]
) -> dict[str, str]:
    """The plan's fragments with steps that are not in force, on nodes of which nothing is heard, with that as cause.

    Parameters
    ----------
    done : collection of str
        Keys of the steps that are in force.
    awaited : collection of str
        Nodes that must report before anybody knows by which weights is written.
    """
    waiting = [step for step in plan.steps if step.key not in done]
    routed = {step.fragment for step in waiting if step.kind == ROUTE.name}
    causes = {}
    for fragment_id in sorted({step.fragment for step in waiting}):
        fragment = plan.fragments_after.get(fragment_id) or plan.fragments_before.get(fragment_id)
        nodes = {node_of(bundle.slot) for bundle in fragment.queries} if fragment else set()
        if away := sorted((nodes | set(awaited) if fragment_id in routed else nodes) - set(reports)):
            causes[fragment_id] = f"Nothing is heard of node {', '.join(away)}: it goes on when that is back."
    return causes


def _broker() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=2.0, socket_timeout=10.0)
