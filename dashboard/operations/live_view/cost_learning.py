"""Learning costs: what slots take is kept by the hour, and fitted by class of machine. Measurements, so not audited.

Kept is what says something for good: of drivers that have warmed up, and of queries that have run for a while with the
same tasks. Whoever charges for slots notes it here, for the same counters tell both.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from dashboard import jobs
from dashboard.operations.live_view.learned_costs import costs_of, document_of, newest_fit
from dashboard.operations.models import CostFit, CostObservation, NodeRow
from scheduler.model.costs import Costs
from scheduler.model.fragment import node_of
from scheduler.performance.cost_model import QuerySeen, SlotSeen, fit_costs

WARM = timedelta(minutes=10)  # a driver's compilers work for minutes after its start
SETTLED = timedelta(minutes=3)  # and so do those of a query that is new there
KEPT = timedelta(days=7)
MOST_ROWS = 5_000  # that a fit looks at, the newest
MOST_FITS = 20  # that are kept of a class of machine
MOVED = 0.02  # relative: costs that differ by less are no new version


def note_slots(slots_seen: Mapping[str, SlotSeen], *, at: datetime) -> int:
    """Add what slots, by name, were seen to take and to do to the rows of this hour; how many were noted."""
    if not slots_seen:
        return 0
    machines = dict(NodeRow.objects.exclude(machine="").values_list("name", "machine"))
    hour = at.replace(minute=0, second=0, microsecond=0)
    stored = {
        (row.slot, row.group): row
        for row in CostObservation.objects.select_for_update().filter(slot__in=list(slots_seen), hour=hour)}
    noted = []
    for slot, slot_seen in slots_seen.items():
        machine = machines.get(node_of(slot))
        if machine is None:
            continue
        key = {"slot": slot, "group": _digest(slot_seen), "hour": hour}
        before = stored.get((slot, key["group"])) or CostObservation(**key)
        noted.append(CostObservation(
            **key, machine=machine, seconds=before.seconds + slot_seen.seconds,
            cpu_us=before.cpu_us + slot_seen.cpu_us, queries=_added(before.queries, slot_seen.queries)))
    CostObservation.objects.bulk_create(
        noted, update_conflicts=True, unique_fields=["slot", "group", "hour"],
        update_fields=["seconds", "cpu_us", "queries"])
    return len(noted)


def learn(*, at: datetime) -> int:
    """Fit costs to what is kept, by class of machine, and forget what is old; how many have other costs than before."""
    CostObservation.objects.filter(hour__lt=at - KEPT).delete()
    by_machine: dict[str, list[SlotSeen]] = defaultdict(list)
    for row in CostObservation.objects.order_by("-hour", "slot", "group")[:MOST_ROWS]:
        by_machine[row.machine].append(_slot_seen(row))
    return sum(_fitted(machine, slots_seen, at) for machine, slots_seen in sorted(by_machine.items()))


def _fitted(machine: str, slots_seen: Iterable[SlotSeen], at: datetime) -> bool:
    last = newest_fit(machine)
    version = 1 if last is None else last.version + 1
    costs = fit_costs(slots_seen, task_types=jobs.task_types(), machine=machine, version=version)
    if costs is None or (last is not None and not _differ(costs_of(last), costs)):
        return False
    CostFit.objects.get_or_create(machine=machine, version=version, defaults={"at": at, "costs": document_of(costs)})
    CostFit.objects.filter(machine=machine, version__lte=version - MOST_FITS).delete()
    return True


def _differ(old: Costs, new: Costs) -> bool:
    """True if a plan would cost something else, or be as sure of it as it was."""
    if old.queries != new.queries or set(old.batch_s) != set(new.batch_s):
        return True
    pairs = [
        (old.query_batch_s, new.query_batch_s), (old.scale, new.scale), (1 + old.error, 1 + new.error),
        (old.group_cpu_s, new.group_cpu_s),
        *((old.batch_s[name], new.batch_s[name]) for name in new.batch_s),
        *((old.event_us[name], new.event_us[name]) for name in new.event_us)]
    return any(abs(after - before) > MOVED * max(before, after) for before, after in pairs)


def _digest(slot_seen: SlotSeen) -> str:
    # A query whose tail was closed is another one: it has other tasks. So is one whose batches stay open.
    tasks = sorted((query.id, [name for name, _ in query.tasks], *([] if query.groups is None else ["open"]))
                   for query in slot_seen.queries)
    return hashlib.sha256(repr(tasks).encode()).hexdigest()


def _added(before: Mapping[str, Any], queries: Iterable[QuerySeen]) -> dict[str, Any]:
    added = {}
    for query in queries:
        old = before.get(query.id, {"batches": 0, "tasks": [[name, 0] for name, _ in query.tasks]})
        added[query.id] = {
            "batches": old["batches"] + query.batches,
            "tasks": [
                [name, events + more] for (name, more), (_, events) in zip(query.tasks, old["tasks"], strict=True)]}
        if query.groups is not None:
            added[query.id]["groups"] = old.get("groups", 0.0) + query.groups
    return added


def _slot_seen(row: CostObservation) -> SlotSeen:
    return SlotSeen(row.seconds, row.cpu_us, tuple(
        QuerySeen(
            name, query["batches"], tuple((task_type, events) for task_type, events in query["tasks"]),
            query.get("groups"))
        for name, query in sorted(row.queries.items())))
