"""Handover: a path of fragments ends, and another cut of the same tasks goes on exactly where it ended.

Paper [1], 4.3, joins what is new to what runs by channels and leaves it so; fusing what need not be apart is its open
question. The new fragments begin with the state of the old ones; channels that others read, and named outputs, go on
under their old ids, so that nobody outside notices more than a pause.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from scheduler.model.fragment import Fragment, node_of
from scheduler.model.plan import Step
from scheduler.model.ports import EstateView
from scheduler.step_kinds import HAND_OVER, HAND_OVER_BUNDLE

from .activity import FragmentChange
from .division import moved_bundle


@dataclass(frozen=True, slots=True)
class CutPiece:
    """A piece of the path, as one fragment on a slot."""

    tasks: int
    slot: str


def recut(
    path: Sequence[Fragment],
    pieces: Sequence[CutPiece],
    *,
    upstream: Iterable[Fragment] = (),
    outputs: Collection[str] = (),
    generation: int,
) -> FragmentChange:
    """Cut the working tasks of a path of fragments anew.

    Parameters
    ----------
    path : sequence of Fragment
        Each but the first reads the last working task of the one before it; of several none has tasks that rest. Tasks
        that nobody needs are left out.
    pieces : sequence of CutPiece
        Of the path's tasks, upstream first; together all of them. Where tasks rest it is one.
    outputs : collection of str
        Tasks whose channels are kept for those who look at them.
    generation : int
        Of the estate; the new fragments are named after the next.

    Returns
    -------
    FragmentChange
        With a step for each new fragment; readers outside the path keep their places in the same channels.
    """
    inside = {fragment.id for fragment in path}
    home = {task_id: fragment for fragment in path for task_id in fragment.kept_tasks}
    resting = sum(fragment.resting for fragment in path)
    tasks = list(home)
    lasting = {*outputs, *tasks[len(tasks) - resting:]}  # what rests is read again in the channels that it had
    ids = [f"f{generation + 1}-{number}" for number in range(len(pieces))]
    node = node_of(path[0].slot)
    after: dict[str, Fragment] = {}
    begin = 0
    for number, piece in enumerate(pieces):
        cut_out = tuple(tasks[begin : begin + piece.tasks])
        begin += piece.tasks
        outlets, channels = {}, {}
        for task_id in cut_out:
            readers = tuple(reader for reader in home[task_id].outlets.get(task_id, ()) if reader not in inside)
            if readers or task_id in lasting:
                channels[task_id] = home[task_id].channel_of(task_id)
            if task_id == cut_out[-1] and number + 1 < len(pieces):
                readers = (*readers, ids[number + 1])
            if readers:
                outlets[task_id] = readers
        after[ids[number]] = Fragment(
            id=ids[number], tasks=cut_out, slot=piece.slot, active=len(cut_out) - resting, outlets=outlets,
            channels=channels, inherits=tuple(dict.fromkeys(home[task_id].id for task_id in cut_out)), resting=resting,
            origin="" if node_of(piece.slot) == node else node, team=home[cut_out[0]].team,
        )
    before = {fragment.id: fragment for fragment in path}
    for fragment in upstream:
        before[fragment.id] = fragment
        outlets = {
            task_id: tuple(ids[0] if reader == path[0].id else reader for reader in readers)
            for task_id, readers in fragment.outlets.items()
        }
        after[fragment.id] = replace(fragment, outlets=outlets)
    return FragmentChange(
        before=before, after=after, steps=tuple(Step(kind=HAND_OVER.name, fragment=fragment_id) for fragment_id in ids))


def recut_in(
    estate: EstateView, path: Sequence[Fragment], pieces: Sequence[CutPiece], *, outputs: Collection[str]
) -> FragmentChange:
    """Cut the working tasks of a path of fragments anew (``recut``), with what is upstream of it in the estate."""
    above = dict.fromkeys(estate.places[parent][0] for parent in estate.tasks[path[0].tasks[0]].parents)
    return recut(
        path, pieces, upstream=[estate.fragments[name] for name in above], outputs=outputs,
        generation=estate.generation)


def moved_in(
    estate: EstateView, slots: Mapping[str, str], *, outputs: Collection[str],
    homes: Mapping[str, Fragment] = MappingProxyType({}),
) -> FragmentChange:
    """Queries go on in other slots, each for itself, though they read from one another.

    What runs undivided goes on as another fragment. Of a divided one the bundle alone goes: its parts of streams and
    its channels stay, so that nobody else's query changes.

    Parameters
    ----------
    slots : mapping of str to str
        By query, a fragment or a bundle, where it goes on; what rests goes along, and rests there.
    """
    ids = {name: f"f{estate.generation + 1}-{number}" for number, name in enumerate(slots)}
    homes = {name: homes.get(name) or estate.fragments[name] for name in slots}
    heirs = {name: ids[name] for name, fragment in homes.items() if not fragment.divided}
    before: dict[str, Fragment] = {}
    after: dict[str, Fragment] = {}
    steps: list[Step] = []
    for name, slot in slots.items():
        fragment = homes[name]
        before[fragment.id] = fragment
        if fragment.divided:
            changed = after.get(fragment.id, fragment)
            bundles = tuple(
                moved_bundle(bundle, ids[name], slot) if bundle.id == name else bundle for bundle in changed.bundles)
            after[fragment.id] = replace(changed, slot=bundles[0].slot, bundles=bundles)
            steps.append(Step(
                kind=HAND_OVER_BUNDLE.name, fragment=fragment.id, task=fragment.tasks[0], bundle=ids[name]))
            continue
        [heir] = recut(
            [fragment], [CutPiece(len(fragment.kept_tasks), slot)], outputs=outputs,
            generation=estate.generation).after.values()
        after[ids[name]] = replace(heir, id=ids[name])
        steps.append(Step(kind=HAND_OVER.name, fragment=ids[name]))
        for parent in estate.tasks[fragment.tasks[0]].parents:
            above = estate.places[parent][0]
            if above not in heirs:
                before[above] = estate.fragments[above]
                after.setdefault(above, before[above])
    after = {name: read_by(fragment, heirs) for name, fragment in after.items()}
    return FragmentChange(before=before, after=after, steps=tuple(steps))


def read_by(fragment: Fragment, heirs: Mapping[str, str]) -> Fragment:
    """A fragment with those of its readers that go on as others, in their place."""
    return replace(fragment, outlets={
        task_id: tuple(heirs.get(reader, reader) for reader in readers)
        for task_id, readers in fragment.outlets.items()})
