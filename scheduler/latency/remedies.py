"""Remedies: what would meet a latency limit that no intervals meet, and what CPU and slots it would take.

Paper [5], 3.5, reports a failed optimisation where both of its reactions are exhausted. Here it comes with ways out:
another limit, fewer queries on the way, more slots, or both. Each is found by the program that chooses intervals
(`pacing`), on queries as they would be, so that what is offered is what would be chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.model.latency_limits import LONGEST_S

from .pacing import AIM, LimitOnWay, Queries
from .real_time import BatchModes, choose_modes
from .triggers import BatchCost
from .ways import upstream_of

ASK, CHAIN, SLOTS, CHAIN_AND_SLOTS = "ask", "chain", "slots", "chain_and_slots"
Chain = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Remedy:
    """One way out.

    ``limit_s`` is what may then be asked for, ``latency_s`` what it leads to; ``cores`` how much more CPU the queries
    of the way, and those upstream of it, take than with the intervals that they have now. ``fused`` are queries that
    become one each, ``slots`` how many slots more there have to be, and ``moved`` the queries that go there.
    """

    kind: str
    limit_s: float
    latency_s: float
    cores: float
    fused: tuple[Chain, ...] = ()
    slots: int = 0
    moved: tuple[str, ...] = ()


def remedies(
    queries: Queries, want: LimitOnWay, *, chains: Sequence[Sequence[str]], query: BatchCost, slot_cores: float,
    able: Collection[str] = (),
) -> tuple[Remedy, ...]:
    """The remedies that would meet a limit.

    Parameters
    ----------
    queries : Queries
        All queries on the slots of the way, with the intervals in force. Queries beside the way keep theirs; those
        upstream of it may get shorter ones.
    chains : sequence of sequence of str
        Neighbours on the way, upstream first, that may become one query; no query in two of them.
    query : BatchCost
        The fixed cost of a batch: the saving for each query less.
    slot_cores : float
        The cores of an empty slot for queries.
    able : collection of str, optional
        Queries whose batches may stay open, and do so as `real_time.choose_modes` decides. A fused query may if all its
        parts may.

    Returns
    -------
    tuple of Remedy
        A weaker limit comes first; then remedies that meet the limit as it is, the fewest slots and the least CPU
        first. Fusing together with more slots is offered only if neither is enough alone.
    """
    narrowed, able = _own_queries(queries, want), frozenset(able)
    fused = tuple(tuple(chain) for chain in chains if len(chain) > 1)
    chained, way = _chained(narrowed, want, fused, query)
    able_fused = able - {name for chain in fused if not able.issuperset(chain) for name in chain}
    # A limit that nobody meets is come as near to as the CPU of the slots allows.
    least_s = _chosen(narrowed, replace(want, limit_s=1e-3), able).paced.expected[want.key].latency_s
    before = sum(queries.costs[name].cores(queries.before_s[name]) for name in narrowed.costs)
    ways_out = [
        _in_place(CHAIN, chained, way, fused, able_fused) if fused else None,
        _with_slots(SLOTS, narrowed, want, (), able, slot_cores)]
    if fused and not any(ways_out):
        ways_out.append(_with_slots(CHAIN_AND_SLOTS, chained, way, fused, able_fused, slot_cores))
    ask = _in_place(ASK, narrowed, replace(want, limit_s=least_s / AIM), (), able) if (
        least_s / AIM <= LONGEST_S) else None
    ranked = sorted((remedy for remedy in ways_out if remedy), key=lambda remedy: (remedy.slots, remedy.cores))
    return tuple(
        replace(remedy, cores=remedy.cores - before) for remedy in ([ask] if ask else []) + ranked)


def chains_among(path: Sequence[str], series: Iterable[Chain]) -> tuple[Chain, ...]:
    """The longest of the series that may become one query each of which no two share a query, along the path."""
    position_of = {name: index for index, name in enumerate(path)}
    chosen: list[Chain] = []
    for chain in sorted(series, key=lambda chain: (-len(chain), position_of[chain[0]])):
        if not any(set(chain) & set(chosen_chain) for chosen_chain in chosen):
            chosen.append(chain)
    return tuple(sorted(chosen, key=lambda chain: position_of[chain[0]]))


def _own_queries(queries: Queries, want: LimitOnWay) -> Queries:
    """The queries of the way alone, on slots that have so much less as others take there; nothing is kept as it is.

    How long batches of the way take depends on what is upstream of it: that is among them, with intervals that may
    become shorter.
    """
    capacity, members = dict(queries.capacity), upstream_of(queries.reads, want.way.writers) & queries.costs.keys()
    for name, cost in queries.costs.items():
        slot = queries.slot_of.get(name)
        if name not in members and slot in capacity:
            capacity[slot] = max(0.0, capacity[slot] - cost.cores(queries.before_s[name]))
    upstream_s = {name: min(queries.before_s[name], queries.bounds_s.get(name, queries.largest_s))
                  for name in sorted(members - want.way.writers.keys())}
    return replace(
        queries, costs={name: queries.costs[name] for name in sorted(members)}, before_s={}, capacity=capacity,
        bounds_s={**queries.bounds_s, **upstream_s})


def _chained(
    queries: Queries, want: LimitOnWay, chains: Sequence[Chain], query: BatchCost
) -> tuple[Queries, LimitOnWay]:
    """The queries of a way with each chain as one query, under the name of its first, where that is."""
    home = {name: chain[0] for chain in chains for name in chain}
    costs = {name: cost for name, cost in queries.costs.items() if name not in home}
    costs |= {chain[0]: _cost_of([queries.costs[name] for name in chain], query) for chain in chains}

    def renamed(reads: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """A chain reads what its first query reads: inside, nothing enters."""
        return {
            name: tuple(dict.fromkeys(home.get(writer, writer) for writer in reads.get(name, ()))) for name in costs}

    counts = {home.get(name, name) for name in want.way.writers.keys() - want.way.counted.passed}
    passed = frozenset(home.get(name, name) for name in want.way.counted.passed) - counts
    way = replace(
        want.way, writers=renamed(want.way.writers), starts=frozenset(home.get(name, name) for name in want.way.starts),
        ends=frozenset(home.get(name, name) for name in want.way.ends),
        counted=replace(want.way.counted, passed=passed))
    return replace(queries, costs=costs, reads=renamed(queries.reads)), replace(want, way=way)


def _cost_of(costs: Sequence[BatchCost], query: BatchCost) -> BatchCost:
    """A batch of several queries as one: what each batch takes for being one it takes once."""
    first, less = costs[0], len(costs) - 1

    def of_one_batch(figures: Sequence[float], fixed: float) -> float:
        return max(max(figures), sum(figures) - less * fixed)

    def an_event(figures: Iterable[float]) -> float:
        """The sum of figures for each event that comes to the first."""
        return sum(figure * cost.rate_per_s for figure, cost in zip(figures, costs, strict=True)) / first.rate_per_s

    moving = first.rate_per_s > 0
    return BatchCost(
        of_one_batch([cost.batch_s for cost in costs], query.batch_s),
        of_one_batch([cost.batch_cpu_s for cost in costs], query.batch_cpu_s), first.rate_per_s,
        an_event(cost.event_s for cost in costs) if moving else 0.0,
        an_event(cost.event_cpu_s for cost in costs) if moving else 0.0, max(cost.group_cpu_s for cost in costs))


def _chosen(then: Queries, want: LimitOnWay, able: Collection[str]) -> BatchModes:
    return choose_modes(then, [want], dict.fromkeys(able, ""))


def _in_place(
    kind: str, then: Queries, want: LimitOnWay, fused: tuple[Chain, ...], able: Collection[str]
) -> Remedy | None:
    """The result of queries as they would be, on their slots; None where the limit is not met so either."""
    chosen = _chosen(then, want, able)
    expected = chosen.paced.expected[want.key]
    if expected.latency_s > want.limit_s * (1 + 1e-6):
        return None
    cores = sum(chosen.cores(name, cost) for name, cost in then.costs.items())
    return Remedy(kind, want.limit_s, expected.latency_s, cores, fused)


def _with_slots(
    kind: str, then: Queries, want: LimitOnWay, fused: tuple[Chain, ...], able: Collection[str], slot_cores: float
) -> Remedy | None:
    """The same with queries on slots of their own, as many as it takes; None where CPU is not what it lacks."""
    chosen = _chosen(replace(then, capacity={}), want, able)
    expected = chosen.paced.expected[want.key]
    if expected.latency_s > want.limit_s * (1 + 1e-6):
        return None
    cores = {name: chosen.cores(name, cost) for name, cost in then.costs.items()}
    moved = _moved(then, cores)
    if not moved or max(cores[name] for name in moved) > slot_cores:
        return None
    free: list[float] = []
    for name in moved:  # first fit, decreasing
        at = next((at for at, free_cores in enumerate(free) if cores[name] <= free_cores), None)
        if at is None:
            free.append(slot_cores - cores[name])
        else:
            free[at] -= cores[name]
    return Remedy(kind, want.limit_s, expected.latency_s, sum(cores.values()), fused, len(free), tuple(moved))


def _moved(then: Queries, cores: Mapping[str, float]) -> list[str]:
    """Queries that have to leave slots that are too full for all of them, those that take most first."""
    moved = []
    for slot, capacity in then.capacity.items():
        here = sorted((name for name in then.costs if then.slot_of.get(name) == slot), key=lambda name: cores[name])
        while here and sum(cores[name] for name in here) > capacity:
            moved.append(here.pop())
    return sorted(moved, key=lambda name: (-cores[name], name))
