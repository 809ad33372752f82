"""Division: a fragment's bundles changed to other ones; what need not change stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from scheduler.model.errors import NotEnactable
from scheduler.model.estate import Fragment, RunningBundle
from scheduler.model.plan import Step, StepKind
from scheduler.model.ports import EstateView

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

    A bundle that has begun to leave does not come back under its id: another takes its place.
    """
    ids = (f"f{generation + 1}-{number}" for number in count())
    return together([
        divided_anew(
            fragment.tasks[0], now[one], [Part(old.slot, old.threads, old.weight) for old in live(fragment)],
            ids=ids, was=live(fragment))
        for one, fragment in before.items()])


@dataclass(frozen=True, slots=True)
class _Match:
    """A part as it is wanted, and the bundle that becomes it; None where one begins anew."""

    part: Part
    bundle: RunningBundle | None


def divided_anew(
    task: str, fragment: Fragment, parts: Sequence[Part], *, ids: Iterator[str], left: Collection[str] = (),
    whole: bool = False, was: Sequence[RunningBundle] = (),
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

    Raises
    ------
    NotEnactable
        An undivided fragment would be divided, or would leave its node, or what is whole would.
    """
    matches = _matches(fragment, parts, was)
    _require_possible(task, fragment, matches, whole=whole)
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
    rerouted = {one.id: one.weight for one in bundles} != {one.id: one.weight for one in own}

    def step(kind: StepKind, bundle: str | None) -> Step:
        return Step(kind=kind, fragment=fragment.id, task=fragment.tasks[0], bundle=bundle)

    steps = (
        *(step("start_bundle", one) for one in starts), *(step("move_bundle", one) for one in moves),
        *([step("route", None)] if rerouted else []), *(step("leave_bundle", one.id) for one in leaving))
    after = replace(
        fragment, slot=bundles[0].slot, bundles=(*bundles, *leaving, *already) if fragment.divided else ())
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
    match(lambda part, one: _node(part.slot) == _node(one.slot) and part.threads == one.threads)
    match(lambda part, one: _node(part.slot) == _node(one.slot))
    # Those that stay keep their order, so that a schedule that changes nothing changes nothing.
    order = {one.id: number for number, one in enumerate(fragment.parts)}
    matches = [_Match(part, found.get(number)) for number, part in enumerate(parts)]
    return sorted(matches, key=lambda match: order[match.bundle.id] if match.bundle else len(order))


def _require_possible(task: str, fragment: Fragment, matches: Sequence[_Match], *, whole: bool) -> None:
    if not fragment.divided and (len(matches) != 1 or matches[0].part.threads != 1):
        raise NotEnactable(
            f"{task} reads whole streams in one thread and cannot be divided while it runs",
            remedy="Remove the dataflow and submit it again with this schedule.", task=task)
    if (whole or not fragment.divided) and any(match.bundle is None for match in matches):
        raise NotEnactable(
            f"{task} cannot leave {_node(fragment.slot)}: its state, or the order of its events, would not come along",
            remedy="Choose another pair, or remove the dataflow and submit it again with this schedule.", task=task,
            node=_node(fragment.slot))


def together(changes: Sequence[FragmentChange]) -> FragmentChange:
    """What begins before what is routed to it, and that before what leaves; upstream first."""
    steps = [step for change in changes for step in change.steps]
    order = ("start_bundle", "move_bundle", "route", "leave_bundle")
    return FragmentChange(
        {one: fragment for change in changes for one, fragment in change.before.items()},
        {one: fragment for change in changes for one, fragment in change.after.items()},
        tuple(sorted(steps, key=lambda step: order.index(step.kind))))


def live(fragment: Fragment) -> list[RunningBundle]:
    """The bundles that do not leave."""
    return [one for one in fragment.parts if not one.leaving]


def _place(bundle: RunningBundle | Part) -> tuple[str, int]:
    return bundle.slot, bundle.threads


def _node(slot: str) -> str:
    return slot.rpartition("/")[0]
