"""The present deployment of queries: from an estate and what is measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler.contracts.reports import Reports
from scheduler.deployment.deployed_bundles import Deployment, PlacedBundle
from scheduler.model.estate import Estate, Submitted
from scheduler.model.fragment import Fragment, RunningBundle, node_of
from scheduler.model.node_parts import FileSecrets
from scheduler.model.task_types import TaskTypes
from scheduler.model.tenancy import is_open_to
from scheduler.moving import why_not_moved, why_not_to_other_nodes
from scheduler.reuse.division import is_placed


@dataclass(frozen=True, slots=True)
class DeploymentFacts:
    """The facts that a deployment is made of.

    Attributes
    ----------
    estate, task_types, reports
        What runs, the catalogue, and what nodes report.
    rates_per_s : mapping of str to float
        Events a second that leave each running task.
    waiting : mapping of str to float
        Events that wait for each query.
    event_bytes : mapping of str to float
        How large an event is in each channel, in bytes; those that nobody has sized are left out.
    targets : collection of str
        The slots that queries may go to.
    file_secrets : collection of (str, str)
        Team and name of the secrets that stand for a file of a node.
    """

    estate: Estate
    task_types: TaskTypes
    reports: Reports
    rates_per_s: Mapping[str, float]
    waiting: Mapping[str, float] = field(default_factory=dict)
    event_bytes: Mapping[str, float] = field(default_factory=dict)
    targets: Collection[str] = ()
    file_secrets: FileSecrets = frozenset()


def deployment_of(
    facts: DeploymentFacts, cores: Mapping[str, float] | None = None, behind: Collection[str] = frozenset()
) -> Deployment:
    """The bundles of an estate on their slots, the number of events that wait for each, and the traffic between them.

    Only people move bundles that a schedule has placed: the schedule was approved with its promise.

    Parameters
    ----------
    cores : mapping of str to float, optional
        The cores of queries; by default what their nodes report now.
    """
    estate = facts.estate
    working = working_in(estate)
    bundles: dict[str, PlacedBundle] = {}
    for fragment in working.values():
        # What is on a silent node would leave it only once the node is back, and all other plans would wait for that.
        is_heard = all(node_of(bundle.slot) in facts.reports for bundle in fragment.queries)
        is_movable = is_heard and not why_not_moved(estate, fragment, task_types=facts.task_types) and not is_placed(
            estate, fragment, _users(estate, fragment))
        for bundle in fragment.queries:
            is_bound = is_movable and bool(why_not_to_other_nodes(
                estate, fragment, bundle, task_types=facts.task_types, file_secrets=facts.file_secrets))
            bundle_cores = (cores or {}).get(bundle.id, cpu_of(facts.reports, bundle))
            bundles[bundle.id] = PlacedBundle(
                bundle.id, bundle.slot, bundle_cores or 0.0, movable=is_movable, node_bound=is_bound,
                queue=float(facts.waiting.get(bundle.id, 0)), behind=bundle.id in behind, team=fragment.team)
    traffic: dict[tuple[str, str], float] = defaultdict(float)
    events: dict[tuple[str, str], float] = defaultdict(float)
    for stream in _streams(working, facts.event_bytes):
        rate_per_s = facts.rates_per_s.get(stream.task)
        if rate_per_s is not None:
            pair = stream.source.id, stream.target.id
            events[pair] += rate_per_s * stream.share
            if stream.event_bytes is not None:
                traffic[pair] += rate_per_s * stream.share * stream.event_bytes
    targets = frozenset(facts.targets)
    team_targets = {
        team: frozenset(slot for slot in targets if is_open_to(team, estate.teams.get(slot, ())))
        for team in {bundle.team for bundle in bundles.values()}} if estate.teams_apart else {}
    return Deployment(
        bundles, sorted(targets.union(bundle.slot for bundle in bundles.values())), dict(traffic), targets,
        dict(events), team_targets)


def bytes_between_nodes(
    estate: Estate, tasks: Collection[str], event_bytes: Mapping[str, float]
) -> dict[str, float]:
    """Bytes that each event of a task sends between nodes, to or from the present queries of some tasks."""
    names = {estate.places[task][0] for task in tasks if task in estate.places}
    sent: dict[str, float] = defaultdict(float)
    for stream in _streams(working_in(estate), event_bytes, about=names):
        if node_of(stream.source.slot) != node_of(stream.target.slot) and stream.event_bytes is not None:
            sent[stream.task] += stream.event_bytes * stream.share
    return dict(sent)


def channels_between(estate: Estate, tasks: Collection[str] | None = None) -> set[str]:
    """The channels between queries; where tasks are named, to and from the queries that these are in."""
    names = None if tasks is None else {estate.places[task][0] for task in tasks if task in estate.places}
    return {
        channel for writer, task, _ in _ends(working_in(estate), names) for channel in writer.channels_of(task)}


def working_in(estate: Estate) -> dict[str, Fragment]:
    """The fragments of which a task works, by id."""
    return {name: fragment for name, fragment in estate.fragments.items() if fragment.active_tasks}


def cpu_of(reports: Reports, bundle: RunningBundle) -> float | None:
    """The cores that a bundle takes now; None until its node has measured them."""
    report = reports.query(bundle.slot, bundle.id)
    return None if report is None else report.cpu


def _users(estate: Estate, fragment: Fragment) -> list[Submitted]:
    """The dataflows that work in a fragment."""
    users = {user for task in fragment.active_tasks for user in estate.users.get(task, ())}
    return [estate.submitted[user] for user in users]


class _Stream(NamedTuple):
    """A stream between two queries: its task, who writes and who reads, what part of its events passes there, and bytes
    that one has in the mean; None where nobody has sized them."""

    task: str
    source: RunningBundle
    target: RunningBundle
    share: float
    event_bytes: float | None


def _ends(
    working: Mapping[str, Fragment], about: Collection[str] | None
) -> Iterator[tuple[Fragment, str, Fragment]]:
    for writer in working.values():
        for task, readers in writer.outlets.items():
            for reader in readers:
                if reader in working and (about is None or {writer.id, reader} & set(about)):
                    yield writer, task, working[reader]


def _streams(
    working: Mapping[str, Fragment], sizes: Mapping[str, float], about: Collection[str] | None = None
) -> Iterator[_Stream]:
    """Every stream between two queries; where fragments are named, only streams to and from these."""
    for writer, task, reader in _ends(working, about):
        event_bytes = [sizes[channel] for channel in writer.channels_of(task) if channel in sizes]
        for source, part in _shares(writer):
            for target, target_share in _shares(reader):
                yield _Stream(task, source, target, part * target_share, max(event_bytes, default=None))


def _shares(fragment: Fragment) -> list[tuple[RunningBundle, float]]:
    """Each bundle of a fragment with its part of a stream."""
    bundles = fragment.queries
    total = sum(bundle.weight for bundle in bundles)
    return [(bundle, bundle.weight / total if total else 0.0) for bundle in bundles]
