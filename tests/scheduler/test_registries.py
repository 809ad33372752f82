"""The registries of allocations and mappings: complete, and enough to add one."""

from __future__ import annotations

import re
from dataclasses import fields, replace

import pytest

from scheduler import pairs
from scheduler.allocation.allocation_registry import ALLOCATIONS, AllocationKind
from scheduler.mapping.mapping_registry import MAPPINGS, MappingKind
from scheduler.model.placement import Placement
from scheduler.pairs import PAIRS, QUICK_PAIRS, key_of, pair_of, quick_pair
from scheduler.scheduling import compare, prepare, schedule
from tests.architecture.sources import ROOT
from tests.benches.published_pairs import BASELINE, PUBLISHED_PAIRS

from .schedules import BUY
from .test_scheduling import FLOW, PROFILES, TYPES


def job():
    return prepare(FLOW, task_types=TYPES, profiles=PROFILES)


@pytest.mark.parametrize("kind", [*ALLOCATIONS.values(), *MAPPINGS.values()], ids=lambda kind: kind.name)
def test_every_kind_has_all_its_parts(kind: AllocationKind | MappingKind) -> None:
    registry = MAPPINGS if isinstance(kind, MappingKind) else ALLOCATIONS
    assert registry[kind.name] is kind and kind.about
    assert callable(kind.map if isinstance(kind, MappingKind) else kind.allocate)
    described = (ROOT / "docs" / "scheduling.md").read_text()
    assert re.search(rf"\b{kind.name}\b", described), "docs/scheduling.md says what it is"


@pytest.mark.parametrize("kind", MAPPINGS.values(), ids=lambda kind: kind.name)
def test_every_mapping_can_be_asked_for_at_once_or_is_bounded_by_one_that_can(kind: MappingKind) -> None:
    for allocation in ALLOCATIONS:
        pair = allocation, kind.name
        assert quick_pair(pair) in QUICK_PAIRS and (pair in QUICK_PAIRS) == kind.quick
        taken, bound = (schedule(job(), which, supply=BUY).placement for which in (pair, quick_pair(pair)))
        assert taken.needed <= bound.needed and taken.algorithm == kind.name


@pytest.mark.parametrize(("kind", "part"), [
    *((MAPPINGS["SAM"], part) for part in ("name", "about")), (MAPPINGS["exact"], "bounded_by"),
    *((ALLOCATIONS["MBA"], part) for part in ("name", "about"))])
def test_a_kind_that_lacks_a_part_is_refused(kind: AllocationKind | MappingKind, part: str) -> None:
    assert part in {field.name for field in fields(kind)}
    with pytest.raises(ValueError, match="lacks"):
        replace(kind, **{part: ""})


def test_pairs_follow_from_the_registries() -> None:
    assert len(set(PAIRS)) == len(ALLOCATIONS) * len(MAPPINGS) and set(PUBLISHED_PAIRS) <= set(QUICK_PAIRS) < set(PAIRS)
    assert {pairs.MODEL_BASED, BASELINE} <= set(PUBLISHED_PAIRS)
    assert all(pair_of(key_of(pair)) == pair for pair in PAIRS)


def test_a_mapping_is_added_by_its_entry_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def each_thread_alone(allocation, *, supply, streams, effort) -> Placement:
        slots, threads, first = supply.slots(allocation.threads), {}, 0
        for name, task in allocation.tasks.items():
            threads[name] = tuple(range(first, first + task.threads))
            first += task.threads
        return Placement("apart", allocation.slots, slots, threads)

    monkeypatch.setitem(MAPPINGS, "apart", MappingKind(
        "apart", "each thread on a slot of its own", each_thread_alone, keeps_together=False, quick=True))
    comparison = compare(job(), supply=BUY, pairs=[(allocation, "apart") for allocation in ALLOCATIONS])
    assert not comparison.errors
    for planned in comparison.schedules:
        assert planned.slots == planned.allocation.threads and pairs.about(planned.pair).endswith("of its own")
