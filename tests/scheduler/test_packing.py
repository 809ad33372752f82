"""Packing into the fewest slots: against every packing of small questions, and where large ones were not solved."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.allocation.lsa import allocate_lsa
from scheduler.mapping.diving import dive
from scheduler.mapping.effort import Effort
from scheduler.mapping.filling import filled_slots
from scheduler.mapping.packing import best_fit, fewest_slots
from scheduler.mapping.packing_bounds import least_slots
from scheduler.mapping.packing_patterns import generate, whole_patterns
from scheduler.mapping.repacking import pack, repacked
from scheduler.mapping.shapes import Bins, Pattern, Shapes
from scheduler.model.allocated import Bundle
from scheduler.model.profile import Point, Profile

# Five characters of task: CPU alone, CPU and memory, disk, a slow service, a quick one.
KINDS = (
    Profile("compute", (Point(1, 100, 0.9, 0.02),)), Profile("parse", (Point(1, 300, 0.85, 0.35),)),
    Profile("write", (Point(1, 50_000, 0.6, 0.1),)), Profile("download", (Point(1, 2, 0.07, 0.2),)),
    Profile("query", (Point(1, 4, 0.02, 0.01),)),
)


@st.composite
def few_shapes(draw: st.DrawFn) -> list[Bundle]:
    """Up to eight bundles each of up to three shapes, some of them of two tasks."""
    share = st.sampled_from([0.0, 0.05, 0.11, 0.2, 0.25, 0.26, 1 / 3, 0.34, 0.4, 0.49, 0.5, 0.51, 0.6, 0.75, 0.9, 1.0])
    share |= st.floats(0.02, 1)
    kinds = [Bundle(f"t{number}", 1, 1.0, draw(share), draw(share), count=draw(st.integers(1, 6)))
             for number in range(draw(st.integers(1, 3)))]
    twin = kinds[0]
    return kinds + [Bundle("twin", 1, 1.0, twin.cpu, twin.memory, count=2)] * draw(st.booleans())


def fewest_of_all(kinds: Sequence[Bundle]) -> int:
    """The fewest slots, by all that may share one, with nothing of what is tested."""
    counts: Counter[tuple[float, float]] = Counter()
    for kind in kinds:
        counts[kind.cpu, kind.memory] += kind.count
    sizes = list(counts)
    all_patterns = [
        numbers for numbers in product(*(range(counts[size] + 1) for size in sizes)) if any(numbers)
        and all(sum(number * size[of] for number, size in zip(numbers, sizes, strict=True)) <= 1 + 1e-9
                for of in (0, 1))]

    @cache
    def slots(left: tuple[int, ...]) -> int:
        if not any(left):
            return 0
        first = next(number for number, count in enumerate(left) if count)
        return 1 + min(
            slots(tuple(count - number for count, number in zip(left, numbers, strict=True)))
            for numbers in all_patterns
            if numbers[first] and all(number <= count for number, count in zip(numbers, left, strict=True)))

    return slots(tuple(counts.values()))


def check_packing(packed: Bins, kinds: Sequence[Bundle]) -> None:
    """Every bundle once, no slot empty or over its CPU or memory."""
    wanted: Counter[tuple[str, float, float]] = Counter()
    for kind in kinds:
        wanted[kind.task, kind.cpu, kind.memory] += kind.count
    assert Counter((unit.task, unit.cpu, unit.memory) for bundles in packed for unit in bundles) == wanted
    for bundles in packed:
        assert bundles and all(unit.count == 1 for unit in bundles)
        assert sum(unit.cpu for unit in bundles) <= 1 + 1e-8 and sum(unit.memory for unit in bundles) <= 1 + 1e-8


def check_patterns(patterns: dict[Pattern, int], shapes: Shapes) -> None:
    """All bundles have a place, and no pattern is over a slot."""
    for shape, count in enumerate(shapes.counts):
        assert sum(pattern[shape] * times for pattern, times in patterns.items()) >= count
    for pattern in patterns:
        for sizes in (shapes.cpu, shapes.memory):
            assert sum(number * size for number, size in zip(pattern, sizes, strict=True)) <= 1_000_000_001


@settings(max_examples=150, deadline=None)
@given(kinds=few_shapes())
def test_the_fewest_slots_are_found_and_proved(kinds: list[Bundle]):
    packed, least = fewest_slots(kinds, effort=Effort(2.0))
    check_packing(packed, kinds)
    assert len(packed) == least == fewest_of_all(kinds)


@settings(max_examples=150, deadline=None)
@given(kinds=few_shapes(), effort=st.sampled_from([0.0, 0.0001, 0.002]))
def test_no_step_goes_below_the_fewest_nor_claims_more(kinds: list[Bundle], effort: float):
    """Each bound is one, and each part of the search packs all, however little it may do."""
    fewest, shapes = fewest_of_all(kinds), Shapes.of(kinds)
    assert least_slots(shapes) <= fewest
    packed, least = fewest_slots(kinds, effort=Effort(effort))
    check_packing(packed, kinds)
    assert least <= fewest <= len(packed) <= len(best_fit(kinds))
    for patterns in filled_slots(shapes, shapes.counts):
        check_patterns(patterns, shapes)
        assert sum(patterns.values()) >= fewest
    columns = generate(shapes, list(shapes.patterns_of(best_fit(kinds))), 0, effort=Effort(effort))
    assert columns.least <= fewest
    check_patterns(dive(columns, effort=Effort(effort)), shapes)
    whole = whole_patterns(columns, fewest, effort=Effort(1.0))
    if whole is not None:
        check_patterns(whole, shapes)
    assert whole_patterns(columns, fewest - 1, effort=Effort(1.0)) is None


@settings(max_examples=60, deadline=None)
@given(kinds=few_shapes())
def test_what_is_said_to_be_impossible_is(kinds: list[Bundle]):
    fewest, units = fewest_of_all(kinds), best_fit(kinds)
    fewer, is_impossible = pack(kinds, fewest - 1, effort=Effort(2.0))
    assert fewer is None and is_impossible
    check_packing(repacked(units, 0, effort=Effort(2.0)), kinds)
    as_many, is_impossible = pack(kinds, fewest, effort=Effort(2.0))
    assert as_many is not None and len(as_many) == fewest and not is_impossible
    check_packing(as_many, kinds)


def of_lsa(tasks: int, *, seed: int) -> list[Bundle]:
    """LSA's threads of a random dataflow of five characters of task: most are of the slow services."""
    rng = random.Random(seed)
    chosen = {f"t{number}": rng.choice(KINDS) for number in range(tasks)}
    rates = dict.fromkeys(chosen, rng.choice((11.0, 17.5, 39.0, 68.6, 97.3)))
    return [bundle for task in allocate_lsa(rates, chosen).tasks.values() for bundle in task.bundles]


@pytest.mark.parametrize(("tasks", "seed", "slots", "by_best_fit"), [
    (10, 29, 8, 9), (10, 9, 21, 22), (20, 3, 30, 31), (60, 2, 87, 92), (300, 1, 248, 256), (1000, 2, 831, 868)])
def test_threads_of_lsa_take_the_fewest_slots_and_that_is_proved(tasks: int, seed: int, slots: int, by_best_fit: int):
    """CP-SAT over each thread on each slot gave up where best fit had ended; over patterns it is done at once."""
    kinds = of_lsa(tasks, seed=seed)
    assert len(best_fit(kinds)) == by_best_fit
    effort = Effort(0.05)
    packed, least = fewest_slots(kinds, effort=effort)
    check_packing(packed, kinds)
    assert len(packed) == least == slots


def test_many_shapes_are_packed_near_the_bound():
    """Two hundred tasks of which no two are alike: best fit left a twentieth of their slots empty."""
    rng = random.Random(500)
    kinds = []
    for number in range(200):
        cpu, memory, part = rng.uniform(0.01, 0.3), rng.uniform(0.01, 0.3), rng.random()
        kinds.append(Bundle(f"t{number}", 1, 1.0, cpu, memory, count=rng.randrange(1, 20)))
        kinds.append(Bundle(f"t{number}", 1, 1.0, cpu * part, memory * part))
    packed, least = fewest_slots(kinds, effort=Effort(0.05))
    check_packing(packed, kinds)
    assert least <= len(packed) <= 1.02 * least
    assert len(best_fit(kinds)) > 1.04 * least


def test_the_same_question_has_the_same_answer():
    kinds = of_lsa(40, seed=9)
    first, again = Effort(0.02), Effort(0.02)
    assert fewest_slots(kinds, effort=first) == fewest_slots(kinds, effort=again)
    assert first.spent == again.spent
