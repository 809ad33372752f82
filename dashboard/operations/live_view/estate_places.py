"""The places of an estate's parts, worked out once until it is another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property

from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment


class EstatePlaces:
    """Fragments by id, how many slots each node has, and what is found by the id of a query or of its part."""

    def __init__(self, estate: Estate) -> None:
        self.estate = estate
        self.fragments = [fragment for _, fragment in sorted(estate.fragments.items())]

    @cached_property
    def slots_of(self) -> Counter[str]:
        return Counter(slot.node for slot in self.estate.slots)

    @cached_property
    def fragment_of(self) -> Mapping[str, Fragment]:
        by_id = {bundle.id: fragment for fragment in self.fragments for bundle in fragment.queries}
        return by_id | dict(self.estate.fragments)

    @cached_property
    def query_of_part(self) -> Mapping[str, str]:
        return {bundle.part: bundle.id for fragment in self.fragments for bundle in fragment.bundles}

    @cached_property
    def parents_of(self) -> Mapping[str, tuple[str, ...]]:
        return {
            query_id: self.estate.tasks[fragment.tasks[0]].parents for query_id, fragment in self.fragment_of.items()}


_kept_places = EstatePlaces(Estate())


def places_in(estate: Estate) -> EstatePlaces:
    """The same from look to look, until it is another estate."""
    global _kept_places
    places = _kept_places
    if places.estate is not estate:
        places = _kept_places = EstatePlaces(estate)
    return places
