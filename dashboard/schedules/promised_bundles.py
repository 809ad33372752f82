"""The promised bundle of each running one, and whether all of them stand as they were promised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningBundle
from scheduler.model.promise import Promise

SAME_WEIGHT = 0.01  # weights are rounded so that they add up

Parts = Mapping[str, Sequence[RunningBundle]]  # by task of the submitted dataflow


def fragments_of(estate: Estate, dataflow_id: str, promise: Promise) -> dict[str, Fragment]:
    """The fragments that the tasks of a dataflow's promise run in, by task; tasks that are gone are absent."""
    running = estate.submitted[dataflow_id].running
    return {
        task: estate.fragments[estate.places[running[task]][0]] for task in promise.rates_per_s if task in running}


def parts_of(fragments: Mapping[str, Fragment]) -> dict[str, list[RunningBundle]]:
    """The bundles of each task that get events, by task."""
    return {
        task: [bundle for bundle in fragment.queries if not bundle.leaving] for task, fragment in fragments.items()}


def promised_ids(promise: Promise, parts: Parts) -> dict[str, str]:
    """The ids that bundles were promised under, by those that they run under; what was not promised is absent.

    What was rolled back may run under another id where it ran before: it is known by its task and slot, unless the one
    that was promised there runs itself, here or elsewhere.
    """
    promised = {bundle.id for bundle in promise.bundles}
    own_bundles = {part.id: part.id for bundles in parts.values() for part in bundles if part.id in promised}
    by_place = {(bundle.task, bundle.slot): bundle.id for bundle in promise.bundles if bundle.id not in own_bundles}
    for task, bundles in parts.items():
        for part in bundles:
            if part.id not in own_bundles and (task, part.slot) in by_place:
                own_bundles[part.id] = by_place.pop((task, part.slot))
    return own_bundles


def stands(estate: Estate, dataflow_id: str, promise: Promise) -> bool:
    """True if each task has the promised bundles and no others: the same slots, threads and parts of its events."""
    if dataflow_id not in estate.submitted:
        return False
    parts = parts_of(fragments_of(estate, dataflow_id, promise))
    promised: dict[str, list[tuple[str, int, float]]] = {}
    for bundle in promise.bundles:
        promised.setdefault(bundle.task, []).append((bundle.slot, bundle.threads, bundle.share))
    return all(
        _alike(bundles, [(part.slot, part.threads, part.weight) for part in parts.get(task, ())])
        for task, bundles in promised.items())


def _alike(some: Sequence[tuple[str, int, float]], others: Sequence[tuple[str, int, float]]) -> bool:
    return len(some) == len(others) and all(
        bundle[:2] == other_bundle[:2] and abs(bundle[2] - other_bundle[2]) <= SAME_WEIGHT
        for bundle, other_bundle in zip(sorted(some), sorted(others), strict=True))
