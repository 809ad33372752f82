"""The registry of allocations: name, description and function of each.

A new one is a module with its function and an entry in ``ALLOCATIONS``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scheduler.model.allocated import Allocation

from .lsa import allocate_lsa
from .mba import allocate_mba


@dataclass(frozen=True)
class AllocationKind:
    """An allocation algorithm.

    Parameters
    ----------
    allocate : callable
        ``(rates_per_s, profiles, *, one_thread)``; with ``bundles`` also ``one_slot``. Both are ids of tasks: those
        with one thread, and those whose threads share one slot.
    bundles : bool
        True if it puts several threads of a task into a bundle; else every thread is a bundle.
    solver_share : float
        The share of a solver's effort that a mapping with a solver spends on its threads, from 0 to 1.
    """

    name: str
    about: str
    allocate: Callable[..., Allocation]
    bundles: bool
    solver_share: float = 1.0

    def __post_init__(self) -> None:
        if not (self.name and self.about):
            raise ValueError(f"Allocation {self.name!r} lacks its name or its description")


_ALL = (
    # Its single threads are many and alike: their packing takes little, and more effort proved no more of traffic.
    AllocationKind(
        "LSA", "one thread's rate, scaled in a line", allocate_lsa, bundles=False, solver_share=0.2),
    AllocationKind(
        "MBA", "bundles of the threads that were measured best", allocate_mba, bundles=True),
)
ALLOCATIONS: dict[str, AllocationKind] = {kind.name: kind for kind in _ALL}
