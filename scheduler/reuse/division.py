"""Division: a fragment's bundles changed to other ones; what need not change stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from operator import attrgetter

from scheduler.key_division import KeyPiece, cut_off, has_given, joined, ranges_of, within
from scheduler.model.errors import NotEnactable
from scheduler.model.estate import Submitted
from scheduler.model.fragment import Fragment, RunningBundle, node_of
from scheduler.model.key_loads import KeyRanges
from scheduler.model.plan import Step
from scheduler.model.ports import EstateView
from scheduler.model.ring import KEY_GROUPS
from scheduler.step_kinds import (
    HAND_OVER_BUNDLE,
    LEAVE_BUNDLE,
    MOVE_BUNDLE,
    ROUTE,
    START_BUNDLE,
    TAKE_KEYS,
    StepKind,
    in_order,
)

from .activity import FragmentChange


@dataclass(frozen=True, slots=True)
class WantedBundle:
    """A bundle as a schedule wants it: threads on a slot, with their part of the task's events. Where it is divided by
    key, ``key_ranges`` are its ranges of the ring; none: any, as large as its part of the events."""

    slot: str
    threads: int
    weight: float
    key_ranges: KeyRanges = ()

    @property
    def key_groups(self) -> int:
        """The number of key groups they have, where it is divided by key."""
        return sum(size for _, size in self.key_ranges) or round(self.weight * KEY_GROUPS)


def is_scheduled(estate: EstateView, fragment: Fragment) -> bool:
    """True if the fragment, or a neighbour of it, is divided: then a schedule gave its queries their slots and
    parts."""
    above = (estate.places[parent][0] for parent in estate.tasks[fragment.tasks[0]].parents)
    below = (reader for readers in fragment.outlets.values() for reader in readers)
    return any(estate.fragments[fragment_id].divided for fragment_id in (fragment.id, *above, *below))


def is_placed(estate: EstateView, fragment: Fragment, users: Iterable[Submitted]) -> bool:
    """True if a schedule of one of these dataflows, which use it, says where it runs."""
    return fragment.divided or (any(user.scheduled for user in users) and is_scheduled(estate, fragment))


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
    for fragment_id, fragment in now.items():
        was = working_bundles(before[fragment_id]) if fragment_id in before else []
        parts = [WantedBundle(old.slot, old.threads, old.weight, old.key_ranges) for old in was]
        parts = parts or [WantedBundle(fused[fragment.tasks[0]].slot, 1, 1.0)]
        changes.append(
            keys_divided_anew(fragment, parts, ids=ids, works_on=has_given(was, fragment))
            if fragment.divided_by_key
            else divided_anew(fragment.tasks[0], fragment, parts, ids=ids, was=was))
    return merged_changes(changes)


@dataclass(frozen=True, slots=True)
class _Match:
    """A part as it is wanted, and the bundle that becomes it; None where one begins anew."""

    part: WantedBundle
    bundle: RunningBundle | None


def divided_anew(
    task: str, fragment: Fragment, parts: Sequence[WantedBundle], *, ids: Iterator[str],
    left_bundles: Collection[str] = (), whole: bool = False, was: Sequence[RunningBundle] = (), divide: bool = False,
    hands_over: bool = False,
) -> FragmentChange:
    """A fragment with these parts in place of its bundles.

    A bundle that has a part's slot and threads becomes that part; so does, stopped and started again, one that is on
    the part's slot, and one that is on its node: by a handover, where that can be. Other parts begin as new bundles,
    other bundles leave.

    Parameters
    ----------
    task : str
        The name of the fragment's task in errors.
    whole : bool
        True if the order of its events counts, so that it cannot go on in a bundle that is new.
    was : sequence of RunningBundle
        Bundles as they were before: each becomes again what it was.
    divide : bool
        True if one that is not divided becomes so, if only into one part: its query is the first bundle, which reads
        the whole stream up to where its parts begin.
    hands_over : bool
        True if a bundle of what is divided already can hand over to one on another slot of its node.

    Raises
    ------
    NotEnactable
        What is not divided would leave its node, or what is whole would.
    """
    divide = divide or fragment.divided
    matches = _matches(fragment, parts, was)
    if (whole or not divide) and any(match.bundle is None for match in matches):
        raise cannot_leave(task, fragment.slot)
    matched = {match.bundle.id for match in matches if match.bundle}
    working = working_bundles(fragment)
    leaving = [replace(bundle, weight=0.0) for bundle in working if bundle.id not in matched]
    already = [bundle for bundle in fragment.queries if bundle.leaving and bundle.id not in left_bundles]
    bundles = [_bundle_of(match, ids, hands_over=hands_over and fragment.divided) for match in matches]
    pairs = [(match.bundle, bundle) for match, bundle in zip(matches, bundles, strict=True)]
    starts = [bundle.id for old, bundle in pairs if old is None]
    moves = [bundle.id for old, bundle in pairs if old and old.id == bundle.id and _place(old) != _place(bundle)]
    heirs = [bundle.id for old, bundle in pairs if old and old.id != bundle.id]
    rerouted = divide and (
        not fragment.divided
        or {bundle.part: bundle.weight for bundle in bundles} != {bundle.part: bundle.weight for bundle in working}
    )

    def step(kind: StepKind, bundle: str | None) -> Step:
        return Step(kind=kind.name, fragment=fragment.id, task=fragment.tasks[0], bundle=bundle)

    steps = (
        *(step(START_BUNDLE, bundle_id) for bundle_id in starts),
        *(step(MOVE_BUNDLE, bundle_id) for bundle_id in moves),
        *(step(HAND_OVER_BUNDLE, bundle_id) for bundle_id in heirs),
        *([step(ROUTE, None)] if rerouted else []),
        *(step(LEAVE_BUNDLE, bundle.id) for bundle in leaving),
    )
    after = replace(
        fragment, slot=bundles[0].slot, bundles=(*bundles, *leaving, *already) if divide else ())
    return FragmentChange({fragment.id: fragment}, {fragment.id: after}, steps)


def keys_divided_anew(
    fragment: Fragment, parts: Sequence[WantedBundle], *, ids: Iterator[str], left_bundles: Collection[str] = (),
    works_on: bool = True,
) -> FragmentChange:
    """A fragment with state whose keys these parts have in place of its bundles.

    Where each part has a bundle's ranges, or is as large as a bundle, and is on its node, they stay, or hand over to
    other slots. Else a bundle works on whose slot has a part with ranges of its own, or of its size or a smaller one:
    it gives away what is too much. Other parts are new bundles, of any node, which begin with the states of the keys
    that they take. A bundle that has no part, or a larger one, leaves.

    Parameters
    ----------
    works_on : bool
        True if one that gives keys away may. Where its marks move on these keys' states are not final, so it may not.
    """
    bundles_now = working_bundles(fragment)
    already = [bundle for bundle in fragment.queries if bundle.leaving and bundle.id not in left_bundles]
    stays = fragment.divided_by_key and is_cut_so(parts, bundles_now)
    homes = _homes(parts, bundles_now) if stays else []
    near_of = str if is_changing_hands(fragment) else node_of  # who has not begun has nothing to hand over
    stays = stays and all(
        near_of(part.slot) == near_of(bundle.slot) for part, bundle in zip(homes, bundles_now, strict=True))
    leaving: list[RunningBundle] = []
    if stays:
        bundles = [
            bundle if part.slot == bundle.slot else _moved_on(bundle, next(ids), part.slot)
            for part, bundle in zip(homes, bundles_now, strict=True)]
    else:
        bundles = _with_keys_of(bundles_now, parts, ids, works_on=works_on and not is_changing_hands(fragment))
        working = {bundle.id for bundle in bundles}
        leaving = [replace(bundle, weight=0.0) for bundle in bundles_now if bundle.id not in working]

    def step(kind: StepKind, bundle: str | None) -> Step:
        return Step(kind=kind.name, fragment=fragment.id, task=fragment.tasks[0], bundle=bundle)

    before = {bundle.id for bundle in bundles_now}
    heirs = [bundle.id for bundle in bundles if bundle.id not in before]
    steps = (
        *(step(HAND_OVER_BUNDLE if stays else TAKE_KEYS, heir) for heir in heirs),
        *([step(ROUTE, None)] if heirs and not stays else []),
        *(step(LEAVE_BUNDLE, bundle.id) for bundle in leaving))
    after = replace(fragment, slot=bundles[0].slot, bundles=(*bundles, *leaving, *already))
    return FragmentChange({fragment.id: fragment}, {fragment.id: after}, steps)


def _with_keys_of(
    bundles_now: Sequence[RunningBundle], parts: Sequence[WantedBundle], ids: Iterator[str], *, works_on: bool
) -> list[RunningBundle]:
    """Bundles that have these parts of the ring: those before that work on, and new ones with the keys of others.
    Nobody works on (``works_on``) whose keys may still be on their way to it."""
    pieces = {
        bundle.id: [KeyPiece(first, size, bundle.id) for first, size in bundle.key_ranges or ((0, KEY_GROUPS),)]
        for bundle in bundles_now}
    working = bundles_now if works_on else ()
    hands = _named_pieces(working, parts, pieces) if all(part.key_ranges for part in parts) else _sized_pieces(
        bundles_now, parts, pieces, _standing(working, parts))
    bundles = []
    for index, part in enumerate(parts):
        bundle, has = hands[index]
        ranges, givers = joined(has), dict.fromkeys(piece.giver for piece in has)
        if bundle is None:
            bundles.append(RunningBundle(
                next(ids), part.slot, 1, part.weight, inherits=tuple(givers), key_ranges=ranges, takes=tuple(
                    (giver, joined([piece for piece in has if piece.giver == giver])) for giver in givers)))
        else:
            bundles.append(
                bundle if ranges == bundle.key_ranges else replace(bundle, weight=part.weight, key_ranges=ranges))
    return bundles


Hands = dict[int, tuple[RunningBundle | None, list[KeyPiece]]]  # by place: who works on, if anybody, and what it has


def _named_pieces(
    bundles_now: Sequence[RunningBundle], parts: Sequence[WantedBundle], pieces: Mapping[str, Sequence[KeyPiece]]
) -> Hands:
    """The heirs of parts that name their ranges: a bundle works on that has all of its slot's part."""
    hands: Hands = {}
    every, free = [piece for own_pieces in pieces.values() for piece in own_pieces], list(bundles_now)
    for index, part in enumerate(parts):
        bundle = next((bundle for bundle in free if bundle.key_ranges and bundle.slot == part.slot and sum(
            piece.size for piece in within(pieces[bundle.id], part.key_ranges)) == part.key_groups), None)
        hands[index] = bundle, within(every, part.key_ranges)
        free = [free_bundle for free_bundle in free if free_bundle is not bundle]
    return hands


def _sized_pieces(
    bundles_now: Sequence[RunningBundle], parts: Sequence[WantedBundle], pieces: Mapping[str, Sequence[KeyPiece]],
    stands: Mapping[int, RunningBundle],
) -> Hands:
    """The heirs of parts that have a size alone: a bundle works on whose slot has a part that is no larger. The heir of
    one that grows takes all that it had, and new bundles what others give away."""
    hands: Hands = {}
    grows = {index: bundle for index, bundle in stands.items() if parts[index].key_groups > bundle.key_groups}
    given_pieces = {bundle.id: list(pieces[bundle.id]) for bundle in bundles_now if bundle not in grows.values()}
    for index, bundle in stands.items():
        if index not in grows:
            stay, given_pieces[bundle.id] = cut_off(pieces[bundle.id], parts[index].key_groups)
            hands[index] = bundle, stay
    pool = sorted(
        (piece for own_pieces in given_pieces.values() for piece in own_pieces), key=lambda piece: piece.first)
    for index, part in enumerate(parts):
        if index not in hands:
            base = pieces[grows[index].id] if index in grows else []
            more, pool = cut_off(pool, part.key_groups - sum(piece.size for piece in base))
            hands[index] = None, [*base, *more]
    return hands


def _standing(bundles_now: Sequence[RunningBundle], parts: Sequence[WantedBundle]) -> dict[int, RunningBundle]:
    """The bundle that has a part's slot already, by the part's place: the largest part there to the largest bundle."""
    free = sorted((bundle for bundle in bundles_now if bundle.key_ranges), key=lambda bundle: -bundle.key_groups)
    stands: dict[int, RunningBundle] = {}
    for index in sorted(range(len(parts)), key=lambda index: -parts[index].key_groups):
        bundle = next((bundle for bundle in free if bundle.slot == parts[index].slot), None)
        if bundle is not None:
            stands[index] = bundle
            free.remove(bundle)
    return stands


def is_cut_so(parts: Iterable[WantedBundle], bundles_now: Iterable[RunningBundle]) -> bool:
    """True if bundles have the ranges of these parts, or ranges as large where parts name none, whoever has which."""
    wanted_parts, bundles = list(parts), list(bundles_now)
    measure = attrgetter("key_ranges" if all(part.key_ranges for part in wanted_parts) else "key_groups")
    return sorted(map(measure, wanted_parts)) == sorted(map(measure, bundles))


def _moved_on(bundle: RunningBundle, heir: str, slot: str) -> RunningBundle:
    """The bundle that continues the work of another, and, where that is itself on its way and its node has not heard of
    it, the work of those before it."""
    before = () if bundle.takes_keys else bundle.inherits
    return replace(moved_bundle(bundle, heir, slot), inherits=(*before, bundle.id))


def is_changing_hands(fragment: Fragment) -> bool:
    """True if bundles that are leaving may still have states of keys that others of it have from then on."""
    return any(
        giver.leaving for bundle in fragment.bundles if not bundle.leaving for giver in fragment.before(bundle))


def keyed_bundles(
    parts: Sequence[WantedBundle], ids: Iterator[str], *, inherits: tuple[str, ...]
) -> list[RunningBundle]:
    """New bundles that have these parts of the ring, one behind the other, and go on with the keys of others."""
    ranges = ranges_of([part.weight for part in parts])
    return [
        RunningBundle(next(ids), part.slot, 1, part.weight, inherits=inherits, key_ranges=(key_range,))
        for part, key_range in zip(parts, ranges, strict=True)]


def _homes(parts: Sequence[WantedBundle], bundles_now: Sequence[RunningBundle]) -> list[WantedBundle]:
    """A part for each bundle that is as large: on its slot, else on its node, else anywhere."""
    remaining_parts, homes = list(parts), {}
    for near in (
        lambda part, bundle: part.slot == bundle.slot,
        lambda part, bundle: node_of(part.slot) == node_of(bundle.slot), lambda part, bundle: True,
    ):
        for bundle in bundles_now:
            near_part = None if bundle.id in homes else next(
                (part for part in remaining_parts if is_cut_so([part], [bundle]) and near(part, bundle)), None)
            if near_part is not None:
                homes[bundle.id] = near_part
                remaining_parts.remove(near_part)
    return [homes[bundle.id] for bundle in bundles_now]


def _bundle_of(match: _Match, ids: Iterator[str], *, hands_over: bool) -> RunningBundle:
    """The bundle of a part: a new bundle, or the one that is there, in its place or by who goes on with its work."""
    part, old = match.part, match.bundle
    if old is None:
        return RunningBundle(next(ids), part.slot, part.threads, part.weight)
    bundle = replace(old, threads=part.threads, weight=part.weight)
    if hands_over and part.slot != old.slot:
        return moved_bundle(bundle, next(ids), part.slot)
    return replace(bundle, slot=part.slot)


def moved_bundle(bundle: RunningBundle, heir: str, slot: str) -> RunningBundle:
    """The bundle that continues a bundle's work in another slot: with its parts of streams, and its channels."""
    node = node_of(bundle.slot)
    return replace(
        bundle, id=heir, slot=slot, root=bundle.part, inherits=(bundle.id,),
        origin="" if node_of(slot) == node else node)


def _matches(fragment: Fragment, parts: Sequence[WantedBundle], was: Sequence[RunningBundle]) -> list[_Match]:
    """Each part with the bundle that becomes it: what is the same, then what is on its slot, then on its node."""
    free = {bundle.id: bundle for bundle in working_bundles(fragment)}
    matched: dict[int, RunningBundle] = {}
    before = {_place(bundle): bundle.part for bundle in was}

    def match(fits: Callable[[WantedBundle, RunningBundle], bool]) -> None:
        for number, part in enumerate(parts):
            if number not in matched:
                bundle = next((candidate for candidate in free.values() if fits(part, candidate)), None)
                if bundle is not None:
                    matched[number] = free.pop(bundle.id)

    match(lambda part, candidate: before.get(_place(part)) == candidate.part)
    match(lambda part, candidate: _place(part) == _place(candidate) and part.weight == candidate.weight)
    match(lambda part, candidate: _place(part) == _place(candidate))
    match(lambda part, candidate: part.slot == candidate.slot)
    match(lambda part, candidate: node_of(part.slot) == node_of(candidate.slot) and part.threads == candidate.threads)
    match(lambda part, candidate: node_of(part.slot) == node_of(candidate.slot))
    # Those that stay keep their order, so that a schedule that changes nothing changes nothing.
    order = {bundle.id: number for number, bundle in enumerate(fragment.queries)}
    matches = [_Match(part, matched.get(number)) for number, part in enumerate(parts)]
    return sorted(matches, key=lambda match: order[match.bundle.id] if match.bundle else len(order))


def cannot_leave(task: str, slot: str) -> NotEnactable:
    """The error of a task with state, or whose order counts, that a schedule has elsewhere than on this slot's node."""
    node = node_of(slot)
    return NotEnactable(
        f"{task} cannot leave {node}: its state, or the order of its events, would not come along",
        remedy="Choose another pair, or remove the dataflow and submit it again with this schedule.", task=task,
        node=node)


def merged_changes(changes: Sequence[FragmentChange]) -> FragmentChange:
    """Merge changes, upstream fragments first; their steps start, move, route and leave in this order."""
    return FragmentChange(
        {fragment_id: fragment for change in changes for fragment_id, fragment in change.before.items()},
        {fragment_id: fragment for change in changes for fragment_id, fragment in change.after.items()},
        in_order(step for change in changes for step in change.steps))


def working_bundles(fragment: Fragment) -> list[RunningBundle]:
    """The bundles that do not leave."""
    return [bundle for bundle in fragment.queries if not bundle.leaving]


def _place(bundle: RunningBundle | WantedBundle) -> tuple[str, int]:
    return bundle.slot, bundle.threads
