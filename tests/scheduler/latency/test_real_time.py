"""Real-time mode is chosen where a limit needs it or it costs less, of queries that can, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.latency.pacing import AIM, LimitOnWay, Queries, pace
from scheduler.latency.real_time import (
    APARTS_S,
    choose_modes,
    equal_interval_s,
    groups_in,
    keep_modes,
    open_cost,
    opening,
    saved_cores,
    stays_open_s,
)
from scheduler.latency.triggers import SMALLEST_S, BatchCost, Counted
from scheduler.latency.ways import Way
from scheduler.model.settings_of_fragments import LONGEST_OPEN_S, MOST_OPEN_A_SLOT, OPEN_BLOCKS, OPEN_EVENTS, OPEN_S

from .test_pacing import problems

SLOW = BatchCost(batch_s=0.1, batch_cpu_s=0.05, rate_per_s=10, event_s=0.0002, event_cpu_s=0.0002)
LINE = Queries({"a": SLOW, "b": SLOW}, {"b": ("a",)}, largest_s=10.0)
WAY = Way({"a": (), "b": ("a",)}, frozenset({"a"}), frozenset({"b"}))


def rank(paced, wants) -> tuple[int, float, float]:
    late_s = [paced.expected[want.key].latency_s - want.limit_s
              for want in wants if paced.expected[want.key].least_s is not None]
    return len(late_s), round(sum(late_s), 3), paced.cores


@st.composite
def modes(draw: st.DrawFn):
    queries, wants = draw(problems())
    names = sorted(queries.costs)
    refusals = {name: draw(st.sampled_from(["", "it runs Python"])) for name in draw(st.sets(st.sampled_from(names)))}
    slot_of = {name: draw(st.sampled_from(["n1/0", "n1/1"])) for name in names}
    before = draw(st.sets(st.sampled_from(names)))
    return replace(queries, slot_of=slot_of), wants, refusals, before


@settings(max_examples=60, deadline=None)
@given(modes())
def test_only_queries_that_can_and_only_where_it_helps(problem) -> None:
    queries, wants, refusals, before = problem
    chosen, micro = choose_modes(queries, wants, refusals, before=before), pace(queries, wants)
    assert all(refusals.get(query) == "" for query in chosen.open)
    assert rank(chosen.paced, wants) <= rank(micro, wants)
    assert chosen.interval_s.keys() == queries.costs.keys()
    assert all(chosen.interval_s[query] in APARTS_S for query in chosen.open)
    plain = pace(opening(queries, chosen.open), wants)
    for want in wants:  # gathering events costs no limit that holds without it
        if plain.expected[want.key].latency_s <= AIM * want.limit_s:
            assert chosen.paced.expected[want.key].latency_s <= AIM * want.limit_s * (1 + 1e-9)
    assert chosen.paced.cores <= plain.cores + 1e-9
    again = choose_modes(queries, wants, refusals, before=chosen.open)
    assert again.open >= chosen.open or not chosen.open - before, "what was chosen stays"


def test_a_limit_that_no_intervals_meet_is_met_by_open_batches() -> None:
    want = LimitOnWay("w", WAY, 0.06)
    assert pace(LINE, [want]).expected["w"].least_s is not None
    chosen = choose_modes(LINE, [want], {"a": "", "b": ""})
    assert chosen.open == {"a", "b"}
    assert chosen.paced.expected["w"].least_s is None
    assert chosen.paced.expected["w"].latency_s < 0.06


def test_what_was_measured_beyond_the_model_of_batches_keeps_none_from_being_opened() -> None:
    want = LimitOnWay("w", WAY, 0.06, other_s=0.1)
    assert choose_modes(LINE, [want], {"a": "", "b": ""}).open == {"a", "b"}


def test_where_one_cannot_it_has_micro_batches_as_before() -> None:
    want = LimitOnWay("w", WAY, 0.06)
    assert not choose_modes(LINE, [want], {"a": "it runs Python", "b": "it runs Python"}).open
    assert not choose_modes(LINE, [want], {}).open, "what is not known is not done"


def test_without_a_limit_all_have_few_micro_batches() -> None:
    assert not choose_modes(LINE, [], {"a": "", "b": ""}).open


def test_it_is_chosen_where_batches_would_have_to_be_often() -> None:
    chosen = choose_modes(LINE, [LimitOnWay("w", WAY, 0.5)], {"a": "", "b": ""})
    assert chosen.open == {"a", "b"}
    assert chosen.paced.cores < 0.5 * pace(LINE, [LimitOnWay("w", WAY, 0.5)]).cores


def test_what_is_scheduled_or_has_too_many_events_keeps_its_batches() -> None:
    busy = replace(SLOW, rate_per_s=2_000, event_cpu_s=0.0002)
    queries = replace(LINE, costs={"a": SLOW, "b": busy}, bounds_s={"a": 0.5})
    assert not choose_modes(queries, [LimitOnWay("w", WAY, 0.06)], {"a": "", "b": ""}).open


def test_a_slot_has_threads_for_so_many() -> None:
    names = [f"q{number}" for number in range(MOST_OPEN_A_SLOT + 5)]
    queries = Queries(dict.fromkeys(names, SLOW), slot_of=dict.fromkeys(names, "n1/0"))
    wants = [LimitOnWay(name, Way({name: ()}, frozenset({name}), frozenset({name})), 0.05) for name in names]
    assert len(choose_modes(queries, wants, dict.fromkeys(names, "")).open) == MOST_OPEN_A_SLOT


def test_an_open_batch_costs_once_in_the_time_that_it_stays_open_and_for_each_group() -> None:
    silent = replace(SLOW, rate_per_s=0)
    assert open_cost(silent).cores(SMALLEST_S) == SLOW.batch_cpu_s / LONGEST_OPEN_S
    assert saved_cores(silent, LONGEST_OPEN_S) == 0
    assert open_cost(SLOW).cores(SMALLEST_S) > open_cost(silent).cores(SMALLEST_S)
    flood = [open_cost(replace(silent, rate_per_s=rate)).batch_cpu_s for rate in (1_000, 100_000)]
    assert flood[0] == flood[1], "events that come together are one group"


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.sampled_from(APARTS_S))
def test_the_fewer_events_come_the_longer_a_batch_stays_open(
    rate_per_s: float, more_per_s: float, apart_s: float
) -> None:
    few_s, many_s = stays_open_s(rate_per_s, apart_s), stays_open_s(rate_per_s + more_per_s, apart_s)
    assert OPEN_S <= many_s <= few_s <= LONGEST_OPEN_S
    assert few_s == OPEN_S or rate_per_s * few_s <= OPEN_EVENTS * (1 + 1e-9), "what would be repeated is bounded"
    assert few_s == OPEN_S or groups_in(rate_per_s, few_s, apart_s) <= OPEN_BLOCKS * (1 + 1e-9), "so are blocks"


def test_open_batches_are_priced_as_micro_batches_that_take_as_much() -> None:
    assert equal_interval_s(replace(SLOW, rate_per_s=0)) == LONGEST_OPEN_S
    assert abs(SLOW.cores(equal_interval_s(SLOW)) - open_cost(SLOW).cores(SMALLEST_S)) < 1e-12


def test_events_are_gathered_for_as_long_as_the_limit_allows_where_that_makes_fewer_groups() -> None:
    busy = replace(SLOW, rate_per_s=300)
    queries = replace(LINE, costs={"a": busy, "b": busy})
    aparts_s = {}
    for limit_s in (0.05, 0.06, 0.2, 0.5):
        chosen = choose_modes(queries, [LimitOnWay("w", WAY, limit_s)], {"a": "", "b": ""})
        assert chosen.open == {"a", "b"}
        assert chosen.paced.expected["w"].latency_s <= AIM * limit_s
        aparts_s[limit_s] = [chosen.interval_s[query] for query in "ab"]
    assert aparts_s == {0.05: [0.02, 0.02], 0.06: [0.05, 0.05], 0.2: [0.2, 0.2], 0.5: [0.5, 0.5]}
    cost = open_cost(busy, 0.2).cores(0.2)
    assert cost < open_cost(busy).cores(SMALLEST_S) - 0.04, "five groups a second instead of fifty"
    rare = choose_modes(LINE, [LimitOnWay("w", WAY, 0.06)], {"a": "", "b": ""})
    assert [rare.interval_s[query] for query in "ab"] == [0.02, 0.02], "ten events a second are ten groups either way"


def test_groups_far_apart_pay_where_groups_as_near_as_may_be_would_not() -> None:
    small = replace(SLOW, batch_s=0.3, batch_cpu_s=0.15, group_cpu_s=0.004)
    alone, way = Queries({"a": small}, largest_s=10.0), Way({"a": ()}, frozenset({"a"}), frozenset({"a"}))
    want = LimitOnWay("w", way, 5.0)
    micro = pace(alone, [want])
    assert micro.expected["w"].least_s is None
    assert saved_cores(small, micro.interval_s["a"]) < 0, "ten groups a second take more than a batch in five seconds"

    chosen = choose_modes(alone, [want], {"a": ""})

    assert (chosen.open, chosen.interval_s["a"]) == ({"a"}, APARTS_S[-1])
    assert chosen.cores("a", small) < 0.5 * micro.cores
    assert choose_modes(alone, [want], {"a": ""}, before=chosen.open).open == {"a"}


def test_groups_are_no_further_apart_than_batches_may_be_here() -> None:
    dear = replace(SLOW, batch_cpu_s=0.2)
    for largest_s in (0.3, 1.0, 10.0):
        queries = Queries({"a": dear}, largest_s=largest_s)
        chosen = choose_modes(queries, [], {"a": ""})
        assert chosen.open == {"a"}, "no limit asks for it, and it takes less"
        assert chosen.interval_s["a"] == max(apart_s for apart_s in APARTS_S if apart_s <= largest_s)


def test_groups_above_the_part_that_a_limit_covers_are_as_far_apart_as_it_allows() -> None:
    busy = replace(SLOW, rate_per_s=200, event_s=0.001, event_cpu_s=0.001)
    queries = replace(LINE, costs={"a": busy, "b": busy})
    of_b = Way({"b": ()}, frozenset({"b"}), frozenset({"b"}))

    chosen = keep_modes(queries, [LimitOnWay("w", of_b, 0.3)], {"a", "b"})

    assert chosen.paced.expected["w"].latency_s <= AIM * 0.3, "b works on what came in a group of a's"
    assert SMALLEST_S < chosen.interval_s["a"] < APARTS_S[-1]


def test_a_limit_that_begins_with_a_stream_needs_no_open_batches_of_who_writes_it() -> None:
    way = replace(WAY, counted=Counted(False, frozenset({"a"})))

    chosen = choose_modes(LINE, [LimitOnWay("w", way, 0.05)], {"a": "", "b": ""})

    assert chosen.open == {"b"}
    assert chosen.paced.expected["w"].least_s is None
