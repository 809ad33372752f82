"""The distribution over keys of the events of running tasks that are divided by key, as their writers count them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from dashboard import jobs, node_calls
from dashboard.operations.live_view.estate_view import View
from dashboard.operations.live_view.findings import WARN, Finding
from scheduler.elasticity.hot_keys import hot_keys
from scheduler.model.fragment import Fragment
from scheduler.model.key_loads import DividedKeys, FrequentKey, KeyLoads, KeyRanges
from scheduler.model.ports import EstateView
from scheduler.reuse.division import working_bundles


def measured_key_loads(estate: EstateView, fragments: Iterable[Fragment]) -> dict[str, KeyLoads]:
    """The loads by fragment: of those that are divided by key, and of which enough was counted."""
    by_key = [fragment for fragment in fragments if fragment.divided_by_key]
    return node_calls.key_loads({
        fragment.id: [
            writer.id for parent in estate.tasks[fragment.tasks[0]].parents
            for writer in estate.fragments[estate.places[parent][0]].queries]
        for fragment in by_key})


def divided_keys(estate: EstateView, running: Mapping[str, Fragment]) -> dict[str, DividedKeys]:
    """The present division of tasks that are divided by key, and the distribution of their events over keys; by the
    names of these tasks."""
    loads = measured_key_loads(estate, running.values())
    return {
        task: DividedKeys(loads.get(fragment.id), _ranges_by_slot(fragment))
        for task, fragment in running.items() if fragment.divided_by_key}


def key_columns(estate: EstateView, fragment: Fragment) -> tuple[str, ...]:
    """The columns by which a fragment is divided."""
    head = estate.tasks[fragment.tasks[0]]
    return jobs.task_types()[head.type].key_columns(head.config)


def hot_bundles(view: View, fragment: Fragment, loads: KeyLoads | None) -> dict[str, FrequentKey]:
    """The hot bundles by query: the key that alone is more than it sustains, of queries for which more comes than they
    take."""
    if loads is None:
        return {}
    reports = view.reading.reports
    full = {query.throttled_by.rpartition("@")[2] for _, query in reports.queries() if query.throttled_by}
    cpu = {
        bundle.part: view.bundle_report(bundle).cpu or 0.0 for bundle in working_bundles(fragment)
        if bundle.part in full or reports.spill(bundle.slot, bundle.id) is not None}
    ids = {bundle.part: bundle.id for bundle in fragment.bundles}
    hot = hot_keys(fragment.ring(key_columns(view.estate, fragment)), loads, cpu) if cpu else {}
    return {ids[part]: key for part, key in hot.items()}


def hot_key_findings(view: View) -> Iterator[Finding]:
    """Keys that alone are more than their bundles sustain. They are not named: only their own teams may read them."""
    by_key = [fragment for fragment in view.fragments() if fragment.divided_by_key]
    measured = view.worked.once("key loads", lambda: measured_key_loads(view.estate, view.estate.fragments.values()))
    for fragment in by_key:
        loads = measured.get(fragment.id)
        for query, key in hot_bundles(view, fragment, loads).items():
            slot = next(bundle.slot for bundle in fragment.queries if bundle.id == query)
            part = round(loads.share_of(key) * 10) * 10 if loads else 0
            yield Finding(
                "key", query, "hot", WARN,
                f"One key of {view.name_of(fragment.tasks[0])} has about {part}% of its events: more than its "
                f"query on {slot} sustains.",
                "No other division of keys helps. Divide the key by another column, take fewer of its events before "
                "this task, or move the query to a faster machine. The task's page Ring names the key to its own team.",
                dataflows=view.users(fragment.active_tasks))


def _ranges_by_slot(fragment: Fragment) -> dict[str, KeyRanges]:
    """The ranges of each slot; none where a slot has several bundles."""
    bundles = working_bundles(fragment)
    ranges = {bundle.slot: bundle.key_ranges for bundle in bundles}
    return ranges if len(ranges) == len(bundles) else {}
