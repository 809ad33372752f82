"""Pacing: observes batches and latencies each second, and chooses intervals every few seconds.

With pacing by steps managers on the nodes choose intervals, and the intervals in force are noted here. Intervals are
for the batch modes in force. A controller decides which batches stay open; the modes that pacing would choose if it
were free are noted for it.

It runs in the recorder, of which there is one. It observes the last minute anew after a restart; intervals and states
of limits are rows. An interval is desired state like any other: agents bring it into force, and a broker that lost it
gets it again. No interval changes the outputs of a dataflow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

import structlog
from django.db import transaction

from dashboard import jobs
from dashboard.core.one_reading import once
from dashboard.operations.estate_store.fragment_settings import set_intervals
from dashboard.operations.latency_control.batch_modes import no_longer_open
from dashboard.operations.latency_control.interval_choice import ChosenInForce, PacingProblem
from dashboard.operations.latency_control.interval_words import change_in_words
from dashboard.operations.latency_control.latency_problem import (
    Measure,
    events_per_s,
    latency_ms,
    measure_of,
    parts_of,
    queries_of,
    wants_of,
)
from dashboard.operations.latency_control.limit_statuses import missed_limits, rows_before, store_statuses
from dashboard.operations.latency_control.open_batches import may_be_open, refusals_in
from dashboard.operations.live_view.estate_view import View
from dashboard.operations.live_view.learned_costs import costs_here
from dashboard.operations.models import BatchFigures, LatencyStatus
from scheduler.contracts.reports import RUNNING
from scheduler.history.series import DATAFLOW, Annotation, Series, of_limit
from scheduler.latency import limits_met
from scheduler.latency.batch_costs import TIMES_ITS_CPU, BatchesSeen, times_its_cpu
from scheduler.latency.batch_needs import BatchNeeds, batch_needs
from scheduler.latency.interval_rounding import STAYS
from scheduler.latency.limit_turns import MOST_LOOKED_AT, LimitTurns, wide_limits
from scheduler.latency.limits_met import Settled
from scheduler.latency.pacing import LimitOnWay, Pacing, Queries, expected_at
from scheduler.latency.pacing_problem import LEAST_BATCHES, LimitKey, Wants
from scheduler.latency.real_time import (
    BatchModes,
    apart_s_of,
    equal_interval_s,
    opening,
)
from scheduler.latency.triggers import SMALLEST_S, BatchCost
from scheduler.latency.ways import upstream_of
from scheduler.latency.wide_ways import MOST_EFFORT
from scheduler.model.fragment import Fragment
from scheduler.model.latency_limits import LatencyLimit, to_json
from scheduler.model.standing_answers import StandingAnswers

log = structlog.get_logger(__name__)
EVERY_S = 10
SOONEST_S = 2  # after the last round, where a limit is another
SEEN_FOR_S = 60.0
REPACED = "repaced"


@dataclass(slots=True)
class _Query:
    """The counters of one query over the last minute, at one interval."""

    trigger_ms: int | None = None
    points: deque[tuple[float, int, float, float]] = field(default_factory=deque)  # moment, batches, busy s, events

    def look(self, now_s: float, *, trigger_ms: int | None, batches: int, busy_ms: int, rate_per_s: float) -> None:
        points = self.points
        if trigger_ms != self.trigger_ms or (points and batches < points[-1][1]):
            self.trigger_ms = trigger_ms
            points.clear()
        if not points:
            points.append((now_s, batches, busy_ms / 1000, 0.0))
        elif batches > points[-1][1]:  # from one end of a batch to another
            events = points[-1][3] + rate_per_s * (now_s - points[-1][0])
            points.append((now_s, batches, busy_ms / 1000, events))
        while len(points) > 2 and points[1][0] < now_s - SEEN_FOR_S:
            points.popleft()

    @property
    def seen(self) -> BatchesSeen:
        if len(self.points) < 3:
            return BatchesSeen()
        (_, batches, busy_s, events), last = self.points[1], self.points[-1]  # looking began within a batch
        return BatchesSeen(last[1] - batches, last[2] - busy_s, last[3] - events)


class Pacer:
    """Looks at each second's view, and chooses intervals every `EVERY_S` seconds."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._queries: dict[str, _Query] = {}
        self._paths: dict[LimitKey, tuple[str, ...]] = {}
        self._missed_limits: dict[str, int] = {}
        self._wants: tuple[Mapping[str, Fragment], list[Any], Wants] | None = None
        self._settled_measures: dict[Measure, Settled] = {}
        self._choice = ChosenInForce()
        self._standing_answers: StandingAnswers[Pacing] = StandingAnswers(MOST_EFFORT)
        self._turns: LimitTurns[LimitKey] = LimitTurns()
        self._times_its_cpu = TIMES_ITS_CPU
        self._open: frozenset[str] | None = None  # at the last round; None before the first
        self._limits: dict[LimitKey, tuple[LatencyLimit, frozenset[str]]] | None = None  # likewise
        self._chosen_s = 0

    def look(self, view: View, now_s: int) -> list[Annotation]:
        """Take a second in; what was changed, where this is a second in which intervals are chosen."""
        if not view.reading.available or not view.reading.measured:
            return []
        self._look_at_queries(view, now_s)
        wants = self._wants_of(view)
        self._look_at_limits(view, wants, now_s)
        if not self._is_due(wants, now_s):
            return []
        rows = {(str(row.dataflow_id), row.number): row for row in LatencyStatus.objects.all()}
        self._limits, self._chosen_s = _limits_of(wants), now_s
        return self._round(view, wants, rows, now_s)

    def _is_due(self, wants: Wants, now_s: int) -> bool:
        """Every ten seconds; and at once where a limit, or the queries on its way, are others than at the last round.
        """
        if now_s % EVERY_S == 0:
            return True
        return self._limits is not None and now_s >= self._chosen_s + SOONEST_S and self._limits != _limits_of(wants)

    def _wants_of(self, view: View) -> Wants:
        """The limits, found anew only where the estate or a limit is another than a second ago."""
        choices = [(name, record.latency_chosen, record.latency, record.team.freshness_s)
                 for name, record in view.records.items()]
        if self._wants is None or self._wants[0] is not view.estate.fragments or self._wants[1] != choices:
            self._wants = (view.estate.fragments, choices, wants_of(view))
        return self._wants[2]

    def values_of(self, view: View) -> dict[Series, float]:
        """Each limit of each dataflow, how many it misses, and where latency goes now along the slowest way of each
        sequence that has one."""
        values: dict[Series, float] = {
            Series(DATAFLOW, name, "limits_missed"): count for name, count in self._missed_limits.items()
            if name in view.records}
        for (name, number), path in self._paths.items():
            limits = view.records[name].latency_limits if name in view.records else ()
            if number >= len(limits):
                continue
            limit = limits[number]
            values[Series(DATAFLOW, name, of_limit("latency_limit_ms", number))] = 1000 * limit.limit_s
            if limit.along in {earlier_limit.along for earlier_limit in limits[:number]}:
                continue
            parts = parts_of(view, name, limit, path)
            if parts is not None:
                values |= {Series(DATAFLOW, name, of_limit(f"latency_{part}", number)): ms
                           for part, ms in asdict(parts).items()}
        return values

    def _look_at_queries(self, view: View, now_s: int) -> None:
        present = set()
        for name, report in view.reading.reports.queries():
            if report.state == RUNNING and not report.real_time:  # of open batches nothing is learned about others
                present.add(name)
                self._queries.setdefault(name, _Query()).look(
                    now_s, trigger_ms=report.trigger_ms, batches=report.batches, busy_ms=report.busy_ms,
                    rate_per_s=view.reading.flows.queries.get(name, 0.0))
        for name in self._queries.keys() - present:
            del self._queries[name]

    def _look_at_limits(self, view: View, wants: Wants, now_s: int) -> None:
        in_force = self._in_force(view)
        measures = {measure_of(name, limit): (name, limit, want) for (name, _), (limit, want) in wants.items()}
        for measure, (name, limit, want) in measures.items():
            milliseconds = latency_ms(view, name, limit)
            self._settled_measures.setdefault(measure, Settled()).look(
                now_s, (in_force.get(query, 0.0) for query in want.way.upstream_first),
                None if milliseconds is None else milliseconds / 1000, over_s=limit.over_s,
                events_per_s=events_per_s(view, name, limit))
        for measure in self._settled_measures.keys() - measures.keys():
            del self._settled_measures[measure]

    @staticmethod
    def _in_force(view: View) -> dict[str, float]:
        """The intervals in force, in seconds, by fragment: as nodes report them."""
        in_force: dict[str, float] = {}
        for name, report in view.reading.reports.queries():
            fragment = view.fragment_of.get(name)
            if fragment is not None and report.real_time:
                in_force[fragment.id] = SMALLEST_S if report.trigger_ms is None else apart_s_of(report.trigger_ms)
            elif fragment is not None and report.trigger_ms is not None:
                in_force[fragment.id] = max(in_force.get(fragment.id, 0.0), report.trigger_ms / 1000)
        return in_force

    def _round(
        self, view: View, wants: Wants, rows: Mapping[LimitKey, LatencyStatus], now_s: int
    ) -> list[Annotation]:
        self._standing_answers.begin_round(now_s)
        figures = BatchFigures.objects.in_bulk()
        set_now = view.estate.settings
        queries = self._known_queries(view, {
            name: settings.trigger_ms for name, settings in set_now.items() if settings.trigger_ms is not None})
        in_force = self._in_force(view)
        waiting = self._waiting(queries, wants)
        looked_at = {key: entry for key, entry in wants.items() if key not in waiting}
        rows_waiting = [rows[key] for key in waiting if key in rows]
        rows = {key: row for key, row in rows.items() if key not in waiting}
        opening_queries = opening(
            queries, {query: in_force[query] for query in self._open_now(view) if query in in_force})
        modelled = expected_at(opening_queries, [want for _, want in looked_at.values()], opening_queries.before_s | {
            query: seconds for query, seconds in in_force.items() if query in queries.costs})
        corrected: Wants = {}
        before = rows_before(looked_at, rows)
        for key, (limit, want) in looked_at.items():
            measured_s, row = self._settled_measures[measure_of(key[0], limit)].recent_s, before.get(key)
            other_s = 0.0 if row is None else row.other_s
            if row is not None and row.limit != to_json((limit,)):
                other_s = limits_met.carried_over(other_s, limit.limit_s)
            elif measured_s is not None and modelled[want.key].path and now_s % EVERY_S == 0:
                other_s = limits_met.corrected(
                    other_s, measured_s=measured_s, modelled_s=modelled[want.key].latency_s, limit_s=limit.limit_s)
            corrected[key] = (limit, replace(want, other_s=other_s))
        refusals = self._refusals(view)
        opened = frozenset(name for name, settings in set_now.items() if settings.real_time and name in queries.costs)
        may_open = may_be_open()
        closed = no_longer_open(opened, refusals, view.estate, may_open=may_open)
        at = self._now()
        choice = self._choice.now()
        chosen_now, beyond = choice.choose(PacingProblem(
            view, wants, corrected, waiting, queries, in_force, opened, closed, refusals,
            self._known_well(queries, refusals, opened, may_open=may_open), may_open, self._standing_answers), at=at)
        paced, needs = chosen_now.paced, self._needs(view, queries, corrected, chosen_now)
        was_open = opened if self._open is None else self._open
        changed = _changed(chosen_now, queries, was_open)
        _store_figures(queries, figures, needs, refusals, as_before=_upstream(queries, waiting))
        is_set = bool(changed or closed) and set_intervals(
            {query: round(1000 * seconds) for query, seconds in chosen_now.interval_s.items()
             if query in changed or query in closed}, closed=closed)
        self._open = chosen_now.open
        stored = store_statuses(corrected, paced, rows, at=at, beyond=beyond, settled=self._settled_measures)
        self._missed_limits = missed_limits([*stored, *rows_waiting], view.estate, view.reading.reports)
        self._paths = {key: path for key, path in self._paths.items() if key in waiting} | {
            key: paced.expected[want.key].path for key, (_, want) in corrected.items()}
        if is_set and choice.is_published:
            jobs.republish()
        if self._standing_answers.left_out or waiting:
            log.warning("intervals_wait", times=self._standing_answers.left_out, wide_limits=len(waiting),
                        remedy="Divide dataflows with very many streams, or give them fewer latency limits.")
        if not changed:
            return []
        return [
            Annotation(now_s, REPACED, DATAFLOW, name, change_in_words(queries, chosen_now, was_open, queries_changed))
            for name in view.records
            if (queries_changed := sorted(changed & {view.estate.places[task][0]
                                                     for task in view.estate.submitted[name].running.values()}))]

    def _waiting(self, queries: Queries, wants: Wants) -> dict[LimitKey, LimitOnWay]:
        """The limits on wide ways that are looked at in a later round."""
        wide = wide_limits(queries, {key: want for key, (_, want) in wants.items()})
        return {key: wants[key][1] for key in wide.keys() - self._turns.of_round(wide, most=MOST_LOOKED_AT)}

    @staticmethod
    def _open_now(view: View) -> set[str]:
        return {view.fragment_of[name].id for name, report in view.reading.reports.queries()
                if report.real_time and name in view.fragment_of}

    @staticmethod
    def _refusals(view: View) -> dict[str, str]:
        """The reasons why queries cannot leave their batches open, empty where they can: of those that are not divided
        and run, or are being restarted for it."""
        chosen = {
            name: "" for name, settings in view.estate.settings.items()
            if settings.real_time and name in view.estate.fragments}
        return chosen | refusals_in(view.reading.reports, view.estate)

    def _known_well(
        self, queries: Queries, refusals: Mapping[str, str], opened: Collection[str], *, may_open: bool
    ) -> set[str]:
        """The queries of which it is known what their batches take, and whether they may stay open: those of a query
        that is divided may not."""
        observed_queries = {name for name, query in self._queries.items() if query.seen.batches >= LEAST_BATCHES}
        return {name for name in queries.costs if name in opened or (name in observed_queries and (
            name in refusals or name in queries.bounds_s or not may_open))}

    def _known_queries(self, view: View, chosen: Mapping[str, int]) -> Queries:
        costs = costs_here()
        batches_seen = {name: query.seen for name, query in self._queries.items()}
        queries = queries_of(view, costs=costs, batches_seen=batches_seen, trigger_ms=chosen)
        pairs = [
            (batches_seen[bundle.id].busy_s, batches_seen[bundle.id].batches * queries.costs[name].batch_cpu_s)
            for name in queries.costs for bundle in view.estate.fragments[name].queries
            if bundle.id in batches_seen and batches_seen[bundle.id].batches]
        # Of queries that were not seen at their interval, durations follow from those that were: where all have just
        # got another one, from those that were until then. Or all would go back to where they came from.
        if pairs:
            self._times_its_cpu = times_its_cpu(pairs)
        return queries_of(
            view, costs=costs, batches_seen=batches_seen, trigger_ms=chosen, times_its_cpu=self._times_its_cpu)

    def _needs(self, view: View, queries: Queries, wants: Wants, chosen: BatchModes) -> dict[str, BatchNeeds]:
        """The needs for queries by the dataflows that are not paused."""
        wants_by_dataflow: dict[str, list[LimitOnWay]] = {}
        for (name, _), (_, want) in wants.items():
            wants_by_dataflow.setdefault(name, []).append(want)
        return batch_needs(queries, chosen, wants_by_dataflow, {
            query: {user for task in view.estate.fragments[query].active_tasks
                    for user in view.estate.users.get(task, ()) if not view.estate.submitted[user].paused}
            for query in queries.costs}, standing=self._standing_answers)


def _changed(chosen: BatchModes, queries: Queries, was_open: frozenset[str]) -> set[str]:
    """The queries that get another interval, or that were set to another mode since the last round."""
    return {
        query for query, seconds in chosen.interval_s.items() if (query in chosen.open) != (query in was_open)
        or round(1000 * seconds) != round(1000 * queries.before_s[query])}


def _upstream(queries: Queries, limits: Mapping[LimitKey, LimitOnWay]) -> set[str]:
    return upstream_of(queries.reads, {query for want in limits.values() for query in want.way.writers})


def _store_figures(
    queries: Queries, before: Mapping[str, BatchFigures], needs: Mapping[str, BatchNeeds], refusals: Mapping[str, str],
    *, as_before: Collection[str],
) -> None:
    """Keep what batches cost, who needs them how often and why they cannot stay open, where that is worth writing.

    Of queries ``as_before``, whose limits are looked at in a later round, rows stay.
    """
    fresh = []
    for query, batch_cost in queries.costs.items():
        if query in as_before and query in before:
            continue
        row, cost, need = before.get(query), asdict(batch_cost), needs[query]
        alone = dict(need.alone_ms)
        refusal = refusals.get(query, row.refusal if row else "")[:200]
        if (row is None or row.refusal != refusal or _differs(row.cost, cost)
                or row.unlimited_ms != need.unlimited_ms or _differs(row.alone_ms, alone)):
            fresh.append(BatchFigures(
                fragment_id=query, cost=cost, alone_ms=alone, unlimited_ms=need.unlimited_ms, refusal=refusal))
    with transaction.atomic():
        BatchFigures.objects.bulk_create(
            fresh, update_conflicts=True, unique_fields=["fragment"],
            update_fields=["cost", "alone_ms", "unlimited_ms", "refusal"])
        if gone := before.keys() - queries.costs.keys():
            BatchFigures.objects.filter(pk__in=gone).delete()


def _limits_of(wants: Wants) -> dict[LimitKey, tuple[LatencyLimit, frozenset[str]]]:
    """The limits, each with the queries on its way."""
    return {key: (limit, frozenset(want.way.writers)) for key, (limit, want) in wants.items()}


def batch_figures_of(fragments: Iterable[str]) -> Mapping[str, BatchFigures]:
    """The intervals of these fragments with what their batches cost, by fragment; those that are known."""
    names = frozenset(fragments)
    return once(("batch figures", names), lambda: BatchFigures.objects.select_related("fragment").in_bulk(names))


def priced_ms_of(fragments: Iterable[str] | None = None) -> dict[str, int]:
    """The priced intervals of these fragments' batches, or of all. Open batches count as micro-batches of equal
    cost."""
    every = BatchFigures.objects.select_related("fragment")
    rows = every if fragments is None else batch_figures_of(fragments).values()
    return {
        row.pk: round(1000 * equal_interval_s(BatchCost(**row.cost), apart_s_of(row.trigger_ms)))
        if row.real_time and row.cost else row.trigger_ms for row in rows}


def _differs(before: Mapping[str, float], cost: Mapping[str, float]) -> bool:
    """True if what batches cost is worth writing again."""
    return before.keys() != cost.keys() or any(
        name not in before or abs(value - before[name]) > STAYS * max(abs(before[name]), 1e-9)
        for name, value in cost.items())
