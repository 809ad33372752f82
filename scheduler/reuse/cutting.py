"""Cutting: what runs without a schedule becomes what one asks for, a fragment for each task that it is of.

A chain is handed over to its pieces (``handover.py``); a fragment of one task is divided under its own id. Those who
read from outside keep their channels, and get further ones where a task is now written by several bundles.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from scheduler.model.fragment import Fragment, RunningBundle, node_of
from scheduler.model.plan import Step
from scheduler.model.ports import EstateView
from scheduler.model.task_types import TaskTypes
from scheduler.step_kinds import HAND_OVER, LEAVE_BUNDLE, ROUTE, START_FRAGMENT

from .activity import FragmentChange
from .division import WantedBundle, cannot_leave, divided_anew, keyed_bundles, keys_divided_anew, merged_changes
from .handover import read_by


@dataclass(frozen=True, slots=True)
class TaskDivision:
    """The division of a task by a schedule.

    ``whole``: the order of its events counts, or its state; ``name``: for errors; ``serial``: it is not divided. All
    other tasks are divided, even into a single part; those with ``by_key`` by their keys.
    """

    name: str
    parts: tuple[WantedBundle, ...]
    whole: bool
    serial: bool
    by_key: bool = False


def stuck_types(estate: EstateView, fragment: Fragment, *, task_types: TaskTypes) -> list[str]:
    """The types of a fragment's tasks that work, or rest, whose state cannot be handed to another query."""
    names = dict.fromkeys(estate.tasks[task_id].type for task_id in fragment.kept_tasks)
    return [name for name in names if name not in task_types or not task_types[name].can_move]


def why_fused(estate: EstateView, fragment: Fragment, *, task_types: TaskTypes) -> str:
    """The reason why a fragment that works cannot be cut into its tasks; empty where it can, or is one task."""
    if len(fragment.tasks) == 1:
        return ""
    if fragment.resting:
        return "its query also runs tasks of a paused dataflow, whose state it keeps"
    stuck = stuck_types(estate, fragment, task_types=task_types)
    if stuck:
        return f"the state of {', '.join(stuck)} cannot be handed to another query"
    return ""


def scheduled_anew(
    estate: EstateView, divisions: Mapping[str, TaskDivision], *, ids: Iterator[str], task_types: TaskTypes,
    left_bundles: Collection[str] = (),
) -> FragmentChange:
    """Let running tasks have the parts that a schedule has for them; what need not change stays as it is.

    Parameters
    ----------
    divisions : mapping of str to TaskDivision
        By running task; those fused with others can be cut (``why_fused``).
    """
    changes: list[FragmentChange] = []
    heads: dict[str, str] = {}  # of fragments that are cut, the first piece
    for task_id, wanted_head in divisions.items():
        fragment = estate.fragments[estate.places[task_id][0]]
        hands_over = _hands_over(estate, fragment, task_types=task_types)
        if fragment.divided_by_key or (fragment.tasks == (task_id,) and wanted_head.by_key):
            changes.append(keys_divided_anew(
                fragment, wanted_head.parts, ids=ids, left_bundles=left_bundles,
                works_on=task_types[estate.tasks[task_id].type].by_marks is None))
        elif fragment.tasks == (task_id,) and not (hands_over and _only_moves(fragment, wanted_head)):
            changes.append(
                divided_anew(
                    wanted_head.name,
                    fragment,
                    wanted_head.parts,
                    ids=ids,
                    left_bundles=left_bundles,
                    whole=wanted_head.whole,
                    divide=not wanted_head.serial,
                    hands_over=hands_over,
                )
            )
        elif fragment.id not in heads:
            outputs = {
                task_name
                for task_name in fragment.active_tasks
                if task_types[estate.tasks[task_name].type].terminal == "output"
            }
            change = _cut(fragment, divisions, ids=ids, outputs=outputs)
            heads[fragment.id] = next(iter(change.after))
            changes.append(change)
    change = merged_changes([change for change in changes if change.steps])
    upstream = [
        estate.fragments[estate.places[parent][0]]
        for head in heads for parent in estate.tasks[estate.fragments[head].tasks[0]].parents]
    before = dict(change.before) | {fragment.id: fragment for fragment in upstream}
    after = dict(change.after) | {fragment.id: fragment for fragment in upstream if fragment.id not in change.before}
    return replace(
        change, before=before, after={fragment_id: read_by(fragment, heads) for fragment_id, fragment in after.items()}
    )


def _hands_over(estate: EstateView, fragment: Fragment, *, task_types: TaskTypes) -> bool:
    """True if a fragment's queries hand over where they get another slot: not those that write files, which would go on
    in other folders."""
    return not stuck_types(estate, fragment, task_types=task_types) and not any(
        task_types[estate.tasks[task_id].type].terminal in ("parquet", "json") for task_id in fragment.active_tasks)


def _only_moves(fragment: Fragment, wanted_head: TaskDivision) -> bool:
    """True if what is one query stays one, on another slot."""
    return wanted_head.serial and not fragment.divided and wanted_head.parts[0].slot != fragment.slot


def _cut(
    fragment: Fragment, divisions: Mapping[str, TaskDivision], *, ids: Iterator[str], outputs: Collection[str]
) -> FragmentChange:
    """A chain as pieces: each task that is scheduled alone, the others together as they were."""
    groups: list[list[str]] = []
    for task_id in fragment.active_tasks:
        if task_id in divisions or not groups or groups[-1][-1] in divisions:
            groups.append([])
        groups[-1].append(task_id)
    names = [next(ids) for _ in groups]
    after: dict[str, Fragment] = {}
    steps: list[Step] = []
    for number, (name, group) in enumerate(zip(names, groups, strict=True)):
        outlets = {task_id: fragment.outlets[task_id] for task_id in group if task_id in fragment.outlets}
        channels = {
            task_id: fragment.channel_of(task_id) for task_id in group if task_id in outlets or task_id in outputs}
        if number + 1 < len(names):
            outlets[group[-1]] = (*outlets.get(group[-1], ()), names[number + 1])
        plain = Fragment(
            name, tuple(group), fragment.slot, len(group), outlets=outlets, channels=channels, inherits=(fragment.id,),
            team=fragment.team)
        wanted_head = divisions.get(group[0])
        # What neither reads nor writes anything of before, and has no state, begins anew wherever it likes.
        anew = wanted_head is not None and not (
            wanted_head.serial or wanted_head.by_key) and number > 0 and not channels
        piece = (
            plain if wanted_head is None else _placed(replace(plain, inherits=()) if anew else plain, wanted_head, ids)
        )
        after[name] = piece
        steps.append(Step(kind=(START_FRAGMENT if anew else HAND_OVER).name, fragment=name))
        if piece.divided:
            steps.append(Step(kind=ROUTE.name, fragment=name, task=group[0]))
        steps += [
            Step(kind=LEAVE_BUNDLE.name, fragment=name, task=group[0], bundle=bundle.id)
            for bundle in piece.bundles if bundle.leaving]
    return FragmentChange({fragment.id: fragment}, after, tuple(steps))


def _placed(piece: Fragment, wanted_head: TaskDivision, ids: Iterator[str]) -> Fragment:
    """A piece on the slots that a schedule has for its task. What it goes on with is on its node, and stays there."""
    home = piece.slot
    near = next((bundle for bundle in wanted_head.parts if bundle.slot == home), None) or next(
        (bundle for bundle in wanted_head.parts if node_of(bundle.slot) == node_of(home)), None)
    if near is None and wanted_head.whole:
        raise cannot_leave(wanted_head.name, home)
    if wanted_head.serial:
        return replace(piece, slot=wanted_head.parts[0].slot)
    if wanted_head.by_key:  # the piece ends at once, and leaves the states of its keys
        bundles = keyed_bundles(wanted_head.parts, ids, inherits=(piece.id,))
        return replace(piece, slot=bundles[0].slot, bundles=(*bundles, RunningBundle(piece.id, home, 1, 0.0)))
    heir = near if piece.inherits else wanted_head.parts[0]
    bundles = [
        RunningBundle(piece.id if bundle is heir else next(ids), bundle.slot, bundle.threads, bundle.weight)
        for bundle in wanted_head.parts]
    if heir is None:  # it takes over on its node, reads what is left there, and goes
        bundles.append(RunningBundle(piece.id, home, 1, 0.0))
    return replace(piece, slot=bundles[0].slot, bundles=tuple(bundles))
