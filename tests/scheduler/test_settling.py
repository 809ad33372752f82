"""Settling where others have part of slots: places of the schedule's own go to slots of its own."""

from __future__ import annotations

import pytest

from scheduler.enactment import parts_of
from scheduler.model.errors import InsufficientSlots
from scheduler.model.estate import RunningBundle, Slot
from scheduler.model.resources import Node, Supply, Taken
from scheduler.scheduling import prepare, schedule
from scheduler.settling import settled

from .catalogue import TYPES
from .schedules import SIZES
from .test_rescheduling import FLOW, PROFILES, SAM


def test_a_schedule_that_has_to_buy_is_left_as_it_is_however_many_slots_others_have_part_of():
    """Of slots that nobody has part of there is one, and the schedule has three places of its own."""
    slots = [Slot("n1", index) for index in range(4)]
    supply = Supply((Node("n1", tuple(slots)),), SIZES, taken={slot: Taken(0.1, 0.1) for slot in slots[1:]})
    found = schedule(prepare(FLOW, task_types=TYPES, profiles=PROFILES, rate_per_s=120), SAM, supply=supply)
    assert found.slots <= len(slots), "by their number they would do"
    assert len([node for node in found.acquisition.nodes if node.new]) == 1
    running = {"by": [RunningBundle("by", "n1/0", 4, 1.0)]}
    assert settled(found, running=running, pinned={}, supply=supply) == found
    with pytest.raises(InsufficientSlots, match="2 would be on machines to buy"):
        parts_of(settled(found, running=running, pinned={}, supply=supply))


def test_places_find_the_slots_of_their_own_among_those_that_others_have_part_of():
    job = prepare(FLOW, task_types=TYPES, profiles=PROFILES, rate_per_s=120)
    bought = schedule(job, SAM, supply=Supply((), SIZES))
    slots = [Slot("n1", index) for index in range(10 + bought.slots)]
    supply = Supply((Node("n1", tuple(slots)),), SIZES, taken={slot: Taken(0.1, 0.1) for slot in slots[:10]})
    running = {"by": [RunningBundle("by", slots[-1].name, 4, 1.0)]}
    found = settled(bought, running=running, pinned={}, supply=supply).placement
    assert set(found.slots) == set(slots[10:])
    assert found.slot_of("by", 0) == slots[-1], "what runs stays where it is"
