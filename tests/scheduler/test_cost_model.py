"""Costs that are learned: they tell what made the figures, keep to what is declared elsewhere, and say their error."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.costs import DECLARED, SLOT_CORES, Costs
from scheduler.performance.cost_model import (
    LEAST_S,
    UNPROVED,
    QuerySeen,
    SlotSeen,
    _not_negative,
    expected_cores,
    fit_costs,
)

from .catalogue import TYPES

NAMES = sorted(TYPES)


def seen(rng: random.Random, number: int, *, seconds: float = 1000.0) -> SlotSeen:
    """A slot with one to three queries, which takes nothing yet."""
    queries = []
    for index in range(rng.randint(1, 3)):
        names = rng.sample(NAMES, rng.randint(2, min(5, len(NAMES))))
        batches = round(seconds * rng.uniform(0.5, 2.0))
        queries.append(QuerySeen(
            f"f{number}-{index}", batches, tuple((name, round(seconds * rng.uniform(1, 400))) for name in names)))
    return SlotSeen(seconds, 0, tuple(queries))


def taking(slot: SlotSeen, costs: Costs, *, noise: float = 1.0) -> SlotSeen:
    """The slot as it would be by these costs."""
    return replace(slot, cpu_us=round(expected_cores(slot, costs=costs, task_types=TYPES) * slot.seconds * 1e6 * noise))


def slots_by(costs: Costs, *, count: int, seed: int = 1, noise: float = 0.0) -> list[SlotSeen]:
    rng = random.Random(seed)
    return [taking(seen(rng, number), costs, noise=1 + rng.uniform(-noise, noise)) for number in range(count)]


TRUTH = Costs(
    query_batch_s=0.07, slot_cores=0.02, scale=1.0,
    batch_s={name: 0.004 + 0.003 * index for index, name in enumerate(NAMES)},
    event_us={name: 5.0 + 5 * index for index, name in enumerate(NAMES)})


def test_what_was_measured_is_told_of_slots_that_nobody_saw():
    costs = fit_costs(slots_by(TRUTH, count=60, noise=0.03), task_types=TYPES, machine="m", version=3)
    assert (costs.machine, costs.version) == ("m", 3) and costs.queries > 60
    fresh = slots_by(TRUTH, count=40, seed=2)
    off = [abs(expected_cores(slot, costs=costs, task_types=TYPES) / slot.cores - 1) for slot in fresh]
    declared = [abs(expected_cores(slot, costs=DECLARED, task_types=TYPES) / slot.cores - 1) for slot in fresh]
    assert max(off) < 0.15 and sum(off) < sum(declared) / 4


def test_the_error_is_that_of_slots_that_were_not_fitted():
    noisy, exact = (
        fit_costs(slots_by(TRUTH, count=40, noise=noise), task_types=TYPES) for noise in (0.4, 0.0))
    assert exact.error < 0.1 < noisy.error
    fresh = slots_by(TRUTH, count=200, seed=5, noise=0.4)
    rms = np.sqrt(np.mean([(expected_cores(slot, costs=noisy, task_types=TYPES) / slot.cores - 1) ** 2
                           for slot in fresh]))
    assert noisy.error == pytest.approx(rms, rel=0.5)


@given(st.floats(0.4, 4.0), st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_a_machine_that_takes_a_multiple_of_what_is_declared_does_so_of_what_was_never_seen(multiple, seed):
    scaled = Costs(query_batch_s=DECLARED.query_batch_s * multiple, slot_cores=SLOT_CORES * multiple, scale=multiple)
    costs = fit_costs(slots_by(scaled, count=6, seed=seed), task_types=TYPES)
    assert costs.scale == pytest.approx(multiple, rel=1e-3)
    assert costs.error < 0.01 and costs.query_batch_s == pytest.approx(scaled.query_batch_s, rel=1e-2)
    for name in costs.not_measured(NAMES):
        assert costs.task_batch_s(TYPES[name]) == pytest.approx(scaled.task_batch_s(TYPES[name]), rel=1e-3)
    for figure in (*costs.batch_s.values(), *costs.event_us.values(), costs.query_batch_s, costs.slot_cores):
        assert figure >= 0


def test_one_slot_that_is_far_off_does_not_decide():
    slots = slots_by(TRUTH, count=30)
    spoilt = [replace(slots[0], cpu_us=20 * slots[0].cpu_us), *slots[1:]]
    costs = fit_costs(spoilt, task_types=TYPES)
    off = [abs(expected_cores(slot, costs=costs, task_types=TYPES) / slot.cores - 1) for slot in slots[1:]]
    assert sum(off) / len(off) < 0.1


def test_the_same_queries_are_one_group_however_often_they_were_seen():
    [slot] = slots_by(TRUTH, count=1)
    parts = [
        SlotSeen(slot.seconds / 10, slot.cpu_us // 10, tuple(
            QuerySeen(query.id, query.batches // 10, tuple((name, events // 10) for name, events in query.tasks))
            for query in slot.queries)) for _ in range(10)]
    whole, added = fit_costs([slot], task_types=TYPES), fit_costs(parts, task_types=TYPES)
    assert added.queries == whole.queries == len(slot.queries) and added.error == whole.error == UNPROVED
    assert added.query_batch_s == pytest.approx(whole.query_batch_s, rel=0.02)


def test_of_a_query_whose_tail_was_closed_since_what_is_newer_counts():
    [older] = slots_by(TRUTH, count=1)
    first, *others = older.queries
    shorter = QuerySeen(first.id, first.batches, first.tasks[:1])
    newer = taking(SlotSeen(older.seconds, 0, (shorter, *others)), TRUTH)
    assert len(first.tasks) > 1
    assert fit_costs([newer, older], task_types=TYPES) == fit_costs([newer], task_types=TYPES)


def test_what_says_too_little_is_left_out():
    [slot] = slots_by(TRUTH, count=1)
    assert fit_costs([], task_types=TYPES) is None
    assert fit_costs([replace(slot, seconds=LEAST_S - 1)], task_types=TYPES) is None
    strange = replace(slot, queries=(QuerySeen("f9-0", 10, (("of a package that is gone", 1),)),))
    assert fit_costs([strange], task_types=TYPES) is None
    idle = replace(slot, queries=tuple(replace(query, batches=0) for query in slot.queries))
    assert fit_costs([idle], task_types=TYPES) is None


def opened(slots: list[SlotSeen], costs: Costs, *, seed: int, groups_per_s: float) -> list[SlotSeen]:
    """The same slots with the batches of one query each left open: one in ten seconds, and so many groups."""
    rng = random.Random(seed)
    changed = []
    for slot in slots:
        index = rng.randrange(len(slot.queries))
        queries = list(slot.queries)
        queries[index] = replace(
            queries[index], batches=round(slot.seconds / 10), groups=slot.seconds * rng.uniform(0.2, 1) * groups_per_s)
        changed.append(taking(replace(slot, queries=tuple(queries)), costs))
    return changed


@given(st.floats(0.0, 4.0), st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_open_batches_teach_what_a_group_takes_and_nothing_else(multiple, seed):
    truth = replace(TRUTH, group_cpu_s=multiple * DECLARED.group_cpu_s)
    batches = slots_by(truth, count=12, seed=seed)
    stay_open = opened(slots_by(truth, count=6, seed=seed + 1), truth, seed=seed, groups_per_s=50.0)
    stay_open = [replace(slot, queries=tuple(
        replace(query, id=f"open-{query.id}") for query in slot.queries)) for slot in stay_open]
    without, learned = (fit_costs(slots, task_types=TYPES) for slots in (batches, batches + stay_open))
    assert replace(learned, group_cpu_s=0.0) == replace(without, group_cpu_s=0.0)
    assert without.group_cpu_s == pytest.approx(without.scale * DECLARED.group_cpu_s)

    held_out = opened(slots_by(truth, count=6, seed=seed + 2), truth, seed=seed + 2, groups_per_s=50.0)
    def off(costs: Costs) -> float:
        return sum(abs(expected_cores(slot, costs=costs, task_types=TYPES) - slot.cores) for slot in held_out)
    assert off(learned) <= off(replace(learned, group_cpu_s=without.group_cpu_s)) + 0.05 * len(held_out)


def test_a_group_is_told_exactly_where_all_else_is_known():
    truth = Costs(group_cpu_s=0.0025)
    stay_open = opened(slots_by(truth, count=8, seed=3), truth, seed=3, groups_per_s=50.0)
    stay_open = [replace(slot, queries=tuple(
        replace(query, id=f"open-{query.id}") for query in slot.queries)) for slot in stay_open]
    costs = fit_costs(slots_by(truth, count=12) + stay_open, task_types=TYPES)
    assert costs.group_cpu_s == pytest.approx(0.0025, rel=0.03)


def test_where_every_slot_has_open_batches_all_is_learned_of_them():
    truth = replace(TRUTH, group_cpu_s=0.002)
    stay_open = opened(slots_by(truth, count=30), truth, seed=4, groups_per_s=50.0)
    costs = fit_costs(stay_open, task_types=TYPES)
    off = [abs(expected_cores(slot, costs=costs, task_types=TYPES) / slot.cores - 1) for slot in stay_open]
    assert max(off) < 0.15
    assert costs.group_cpu_s > 1.2 * DECLARED.group_cpu_s


def test_a_query_whose_mode_has_changed_is_not_added_to_what_it_was():
    [slot] = slots_by(TRUTH, count=1)
    [later] = opened([slot], TRUTH, seed=1, groups_per_s=10.0)
    before, both = fit_costs([slot], task_types=TYPES), fit_costs([later, slot], task_types=TYPES)
    assert replace(both, group_cpu_s=before.group_cpu_s) == before


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_least_squares_without_negative_figures_against_all_choices_of_zeros(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(7, 4))
    gram, aim = rows.T @ rows + 0.1 * np.eye(4), rng.normal(size=4)

    def value(x):
        return x @ gram @ x / 2 - aim @ x

    best = value(np.zeros(4))
    for mask in range(1, 16):
        free = [index for index in range(4) if mask >> index & 1]
        x = np.zeros(4)
        x[free] = np.linalg.solve(gram[np.ix_(free, free)], aim[free])
        if (x >= 0).all():
            best = min(best, value(x))
    assert value(_not_negative(gram, aim, np.ones(4))) == pytest.approx(best, abs=1e-6)
