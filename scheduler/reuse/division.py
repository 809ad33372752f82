"""Division: a fragment's bundles changed to other ones; what need not change stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from scheduler.model.errors import NotEnactable
from scheduler.model.fragment import Fragment, RunningBundle, node_of
from scheduler.model.plan import Step
from scheduler.model.ports import EstateView
from scheduler.step_kinds import LEAVE_BUNDLE, MOVE_BUNDLE, ROUTE, START_BUNDLE, StepKind, in_order

from .standing import FragmentChange


@dataclass(frozen=True, slots=True)
class Part:
    """A bundle as a schedule wants it: threads on a slot, with their part of the task's events."""

    slot: str
    threads: int
    weight: float


def is_scheduled(estate: EstateView, fragment: Fragment) -> bool:
    """Whether it is divided, or reads or is read by what is: a schedule gave those queries their places and parts."""
    above = (estate.places[parent][0] for parent in estate.tasks[fragment.tasks[0]].parents)
    below = (reader for readers in fragment.outlets.values() for reader in readers)
    return any(estate.fragments[one].divided for one in (fragment.id, *above, *below))


def divided_back(
    before: Mapping[str, Fragment], now: Mapping[str, Fragment], *, generation: int
) -> FragmentChange:
    """Fragments divided as they were before, by fragment id; ``generation`` is that of the estate that they are in.

    A bundle that has begun to leave does not come back under its id: another takes its place. What ran without a
    schedule does not become one query again: each of its tasks gets one bundle of one thread, where it was.
    """
    ids = (f"f{generation + 1}-{number}" for number in count())
    fused = {task_id: fragment for fragment in before.values() for task_id in fragment.active_tasks}
    changes = []
    for one, fragment in now.items():
        was = live(before[one]) if one in before else []
        parts = [Part(old.slot, old.threads, old.weight) for old in was]
        parts = parts or [Part(fused[fragment.tasks[0]].slot, 1, 1.0)]
        changes.append(divided_anew(fragment.tasks[0], fragment, parts, ids=ids, was=was))
    return together(changes)


@dataclass(frozen=True, slots=True)
class _Match:
    """A part as it is wanted, and the bundle that becomes it; None where one begins anew."""

    part: Part
    bundle: RunningBundle | None


def divided_anew(
    task: str, fragment: Fragment, parts: Sequence[Part], *, ids: Iterator[str], left: Collection[str] = (),
    whole: bool = False, was: Sequence[RunningBundle] = (), divide: bool = False,
) -> FragmentChange:
    """A fragment with these parts in place of its bundles.

    A bundle that has a part's slot and threads becomes that part; so does, stopped and started again, one that is on
    the part's slot, or on its node. Other parts begin as new bundles, other bundles leave.

    Parameters
    ----------
    task : str
        What errors call the fragment's task.
    ids : iterator of str
        Of bundles that begin.
    left : collection of str
        Bundles that have come to their end; they are dropped.
    whole : bool
        Whether the order of its events counts, so that it cannot go on in a bundle that is new.
    was : sequence of RunningBundle
        Bundles as they were before: each becomes again what it was.
    divide : bool
        Whether one that is not divided becomes so, if only into one part: its query is the first bundle, which reads
        the whole stream up to where its parts begin.

    Raises
    ------
    NotEnactable
        What is not divided would leave its node, or what is whole would.
    """
    divide = divide or fragment.divided
    matches = _matches(fragment, parts, was)
    if (whole or not divide) and any(match.bundle is None for match in matches):
        raise cannot_leave(task, fragment.slot)
    kept = {match.bundle.id for match in matches if match.bundle}
    own = live(fragment)
    leaving = [replace(one, weight=0.0) for one in own if one.id not in kept]
    already = [one for one in fragment.parts if one.leaving and one.id not in left]
    bundles = [
        RunningBundle(match.bundle.id if match.bundle else next(ids), match.part.slot, match.part.threads,
                      match.part.weight)
        for match in matches]
    known = {one.id: one for one in own}
    starts = [one.id for one in bundles if one.id not in known]
    moves = [one.id for one in bundles if one.id in known and _place(one) != _place(known[one.id])]
    rerouted = divide and (
        not fragment.divided or {one.id: one.weight for one in bundles} != {one.id: one.weight for one in own})

    def step(kind: StepKind, bundle: str | None) -> Step:
        return Step(kind=kind.name, fragment=fragment.id, task=fragment.tasks[0], bundle=bundle)

    steps = (
        *(step(START_BUNDLE, one) for one in starts), *(step(MOVE_BUNDLE, one) for one in moves),
        *([step(ROUTE, None)] if rerouted else []), *(step(LEAVE_BUNDLE, one.id) for one in leaving))
    after = replace(
        fragment, slot=bundles[0].slot, bundles=(*bundles, *leaving, *already) if divide else ())
    return FragmentChange({fragment.id: fragment}, {fragment.id: after}, steps)


def _matches(fragment: Fragment, parts: Sequence[Part], was: Sequence[RunningBundle]) -> list[_Match]:
    """Each part with the bundle that becomes it: what is the same, then what is on its slot, then on its node."""
    free = {one.id: one for one in live(fragment)}
    found: dict[int, RunningBundle] = {}
    before = {_place(one): one.id for one in was}

    def match(fits: Callable[[Part, RunningBundle], bool]) -> None:
        for number, part in enumerate(parts):
            if number not in found:
                bundle = next((one for one in free.values() if fits(part, one)), None)
                if bundle is not None:
                    found[number] = free.pop(bundle.id)

    match(lambda part, one: before.get(_place(part)) == one.id)
    match(lambda part, one: _place(part) == _place(one) and part.weight == one.weight)
    match(lambda part, one: _place(part) == _place(one))
    match(lambda part, one: part.slot == one.slot)
    match(lambda part, one: node_of(part.slot) == node_of(one.slot) and part.threads == one.threads)
    match(lambda part, one: node_of(part.slot) == node_of(one.slot))
    # Those that stay keep their order, so that a schedule that changes nothing changes nothing.
    order = {one.id: number for number, one in enumerate(fragment.parts)}
    matches = [_Match(part, found.get(number)) for number, part in enumerate(parts)]
    return sorted(matches, key=lambda match: order[match.bundle.id] if match.bundle else len(order))


def cannot_leave(task: str, slot: str) -> NotEnactable:
    """The error of a task with state, or whose order counts, that a schedule has elsewhere than on this slot's node."""
    node = node_of(slot)
    return NotEnactable(
        f"{task} cannot leave {node}: its state, or the order of its events, would not come along",
        remedy="Choose another pair, or remove the dataflow and submit it again with this schedule.", task=task,
        node=node)


def together(changes: Sequence[FragmentChange]) -> FragmentChange:
    """Merge changes, upstream fragments first; their steps start, move, route and leave in this order."""
    return FragmentChange(
        {one: fragment for change in changes for one, fragment in change.before.items()},
        {one: fragment for change in changes for one, fragment in change.after.items()},
        in_order(step for change in changes for step in change.steps))


def live(fragment: Fragment) -> list[RunningBundle]:
    """The bundles that do not leave."""
    return [one for one in fragment.parts if not one.leaving]


def _place(bundle: RunningBundle | Part) -> tuple[str, int]:
    return bundle.slot, bundle.threads
