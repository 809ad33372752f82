"""Pacing: how far apart the batches of every query of an estate begin, from limits, measured batches and latencies.

`choose_intervals` finds the intervals for paths that it is given. Here are the paths: of each limit the slowest one
under the intervals chosen so far is added until all hold. Queries that no limit joins are solved apart, and only where
something has changed since they were solved last. What is too large for a program is decided by rules (`wide_ways`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter

from networkx.utils import UnionFind

from scheduler.model.latency_limits import Limits
from scheduler.model.standing_answers import StandingAnswers

from .interval_program import NOTHING, choose_intervals
from .interval_rounding import all_rounded_s, rounded_s, unless_near_s
from .pacing_values import Expected, LimitOnWay, Pacing, Queries
from .triggers import (
    BUSY,
    LARGEST_S,
    SMALLEST_S,
    BatchPlan,
    Effective,
    Intervals,
    PathLimit,
    latency_s,
    step_s,
)
from .ways import upstream_of
from .wide_ways import MOST_TOGETHER, effort_of, in_shares, is_wide, one_interval_s, total_size

AIM = 0.9  # of a limit: what is planned for, as batches are not all alike
SAME = (1 - AIM) / 2  # of a limit, or of the CPU of a batch: what changes by less is not solved again while limits hold
ITERATIONS = 30
HOPELESS = 0.01  # what a limit that no intervals meet counts beside one that could be met
MOST_BLOCKS = 100  # that a writer leaves for a reader between its batches; a channel has room for 256


def pace(
    queries: Queries, wants: Sequence[LimitOnWay], *, standing: StandingAnswers[Pacing] | None = None
) -> Pacing:
    """Choose the intervals of all queries that meet the limits at the least CPU.

    Parameters
    ----------
    queries : Queries
        The queries that work; `BatchCost` of each.
    standing : StandingAnswers, optional
        The choices of earlier rounds. Queries that limits join keep a choice that stands; the latency with it follows
        from present figures all the same.

    Returns
    -------
    Pacing
        A query on no way gets the longest interval. An interval stays where it differs little and the limits hold.
    """
    interval_s: dict[str, float] = {}
    full: set[str] = set()
    too_slow: set[str] = set()
    waiting: set[str] = set()  # limits whose queries are solved in a later round
    wide = {want.key: want for want in wants if is_wide(queries.reads, want.way)}
    apart = _apart(queries, [want for want in wants if want.key not in wide], {})
    # Small ones wait for no large one, and nobody for a team that had more of late.
    for members, group_wants in sorted(apart, key=lambda group: (_spent_of_late(group[1], standing), len(group[0]))):
        part = _solved_or_standing(queries, members, group_wants, standing)
        if part is None:
            interval_s |= _as_before(queries, members)
            waiting |= {want.key for want in group_wants}
            continue
        interval_s |= part.interval_s
        too_slow |= set(part.too_slow)
    for want in wide.values():
        interval_s |= _with_one_interval(queries, want, interval_s)
    crowded = {slot for slot, cores in _cores_by_slot(queries, interval_s).items()
               if cores > queries.capacity.get(slot, float("inf"))}
    if crowded:  # queries of a slot that is too full are solved together
        here = {query: queries.slot_of[query] for query in queries.costs if queries.slot_of.get(query) in crowded}
        for members, group_wants in _apart(queries, wants, here):
            if here.keys().isdisjoint(members):
                continue
            if (any(want.key in wide for want in group_wants) or total_size(queries.reads, members) > MOST_TOGETHER
                    or (standing is not None and not standing.affords(effort_of(queries.reads, members)))):
                interval_s |= _in_shares(queries, wants, members, crowded, interval_s)
                full |= crowded & {queries.slot_of.get(query) for want in group_wants for query in want.way.writers}
                continue
            part = _solved(queries, members, group_wants, with_slots=True, standing=standing)
            interval_s |= part.interval_s
            full |= set(part.full)
            too_slow |= set(part.too_slow)
    interval_s = _with_room(queries, interval_s)
    plan = _plan(queries, queries.costs, ())
    effective = Effective(plan, interval_s)
    expected = {want.key: _expected_latency(plan, want, effective) for want in wants}
    expected |= {want.key: _with_least(plan, want, expected[want.key], full, standing)
                 for want in wants if want.key not in waiting}
    cores = sum(cost.cores(interval_s[query]) for query, cost in queries.costs.items())
    return Pacing(interval_s, cores, expected, tuple(sorted(full)), tuple(sorted(too_slow)))


def interval_alone(limits: Limits, *, batch_s: float, largest_s: float = LARGEST_S) -> float:
    """The interval of a query that alone serves a dataflow with these limits, in seconds: what plans are priced with.

    Parameters
    ----------
    limits : Limits
        Of the dataflow; without one the interval is the longest. One along a part counts as one of the whole: the
        price is then an upper bound.
    """
    intervals_s = [(AIM * limit.limit_s - batch_s) / limit.share for limit in limits]
    return min([largest_s, *(max(batch_s / BUSY, SMALLEST_S, seconds) for seconds in intervals_s)])


def expected_at(queries: Queries, wants: Iterable[LimitOnWay], interval_s: Mapping[str, float]) -> dict[str, Expected]:
    """The latencies of limits with given intervals, by key; whether they could be met is not looked at."""
    plan = _plan(queries, queries.costs, ())
    effective = Effective(plan, interval_s)
    return {want.key: _expected_latency(plan, want, effective) for want in wants}


def expected_in_steps(
    queries: Queries, wants: Iterable[LimitOnWay], interval_s: Mapping[str, float], *,
    standing: StandingAnswers[Pacing] | None = None,
) -> dict[str, Expected]:
    """The `expected_at` of intervals that are on their way: the least latency is given where that misses the limit.

    ``standing`` is as of `pace`: programs that a round has no effort for are done by the rule of wide ways.
    """
    plan = _plan(queries, queries.costs, ())
    effective = Effective(plan, interval_s)
    made = {}
    for want in wants:
        expected = made[want.key] = _expected_latency(plan, want, effective)
        if expected.latency_s > want.limit_s and (
                least_s := _least_s(plan, want, standing)) > want.limit_s:
            made[want.key] = replace(expected, least_s=least_s)
    return made


def unlimited_s(queries: Queries, query: str, interval_s: Mapping[str, float]) -> float:
    """The interval that a query would have without a limit, in seconds, while those that it reads have theirs."""
    longest_s = min(queries.largest_s, queries.bounds_s.get(query, queries.largest_s))
    return min([rounded_s(longest_s, queries.costs[query].least_s), *(
        MOST_BLOCKS * queries.blocks_s.get(writer, interval_s[writer])
        for writer in queries.reads.get(query, ()) if writer in interval_s)])


def _solved_or_standing(
    queries: Queries, members: Sequence[str], wants: Sequence[LimitOnWay], standing: StandingAnswers[Pacing] | None
) -> Pacing | None:
    """The intervals of queries that limits join; None where they are solved in a later round."""
    def solve() -> Pacing:
        if len(wants) > 1 and total_size(queries.reads, members) > MOST_TOGETHER:
            return _one_by_one(queries, members, wants, standing)
        return _solved(queries, members, wants, with_slots=False, standing=standing)

    if standing is None or not wants or len(members) == 1:  # what needs no program is not worth looking up
        return solve()
    effort = effort_of(queries.reads, members)
    plan = _plan(queries, members, ())
    ground = (
        *((query, queries.before_s.get(query), queries.bounds_s.get(query), queries.reads.get(query))
          for query in members),
        *((want.key, want.way.ground, want.limit_s, want.share) for want in wants),
        queries.largest_s, queries.smallest_s)
    return standing.of(ground, figures=lambda chosen: _figures(plan, wants, chosen.interval_s),
                       make=lambda: solve() if standing.affords(effort, by=_payer(wants, standing)) else None)


def _spent_of_late(wants: Sequence[LimitOnWay], standing: StandingAnswers[Pacing] | None) -> float:
    return standing.spent_by(_payer(wants, standing)) if standing is not None and wants else 0.0


def _payer(wants: Sequence[LimitOnWay], standing: StandingAnswers[Pacing]) -> str:
    """The team that pays for a program of several teams' limits: the one that had least of late."""
    return min({want.team for want in wants}, key=lambda team: (standing.spent_by(team), team))


def _as_before(queries: Queries, members: Sequence[str]) -> dict[str, float]:
    """The intervals that queries have, where they can keep to them."""
    plan = _plan(queries, members, ())
    return {query: min(plan.longest_s(query), max(queries.before_s.get(query, math.inf), cost.least_s))
            for query, cost in plan.costs.items()}


def _figures(
    plan: BatchPlan, wants: Sequence[LimitOnWay], interval_s: Mapping[str, float]
) -> list[float] | None:
    """The figures of a choice, in parts of `SAME`; None where a limit is missed with it, or a query cannot keep to it.

    Seconds count against the limits that are on them, so that nobody looks at what is small beside all of them.
    """
    if any(cost.least_s > interval_s[query] for query, cost in plan.costs.items()):
        return None
    effective = Effective(plan, interval_s)
    latencies_s = [_slowest(plan, want, effective)[1] for want in wants]
    if any(seconds > want.limit_s for want, seconds in zip(wants, latencies_s, strict=True)):
        return None
    strictest_s = min(want.limit_s for want in wants)
    figures = [part_s / want.limit_s for want, seconds in zip(wants, latencies_s, strict=True)
               for part_s in (seconds, want.other_s)]
    for query, cost in plan.costs.items():
        figures += [cost.batch_s / strictest_s, cost.busy * effective.held_s(query) / strictest_s,
                    math.log(max(cost.batch_cpu_s, NOTHING))]
    return [figure / SAME for figure in figures]


def _solved(
    queries: Queries, members: Sequence[str], wants: Sequence[LimitOnWay], *, with_slots: bool,
    standing: StandingAnswers[Pacing] | None = None,
) -> Pacing:
    """The intervals of queries that are solved together, without the latencies of their limits."""
    plan = _plan(queries, members, (), with_slots=with_slots)
    aims = [replace(want, limit_s=AIM * want.limit_s) for want in wants]
    chosen = _chosen(plan, aims)
    effective = Effective(plan, chosen.interval_s)
    missed = [want for want in wants if _slowest(plan, want, effective)[1] > want.limit_s]
    if len(missed) > 1:  # what cannot be met must not break what can
        whole = _plan(queries, queries.costs, ())
        hopeless = {want.key for want in missed if _least_s(whole, want, standing) > want.limit_s}
        if 0 < len(hopeless) < len(missed):
            chosen = _chosen(plan, aims, hopeless)
    interval_s = all_rounded_s(plan, chosen.interval_s)
    kept_s = {query: unless_near_s(queries.before_s.get(query), seconds) for query, seconds in interval_s.items()}
    fresh, unchanged = Effective(plan, interval_s), Effective(plan, kept_s)
    if all(_slowest(plan, want, unchanged)[1] <= max(want.limit_s, 1.01 * _slowest(plan, want, fresh)[1])
           for want in wants):
        interval_s = kept_s
    return Pacing(interval_s, chosen.cores, {}, chosen.full, chosen.too_slow)


def _one_by_one(
    queries: Queries, members: Sequence[str], wants: Sequence[LimitOnWay], standing: StandingAnswers[Pacing] | None
) -> Pacing:
    """The intervals of queries that are too many to be solved together: limit by limit, the strictest one first, each
    with no longer intervals than those before it. A second time for what is missed then, as a reader may have lost the
    writer that it followed."""
    chosen = _solved(queries, members, [], with_slots=False)
    plan, interval_s, too_slow = _plan(queries, members, ()), dict(chosen.interval_s), set(chosen.too_slow)
    for is_second in (False, True):
        for want in sorted(wants, key=lambda want: (want.limit_s, want.key)):
            if is_second and _slowest(plan, want, Effective(plan, interval_s))[1] <= want.limit_s:
                continue
            upstream = [query for query in upstream_of(queries.reads, want.way.writers) if query in plan.costs]
            bounded = replace(queries, bounds_s={**queries.bounds_s, **{name: interval_s[name] for name in upstream}})
            interval_s |= _solved(bounded, sorted(upstream), [want], with_slots=False, standing=standing).interval_s
    return Pacing(interval_s, chosen.cores, {}, (), tuple(too_slow))


def _with_one_interval(queries: Queries, want: LimitOnWay, interval_s: Mapping[str, float]) -> dict[str, float]:
    """The intervals of all queries upstream of a wide way; those in force where they are a step from it and do."""
    upstream = sorted(upstream_of(queries.reads, want.way.writers) & queries.costs.keys())
    plan = _plan(queries, upstream, ())

    def latency(chosen_s: Mapping[str, float]) -> float:
        return _slowest(plan, want, Effective(plan, chosen_s))[1]

    most_s = {query: interval_s[query] for query in upstream}
    fresh_s, latency_s = one_interval_s(
        plan.costs, most_s, latency, limit_s=AIM * want.limit_s, smallest_s=plan.smallest_s, largest_s=plan.largest_s)
    kept_s = {query: unless_near_s(queries.before_s.get(query), seconds) for query, seconds in fresh_s.items()}
    return kept_s if latency(kept_s) <= max(want.limit_s, latency_s) else fresh_s


def _in_shares(
    queries: Queries, wants: Sequence[LimitOnWay], members: Collection[str], crowded: Collection[str],
    interval_s: Mapping[str, float],
) -> dict[str, float]:
    """The intervals of queries of crowded slots that no program takes: each slot divided among those that limits
    join."""
    groups = [group for group, _ in _apart(queries, wants, {}) if not set(members).isdisjoint(group)]
    return in_shares(queries, groups, sorted(crowded), interval_s)


def _chosen(plan: BatchPlan, wants: Sequence[LimitOnWay], hopeless: Collection[str] = ()) -> Intervals:
    """The intervals of a plan's queries that keep every path of every way within its limit, if any do.

    Each limit begins without paths; its slowest path is added whenever that breaks the limit.
    """
    paths: dict[tuple[str, tuple[str, ...]], PathLimit] = {}
    chosen = choose_intervals(plan)
    for _ in range(ITERATIONS):
        added, effective = False, Effective(plan, chosen.interval_s)
        for want in wants:
            path, latency = _slowest(plan, want, effective)
            if path and latency > want.limit_s * (1 + 1e-6) and (want.key, path) not in paths:
                paths[want.key, path] = PathLimit(
                    path, want.limit_s, want.other_s, want.share, want.way.counted,
                    HOPELESS if want.key in hopeless else 1.0)
                added = True
        if not added:
            break
        plan = replace(plan, limits=tuple(paths.values()))
        chosen = choose_intervals(plan)
    return chosen


def _expected_latency(plan: BatchPlan, want: LimitOnWay, effective: Effective) -> Expected:
    path, latency = _slowest(plan, want, effective)
    latency = max(latency, (latency - want.other_s) / 2)  # what longer intervals saved is more than short ones take
    parts = tuple(
        step_s(plan, writer, reader, effective, share=want.share, counted=want.way.counted)
        for writer, reader in zip((None, *path), path, strict=False))
    return Expected(want.key, latency, path, parts)


def _with_least(
    plan: BatchPlan, want: LimitOnWay, expected: Expected, full: Collection[str],
    standing: StandingAnswers[Pacing] | None,
) -> Expected:
    """The same with the least latency that there is, where the limit is not met."""
    if expected.latency_s <= want.limit_s:
        return expected
    least_s = _least_s(plan, want, standing)
    here = tuple(sorted({plan.slot_of.get(query, "") for query in want.way.writers} & set(full)))
    # Of a full slot the shortest intervals take more CPU than it has: what was reached is the least.
    is_reached = here or least_s <= want.limit_s
    return replace(expected, least_s=expected.latency_s if is_reached else min(least_s, expected.latency_s), full=here)


def _least_s(plan: BatchPlan, want: LimitOnWay, standing: StandingAnswers[Pacing] | None = None) -> float:
    """The latency with the intervals that suit a limit best, whatever CPU slots have, and others need; with the
    shortest ones where its way is too wide, or the round has no effort left."""
    members = upstream_of(plan.reads, want.way.writers)
    costs = {query: replace(cost, batch_cpu_s=0.0) for query, cost in plan.costs.items() if query in members}
    if is_wide(plan.reads, want.way) or (
            standing is not None and not standing.affords(effort_of(plan.reads, members), by=want.team)):
        longest_s = {query: plan.longest_s(query) for query in costs}
        return one_interval_s(
            costs, longest_s, lambda chosen_s: _slowest(plan, want, Effective(plan, chosen_s))[1], limit_s=0.0,
            smallest_s=plan.smallest_s, largest_s=plan.largest_s)[1]
    alone = replace(plan, costs=costs, capacity={}, limits=())
    effective = Effective(alone, _chosen(alone, [replace(want, limit_s=0.0)]).interval_s)
    return _slowest(alone, want, effective)[1]


def _slowest(plan: BatchPlan, want: LimitOnWay, effective: Effective) -> tuple[tuple[str, ...], float]:
    counted = want.way.counted
    path, _ = want.way.slowest(
        lambda writer, reader: sum(step_s(plan, writer, reader, effective, share=want.share, counted=counted)))
    return path, want.other_s + latency_s(plan, path, effective, share=want.share, counted=counted)


def _plan(
    queries: Queries, members: Iterable[str], limits: Sequence[PathLimit], *, with_slots: bool = False
) -> BatchPlan:
    costs = {query: queries.costs[query] for query in members}
    slots = {queries.slot_of.get(query) for query in costs} if with_slots else set()
    return BatchPlan(
        costs, tuple(limits), reads=queries.reads, slot_of=queries.slot_of,
        capacity={slot: cores for slot, cores in queries.capacity.items() if slot in slots},
        largest_s=queries.largest_s, smallest_s=queries.smallest_s, bounds_s=queries.bounds_s)


def _with_room(queries: Queries, interval_s: Mapping[str, float]) -> dict[str, float]:
    """The intervals, shorter where a reader would leave so many blocks of a quick writer that this has to wait."""
    fitting = dict(interval_s)
    for query in TopologicalSorter(queries.reads).static_order():
        writers = [queries.blocks_s.get(writer, fitting[writer])
                   for writer in queries.reads.get(query, ()) if writer in fitting]
        if query in fitting and writers:  # but no shorter than what it can keep to
            room_s = max(MOST_BLOCKS * min(writers), queries.costs[query].least_s)
            fitting[query] = min(fitting[query], room_s)
    return fitting


def _cores_by_slot(queries: Queries, interval_s: Mapping[str, float]) -> dict[str, float]:
    cores: dict[str, float] = {}
    for query, slot in queries.slot_of.items():
        if query in queries.costs:
            cores[slot] = cores.get(slot, 0.0) + queries.costs[query].cores(interval_s[query])
    return cores


def _apart(
    queries: Queries, wants: Sequence[LimitOnWay], same_slot: Mapping[str, str]
) -> list[tuple[list[str], list[LimitOnWay]]]:
    """Groups of queries that no limit joins to others, with their limits; ``same_slot`` joins those of one name.

    A limit joins all that is upstream of its way, too.
    """
    joined = UnionFind(queries.costs)
    for want in wants:
        joined.union(*(upstream_of(queries.reads, want.way.writers) & queries.costs.keys()))
    by_name: dict[str, list[str]] = {}
    for query, name in same_slot.items():
        by_name.setdefault(name, []).append(query)
    for group in by_name.values():
        joined.union(*group)
    members: dict[str, list[str]] = {}
    for query in queries.costs:
        members.setdefault(joined[query], []).append(query)
    wants_by_group: dict[str, list[LimitOnWay]] = {}
    for want in wants:
        wants_by_group.setdefault(joined[next(iter(want.way.writers))], []).append(want)
    return [(queries_of, wants_by_group.get(top, [])) for top, queries_of in members.items()]
