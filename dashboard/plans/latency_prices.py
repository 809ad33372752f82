"""The cost of latency for a dataflow: the batches of its queries at other limits, and who would pay for them.

Of one that does not run it is estimated, as if it ran alone: as plans are, from what tasks of its types take.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from dashboard.plans.dataflow_figures import DataflowFigures, figures_of
from dashboard.plans.price_settings import queries_alone, tariff
from dashboard.teams.permissions import Viewer
from scheduler.latency.offers import offers
from scheduler.latency.pacing import LimitOnWay, Queries
from scheduler.latency.real_time import BatchModes, choose_modes
from scheduler.latency.sharing import airport_shares
from scheduler.latency.triggers import BatchCost
from scheduler.latency.ways import Step, Way, way_of
from scheduler.model.cost_figures import CostFigure
from scheduler.model.errors import WeirError
from scheduler.model.estate import Estate
from scheduler.model.latency_limits import LatencyLimit, in_words

WHOLE = LatencyLimit(1.0)  # stands for any limit on the mean of the whole
WORKS_S = 5.0  # CPU seconds of one answer: anybody may ask, and others wait for the process
MOST_QUERIES = 300  # of more, one of the programs that are solved between two looks at the time takes seconds
REMEDY = "Look at the price in a plan with the limit that you want."


class PricesTooLong(WeirError):
    """Prices of other limits need more time than anybody waits for."""

    code = "prices_too_long"


@dataclass(frozen=True)
class _WatchedWay(Way):
    """A way that looks whether time is left each time its slowest path is looked for, which each round does."""

    look: Callable[[], None] = field(kw_only=True, compare=False)

    def slowest(self, step: Step) -> tuple[tuple[str, ...], float]:
        self.look()
        return Way.slowest(self, step)


def latency_prices(
    viewer: Viewer, dataflow_id: UUID | str, *, scheduled: bool = False, opens: bool = True,
    spent_s: Callable[[], float] = time.thread_time,
) -> dict[str, Any]:
    """The cost of the batches of a dataflow's queries at other limits of the whole, and its part of that.

    With ``scheduled`` it is that of a schedule: a query for each task, alone, whose batches are no further apart than
    its promise was made for.

    Each offer is what the dataflow costs (`figures_of`), times what the model of batches takes under that limit for
    what it takes under the limits in force: that of the limit in force is what it costs.

    Queries that may leave their batches open do so where they would; without ``opens`` only those that do now. Limits
    of others that share queries stay as they are; of what a stricter limit costs more, whoever asks for it pays (the
    Shapley value of the airport game). While the dataflow does not run, or nothing is known of its batches, it is
    estimated. Raises `PricesTooLong` for too many queries, or after some seconds of CPU.
    """
    look = _deadline(spent_s)
    record = dataflow_of(viewer, dataflow_id)
    estate, name = current_estate(), str(record.pk)
    figures = figures_of(estate, record)
    entry = estate.submitted.get(name)
    paces = {} if scheduled or entry is None or entry.paused else paces_of(estate, name)
    priced = {query for query, row in paces.items() if row.cost}
    way = way_of(estate, name, WHOLE) if priced else None
    if figures is None or way is None or not way.writers.keys() <= priced:
        is_scheduled = entry is not None and entry.scheduled
        return _estimated(record, figures, is_scheduled=is_scheduled, scheduled=scheduled, opens=opens, look=look)
    way = _watched(way, look)
    others = _wants_of(estate, {
        user for query in priced for task in estate.fragments[query].active_tasks
        for user in estate.users.get(task, ()) if user != name and not estate.submitted[user].paused}, priced, look)
    costs = {query: BatchCost(**paces[query].cost) for query in priced}
    reads = {query: tuple(writer for writer in way.writers.get(query, ()) if writer in priced) for query in priced}
    queries = Queries(
        costs, reads, slot_of={query: estate.fragments[query].slot for query in priced},
        largest_s=settings.LONGEST_TRIGGER_MS / 1000)
    open_now = {query for query in priced if paces[query].real_time}
    able = able_now(estate, priced, open_now=open_now)
    refusals = dict.fromkeys(able if opens else able & open_now, "")
    alone = {user: choose_modes(queries, wants, refusals) for user, wants in others.items()}

    def taken_with(wants: Sequence[LimitOnWay]) -> _Taken:
        mine = choose_modes(queries, wants, refusals)
        whole_choice = choose_modes(
            queries, [want for wants_of in (*others.values(), wants) for want in wants_of], refusals, before=open_now)
        paid = sum(
            airport_shares({user: _batches_cores(query, costs[query], choice, whole_choice)
                            for user, choice in (alone | {name: mine}).items()
                            if user == name or _uses(estate, user, query)})[name]
            + _events_cores(costs[query]) / max(1, 1 + sum(_uses(estate, user, query) for user in alone))
            for query in priced)
        expected = mine.paced.expected.get(name)
        return _Taken(
            expected is None or expected.least_s is None,
            sum(whole_choice.cores(query, cost) for query, cost in costs.items()), paid, len(priced),
            len(whole_choice.open))

    now = taken_with(_wants_of(estate, {name}, priced, look)[name])
    return _offered(record, figures, now=now, estimated=False, by_limit={
        limit_s: taken_with([] if limit_s is None else [LimitOnWay(name, way, limit_s, WHOLE.share)])
        for limit_s in (*OFFERED_S, None)})


@dataclass(frozen=True, slots=True)
class _Taken:
    """The cost of queries under some limits by the model of their batches: CPU cores, of that a dataflow's part."""

    is_met: bool
    cores: float
    paid: float
    queries: int
    open_queries: int


def _offered(
    record: DataflowRecord, figures: DataflowFigures | None, *, now: _Taken, by_limit: Mapping[float | None, _Taken],
    estimated: bool,
) -> dict[str, Any]:
    """The offers: what the dataflow costs now, times what the model takes under each limit for what it takes now; but
    for its part of drivers, which no limit changes."""
    price = tariff()
    if figures is None:  # nothing is known but the model
        figures = DataflowFigures(*(
            CostFigure(cores, cores, cores, cores * price.core_hour) for cores in (now.cores, now.paid)))
    whole = figures.whole
    part = figures.part if figures.part.cores else whole  # of a paused one, what it would pay
    fixed = min(1.0, now.queries * costs_here().fixed_cores / whole.cores) if whole.cores else 0.0

    def at(cores: float, model: float, model_now: float) -> float:
        return cores * (fixed + (1 - fixed) * model / model_now) if model_now else 0.0

    core_hour = part.per_hour / part.cores if part.cores else price.core_hour
    return {
        "id": str(record.pk), "currency": price.currency, "estimated": estimated, "cores": round(whole.cores, 6),
        "pays_cores": round(figures.part.cores, 6), "pays_per_hour": round(figures.part.per_hour, 6),
        "basis": whole.basis,
        "offers": [
            {"limit_s": limit_s, "words": "none" if limit_s is None else in_words(limit_s), "met": taken.is_met,
             "cores": round(at(whole.cores, taken.cores, now.cores), 4),
             "pays_cores": round(at(part.cores, taken.paid, now.paid), 4),
             "pays_per_hour": round(core_hour * at(part.cores, taken.paid, now.paid), 6), "queries": taken.queries,
             "open_queries": taken.open_queries}
            for limit_s, taken in by_limit.items()]}


def _estimated(
    record: DataflowRecord, figures: DataflowFigures | None, *, is_scheduled: bool, scheduled: bool, opens: bool,
    look: Callable[[], None],
) -> dict[str, Any]:
    """The cost of the current version if it ran alone; no offers where a task's type is not installed.

    The model is held to the way that it runs by now, or would run: by a schedule or without.
    """
    dataflow = stored_dataflow(current_version(record).document)
    alone = queries_alone(dataflow, costs=costs_here(), scheduled=scheduled, opens=opens)
    as_it_is = queries_alone(dataflow, costs=costs_here(), scheduled=is_scheduled, opens=opens)
    nothing = _Taken(True, 0.0, 0.0, 0, 0)
    if alone is None or as_it_is is None:
        return _offered(record, figures, now=nothing, by_limit={}, estimated=True)
    chosen = choose_modes(
        as_it_is.queries,
        [LimitOnWay(f"{number}", _watched(as_it_is.way, look), limit.limit_s, limit.share)
         for number, limit in enumerate(record.latency_limits)], dict.fromkeys(as_it_is.able, ""))
    now = sum(chosen.cores(query, cost) for query, cost in as_it_is.queries.costs.items())
    return _offered(record, figures, now=replace(
        nothing, cores=now, paid=now, queries=len(as_it_is.queries.costs)), estimated=True, by_limit={
        offer.limit_s: _Taken(offer.met, offer.cores, offer.cores, len(alone.queries.costs), offer.open_queries)
        for offer in offers(alone.queries, _watched(alone.way, look), (*OFFERED_S, None), able=alone.able)})


def _wants_of(
    estate: Estate, users: Collection[str], priced: Collection[str], look: Callable[[], None]
) -> dict[str, list[LimitOnWay]]:
    """Limits of dataflows on some queries: each on the part of its way that they are.

    What they wait for elsewhere is taken as it stands.
    """
    records = {str(record.pk): record for record in
               DataflowRecord.objects.filter(pk__in=users).select_related("team")}
    waits = {(str(row.dataflow_id), row.number): row.path for row in LatencyStatus.objects.filter(dataflow__in=users)}
    wants: dict[str, list[LimitOnWay]] = {user: [] for user in users}
    for user, record in records.items():
        for number, limit in enumerate(record.latency_limits):
            way = way_of(estate, user, limit)
            if way is None:
                continue
            elsewhere_s = sum(
                wait + batch for query, wait, batch in waits.get((user, number), ()) if query not in priced)
            part = replace(
                way, writers={query: tuple(writer for writer in writers if writer in priced)
                              for query, writers in way.writers.items() if query in priced},
                starts=way.starts & set(priced),
                ends=frozenset(query for query in way.writers if query in priced and not any(
                    query in way.writers[reader] and reader in priced for reader in way.writers)))
            if part.starts and part.ends:
                wants[user].append(LimitOnWay(
                    f"{user}/{number}", _watched(part, look), limit.limit_s, limit.share, elsewhere_s))
    return wants


def _deadline(spent_s: Callable[[], float]) -> Callable[[], None]:
    until_s = spent_s() + WORKS_S

    def look() -> None:
        if spent_s() > until_s:
            raise PricesTooLong(f"Prices of this dataflow at other limits take more than {WORKS_S:g} s.", remedy=REMEDY)

    return look


def _watched(way: Way, look: Callable[[], None]) -> Way:
    if len(way.writers) > MOST_QUERIES:
        raise PricesTooLong(
            f"Prices at other limits are computed of {MOST_QUERIES} queries at the most; this dataflow has "
            f"{len(way.writers)}.", remedy=REMEDY)
    return _WatchedWay(way.writers, way.starts, way.ends, way.counted, look=look)


def _uses(estate: Estate, user: str, query: str) -> bool:
    return any(user in estate.users.get(task, ()) for task in estate.fragments[query].active_tasks)


def _batches_cores(query: str, cost: BatchCost, alone: BatchModes, of_all: BatchModes) -> float:
    """The cores that batches of a query take that one user alone needs, whatever is in them; no more than those of all
    users together, where these stay open."""
    seconds = alone.priced_s(query, cost)
    return cost.batch_cpu_s / (max(seconds, of_all.priced_s(query, cost)) if query in of_all.open else seconds)


def _events_cores(cost: BatchCost) -> float:
    return cost.rate_per_s * cost.event_cpu_s
