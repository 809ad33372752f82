"""A slot that stops lazily what leaves it (paper [4], section 3.3): for a while it goes on as if it knew of no change.

By then the other slot knows of the plan, and waits for it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace

from scheduler.contracts.desired import DesiredState, WantedSlot
from workers.engine.agents import slot
from workers.engine.agents.node_files.node_store import NewestDesired, NodeStore

from .schemes import LAZY_S


def lazily(newest: DesiredState, before: DesiredState, slot: str) -> DesiredState:
    """The newest desired state as a slot follows it that has not stopped yet what goes from it to others.

    Parameters
    ----------
    newest, before : DesiredState
        What is desired now, and what was before that.
    slot : str
        The slot's index.
    """
    elsewhere = newest.elsewhere(slot)
    leaving = {fragment.id: fragment for fragment in before.of_slot(slot) if fragment.id in elsewhere}
    if not leaving:
        return newest
    slots = {
        index: WantedSlot(tuple(fragment for fragment in wanted.fragments if fragment.id not in leaving))
        for index, wanted in newest.slots.items()}
    slots[slot] = WantedSlot((*newest.of_slot(slot), *leaving.values()))
    return replace(newest, slots=slots)


class LazyDesired:
    """Gives the newest desired state that reached a node, for ``LAZY_S`` without what leaves this slot.

    Parameters
    ----------
    newest : callable
        Gives the newest.
    own : str
        The slot's index.
    clock_s : callable, optional
        Seconds that only go up.
    """

    def __init__(
        self, newest: Callable[[], DesiredState], slot: str, *, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._newest = newest
        self._slot = slot
        self._clock_s = clock_s
        self._before: DesiredState | None = None
        self._current: DesiredState | None = None
        self._lazy = DesiredState()
        self._until_s = 0.0

    def __call__(self) -> DesiredState:
        newest = self._newest()
        if newest is not self._current:
            self._before, self._current = self._current, newest
            self._until_s = self._clock_s() + LAZY_S
            self._lazy = newest if self._before is None else lazily(newest, self._before, self._slot)
        return self._lazy if self._clock_s() < self._until_s else newest


def main() -> None:
    """Run one slot."""
    number = sys.argv[sys.argv.index("--slot") + 1]

    def looking(store: NodeStore) -> LazyDesired:
        return LazyDesired(NewestDesired(store), number)

    slot.main(looking)


if __name__ == "__main__":
    main()
