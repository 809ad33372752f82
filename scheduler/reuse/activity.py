"""Activity: tasks that work, rest or leave as dataflows are paused, resumed or removed (paper [1], 4.2 and 4.3).

Paper [1] pauses a task that is no longer needed where it cannot be stopped apart; here the same valve also pauses what
is to go on later. Whatever changes, needs change downstream first: a task that works has ancestors that work, so within
a fragment the tasks that work come first, then those that rest, then those that left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from typing import Literal

from scheduler.model.fragment import Fragment
from scheduler.model.plan import Step
from scheduler.model.ports import EstateView
from scheduler.step_kinds import (
    CLOSE_OUTLET,
    CLOSE_TAIL,
    OPEN_OUTLET,
    OPEN_TAIL,
    PAUSE_FRAGMENT,
    RESUME_FRAGMENT,
    STOP_FRAGMENT,
    StepKind,
    in_order,
)

Activity = Literal["works", "rests", "leaves"]


@dataclass(frozen=True, slots=True)
class FragmentChange:
    """The fragments that a plan starts, changes or stops, before and after, and the steps from the one to the other."""

    before: Mapping[str, Fragment] = field(default_factory=dict)
    after: Mapping[str, Fragment] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()


def is_working(estate: EstateView, task_id: str) -> bool:
    """True if a task of the estate works; otherwise it rests."""
    fragment_id, position = estate.places[task_id]
    return position < estate.fragments[fragment_id].active


def queries_begun(change: FragmentChange) -> int:
    """The number of present queries that begin to work again."""
    return sum(
        len(old.queries) for fragment_id, old in change.before.items()
        if old.paused and fragment_id in change.after and not change.after[fragment_id].paused)


def queries_ceased(change: FragmentChange) -> int:
    """The number of queries that cease to work, whether they are kept or not."""
    return sum(
        len(old.queries) for fragment_id, old in change.before.items()
        if not old.paused and (fragment_id not in change.after or change.after[fragment_id].paused))


def waking(estate: EstateView, task_ids: Iterable[str]) -> tuple[frozenset[str], int]:
    """The resting ones of these running tasks, and the number of queries that would begin to work again with them."""
    resting = frozenset(task_id for task_id in task_ids if not is_working(estate, task_id))
    return resting, queries_begun(adjust(estate, dict.fromkeys(resting, "works"))) if resting else 0


def crowding_note(estate: EstateView, change: FragmentChange, *, tasks: Iterable[str]) -> str:
    """A note for reviewers about slots on which something goes on, where another's schedule has put bundles meanwhile;
    empty where there are none. ``tasks`` are the running tasks of the dataflow that is planned for."""
    slots = {
        bundle.slot for fragment_id, fragment in change.after.items() for bundle in fragment.queries
        if not fragment.paused and fragment_id in change.before and change.before[fragment_id].paused}
    if not slots:
        return ""
    ours = {estate.places[task_id][0] for task_id in tasks}
    others = [fragment for fragment in estate.divided_on(slots) if fragment.id not in ours]
    taken = sorted({bundle.slot for fragment in others for bundle in fragment.bundles} & slots)
    if not taken:
        return ""
    return (
        f"{', '.join(taken)} {'have' if len(taken) > 1 else 'has'} bundles of another schedule by now, which counts on "
        "what was free there: with what goes on beside them, neither may keep what it promised.")


def adjust(estate: EstateView, activities: Mapping[str, Activity]) -> FragmentChange:
    """Let tasks work, rest or leave; their fragments' tails, and the outlets between fragments, follow.

    Nothing that works on is restarted. A fragment of which nothing works is paused with its state kept, one of which
    nothing is left stops. What ceases does so downstream first and after the outlets that it reads have closed, so
    that nobody writes to a channel that is about to go; what begins does so upstream first, and is published to when
    it has been told to begin.

    Parameters
    ----------
    activities : mapping of str to Activity
        The activities that the running tasks concerned are to have; all others stay as they are.
    """
    changed = {estate.places[task_id][0] for task_id in activities}
    parts = {fragment_id: _parts(estate.fragments[fragment_id], activities) for fragment_id in sorted(changed)}
    ended = [fragment_id for fragment_id, (active, resting) in parts.items() if active + resting == 0]
    begin = [
        fragment_id for fragment_id, (active, _) in parts.items() if active and estate.fragments[fragment_id].paused
    ]
    cease = [
        fragment_id
        for fragment_id, (active, _) in parts.items()
        if not active and not estate.fragments[fragment_id].paused
    ]
    opening, closing = _readers(estate, begin), _readers(estate, cease)
    after: dict[str, Fragment] = {}
    close: list[Step] = []
    tails: list[Step] = []
    publish: list[Step] = []
    for fragment_id in sorted(changed.union(opening, closing).difference(ended)):
        old = estate.fragments[fragment_id]
        active, resting = parts.get(fragment_id, (old.active, old.resting))
        begun, ceased = opening.get(fragment_id, {}), closing.get(fragment_id, {})
        outlets = _outlets(old, begun, ceased)
        # A task that rests gives its places up: when it goes on it reads from then on, wherever it began at first.
        joins = old.joins if active else {}
        new = replace(old, active=active, resting=resting, outlets=outlets, joins=joins)
        if new == old:
            continue
        after[fragment_id] = new
        if old.paused or not active:
            continue  # its own step says that it begins or ceases to publish
        close.extend(_outlet_steps(CLOSE_OUTLET, fragment_id, ceased))
        publish.extend(_outlet_steps(OPEN_OUTLET, fragment_id, begun))
        if active != old.active:
            tails.append(_tail_step(old, active))
    order = fragments_upstream_first(estate, [*begin, *cease, *ended])
    counts = {fragment_id: (parts[fragment_id][0], estate.fragments[fragment_id].active) for fragment_id in order}
    leaving = [
        Step(kind=STOP_FRAGMENT.name, fragment=fragment_id) if fragment_id in ended
        else _whole_step(PAUSE_FRAGMENT, fragment_id, counts)
        for fragment_id in reversed(order) if not counts[fragment_id][0]
    ]
    coming = [_whole_step(RESUME_FRAGMENT, fragment_id, counts) for fragment_id in order if counts[fragment_id][0]]
    return FragmentChange(
        before={fragment_id: estate.fragments[fragment_id] for fragment_id in [*after, *ended]},
        after=after,
        steps=in_order([*close, *tails, *leaving, *coming, *publish]),
    )


def fragments_upstream_first(estate: EstateView, fragment_ids: Iterable[str]) -> list[str]:
    """Fragments of the estate in such order that each comes after those that it reads."""
    chosen = dict.fromkeys(sorted(set(fragment_ids)))
    upstream = {
        fragment_id: [
            home for parent in _head(estate, fragment_id).parents if (home := estate.places[parent][0]) in chosen
        ]
        for fragment_id in chosen
    }
    return list(TopologicalSorter(upstream).static_order())


def _parts(fragment: Fragment, activities: Mapping[str, Activity]) -> tuple[int, int]:
    """The number of tasks of a fragment that work, and of those that rest behind them."""
    def stands(position: int, task_id: str) -> Activity:
        return activities.get(task_id, "works" if position < fragment.active else "rests")

    standings = [stands(position, task_id) for position, task_id in enumerate(fragment.kept_tasks)]
    return standings.count("works"), standings.count("rests")


def _readers(estate: EstateView, fragment_ids: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """The readers of each fragment that is read by these: the tasks read, and by which of them."""
    changed: dict[str, dict[str, list[str]]] = {}
    for reader in fragment_ids:
        for parent in _head(estate, reader).parents:
            changed.setdefault(estate.places[parent][0], {}).setdefault(parent, []).append(reader)
    return changed


def _outlets(
    fragment: Fragment, begun: Mapping[str, list[str]], ceased: Mapping[str, list[str]]
) -> dict[str, tuple[str, ...]]:
    outlets = {}
    for task_id in sorted({*fragment.outlets, *begun}):
        gone = ceased.get(task_id, ())
        staying = [reader for reader in fragment.outlets.get(task_id, ()) if reader not in gone]
        if readers := (*staying, *begun.get(task_id, ())):
            outlets[task_id] = readers
    return outlets


def _outlet_steps(
    kind: StepKind, fragment_id: str, readers: Mapping[str, list[str]]
) -> list[Step]:
    return [
        Step(kind=kind.name, fragment=fragment_id, task=task_id, reader=reader)
        for task_id, reader_ids in sorted(readers.items()) for reader in reader_ids
    ]


def _tail_step(fragment: Fragment, active: int) -> Step:
    """The valve that closes, or opens, is that of the last task that works with the tail closed."""
    return Step(
        kind=(CLOSE_TAIL if active < fragment.active else OPEN_TAIL).name, fragment=fragment.id,
        task=fragment.tasks[min(active, fragment.active) - 1], active=active, active_before=fragment.active,
    )


def _whole_step(kind: StepKind, fragment_id: str, counts: Mapping[str, tuple[int, int]]) -> Step:
    active, before = counts[fragment_id]
    return Step(kind=kind.name, fragment=fragment_id, active=active, active_before=before)


def _head(estate: EstateView, fragment_id: str):
    return estate.tasks[estate.fragments[fragment_id].tasks[0]]
