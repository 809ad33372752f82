"""Settling: which of the slots that there are takes which place in a schedule, so that most of what runs stays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from .mapping.traffic import on_other_slots
from .model.errors import NotEnactable
from .model.estate import RunningBundle, Slot
from .model.resources import Supply
from .scheduling import Schedule, predicted

SAME, OTHER_THREADS, SAME_NODE = 1000, 600, 10  # what a bundle that stays counts, or one that is near
AS_IT_WAS = 1  # what a place that keeps the mapping's own choice counts: only where nothing else does


def settled(
    schedule: Schedule, *, running: Mapping[str, Sequence[RunningBundle]], pinned: Mapping[str, str], supply: Supply
) -> Schedule:
    """The same schedule with its places on other slots, such that most bundles stay where they are.

    Slots are alike, so a mapping's choice among them is arbitrary but for the nodes that they are on; a slot that
    others have part of keeps its place. The assignment with the most bundles that stay is found exactly.

    Parameters
    ----------
    schedule : Schedule
        As it was mapped on the first slots of the supply.
    running : mapping of str to sequence of RunningBundle
        What works now, by task of the schedule.
    pinned : mapping of str to str
        Tasks that cannot leave their node, for their state or their order: the node's name.
    supply : Supply
        The slots that it may use.

    Returns
    -------
    Schedule
        Predicted and priced for the slots that it has now. One that would need machines to buy is left as it is.

    Raises
    ------
    NotEnactable
        Tasks that are bound to different nodes have one slot in it, or a node has too few slots for those bound to it.
    """
    if not running or _buys(schedule, supply):
        return schedule
    free = _candidates(schedule, running, supply)
    tasks_on = _tasks_on(schedule)
    positions = _assigned(tasks_on, free, schedule, running, pinned, supply.taken)
    slots = tuple(free[number] for number in positions)
    placement = on_other_slots(schedule.placement, slots, schedule.job.streams)
    return predicted(
        schedule.job, schedule.pair, schedule.allocation, placement, supply=supply, settings=schedule.settings)


def _buys(schedule: Schedule, supply: Supply) -> bool:
    """Whether it has more places than there are slots: what others have part of takes only the places that it has."""
    places = sum(slot not in supply.taken for slot in schedule.placement.slots)
    return places > sum(slot not in supply.taken for node in supply.free for slot in node.slots)


def _tasks_on(schedule: Schedule) -> list[dict[str, int]]:
    """The tasks on each place, with their threads."""
    found: list[dict[str, int]] = [{} for _ in schedule.placement.slots]
    for task, counts in schedule.placement.counts.items():
        for position, threads in counts.items():
            found[position][task] = threads
    return found


def _candidates(schedule: Schedule, running: Mapping[str, Sequence[RunningBundle]], supply: Supply) -> list[Slot]:
    """The slots that something runs on, and as many of the first others as there are places: no more can be better."""
    own = {bundle.slot for bundles in running.values() for bundle in bundles}
    places = set(schedule.placement.slots)
    spare = len(places)
    found = []
    for node in supply.free:
        # Of every node, since what is bound to one needs slots there.
        others = set([
            slot for slot in node.slots
            if slot.name not in own and slot not in places and slot not in supply.taken][:spare])
        found.extend(slot for slot in node.slots if slot.name in own or slot in places or slot in others)
    return found


def _assigned(
    tasks_on: Sequence[Mapping[str, int]], free: Sequence[Slot], schedule: Schedule,
    running: Mapping[str, Sequence[RunningBundle]], pinned: Mapping[str, str], taken: Collection[Slot],
) -> list[int]:
    """The number of the free slot for each place; places that nothing is on make the numbers even."""
    # Here, not above: it takes a moment to import, and only what runs already is settled.
    from ortools.graph.python import linear_sum_assignment

    solver = linear_sum_assignment.SimpleLinearSumAssignment()
    possible = set()  # of a place without any slot the solver knows nothing, and must not be asked
    for place in range(len(free)):
        tasks = tasks_on[place] if place < len(tasks_on) else {}
        kept = schedule.placement.slots[place] if place < len(tasks_on) else None
        bound = {pinned[task] for task in tasks if task in pinned}
        near, here = _worth(tasks, running)
        for number, slot in enumerate(free):
            if tasks and slot != kept and (slot in taken or kept in taken):
                continue
            if not bound or bound == {slot.node}:
                worth = near.get(slot.node, 0) + here.get(slot.name, 0) + AS_IT_WAS * (slot == kept)
                solver.add_arc_with_cost(place, number, -worth)
                possible.add(place)
    if len(possible) < len(free) or solver.solve() != solver.OPTIMAL:
        what = sorted({f"{task} to {node}" for task, node in pinned.items()})
        raise NotEnactable(
            f"The schedule moves what cannot leave its node while it runs ({', '.join(what[:5])})",
            remedy="Choose another pair, or remove the dataflow and submit it again with this schedule.",
            tasks=sorted(pinned),
        )
    return [solver.right_mate(place) for place in range(len(tasks_on))]


def _worth(
    tasks: Mapping[str, int], running: Mapping[str, Sequence[RunningBundle]]
) -> tuple[Counter[str], Counter[str]]:
    """What it is worth that a place's tasks come to a node, and what to a slot there besides."""
    near: Counter[str] = Counter()
    here: Counter[str] = Counter()
    for task, threads in tasks.items():
        live = [bundle for bundle in running.get(task, ()) if not bundle.leaving]
        near.update({bundle.slot.rpartition("/")[0]: SAME_NODE for bundle in live})
        here.update({bundle.slot: SAME if bundle.threads == threads else OTHER_THREADS for bundle in live})
    return near, here
