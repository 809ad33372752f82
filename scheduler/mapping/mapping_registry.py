"""The registry of mappings: name, description and function of each.

A new one is a module with its function and an entry in ``MAPPINGS``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Protocol

from scheduler.model.allocated import Allocation
from scheduler.model.placement import Placement
from scheduler.model.resources import Supply

from .dsm import map_dsm
from .rsm import map_rsm, nodes_hold
from .sam import map_sam
from .traffic import Streams


class MapFunction(Protocol):
    """Put every thread of an allocation on a slot of a supply."""

    def __call__(
        self, allocation: Allocation, *, supply: Supply, streams: Streams, effort: float
    ) -> Placement: ...


@dataclass(frozen=True)
class MappingKind:
    """A mapping algorithm.

    Parameters
    ----------
    name : str
        In pairs, forms and stored plans; and the ``algorithm`` of its placements, unless it left a placement to another
        mapping.
    map : callable
        The algorithm; ``streams`` and the solver's ``effort`` are for those that look at traffic.
    keeps_together : bool
        True if it puts all threads of a bundle on one slot. Under one that does not, a task whose events keep their
        order has one thread.
    quick : bool
        True if it answers while a slider moves.
    nodes_hold : callable, optional
        Whether nodes hold what a placement has on them, of a mapping that lets the slots of a node lend each other.
    bounded_by : str
        A quick mapping that never takes fewer slots: asked in place of one that is not quick.
    """

    name: str
    about: str
    map: MapFunction
    keeps_together: bool
    quick: bool
    nodes_hold: Callable[[Placement, Allocation], bool] | None = None
    bounded_by: str = ""

    def __post_init__(self) -> None:
        if not (self.name and self.about and (self.quick or self.bounded_by)):
            raise ValueError(f"Mapping {self.name!r} lacks its name, description or quick bound")


def _by_slots_alone(function: Callable[..., Placement]) -> MapFunction:
    """A mapping that does not look at traffic, called as any other."""
    @wraps(function)
    def mapped(allocation: Allocation, *, supply: Supply, streams: Streams, effort: float) -> Placement:
        return function(allocation, supply=supply)

    return mapped


def _exact(allocation: Allocation, *, supply: Supply, streams: Streams, effort: float) -> Placement:
    # Here, not above: the solver takes a second to import, and only this mapping needs it.
    from .exact_mapping import map_exact

    return map_exact(allocation, supply=supply, streams=streams, effort=effort)


_ALL = (
    MappingKind(
        "DSM", "slots in turn", _by_slots_alone(map_dsm), keeps_together=False, quick=True),
    MappingKind(
        "RSM", "near, by memory and CPU", _by_slots_alone(map_rsm), keeps_together=False, quick=True,
        nodes_hold=nodes_hold),
    MappingKind(
        "SAM", "bundles whole, full ones alone", _by_slots_alone(map_sam), keeps_together=True, quick=True),
    MappingKind(
        "exact", "fewest slots, then least traffic", _exact, keeps_together=True, quick=False,
        bounded_by="SAM"),
)
MAPPINGS: dict[str, MappingKind] = {kind.name: kind for kind in _ALL}
