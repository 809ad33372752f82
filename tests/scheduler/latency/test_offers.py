"""Limits before a dataflow runs: less latency costs more, so do more queries, and offers are what would be chosen."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from scheduler.latency.offers import expected_queries, offers
from scheduler.latency.pacing import Wanted, pace
from scheduler.model.costs import DECLARED
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
    paced = pace(queries, [Wanted("it", way, 1.0)])
    assert offered(FORK, "sao", "p")[LIMITS_S.index(1.0)].cores == paced.cores
    assert paced.expected["it"].latency_s <= 1.0
    bounded = replace(queries, bounds_s=dict.fromkeys(queries.costs, 0.5))
    assert offers(bounded, way, [20.0])[0].cores > offers(queries, way, [20.0])[0].cores
