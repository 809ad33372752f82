"""The ring of a task that is divided by key: who has which keys, how much comes for them, what a loss would take.

One document for the page *Ring*, the API and ``./weir ring``.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.conf import settings

from dashboard.operations.estate_store.readable import may_read_all
from dashboard.operations.live_view.document_fields import DataflowUser
from dashboard.operations.live_view.estate_view import View, view_for
from dashboard.operations.live_view.measured_keys import hot_bundles, key_columns, measured_key_loads
from dashboard.operations.live_view.state_holders import copy_nodes, givers_of, states_of, survival_now, zones
from dashboard.operations.live_view.survival import least_in_words, more_in_words, survival_of
from dashboard.operations.selectors import running_task_of
from dashboard.teams.permissions import Viewer
from scheduler.contracts.reports import copy_age_ms
from scheduler.elasticity.copies import lost_with
from scheduler.model.errors import NotFound
from scheduler.model.fragment import Fragment, RunningBundle, node_of
from scheduler.model.key_loads import KeyLoads
from scheduler.model.key_texts import key_in_words
from scheduler.model.ring import KEY_GROUPS, KeyRange

STAYS, TAKES = "stays", "takes keys"

State = tuple[int, str]  # a range, by its first group, and who has its state


@dataclass(frozen=True, slots=True)
class RingHolder:
    """A node with a whole copy of the state of a range, and its fault zone; empty: it is a zone of its own."""

    node: str
    zone: str


@dataclass(frozen=True, slots=True)
class RingRange:
    """A range of the ring: its first key group of 65,536 and how many it has, and the bundle that has it.

    ``load`` is the part of the task's events that come for its keys, from 0 to 1; ``rate_per_s`` is what its bundle
    takes in, ``state_kb`` what that keeps, also for its other ranges. None where it is not known. ``change`` is
    ``stays``, or ``takes keys`` where it goes on with keys of bundles that leave. ``hot``: one key alone keeps its
    bundle busy. ``holders`` have copies of its state from which its bundle could go on now, the newest first;
    ``copy_age_ms`` is how old the oldest is, and ``not_copied`` why there are fewer than asked for.
    """

    first: int
    groups: int
    part: float
    bundle: str
    slot: str
    node: str
    zone: str
    state: str
    change: str
    load: float | None
    rate_per_s: float | None
    state_kb: int | None
    hot: bool
    holders: list[RingHolder]
    copy_age_ms: int | None
    not_copied: str | None


@dataclass(frozen=True, slots=True)
class LeavingBundle:
    """A bundle that had keys, and reads what it has to its end; ``to``: the bundles that go on with its keys."""

    bundle: str
    slot: str
    state: str
    to: list[str]


@dataclass(frozen=True, slots=True)
class RingKey:
    """A key that many events have: its group, its bundle, and its part of the events at least, from 0 to 1.

    ``values`` are those of its columns, as text: None for who is in no team whose dataflow works there, or may not read
    what another team's credential reads.
    """

    group: int
    bundle: str
    share: float
    values: list[str] | None


@dataclass(frozen=True, slots=True)
class RingLoss:
    """The part of the ring on a machine: how many key groups, their part of the ring and of the events, and state in
    kB; and what its loss takes: ``lost`` are the ranges, by their first group, whose state nobody else has,
    ``lost_part`` of the ring.
    """

    node: str
    zone: str
    groups: int
    part: float
    load: float | None
    state_kb: int | None
    lost: list[int]
    lost_part: float


@dataclass(frozen=True, slots=True)
class TaskRing:
    """The division of a running task's keys. ``counted``: the number of events that its writers counted by key, older
    ones weighted less, None if too few; ``survives``: the losses that its state survives, as a predicate; ``one_more``:
    the cost of one more copy, empty if unknown."""

    task: str
    name: str
    by: list[str]
    counted: int | None
    survives: str
    one_more: str
    ranges: list[RingRange]
    leaving: list[LeavingBundle]
    keys: list[RingKey]
    losses: list[RingLoss]
    dataflows: list[DataflowUser] = field(default_factory=list)


def is_ring(viewer: Viewer, task_id: str) -> bool:
    """True if a running task is divided by key, as far as the viewer may know."""
    return _fragment(view_for(viewer), task_id) is not None


def ring_of_task(viewer: Viewer, dataflow_id: UUID | str, task: str) -> TaskRing:
    """The same of a task of a dataflow, by its name there."""
    return ring_of(viewer, running_task_of(viewer, dataflow_id, task))


def ring_of(viewer: Viewer, task_id: str) -> TaskRing:
    """The ring of a running task; ``NotFound`` where there is none, or the viewer may not know of the task."""
    view = view_for(viewer)
    fragment = _fragment(view, task_id)
    if fragment is None:
        raise NotFound(
            "This task is not divided by key, or there is no such task.",
            remedy="Tasks with state by key are divided where a schedule needs several bundles for their rate.")
    return _ring(viewer, view, fragment)


def _fragment(view: View, task_id: str) -> Fragment | None:
    """The fragment that begins with a task, where that is divided by key."""
    located = view.estate.places.get(task_id) if task_id in view.tasks else None
    fragment = view.estate.fragments[located[0]] if located else None
    return fragment if fragment and fragment.divided_by_key and fragment.tasks[0] == task_id else None


def _ring(viewer: Viewer, view: View, fragment: Fragment) -> TaskRing:
    task, loads = fragment.tasks[0], measured_key_loads(view.estate, [fragment]).get(fragment.id)
    users = view.users(fragment.active_tasks)
    bundles = {bundle.part: bundle for bundle in fragment.bundles}
    working = [bundle for bundle in fragment.bundles if not bundle.leaving]
    reports = [view.bundle_report(bundle) for bundle in working]
    by, zone_of = key_columns(view.estate, fragment), zones(view)
    ring, hot = fragment.ring(by), hot_bundles(view, fragment, loads)
    ranges = [
        _range(view, fragment, piece, bundles[piece.bundle], zone_of, loads, hot) for piece in ring.ranges]
    holders_of = {
        (piece.first, name): nodes for piece in ranges
        for name, nodes in states_of(view, fragment, bundles[ring.owner(piece.first)]).items()}
    survives = survival_now(view, ((fragment, bundle) for bundle in working))
    is_own = any(user["id"] in view.own_ids for user in users) and may_read_all(viewer, view.estate, [task])
    frequent = loads.frequent if loads else ()
    return TaskRing(
        task, view.name_of(task), list(by), round(loads.events) if loads else None,
        least_in_words(reports, survives), more_in_words(survival_of(reports, survives, copy_s=settings.COPY_S)),
        ranges,
        [LeavingBundle(bundle.id, bundle.slot, view.bundle_report(bundle).state, _heirs(fragment, bundle))
         for bundle in fragment.bundles if bundle.leaving and bundle.id not in view.reading.reports.left],
        [RingKey(key.group, bundles[ring.owner(key.group)].id, round(loads.share_of(key), 3),
                 list(key_in_words(key.text)) if is_own else None) for key in frequent],
        _losses(ranges, holders_of, zone_of), users)


def _range(
    view: View, fragment: Fragment, piece: KeyRange, bundle: RunningBundle, zones: Mapping[str, str],
    loads: KeyLoads | None, hot: Container[str],
) -> RingRange:
    report, flows = view.bundle_report(bundle), view.reading.flows
    node = node_of(bundle.slot)
    reported, holders = view.node_report(node), copy_nodes(view, bundle)
    return RingRange(
        piece.token, piece.size, piece.size / KEY_GROUPS, bundle.id, bundle.slot, node, zones.get(node, ""),
        report.state, TAKES if any(givers_of(view, fragment, bundle)) else STAYS,
        round(loads.share(piece), 4) if loads else None,
        round(flows.queries[bundle.id], 1) if view.reading.measured and bundle.id in flows.queries else None,
        report.state_kb, bundle.id in hot, [RingHolder(holder, zones.get(holder, "")) for holder in holders],
        copy_age_ms(report, at_ms=reported.at_ms) if holders and reported else None, report.not_copied)


def _heirs(fragment: Fragment, leaving: RunningBundle) -> list[str]:
    return [bundle.id for bundle in fragment.bundles if not bundle.leaving and leaving in fragment.before(bundle)]


def _losses(
    ranges: Sequence[RingRange], holders_of: Mapping[State, tuple[str, ...]], zones: Mapping[str, str]
) -> list[RingLoss]:
    """The losses by machine that has ranges, or takes some along; a bundle's state counts once, though it has several
    ranges."""
    losses, machines = [], {node: node for nodes in holders_of.values() for node in nodes}
    for node in sorted({piece.node for piece in ranges}.union(machines)):
        here = [piece for piece in ranges if piece.node == node]
        states = {piece.bundle: piece.state_kb for piece in here}
        sizes_kb = [state_kb for state_kb in states.values() if state_kb is not None]
        lost = sorted({first for first, _ in lost_with(holders_of, machines, node)})
        if here or lost:
            losses.append(RingLoss(
                node, zones.get(node, ""), sum(piece.groups for piece in here), sum(piece.part for piece in here),
                None if ranges[0].load is None else round(sum(piece.load or 0.0 for piece in here), 4),
                sum(sizes_kb) if sizes_kb else None, lost, sum(piece.part for piece in ranges if piece.first in lost)))
    return losses
