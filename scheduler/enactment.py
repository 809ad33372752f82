"""Enactment: what a schedule asks to run where, as parts of tasks on slots, and what it promises of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import isinf

from .key_division import ranges_of, ring_cut, whole_groups
from .model.allocated import Allocation
from .model.errors import InsufficientSlots, StalePlan
from .model.fragment import Fragment, RunningBundle
from .model.key_loads import NEAR
from .model.promise import BundlePromise, Load, ProfileUsed, Promise
from .model.resources import TOLERANCE, Supply
from .model.task_types import TaskTypes
from .performance.prediction import latencies_s
from .performance.rates import input_rates_per_s
from .reuse.division import WantedBundle
from .scheduling import Schedule

FEWER = "Add nodes or slots, free some, or choose a schedule or a rate that takes fewer."
DIGITS = 6  # of a weight: what is stored, compared and read stays the same


def parts_of(schedule: Schedule) -> dict[str, tuple[WantedBundle, ...]]:
    """The parts of each task, by its id in the submitted dataflow; the weights of a task add up to 1."""
    require_slots(schedule)
    return {task: wanted_of(schedule, task) for task in schedule.placement.counts}


def wanted_of(schedule: Schedule, task: str) -> tuple[WantedBundle, ...]:
    """The parts of one task, also on slots that would have to be bought."""
    weights, counts = weights_of(schedule, task), schedule.placement.counts[task]
    slots = {position: schedule.placement.slots[position].name for position in weights}
    cut = ring_cut(weights, slots, schedule.job.keys.get(task)) if task in schedule.job.by_key else {}
    return tuple(WantedBundle(slots[position], counts[position], weight, cut.get(position, ()))
                 for position, weight in weights.items())


def weights_of(schedule: Schedule, task: str) -> dict[int, float]:
    """The share of a task's events for each of its slots, by position, as it is stored: together they are 1."""
    shares = schedule.prediction.routed.shares[task]
    shares = {position: shares[position] for position in sorted(schedule.placement.counts[task])}
    return whole_groups(shares) if task in schedule.job.by_key else _rounded(shares)


@dataclass(frozen=True)
class LaidOut:
    """The first homes of a schedule's tasks, by running task: the slot of each fragment, and the bundles of divided
    ones."""

    slots: Mapping[str, str] = field(default_factory=dict)
    bundles: Mapping[str, tuple[RunningBundle, ...]] = field(default_factory=dict)
    queries: int = 0
    all_slots: Mapping[str, float] = field(default_factory=dict)  # the part of each that it counts on


def lay_out(schedule: Schedule, running: Mapping[str, str], started: Collection[str]) -> LaidOut:
    """Lay a schedule out for tasks that are to be started; bundles are without ids as yet.

    A task that may have more than one thread is divided from the start, even into a single part: dividing it later
    would stop its query. A task is divided by key only if it has several parts, because a ring costs a hash for each
    event.

    Parameters
    ----------
    running : mapping of str to str
        Submitted task id to running task id.
    """
    parts = parts_of(schedule)
    if {running.get(task) for task in parts} != set(started):
        raise StalePlan(
            f"The schedule is of {len(parts)} tasks, and {len(started)} would start",
            remedy="Ask for the schedule again: others have submitted or removed some meanwhile.",
            scheduled=len(parts), started=len(started))
    job = schedule.job
    divided = {
        running[task]: tuple(RunningBundle("", part.slot, part.threads, part.weight) for part in own_bundles)
        for task, own_bundles in parts.items() if task not in job.one_thread and task not in job.by_key}
    for task in job.by_key & parts.keys():
        if len(parts[task]) > 1:
            ranges = ranges_of([part.weight for part in parts[task]])
            divided[running[task]] = tuple(
                RunningBundle("", part.slot, part.threads, part.weight, key_ranges=(key_range,))
                for part, key_range in zip(parts[task], ranges, strict=True))
    return LaidOut(
        slots={running[task]: own_bundles[0].slot for task, own_bundles in parts.items()}, bundles=divided,
        queries=sum(map(len, parts.values())),
        all_slots=parts_of_slots(schedule))


def parts_of_slots(schedule: Schedule) -> dict[str, float]:
    """The slots that a schedule takes, and the part of each that it counts on: what others leave of it."""
    placement = schedule.placement
    return {
        slot.name: placement.taken[position].rest if position in placement.taken else 1.0
        for position, slot in enumerate(placement.slots)}


def bundle_ids(fragments: Iterable[Fragment], running: Mapping[str, str]) -> Callable[[str, str], str]:
    """The id of the bundle of a submitted task on a slot, among these fragments."""
    routed = {
        (task, bundle.slot): bundle.id
        for fragment in fragments for task in fragment.tasks for bundle in fragment.queries if not bundle.leaving}
    return lambda task, slot: routed[running[task], slot]


def promise_of(schedule: Schedule, *, id_of: Callable[[str, str], str], currency: str) -> Promise:
    """The promise of a schedule; ``id_of`` names the bundle of a task on a slot."""
    job, prediction = schedule.job, schedule.prediction
    limit = prediction.routed.limit
    return Promise(
        rate_per_s=schedule.rate_per_s * job.sources,
        sustained_per_s=schedule.sustained_per_s * job.sources,
        latency_s=schedule.latency_s,
        rates_per_s=job.rates_per_s,
        bundles=tuple(
            BundlePromise(
                id_of(bundle.task, bundle.slot.name),
                bundle.task,
                bundle.slot.name,
                bundle.threads,
                round(bundle.share, DIGITS),
                bundle.rate_per_s,
                None if isinf(bundle.sustains_per_s) else bundle.sustains_per_s,
                bundle.cpu,
                bundle.memory,
                bundle.basis,
            )
            for bundle in prediction.bundles
        ),
        pair=schedule.pair,
        routing=prediction.routed.routing,
        limit=limit.reason if limit else "",
        extra=schedule.placement.extra,
        per_hour=schedule.acquisition.per_hour,
        currency=currency,
        between_nodes_per_s=schedule.between_nodes_per_s,
        profiles=tuple(
            ProfileUsed(task, profile.task_type, profile.version, profile.machine, profile.origin)
            for task, profile in job.profiles.items()
        ),
        allocated={name: (task.cpu, task.memory) for name, task in schedule.allocation.tasks.items()},
        others={
            schedule.placement.slots[position].name: Load(taken.cpu, taken.memory)
            for position, taken in schedule.placement.taken.items()
        },
        latencies_s=latencies_s(
            job.dataflow, prediction, trigger_s=schedule.options.trigger_s, hop_s=schedule.options.hop_s
        ),
        slots_bound=schedule.placement.slots_bound,
        traffic_bound=schedule.placement.traffic_bound,
        crowded={
            schedule.placement.slots[position].name: crowd for position, crowd in prediction.routed.crowded.items()
        },
    )


def notes_of(schedule: Schedule, *, task_types: TaskTypes) -> list[str]:
    """Notes for the reviewers of a schedule: that it is for less than comes, or for more, or does not keep its own
    rate."""
    job, notes = schedule.job, []
    coming = input_rates_per_s(job.dataflow, task_types=task_types)
    sources = [task.id for task in job.dataflow.tasks if task_types[task.type].kind == "source"]
    # A rate that was given is of each source, also of one that runs already and is not scheduled.
    submitted_per_s = job.rate_per_s if job.sources == len(sources) else None
    for source in sources:
        planned = coming[source] if submitted_per_s is None else submitted_per_s
        if coming[source] > planned * (1 + TOLERANCE):
            notes.append(
                f"{source} makes {coming[source]:g} events/s, and the schedule is for {planned:g}: events beyond "
                "what it sustains are late.")
        elif coming[source] < planned * (1 - TOLERANCE):
            notes.append(
                f"{source} makes {coming[source]:g} events/s, and the schedule is for {planned:g}: it keeps slots "
                "for events that never arrive, and its outcome will miss the rate.")
    if not schedule.prediction.keeps:
        limit = schedule.prediction.routed.limit
        limit_text = f": {limit.reason}" if limit else ""
        of_sources = " of its sources together" if job.sources > 1 else ""  # as it is promised
        notes.append(
            f"It is predicted to sustain {schedule.sustained_per_s * job.sources:.4g} of the "
            f"{schedule.rate_per_s * job.sources:g} events/s{of_sources} that it is planned for{limit_text}.")
    notes += _hot_notes(schedule)
    if shared := schedule.placement.taken:
        named = ", ".join(
            f"{taken.cpu:.0%} of {schedule.placement.slots[position].name}" for position, taken in shared.items())
        notes.append(
            f"Others run on {len(shared)} of its slots and are expected to take CPU there ({named}): by what their "
            "types declare, not by what was measured.")
    return notes


def _hot_notes(schedule: Schedule) -> list[str]:
    """Notes on keys that alone have more events than their bundle is to have: nothing that divides keys helps there."""
    notes = []
    for task in sorted(schedule.job.by_key & schedule.placement.counts.keys()):
        keys, shares = schedule.job.keys.get(task), weights_of(schedule, task)
        if keys is None or keys.loads is None or len(shares) < 2:
            continue
        loads, most = keys.loads, max(shares.values())
        hot = [key for key in loads.frequent if loads.share_of(key) > most * (1 + NEAR)]
        if hot:
            notes.append(
                f"The most frequent key of {task} has {loads.share_of(hot[0]):.0%} of its events, and a bundle is to "
                f"have {most:.0%} at most: its bundle will be late, however keys are divided. The page Ring says more.")
    return notes


def require_slots(schedule: Schedule) -> None:
    """Raise where machines would have to be bought: nobody does that here, and nothing is enacted in part."""
    missing, placement = schedule.acquisition.bought, schedule.placement
    if not missing:
        return
    names = {node.name for node in missing}
    more = sum(slot.node in names for slot in (*placement.slots, *placement.empty))
    usable = placement.needed - more
    sizes = Counter(node.size.name for node in missing if node.size)
    bought = ", ".join(f"{count} × {name}" for name, count in sorted(sizes.items()))
    raise InsufficientSlots(
        f"The schedule asks for {placement.needed} slots, and {usable} are free here: {more} would be on machines to "
        f"buy ({bought})",
        remedy=FEWER, needed=placement.needed, available=usable, machines=dict(sizes),
    )


def require_room(allocation: Allocation, supply: Supply) -> None:
    """Raise where an allocation takes more slots than are there, whatever the mapping; machines to buy do not count."""
    free_slots = sum(len(node.slots) for node in supply.free)
    if allocation.slots > free_slots:
        raise InsufficientSlots(
            f"The schedule takes at least {allocation.slots} slots by its allocation, and {free_slots} are free here",
            remedy=FEWER, needed=allocation.slots, available=free_slots)


def _rounded(shares: Mapping[int, float]) -> dict[int, float]:
    """Shares with so many digits, none of them 0, that add up to 1: the largest takes what rounding leaves."""
    least = 10.0**-DIGITS
    rounded = {position: max(round(share, DIGITS), least) for position, share in shares.items()}
    largest = max(rounded, key=lambda position: (rounded[position], -position))
    others = sum(weight for position, weight in rounded.items() if position != largest)
    return rounded | {largest: round(1 - others, DIGITS)}
