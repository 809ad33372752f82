"""How the events of running tasks that are divided by key spread over keys, as their writers count them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dashboard import node_calls
from scheduler.model.fragment import Fragment
from scheduler.model.key_loads import DividedKeys, KeyLoads
from scheduler.model.ports import EstateView
from scheduler.model.ring import KeyRange
from scheduler.reuse.division import working_bundles


def measured_key_loads(estate: EstateView, fragments: Iterable[Fragment]) -> dict[str, KeyLoads]:
    """By fragment: of those that are divided by key, and of which enough was counted."""
    by_key = [fragment for fragment in fragments if fragment.divided_by_key]
    return node_calls.key_loads({
        fragment.id: [
            writer.id for parent in estate.tasks[fragment.tasks[0]].parents
            for writer in estate.fragments[estate.places[parent][0]].queries]
        for fragment in by_key})


def divided_keys(estate: EstateView, running: Mapping[str, Fragment]) -> dict[str, DividedKeys]:
    """How tasks that are divided by key are divided now, and how their events spread over keys; by the names of these
    tasks."""
    loads = measured_key_loads(estate, running.values())
    return {
        task: DividedKeys(loads.get(fragment.id), _ranges_by_slot(fragment))
        for task, fragment in running.items() if fragment.divided_by_key}


def _ranges_by_slot(fragment: Fragment) -> dict[str, KeyRange]:
    """The range of each slot; none where a bundle has several, or a slot has."""
    own = working_bundles(fragment)
    ranges = {bundle.slot: KeyRange(*bundle.key_ranges[0], bundle.id) for bundle in own if len(bundle.key_ranges) == 1}
    return ranges if len(ranges) == len(own) else {}
