"""Limits before a dataflow runs: less latency costs more, so do more queries, and offers are what would be chosen."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.latency.batch_costs import TIMES_ITS_CPU
from scheduler.latency.offers import able_chains, expected_queries, modes_alone, offers, planned_interval_s
from scheduler.latency.pacing import LimitOnWay, interval_alone, pace
from scheduler.latency.real_time import choose_modes, open_cost
from scheduler.model.costs import DECLARED
from scheduler.model.latency_limits import LatencyLimit
from tests.scheduler.catalogue import TYPES, flow

LIMITS_S = (0.02, 0.1, 0.5, 1.0, 5.0, 20.0, None)
LINE = flow("line", {"s": "sensors", "a": ("scale", {"by": 2}), "b": "count", "o": "archive"}, "s > a > b > o")
FORK = flow("fork", {"s": "sensors", "a": ("scale", {"by": 2}), "o": "archive", "p": "alarm"}, "s > a > o", "a > p")
RATES = dict.fromkeys("sabop", 10.0)


def offered(dataflow, *chains: str):
    queries, way = expected_queries(dataflow, chains, rates_per_s=RATES, task_types=TYPES, costs=DECLARED)
    return offers(queries, way, LIMITS_S)


def test_less_latency_never_costs_less() -> None:
    for dataflow, chains in ((LINE, ("sabo",)), (LINE, ("s", "a", "b", "o")), (FORK, ("sao", "p"))):
        cores = [offer.cores for offer in offered(dataflow, *chains) if offer.met]
        assert all(strict >= lenient - 1e-9 for strict, lenient in pairwise(cores))
        assert cores[0] > 2 * cores[-1]


def test_a_query_for_each_task_costs_more_and_reaches_less() -> None:
    whole, four = offered(LINE, "sabo"), offered(LINE, "s", "a", "b", "o")
    assert all(fused.cores <= apart.cores + 1e-9 for fused, apart in zip(whole, four, strict=True) if apart.met)
    assert sum(offer.met for offer in whole) >= sum(offer.met for offer in four)
    assert not four[0].met, "no batches of four queries are through in 20 ms"
    assert four[-1].met, "no limit is none that could be missed"


def test_an_offer_is_what_would_be_chosen() -> None:
    queries, way = expected_queries(FORK, ("sao", "p"), rates_per_s=RATES, task_types=TYPES, costs=DECLARED)
    assert way.writers == {"s": (), "p": ("s",)}
    assert (way.starts, way.ends) == ({"s"}, {"s", "p"})
    paced = pace(queries, [LimitOnWay("it", way, 1.0)])
    assert offered(FORK, "sao", "p")[LIMITS_S.index(1.0)].cores == paced.cores
    assert paced.expected["it"].latency_s <= 1.0
    bounded = replace(queries, bounds_s=dict.fromkeys(queries.costs, 0.5))
    assert offers(bounded, way, [20.0])[0].cores > offers(queries, way, [20.0])[0].cores


def test_a_chain_may_stay_open_where_all_its_types_were_seen_so_and_it_reads_one_stream() -> None:
    types = {TYPES["sensors"].name, TYPES["scale"].name, TYPES["archive"].name}
    assert able_chains(FORK, ("sao", "p"), types) == {"s"}
    assert able_chains(LINE, ("sabo",), types) == frozenset()
    merged = flow("merge", {"s": "sensors", "t": "sensors", "a": ("scale", {"by": 2}), "o": "archive"},
                  "s > a > o", "t > a")
    assert able_chains(merged, ("s", "t", "ao"), types) == {"s", "t"}


def test_queries_with_very_many_streams_between_them_begin_with_micro_batches() -> None:
    layers = [[f"t{layer}x{number}" for number in range(10)] for layer in range(5)]
    streams = [f"{writer} > {reader}" for above, below in pairwise(layers) for writer in above for reader in below]
    tasks = {name: "sensors" if layer is layers[0] else ("scale", {"by": 2}) for layer in layers for name in layer}
    ends = {f"o{number}": "archive" for number in range(10)}
    wide = flow("wide", tasks | ends, *streams, *(f"{last} > o{at}" for at, last in enumerate(layers[-1])))
    types = {TYPES["sensors"].name, TYPES["scale"].name, TYPES["archive"].name}
    chains = [(task.id,) for task in wide.tasks]
    assert able_chains(wide, chains, types) == frozenset()
    assert able_chains(wide, chains[:40], types) == set(layers[0]), "300 streams, with those of the sinks left out"


@st.composite
def questions(draw: st.DrawFn):
    """A cut of a line, how many events come, which of its queries may stay open, and a limit."""
    chains = draw(st.sampled_from((("sabo",), ("s", "abo"), ("s", "a", "b", "o"))))
    rates = dict.fromkeys("sabo", draw(st.floats(0.0, 500.0)))
    able = draw(st.sets(st.sampled_from([chain[0] for chain in chains])))
    return chains, rates, able, draw(st.sampled_from(LIMITS_S))


@given(questions())
@example((("sabo",), dict.fromkeys("sabo", 2e-313), {"s"}, LIMITS_S[-1]))  # so rare that 1 / rate is infinite
def test_open_batches_meet_no_less_and_cost_no_more_and_are_priced_as_they_are_chosen(given_) -> None:
    chains, rates, able, limit_s = given_
    queries, way = expected_queries(LINE, chains, rates_per_s=rates, task_types=TYPES, costs=DECLARED)
    (micro,), (offer,) = offers(queries, way, [limit_s]), offers(queries, way, [limit_s], able=able)
    assert offer.met >= micro.met
    assert offer.met > micro.met or offer.cores <= micro.cores + 1e-9 or not micro.met
    assert offer.open_queries <= len(able) and micro.open_queries == 0
    if not offer.open_queries:
        assert offer == micro

    limits = () if limit_s is None else (LatencyLimit(limit_s),)
    batch_s = TIMES_ITS_CPU * DECLARED.query_batch_s
    alone_s = interval_alone(limits, batch_s=batch_s, largest_s=queries.largest_s)
    micro = modes_alone(queries, way, limits, able=())
    assert planned_interval_s(queries, micro, limits, batch_s=batch_s) == alone_s
    modes = modes_alone(queries, way, limits, able=able)
    interval_s, opened = planned_interval_s(queries, modes, limits, batch_s=batch_s), len(modes.open)
    along = tuple(replace(limit, along=("a", "b")) for limit in limits)
    assert modes_alone(queries, way, along, able=able) == modes
    assert planned_interval_s(queries, modes, along, batch_s=batch_s) == interval_s
    assert opened == offer.open_queries
    if opened == len(queries.costs):  # then a plan's CPU is exactly that of the offer
        assert abs(sum(cost.cores(interval_s) for cost in queries.costs.values()) - offer.cores) < 1e-9
    elif opened:
        chosen = choose_modes(queries, [LimitOnWay("0", way, limit_s, 0.5)] if limit_s else [], dict.fromkeys(able, ""))
        aparts_s = {query: chosen.interval_s[query] for query in chosen.open}
        cores = sum(open_cost(cost, aparts_s[query]).cores(aparts_s[query]) if query in aparts_s
                    else cost.cores(alone_s) for query, cost in queries.costs.items())
        assert abs(sum(cost.cores(interval_s) for cost in queries.costs.values()) - cores) < 1e-9


def test_what_may_stay_open_meets_a_limit_that_batches_do_not() -> None:
    queries, way = expected_queries(LINE, ("sabo",), rates_per_s=RATES, task_types=TYPES, costs=DECLARED)
    (micro,), (offer,) = offers(queries, way, [0.05]), offers(queries, way, [0.05], able="s")
    assert (micro.met, offer.met, offer.open_queries) == (False, True, 1)
    assert offer.cores < 0.5 * micro.cores
    assert offers(queries, way, [None], able="s")[0].open_queries == 0
    bounded = replace(queries, bounds_s=dict.fromkeys(queries.costs, 0.5))
    assert offers(bounded, way, [0.05], able="s")[0].open_queries == 0, "what is scheduled keeps its batches"
