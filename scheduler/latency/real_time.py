"""Real-time mode: which queries leave their batches open, so that events need not wait for the next one.

An open batch costs what any batch costs, once in ten seconds to five minutes, and each group of events that come
together costs some CPU of its own. How far apart groups begin is its flush delay: events wait for that, and fewer
groups take less. So it pays where micro-batches cannot be as often as a limit asks, and where they would have to be so
often that they cost more. Only chains of built-in expressions and of the library's folds can be worked on so: nodes
tell why another cannot. Ours.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.model.settings_of_fragments import LONGEST_OPEN_S, MOST_OPEN_A_SLOT, OPEN_BLOCKS, OPEN_EVENTS, OPEN_S
from scheduler.model.standing_answers import StandingAnswers

from .interval_rounding import STAYS
from .pacing import AIM, LimitOnWay, Pacing, Queries, expected_at, pace
from .triggers import SMALLEST_S, BatchCost
from .ways import upstream_of
from .wide_ways import is_wide

APARTS_S = (SMALLEST_S, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)  # between the beginnings of two groups: what is chosen among
GROUP_S = 0.004  # until its events are there for who reads them
BUSY = 0.3  # of its time a query may be at work on events: more would wait for one another
PAYS_CORES, PAYS_PART = 0.005, 0.2  # what leaving batches open has to save at least, where no limit asks for it


@dataclass(frozen=True, slots=True)
class BatchModes:
    """The queries that leave their batches open, and the intervals of all: of those, how far apart their groups of
    events begin."""

    open: frozenset[str]
    paced: Pacing
    interval_s: Mapping[str, float]

    def priced_s(self, query: str, cost: BatchCost) -> float:
        """The interval of micro-batches that take the same CPU as a query's batches, open or not, take here."""
        seconds = self.interval_s[query]
        return equal_interval_s(cost, seconds) if query in self.open else seconds

    def cores(self, query: str, cost: BatchCost) -> float:
        """The cores that a query takes here; ``cost`` is of its micro-batches."""
        return cost.cores(self.priced_s(query, cost))


def choose_modes(
    queries: Queries, wants: Sequence[LimitOnWay], refusals: Mapping[str, str], *, before: Collection[str] = (),
    micro: Pacing | None = None, standing: StandingAnswers[Pacing] | None = None,
) -> BatchModes:
    """Choose the queries that leave their batches open, and the intervals of the others.

    Parameters
    ----------
    refusals : mapping of str to str
        The reason why a query cannot leave its batches open; empty if it can, missing while unknown.
    before : collection of str
        The queries whose batches are open now: they stay open if that costs no more.
    micro : Pacing, optional
        The intervals of micro-batches alone, if they are known.
    standing : StandingAnswers, optional
        As of `pace`.

    Returns
    -------
    BatchModes
        Open are queries that a limit needs open because no intervals meet it, and queries that save CPU by it; both
        only if that holds with their readers following them. None of a way that is too wide to be solved (`wide_ways`).
    """
    paced = micro or pace(queries, wants, standing=standing)
    wide = _on_wide_ways(queries, wants)
    able = [query for query, refusal in refusals.items() if not refusal and _may(queries, query) and query not in wide]
    needed = {
        query for want in wants if paced.expected[want.key].least_s is not None
        for query in want.way.upstream_first if query in able and query not in want.way.written_by}

    best = BatchModes(frozenset(), paced, paced.interval_s)
    for is_cheaper_too in (False, True):
        compared = _Savings(queries.costs, best.interval_s, before)
        cheaper = {query for query in able if is_cheaper_too and compared.pays(query)}
        opened = _of_each_slot(
            queries, needed | cheaper, key=lambda query: (query not in needed, -compared.cores(query), query))
        while opened and opened != best.open:
            trial = keep_modes(queries, wants, opened, before=before, standing=standing)
            paying = frozenset(
                query for query in opened if query in needed or compared.pays(query, trial.interval_s[query]))
            if paying == opened:
                best = trial if _rank(trial.paced, wants) < _rank(best.paced, wants) else best
                break
            opened = paying
    return best


@dataclass(frozen=True, slots=True)
class _Savings:
    """Savings of open batches against batches of given intervals, by query; ``before``: queries with open batches now.

    Groups without a stated interval count as far apart as micro-batches: a limit that allows these allows those, in a
    single query.
    """

    costs: Mapping[str, BatchCost]
    interval_s: Mapping[str, float]
    before: Collection[str]

    def cores(self, query: str, apart_s: float | None = None) -> float:
        interval_s = self.interval_s[query]
        if apart_s is None:
            apart_s = max((length_s for length_s in APARTS_S if length_s <= interval_s), default=SMALLEST_S)
        return saved_cores(self.costs[query], interval_s, apart_s)

    def pays(self, query: str, apart_s: float | None = None) -> bool:
        least = 0.0 if query in self.before else least_saved(self.costs[query], self.interval_s[query])
        return self.cores(query, apart_s) > least


def keep_modes(
    queries: Queries, wants: Sequence[LimitOnWay], opened: Collection[str], *, before: Collection[str] = (),
    standing: StandingAnswers[Pacing] | None = None,
) -> BatchModes:
    """Choose the intervals of all queries where these leave their batches open, and no others.

    Parameters
    ----------
    before : collection of str
        Those of which that was so when intervals were chosen last: their groups of events come as far apart.
    standing : StandingAnswers, optional
        As of `pace`.
    """
    stay_open = frozenset(query for query in opened if query in queries.costs)
    paced = pace(opening(queries, stay_open), wants, standing=standing)
    chosen = BatchModes(stay_open, paced, paced.interval_s)
    return _gathering(queries, wants, chosen, before) if stay_open else chosen


def _gathering(
    queries: Queries, wants: Sequence[LimitOnWay], chosen: BatchModes, before: Collection[str]
) -> BatchModes:
    """The same with groups of events as far apart as all limits allow that hold, where that makes fewer of them.

    They come further apart than they are now only where there is room to spare.
    """
    wide = _on_wide_ways(queries, wants)
    aparts_s = dict.fromkeys(sorted(chosen.open), SMALLEST_S)
    upstream = {want.key: upstream_of(queries.reads, want.way.writers) for want in wants}
    wants_by_query = {query: [want for want in wants if query in upstream[want.key]] for query in aparts_s}
    parts = {query: _part(queries, (name for want in limits for name in upstream[want.key]))
             for query, limits in wants_by_query.items()}
    for apart_s in (apart_s for apart_s in APARTS_S[1:] if apart_s <= queries.largest_s):
        for query, limits in wants_by_query.items():
            if query in wide:
                continue
            stays = query in before and apart_s <= queries.before_s.get(query, 0.0)
            if queries.costs[query].rate_per_s * apart_s <= (1 - STAYS if stays else 1):
                continue
            if any(chosen.paced.expected[want.key].latency_s > AIM * want.limit_s for want in limits):
                continue
            trial_s = {name: seconds for name, seconds in aparts_s.items() if name in parts[query].costs}
            trial_s[query] = apart_s
            aim = AIM if stays else AIM * (1 - STAYS)
            expected = expected_at(opening(parts[query], trial_s), limits, {**chosen.paced.interval_s, **trial_s})
            if all(expected[want.key].latency_s <= aim * want.limit_s for want in limits):
                aparts_s[query] = apart_s
    interval_s = {**chosen.paced.interval_s, **aparts_s}
    then = opening(queries, aparts_s)
    expected = {key: replace(now, least_s=chosen.paced.expected[key].least_s, full=chosen.paced.expected[key].full)
                for key, now in expected_at(then, wants, interval_s).items()}
    cores = sum(cost.cores(interval_s[query]) for query, cost in then.costs.items())
    return BatchModes(
        chosen.open, replace(chosen.paced, interval_s=interval_s, cores=cores, expected=expected), interval_s)


def _on_wide_ways(queries: Queries, wants: Iterable[LimitOnWay]) -> set[str]:
    """The queries that stay as they are, for to look what is best for their limits takes too long."""
    return {query for want in wants if is_wide(queries.reads, want.way)
            for query in upstream_of(queries.reads, want.way.writers)}


def _part(queries: Queries, names: Iterable[str]) -> Queries:
    return replace(queries, costs={name: queries.costs[name] for name in names if name in queries.costs})


def opening(queries: Queries, opened: Mapping[str, float] | Collection[str]) -> Queries:
    """The same queries where these leave their batches open: as if they had very short ones that cost little.

    Parameters
    ----------
    opened : mapping of str to float, or collection of str
        Those that do, and how far apart their groups begin; `SMALLEST_S` where it is not said.
    """
    given_s = opened if isinstance(opened, Mapping) else dict.fromkeys(opened, SMALLEST_S)
    aparts_s = {query: seconds for query, seconds in given_s.items() if query in queries.costs}
    costs = {query: open_cost(queries.costs[query], seconds) for query, seconds in aparts_s.items()}
    blocks_s = {query: _blocks_s(queries.costs[query], seconds) for query, seconds in aparts_s.items()}
    return replace(
        queries, costs={**queries.costs, **costs}, before_s={**queries.before_s, **aparts_s},
        bounds_s={**queries.bounds_s, **aparts_s}, blocks_s={**queries.blocks_s, **blocks_s})


def open_cost(cost: BatchCost, apart_s: float = SMALLEST_S) -> BatchCost:
    """The cost of a query that leaves its batches open, as the cost of batches as far apart as its groups begin.

    An event takes the time of its CPU: what it seemed to take in batches has a part of theirs where cores are busy.
    """
    return replace(
        cost, batch_s=GROUP_S, batch_cpu_s=apart_s * _fixed_cores(cost, apart_s), event_s=cost.event_cpu_s)


def equal_interval_s(cost: BatchCost, apart_s: float = SMALLEST_S) -> float:
    """The interval of micro-batches that would take as much CPU as open ones."""
    if not cost.batch_cpu_s:
        return stays_open_s(cost.rate_per_s, apart_s)
    return cost.batch_cpu_s / _fixed_cores(cost, apart_s)


def apart_s_of(asked_ms: int) -> float:
    """The interval of groups of an open batch for a requested interval, in seconds: nodes make them no rarer, and none
    more often than they are asked for at the most."""
    return min(max(asked_ms / 1000, SMALLEST_S), APARTS_S[-1])


def groups_in(events: float, over_s: float, apart_s: float = SMALLEST_S) -> float:
    """The number of groups of so many events that come evenly."""
    return min(events, over_s / apart_s)


def stays_open_s(rate_per_s: float, apart_s: float = SMALLEST_S) -> float:
    """The time in seconds that a batch stays open: the fewer events and groups come, the longer."""
    if rate_per_s <= 0:
        return LONGEST_OPEN_S
    few_s = min(OPEN_EVENTS / rate_per_s, OPEN_BLOCKS / groups_in(rate_per_s, 1.0, apart_s))
    return min(max(few_s, OPEN_S), LONGEST_OPEN_S)


def saved_cores(cost: BatchCost, interval_s: float, apart_s: float = SMALLEST_S) -> float:
    """The cores that leaving batches open saves against batches so far apart, where groups of events are as far apart
    as is said; below 0 where it takes more."""
    return cost.batch_cpu_s / interval_s - _fixed_cores(cost, apart_s)


def least_saved(cost: BatchCost, interval_s: float) -> float:
    """The cores that it has to save, where no limit asks for it."""
    return max(PAYS_CORES, PAYS_PART * cost.cores(interval_s))


def _fixed_cores(cost: BatchCost, apart_s: float = SMALLEST_S) -> float:
    stays_s = stays_open_s(cost.rate_per_s, apart_s)
    return cost.batch_cpu_s / stays_s + cost.group_cpu_s * groups_in(cost.rate_per_s, 1.0, apart_s)


def _blocks_s(cost: BatchCost, apart_s: float) -> float:
    """The interval of its blocks, with room to spare: a reader takes 64 at once."""
    return max(apart_s, 1 / max(cost.rate_per_s, 1 / OPEN_S) if cost.rate_per_s else 1.0) / 2


def _may(queries: Queries, query: str) -> bool:
    """True if it is not scheduled, whose promise is of micro-batches, and has not too many events."""
    return query in queries.costs and query not in queries.bounds_s and open_cost(queries.costs[query]).busy <= BUSY


def _of_each_slot(
    queries: Queries, candidates: Collection[str], *, key: Callable[[str], tuple[bool, float, str]]
) -> frozenset[str]:
    taken: dict[str | None, int] = {}
    opened = set()
    for query in sorted(candidates, key=key):
        slot = queries.slot_of.get(query)
        if taken.get(slot, 0) < MOST_OPEN_A_SLOT:
            taken[slot] = taken.get(slot, 0) + 1
            opened.add(query)
    return frozenset(opened)


def _rank(paced: Pacing, wants: Sequence[LimitOnWay]) -> tuple[int, float, float]:
    """The rank of modes: limits that are not met, by how much, and the CPU: what was measured beyond the model may be
    of batches."""
    late_s = [paced.expected[want.key].latency_s - want.limit_s
              for want in wants if paced.expected[want.key].least_s is not None]
    return len(late_s), round(sum(late_s), 3), paced.cores
