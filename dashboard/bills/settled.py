"""Charged slots whose figures are settled: drivers that are warm, and queries unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from dashboard.bills.charged_tasks import ChargedTask
from dashboard.bills.models import SlotReading
from dashboard.operations.live_view.cost_learning import SETTLED, WARM
from dashboard.operations.models import BundleSlot
from scheduler.latency.real_time import apart_s_of, groups_in
from scheduler.model.fragment import Fragment
from scheduler.performance.attribution import APART, Counters, query_work
from scheduler.performance.cost_model import QuerySeen, SlotSeen

Tasks = Mapping[str, list[tuple[str, float, str]]]  # as in ``measuring``


def same_queries_since(
    last: SlotReading | None, counters: Counters, tasks: Tasks, alternates: Mapping[str, str], *, at: datetime
) -> datetime:
    """The time since which a slot's process has run these queries, with these tasks and alternates, in these modes and
    without a restart of any."""
    if last is None or last.same_since is None or last.counters["since_ms"] != counters.since_ms:
        return at
    before = last.counters["queries"]
    is_same = _ids(last.tasks) == _ids(tasks) and last.alternates == alternates and all(
        name in before and before[name]["batches"] <= counts["batches"] and before[name].get(APART) == counts.get(APART)
        for name, counts in counters.queries.items())
    return last.same_since if is_same else at


def settled_slots(
    growth: Mapping[str, Counters], tasks: Mapping[str, Tasks], fragments: Mapping[str, Fragment],
    charged: Mapping[str, ChargedTask], last: Mapping[str, SlotReading], same_since: Mapping[str, datetime], *,
    at: datetime,
) -> dict[str, SlotSeen]:
    """The cost and load of settled slots since their last reading.

    Left out are drivers that have not warmed up, slots whose queries are new or changed, and those with a query that
    has more in it than works (a closed tail takes CPU, too) or that a schedule divides (its threads take more).
    """
    settled = [
        slot for slot, counters in growth.items()
        if slot in last and counters.queries and last[slot].at - same_since[slot] >= SETTLED
        and last[slot].at - datetime.fromtimestamp(counters.since_ms / 1000, UTC) >= WARM
        and all(
            _is_whole(fragments.get(name), tasks[slot].get(name, ()), counts["batches"])
            for name, counts in counters.queries.items())]
    names = {name for slot in settled for name in growth[slot].queries}
    divided = set(BundleSlot.objects.filter(bundle__in=names).values_list("bundle", flat=True)) if names else set()
    return {
        slot: _slot_seen(growth[slot], tasks[slot], charged, seconds=(at - last[slot].at).total_seconds())
        for slot in settled if not divided & growth[slot].queries.keys()
        and all(task in charged for of_query in tasks[slot].values() for task, _, _ in of_query)}


def _slot_seen(growth: Counters, tasks: Tasks, charged: Mapping[str, ChargedTask], *, seconds: float) -> SlotSeen:
    return SlotSeen(seconds, 1000 * growth.cpu_ms, tuple(
        _query_seen(name, counts, tasks[name], charged, seconds=seconds)
        for name, counts in sorted(growth.queries.items()) if counts["batches"] or APART in counts))


def _query_seen(
    name: str, counts: Mapping[str, int], tasks: Sequence[tuple[str, float, str]], charged: Mapping[str, ChargedTask],
    *, seconds: float,
) -> QuerySeen:
    work = query_work(counts, tasks).tasks
    groups = None
    if APART in counts:
        groups = groups_in(work[0].events if work else 0, seconds, apart_s_of(counts[APART]))
    return QuerySeen(name, counts["batches"], tuple(
        (step, share * task.events) for task in work for step, share in charged[task.id].types), groups)


def _is_whole(fragment: Fragment | None, tasks: Sequence[tuple[str, float, str]], batches: int) -> bool:
    """True if all of a query works, or nothing of it does."""
    return fragment is not None and (
        len(fragment.tasks) == fragment.active == len(tasks) or (fragment.paused and not batches))


def _ids(tasks: Tasks) -> dict[str, list[str]]:
    return {name: [task[0] for task in of_query] for name, of_query in tasks.items()}
