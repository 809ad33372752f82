"""What latency costs a dataflow: the batches of its queries at other limits, and who would pay for them.

Of one that does not run it is estimated, as if it ran alone: as plans are, from what tasks of its types take.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.conf import settings

from dashboard.catalog.document_checks import stored_dataflow
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.selectors import current_version
from dashboard.catalog.selectors import dataflow as dataflow_of
from dashboard.operations.estate_store.estate_loader import current_estate
from dashboard.operations.latency_control.latency_view import OFFERED_S, paces_of
from dashboard.operations.latency_control.open_batches import able_now
from dashboard.operations.live_view.learned_costs import costs_here
from dashboard.operations.models import LatencyStatus
from dashboard.plans.price_settings import queries_alone, tariff
from dashboard.teams.permissions import Viewer
from scheduler.latency.offers import offers
from scheduler.latency.pacing import LimitOnWay, Queries
from scheduler.latency.real_time import BatchModes, choose_modes
from scheduler.latency.sharing import airport_shares
from scheduler.latency.triggers import BatchCost
from scheduler.latency.ways import way_of
from scheduler.model.estate import Estate
from scheduler.model.fragment import node_of
from scheduler.model.latency_limits import LatencyLimit, in_words


def latency_prices(
    viewer: Viewer, dataflow_id: UUID | str, *, scheduled: bool = False, opens: bool = True
) -> dict[str, Any]:
    """What the batches of a dataflow's queries take at other limits of the whole, and its part of that.

    With ``scheduled`` it is that of a schedule: a query for each task, alone, whose batches are no further apart than
    its promise was made for.

    Queries that may leave their batches open do so where they would; without ``opens`` only those that do now. Limits
    of others that share queries stay as they are; of what a stricter limit costs more, whoever asks for it pays (the
    Shapley value of the airport game). While the dataflow does not run, or nothing is known of its batches, it is
    estimated.

    Parameters
    ----------
    scheduled : bool, optional
        Whether as by a schedule.
    opens : bool, optional
        Whether queries' batches may come to be open.
    """
    record = dataflow_of(viewer, dataflow_id)
    estate, name = current_estate(), str(record.pk)
    if scheduled:
        return _estimated(record, scheduled=True, opens=opens)
    entry = estate.submitted.get(name)
    paces = {} if entry is None or entry.paused else paces_of(estate, name)
    own = {query for query, row in paces.items() if row.cost}
    whole = LatencyLimit(1.0)
    way = way_of(estate, name, whole) if own else None
    price = tariff()
    answer: dict[str, Any] = {"id": name, "currency": price.currency, "estimated": False, "offers": []}
    if way is None or not way.writers.keys() <= own:
        return _estimated(record, scheduled=False, opens=opens)
    others = _wants_of_others(estate, name, own)
    slot_hour = max((price.slot_hour(node_of(estate.fragments[query].slot)) for query in own), default=price.core_hour)
    costs = {query: BatchCost(**paces[query].cost) for query in own}
    reads = {query: tuple(writer for writer in way.writers.get(query, ()) if writer in own) for query in own}
    queries = Queries(
        costs, reads, slot_of={query: estate.fragments[query].slot for query in own},
        largest_s=settings.LONGEST_TRIGGER_MS / 1000)
    open_now = {query for query in own if paces[query].real_time}
    able = able_now(estate, own, open_now=open_now)
    refusals = dict.fromkeys(able if opens else able & open_now, "")
    alone = {user: choose_modes(queries, wants, refusals) for user, wants in others.items()}
    for limit_s in (*OFFERED_S, None):
        wants = [] if limit_s is None else [LimitOnWay(name, way, limit_s, whole.share)]
        mine = choose_modes(queries, wants, refusals)
        whole_choice = choose_modes(
            queries, [want for wants_of in (*others.values(), wants) for want in wants_of], refusals, before=open_now)
        paid = sum(
            airport_shares({user: _batches_cores(query, costs[query], choice, whole_choice)
                            for user, choice in (alone | {name: mine}).items()
                            if user == name or _uses(estate, user, query)})[name]
            + _events_cores(costs[query]) / max(1, 1 + sum(_uses(estate, user, query) for user in alone))
            for query in own)
        expected = mine.paced.expected.get(name)
        answer["offers"].append({
            "limit_s": limit_s, "words": "none" if limit_s is None else in_words(limit_s),
            "met": expected is None or expected.least_s is None,
            "cores": round(sum(whole_choice.cores(query, cost) for query, cost in costs.items()), 4),
            "pays_cores": round(paid, 4), "pays_per_hour": round(paid * slot_hour, 6),
            "queries": len(own), "open_queries": len(whole_choice.open)})
    return answer


def _estimated(record: DataflowRecord, *, scheduled: bool, opens: bool) -> dict[str, Any]:
    """What the current version would take if it ran alone; no offers where a task's type is not installed."""
    dataflow, price = stored_dataflow(current_version(record).document), tariff()
    answer: dict[str, Any] = {"id": str(record.pk), "currency": price.currency, "estimated": True, "offers": []}
    alone = queries_alone(dataflow, costs=costs_here(), scheduled=scheduled)
    if alone is None:
        return answer
    answer["offers"] = [
        {"limit_s": offer.limit_s, "words": "none" if offer.limit_s is None else in_words(offer.limit_s),
         "met": offer.met, "cores": round(offer.cores, 4), "pays_cores": round(offer.cores, 4),
         "pays_per_hour": round(offer.cores * price.core_hour, 6),
         "queries": len(alone.queries.costs), "open_queries": offer.open_queries}
        for offer in offers(alone.queries, alone.way, (*OFFERED_S, None), able=alone.able if opens else ())]
    return answer


def _wants_of_others(estate: Estate, dataflow: str, own: Collection[str]) -> dict[str, list[LimitOnWay]]:
    """Limits of others on the dataflow's queries: each on the part of its way that it has in common with it.

    What they wait for elsewhere is taken as it stands.
    """
    users = {user for query in own for task in estate.fragments[query].active_tasks
             for user in estate.users.get(task, ()) if user != dataflow and not estate.submitted[user].paused}
    records = {str(record.pk): record for record in
               DataflowRecord.objects.filter(pk__in=users).select_related("team")}
    waits = {(str(row.dataflow_id), row.number): row.path for row in LatencyStatus.objects.filter(dataflow__in=users)}
    wants: dict[str, list[LimitOnWay]] = {user: [] for user in users}
    for user, record in records.items():
        for number, limit in enumerate(record.latency_limits):
            way = way_of(estate, user, limit)
            if way is None:
                continue
            elsewhere_s = sum(wait + batch for query, wait, batch in waits.get((user, number), ()) if query not in own)
            part = replace(
                way, writers={query: tuple(writer for writer in writers if writer in own)
                              for query, writers in way.writers.items() if query in own},
                starts=way.starts & set(own),
                ends=frozenset(query for query in way.writers if query in own and not any(
                    query in way.writers[reader] and reader in own for reader in way.writers)))
            if part.starts and part.ends:
                wants[user].append(LimitOnWay(f"{user}/{number}", part, limit.limit_s, limit.share, elsewhere_s))
    return wants


def _uses(estate: Estate, user: str, query: str) -> bool:
    return any(user in estate.users.get(task, ()) for task in estate.fragments[query].active_tasks)


def _batches_cores(query: str, cost: BatchCost, own: BatchModes, of_all: BatchModes) -> float:
    """What batches of a query take that one user alone needs, whatever is in them; no more than those of all users
    together, where these stay open."""
    seconds = own.priced_s(query, cost)
    return cost.batch_cpu_s / (max(seconds, of_all.priced_s(query, cost)) if query in of_all.open else seconds)


def _events_cores(cost: BatchCost) -> float:
    return cost.rate_per_s * cost.event_cpu_s
