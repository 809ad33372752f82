"""Copies of a task that is divided by key: each key's results are whole, whichever machines die at which step."""

from __future__ import annotations

from random import Random

import pytest

from .copied_world import Wrong
from .divided_batches import Faults, alone
from .divided_copied_world import DividedWorld

STEPS = 700
# The first world that shows what a part is for; another one does once worlds are drawn otherwise.
SHOWN_BY = {
    "begins_where_the_copy_ends": 6, "carries_routes": 3, "divides_as_before_while_it_repeats": 3,
    "keeps_channels_before_they_are_read": 11, "reads_what_was_read": 31, "sets_open_boundaries": 16}


def played(seed: int, *, copies: int, faults: Faults | None = None) -> DividedWorld:
    world = DividedWorld(Random(seed), copies=copies, faults=faults)
    for _ in range(STEPS):
        world.act()
    return world


@pytest.mark.parametrize("copies", [1, 2])
def test_each_key_has_its_results_whichever_machines_die(copies: int) -> None:
    taken_over = changed = 0
    for seed in range(30):
        world = played(seed, copies=copies)
        assert world.finish() == alone(), seed
        taken_over, changed = taken_over + world.taken_over, changed + world.changed
    assert taken_over > 20 and changed > 20


@pytest.mark.parametrize("part", sorted(vars(Faults())))
def test_each_part_of_the_protocol_is_needed(part: str) -> None:
    def goes_wrong(seed: int) -> bool:
        try:
            return played(seed, copies=2, faults=Faults(**{part: False})).finish() != alone()
        except Wrong:
            return True

    assert any(goes_wrong(seed) for seed in (SHOWN_BY.get(part, 0), *range(300)))
