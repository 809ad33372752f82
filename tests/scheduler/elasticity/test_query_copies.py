"""Copies of whole queries: who holds them, and that outputs are whole whichever machines die at which step."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.elasticity import query_copies
from scheduler.elasticity.query_copies import (
    BatchCopy,
    CopiedQuery,
    HoldingNode,
    choose_holders,
    copied_places,
    lacked_batches,
)

from .copied_world import EVENTS, MOST, NODES, OTHERS, CopiedWorld, Event, Faults, Wrong, copy_to_go_on_with

names = st.sampled_from([f"n{number}" for number in range(9)])
estates = st.dictionaries(names, st.builds(HoldingNode, st.sampled_from("abc"), st.integers(0, 60)), min_size=1)
ample = estates.map(lambda nodes: {name: replace(node, room_bytes=10**6) for name, node in nodes.items()})
copied = st.dictionaries(
    st.sampled_from([f"f{number}" for number in range(12)]),
    st.builds(CopiedQuery, names, st.integers(0, 30), st.lists(names, max_size=3).map(tuple)))
numbers = st.integers(0, 3)


def holding(queries: dict[str, CopiedQuery], chosen) -> dict[str, CopiedQuery]:
    return {name: replace(query, holders=chosen[name]) for name, query in queries.items()}


@given(copied, estates, numbers)
def test_holders_are_other_nodes_with_room(queries, nodes, copies: int) -> None:
    taken = Counter[str]()
    for name, holders in choose_holders(queries, nodes, copies=copies).items():
        assert len(set(holders)) == len(holders) <= copies and set(holders) <= nodes.keys() - {queries[name].node}
        taken.update(dict.fromkeys(holders, queries[name].state_bytes))
    assert all(taken[node] <= holding.room_bytes for node, holding in nodes.items())


@given(copied, ample, numbers)
def test_zones_are_as_many_as_can_be(queries, nodes, copies: int) -> None:
    for name, holders in choose_holders(queries, nodes, copies=copies).items():
        home = queries[name].node
        others = nodes.keys() - {home}
        assert len(holders) == min(copies, len(others))
        zones = {nodes[node].zone for node in others} - ({nodes[home].zone} if home in nodes else set())
        reached = {nodes[node].zone for node in holders} & zones
        assert len(reached) == min(len(holders), len(zones))


@given(copied, ample, numbers, names)
def test_a_node_that_leaves_moves_its_own_copies_only(queries, nodes, copies: int, gone: str) -> None:
    before = choose_holders(queries, nodes, copies=copies)
    left = {name: node for name, node in nodes.items() if name != gone}
    after = choose_holders(holding(queries, before), left, copies=copies)
    others = [name for name, query in queries.items() if gone not in (query.node, *before[name])]
    assert all(after[name] == before[name] for name in others)


@given(copied, ample, numbers, names, st.sampled_from("abc"))
def test_a_node_that_joins_takes_copies_only_where_zones_become_more(queries, nodes, copies, new, zone) -> None:
    nodes = {name: node for name, node in nodes.items() if name != new}
    elsewhere = {name: query for name, query in queries.items() if query.node != new}
    before = choose_holders(elsewhere, nodes, copies=copies)
    after = choose_holders(holding(elsewhere, before), {**nodes, new: HoldingNode(zone, 10**6)}, copies=copies)
    for name, holders in before.items():
        if len(holders) == copies and set(after[name]) != set(holders):
            zone_of_query = nodes[elsewhere[name].node].zone if elsewhere[name].node in nodes else ""
            zones = Counter([zone_of_query, *(nodes[node].zone for node in holders)])
            assert zone == zone_of_query or zones[zone] < max(zones.values())
            assert set(after[name]) - set(holders) == {new}


def test_what_a_node_held_goes_to_many_others() -> None:
    nodes = {f"n{number}": HoldingNode("abc"[number % 3], 10**6) for number in range(12)}
    queries = {f"f{number}": CopiedQuery("n0", 1) for number in range(200)}
    before = choose_holders(queries, nodes, copies=1)
    held = Counter(holder for holders in before.values() for holder in holders)
    assert set(held) == {name for name, node in nodes.items() if node.zone != "a"} and max(held.values()) < 50
    gone = max(held, key=lambda node: held[node])
    left = {name: node for name, node in nodes.items() if name != gone}
    after = choose_holders(holding(queries, before), left, copies=1)
    assert len({after[name] for name in queries if before[name] == (gone,)}) > 4


def test_a_copy_counts_when_it_is_whole_and_what_comes_next_is_there() -> None:
    query = BatchCopy("n1", 9, {"c": (9, 0)})
    old, new = BatchCopy("n2", 3, {"c": (4, 0)}), BatchCopy("n3", 5, {"c": (7, 1)})
    coming = BatchCopy("n2", 9, {"c": (9, 0)}, is_whole=False)
    stand = copied_places(query, [old, new, coming], NODES, kept_from=0)
    assert (stand.survives, stand.holders, stand.freed_to) == (2, ("n3", "n2"), {"c": (4, 0)})
    assert copy_to_go_on_with([old, new, coming], NODES, kept_from=0) == new
    assert copy_to_go_on_with([old, new, coming], {"n2"}, kept_from=0) == old
    assert copy_to_go_on_with([old, new, coming], {"n2"}, kept_from=5) is None
    left = copied_places(query, [old, new], NODES, kept_from=5)
    assert (left.freed_to, left.kept_from, left.needed) == ({"c": (7, 1)}, 5, {"c"})
    behind = copied_places(old, [new], NODES, kept_from=0)  # n3 was away when n2 took over
    assert (behind.freed_to, behind.kept_from) == ({"c": (4, 0)}, 3)
    wider = BatchCopy("n3", 6, {"c": (7, 1), "d": (1, 0)})  # another channel has come
    stand = copied_places(query, [old, wider], NODES, kept_from=0)
    assert (stand.freed_to, stand.kept_from, stand.needed) == ({"c": (4, 0)}, 3, {"c", "d"})
    for nothing in (copied_places(query, [old, new], (), kept_from=0), copied_places(new, [new], NODES, kept_from=0)):
        assert (nothing.survives, nothing.freed_to, nothing.kept_from) == (0, {}, 0)


def alone() -> dict[str, list[int]]:
    """What two queries in a row give of the events, undisturbed: the second one has another stream besides."""
    first, counts = list[Event](), Counter[str]()
    for count, (key, number) in enumerate(EVENTS, start=1):
        counts[key] += number
        first.append((key, counts[key] * MOST + count))
    sums: dict[str, list[int]] = {}
    for key, number in (*first, *OTHERS):
        sums.setdefault(key, []).append(sum(sums.get(key, [0])[-1:]) + number)
    return sums


def played(seed: int, *, copies: int, faults: Faults | None = None) -> dict[str, list[int]]:
    world = CopiedWorld(Random(seed), copies=copies, faults=faults)
    for _ in range(400):
        world.act()
    return world.finish()


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_outputs_are_whole_whichever_machines_die(copies: int) -> None:
    assert all(played(seed, copies=copies) == alone() for seed in range(150))


def test_machines_die_in_these_worlds_and_late_ones_find_themselves_fenced() -> None:
    taken_over, fenced = 0, 0
    for seed in range(20):
        world = CopiedWorld(Random(seed), copies=2)
        for _ in range(400):
            world.act()
        taken_over += sum(world.tokens.values()) - len(world.tokens)
        fenced += world.fenced
    assert taken_over > 20 and fenced > 5


@pytest.mark.parametrize("part", sorted(vars(Faults())))
def test_each_part_of_the_protocol_is_needed(part: str) -> None:
    def goes_wrong(seed: int) -> bool:
        try:
            return played(seed, copies=2, faults=Faults(**{part: False})) != alone()
        except Wrong:
            return True

    assert any(goes_wrong(seed) for seed in range(400))


@pytest.mark.parametrize("query", ["f1", "f2"])
def test_a_machine_dies_at_every_step(query: str) -> None:
    died = 0
    for step in range(60):
        world = CopiedWorld(Random(7), copies=1)
        for number in range(step):
            for run in world.runs.values():
                world.step(run)
                if number % 5 == 0:
                    world.begin_copies(run)
                world.finish_copy()
                world.free(run.query)
        if world.survives():
            world.kill(world.runs[query].node)
            died += 1
        assert world.finish() == alone()
    assert died > 40


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 900)), min_size=1, max_size=30),
    st.sampled_from([3, 1_000]))
def test_a_copy_is_as_old_as_the_oldest_batch_that_it_lacks(looks: list[tuple[int, int, int]], most: int) -> None:
    """Between two looks some batches begin, and some copies come; an idle query's copy grows no older."""
    begun, copied, now_ms, whole_ms = 5, 3, 10_000, 9_000
    noted_ms, seen = None, list[tuple[int, int]]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(query_copies, "MOST_NOTED", most)
        for batches, copies, later_ms in looks:
            begun, now_ms = begun + batches, now_ms + later_ms
            copied = min(begun, copied + copies)
            seen.append((begun, now_ms if seen else whole_ms))
            noted_ms = lacked_batches(noted_ms, begun=begun, copied=copied, whole_ms=whole_ms, now_ms=now_ms)
            since_ms = min(noted_ms.values(), default=None)
            truth_ms = next((at_ms for number, at_ms in seen if number > copied), None)
            assert len(noted_ms) <= most and (since_ms is None) is (truth_ms is None) is (begun == copied)
            if since_ms is not None:
                assert since_ms == truth_ms if most == 1_000 else since_ms <= truth_ms, "never said to be younger"
