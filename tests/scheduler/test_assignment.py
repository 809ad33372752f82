"""Settling where others have part of slots: places of the schedule's own go to slots of its own."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.assignment import SlotAssigner
from scheduler.enactment import parts_of
from scheduler.model.errors import InsufficientSlots, NotEnactable
from scheduler.model.fragment import RunningBundle, Slot
from scheduler.model.placement import Placement
from scheduler.model.resources import Node, Supply, TakenShare
from scheduler.scheduling import prepare, schedule

from .catalogue import TYPES
from .schedules import SIZES
from .test_rescheduling import FLOW, PROFILES, SAM


def test_a_schedule_that_has_to_buy_is_left_as_it_is_however_many_slots_others_have_part_of():
    """Of slots that nobody has part of there is one, and the schedule has three places of its own."""
    slots = [Slot("n1", index) for index in range(4)]
    supply = Supply((Node("n1", tuple(slots)),), SIZES, taken={slot: TakenShare(0.1, 0.1) for slot in slots[1:]})
    job = prepare(FLOW, task_types=TYPES, profiles=PROFILES, rate_per_s=120)
    planned = schedule(job, SAM, supply=supply)
    assert planned.slots <= len(slots), "by their number they would do"
    assert len([node for node in planned.acquisition.nodes if node.new]) == 1
    assigner = SlotAssigner({"by": [RunningBundle("by", "n1/0", 4, 1.0)]}, pinned={}, supply=supply)
    assert schedule(job, SAM, supply=supply, arrange=assigner) == planned
    with pytest.raises(InsufficientSlots, match="2 would be on machines to buy"):
        parts_of(planned)


def test_places_find_the_slots_of_their_own_among_those_that_others_have_part_of():
    job = prepare(FLOW, task_types=TYPES, profiles=PROFILES, rate_per_s=120)
    bought = schedule(job, SAM, supply=Supply((), SIZES))
    slots = [Slot("n1", index) for index in range(10 + bought.slots)]
    supply = Supply((Node("n1", tuple(slots)),), SIZES, taken={slot: TakenShare(0.1, 0.1) for slot in slots[:10]})
    running = {"by": [RunningBundle("by", slots[-1].name, 4, 1.0)]}
    assigned = SlotAssigner(running, pinned={}, supply=supply)(bought.placement, job.streams)
    assert set(assigned.slots) == set(slots[10:])
    assert assigned.slot_of("by", 0) == slots[-1], "what runs stays where it is"


NODES = ("n1", "n2")
SLOTS = st.sampled_from([Slot(node, index) for node in NODES for index in range(2)])
THREADS = st.integers(1, 2)


@given(
    st.lists(SLOTS, min_size=2, max_size=3, unique=True),
    st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 1), min_size=1, max_size=3).map(tuple), min_size=1),
    st.dictionaries(st.sampled_from("abc"), st.dictionaries(SLOTS, THREADS, min_size=1, max_size=2), min_size=1),
    st.sets(st.sampled_from("abc")), st.sets(SLOTS, max_size=1),
)
def test_no_other_choice_of_slots_keeps_more(slots, threads, runs, bound, taken):
    """Against every choice there is: what stays, and where it does, what is near, and then the mapping's own choice."""
    nodes = [Node(name, tuple(Slot(name, index) for index in range(2))) for name in NODES]
    supply = Supply(tuple(nodes), SIZES, taken={slot: TakenShare(0.1, 0.1) for slot in taken})
    running = {task: [RunningBundle(f"{task} {slot.name}", slot.name, threads_there, 1.0) for slot,
        threads_there in where.items()]
               for task, where in runs.items()}
    pinned = {task: next(iter(runs[task])).node for task in bound & runs.keys()}
    placement = Placement("SAM", len(slots), tuple(slots), threads)

    def worth(choice: tuple[Slot, ...]) -> int | None:
        """What a choice is worth; None of one that may not be."""
        total = sum(slot == before for slot, before in zip(choice, slots, strict=True))
        for task, position in {(task, position) for task, threads_there in threads.items()
                for position in threads_there}:
            slot, before = choice[position], slots[position]
            if pinned.get(task, slot.node) != slot.node or (slot != before and {slot, before} & taken):
                return None
            here = runs.get(task, {})
            total += 10 * (slot.node in {total_of.node for total_of in here})
            if slot in here:
                total += 1000 if here[slot] == threads[task].count(position) else 600
        return total

    worths = [worth(choice) for choice in permutations([slot for node in nodes for slot in node.slots], len(slots))]
    best = max((total_of for total_of in worths if total_of is not None), default=None)
    try:
        assigned = SlotAssigner(running, pinned=pinned, supply=supply)(placement, {})
    except NotEnactable:
        assert best is None
    else:
        assert (worth(assigned.slots), assigned.threads) == (best, placement.threads)
