"""Moving: the plan that lets queries go on in another slot, of their node or of another, and that which takes it back.

A query ends and its heir, which stands by in the other slot, goes on exactly where it ended: the same handover as for
fusing and cutting (paper [4] stops a task and starts it again elsewhere).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType

from .model.errors import InvalidTransition, NotFound
from .model.estate import Submitted
from .model.fragment import Fragment, RunningBundle, Slot, node_of
from .model.node_parts import FileSecrets, why_on_node
from .model.plan import Plan, Step
from .model.plan_kinds import MOVE
from .model.ports import EstateView
from .model.prices import Prices
from .model.task_types import TaskTypes
from .model.tenancy import is_open_to
from .plan_building import (
    heads_of,
    kept_outputs,
    plan_of_rearrangement,
    plan_taking_back,
    shown_outputs,
    submitted_in,
)
from .reuse.cutting import stuck_types
from .reuse.division import is_changing_hands, is_placed
from .reuse.handover import moved_in


def why_not_moved(
    estate: EstateView, fragment: Fragment, *, task_types: TaskTypes, from_copy: bool = False
) -> str:
    """The reason why a query stays in its slot, in words that follow "cannot be moved:"; empty where it can leave.

    What rests of one that goes on from a copy of its state goes along, and rests there.
    """
    if (fragment.paused or fragment.resting) and not from_copy:
        return "it has tasks of a dataflow that is paused, whose state is in its checkpoint"
    if is_changing_hands(fragment):
        return "its keys are changing hands"
    stuck = stuck_types(estate, fragment, task_types=task_types)
    if stuck:
        return f"the state of {', '.join(stuck)} cannot be handed to another query"
    return ""


def why_not_to_other_nodes(
    estate: EstateView, fragment: Fragment, bundle: RunningBundle, *, task_types: TaskTypes,
    file_secrets: FileSecrets = frozenset(),
) -> str:
    """The reason why a query that can leave its slot stays on its node, in words that follow "cannot be moved:"; empty
    where it can go to any.

    Parameters
    ----------
    file_secrets : collection of (str, str), optional
        Team and name of the secrets that stand for a file of the node.
    """
    node = node_of(bundle.slot)
    for task_id in fragment.kept_tasks:
        task = estate.tasks[task_id]
        reason = why_on_node(task_types[task.type], task.config, file_secrets)
        if reason:
            return f"{task.type} {reason} {node}"
    return ""


def slots_for(
    estate: EstateView, fragment: Fragment, bundle: RunningBundle, slots: Iterable[Slot], *,
    task_types: TaskTypes, file_secrets: FileSecrets = frozenset(),
) -> tuple[str, ...]:
    """The slots to which a query that can leave its own may go: of its node alone, where it has something there that
    does not go along; and where teams are apart, those that are empty or its team's.

    Parameters
    ----------
    slots : iterable of Slot
        Those that something may be placed on.
    file_secrets : collection of (str, str), optional
        Team and name of the secrets that stand for a file of the node.
    """
    stays = bool(why_not_to_other_nodes(estate, fragment, bundle, task_types=task_types, file_secrets=file_secrets))
    home = bundle.slot
    near = [slot.name for slot in slots if slot.name != home and (slot.node == node_of(home) or not stays)]
    if not estate.teams_apart:
        return tuple(near)
    teams = estate.teams_on(near)
    return tuple(slot for slot in near if is_open_to(fragment.team, teams.get(slot, ())))


def plan_move(
    estate: EstateView, dataflow_id: str, *, query: str, slot: str, along: Sequence[str] = (),
    others: Mapping[str, str] = MappingProxyType({}), task_types: TaskTypes, prices: Prices, why: str = "",
    file_secrets: FileSecrets = frozenset(), silent: Collection[str] = frozenset(),
    closed: Mapping[str, str] = MappingProxyType({}), copied: Collection[str] = frozenset(),
    bundles: Mapping[str, str] = MappingProxyType({}),
) -> Plan:
    """Plan that one query of a submitted dataflow, or several, go on in another slot.

    Parameters
    ----------
    query : str
        A fragment that no schedule divides, or a bundle.
    along : sequence of str, optional
        Those that go there with it: all of them or none.
    others : mapping of str to str, optional
        Queries, of whatever dataflows, that go on from copies by the same plan, and the slot of each. One that cannot
        is left out.
    why : str, optional
        The purpose, for those who look at the plan.
    file_secrets : collection of (str, str), optional
        Team and name of the secrets that stand for a file of the node.
    silent : collection of str, optional
        Nodes of which nothing is heard: a move to or from there would wait until they are back, and all other plans
        with it.
    closed : mapping of str to str, optional
        Slots that nothing more may go to though they are there, and why, in words that follow "cannot be moved to it:".
    copied : collection of str, optional
        Queries of whose state the node of their slot has a copy: they go on from that where nothing is heard of their
        own node.
    bundles : mapping of str to str, optional
        The fragment of those ``others`` that are bundles.

    Raises
    ------
    NotSubmitted
        The estate has no dataflow of that id.
    NotFound
        The dataflow has no such query, or the estate no such slot.
    InvalidTransition
        The query stays where it is, the slot is closed, or nothing is heard of one of both nodes; the error says why.
    NoSlots
        Teams are apart, and the slot holds another's queries.
    """
    submitted = submitted_in(estate, dataflow_id)
    fragments = {estate.places[task_id][0]: None for task_id in submitted.running.values()}
    bundles_by_id = {bundle.id: (fragment, bundle) for fragment in map(estate.fragments.__getitem__, fragments)
                     for bundle in fragment.queries if not bundle.leaving}
    queries = tuple(dict.fromkeys((query, *along)))
    for name in queries:
        if name not in bundles_by_id:
            raise NotFound(
                f"{submitted.name} has no query {name}.",
                remedy=f"Name one of {', '.join(sorted(bundles_by_id))}.", dataflow=dataflow_id, query=name)
    _require_open(estate, query, slot, silent=silent, closed=closed)
    for name in queries:
        node = node_of(bundles_by_id[name][1].slot)
        if node in silent and name not in copied:
            raise InvalidTransition(
                f"{name} cannot be moved: {node}, which has its state, does not report.",
                remedy=f"Start the agent of {node} and try again.", query=name, slot=slot)
        _require_movable(
            estate, *bundles_by_id[name], slot, task_types=task_types, file_secrets=file_secrets,
            from_copy=node in silent)
    homes = {name: bundles_by_id[name][0] for name in queries}
    slots = dict.fromkeys(queries, slot)
    for name, other_slot in others.items():
        fragment = estate.fragments.get(bundles.get(name, name))
        bundle = fragment and next((
            candidate for candidate in fragment.queries if candidate.id == name and not candidate.leaving), None)
        if fragment is None or bundle is None or name not in copied or name in homes:
            continue
        with suppress(InvalidTransition, NotFound):
            _require_open(estate, name, other_slot, silent=silent, closed=closed)
            _require_movable(
                estate, fragment, bundle, other_slot, task_types=task_types, file_secrets=file_secrets,
                from_copy=node_of(bundle.slot) in silent)
            homes[name], slots[name] = fragment, other_slot
    change = moved_in(
        estate, slots, outputs=shown_outputs(estate, homes.values(), task_types), homes=homes)
    return plan_of_rearrangement(
        MOVE, estate, submitted, change, heads=heads_of(homes.values()), task_types=task_types, prices=prices,
        queries_started=len(slots), queries_stopped=len(slots), notes=_notes(estate, submitted, homes), why=why)


def _notes(estate: EstateView, submitted: Submitted, homes: Mapping[str, Fragment]) -> tuple[str, ...]:
    """Notes for reviewers about queries that leave the place that a schedule gave them."""
    placed = [name for name, fragment in homes.items() if is_placed(estate, fragment, [submitted])]
    if not placed:
        return ()
    return (
        f"A schedule says where {' and '.join(placed)} {'run' if placed[1:] else 'runs'}. Its promise is suspended "
        "until the move is taken back or the dataflow is scheduled again.",)


def _require_open(
    estate: EstateView, query: str, slot: str, *, silent: Collection[str], closed: Mapping[str, str]
) -> None:
    """Raise where nothing can go to a slot."""
    if node_of(slot) in silent:
        raise InvalidTransition(
            f"{query} cannot be moved to {slot}: {node_of(slot)} does not report.",
            remedy=f"Choose a slot of another node, or start the agent of {node_of(slot)} and try again.",
            query=query, slot=slot)
    if slot in closed:
        raise InvalidTransition(
            f"{query} cannot be moved to {slot}: {closed[slot]}.",
            remedy="Choose another slot: the page Deployment names those that are open.", query=query, slot=slot)
    if slot not in estate.slot_loads([slot]):
        raise NotFound(f"There is no slot {slot}.", remedy="The page Slots lists all that there are.", slot=slot)


def _require_movable(
    estate: EstateView, fragment: Fragment, bundle: RunningBundle, slot: str, *, task_types: TaskTypes,
    file_secrets: FileSecrets, from_copy: bool,
) -> None:
    """Raise where a query cannot go to a slot."""
    query = bundle.id
    why_not = why_not_moved(estate, fragment, task_types=task_types, from_copy=from_copy)
    if why_not:
        raise InvalidTransition(
            f"{query} cannot be moved: {why_not}.",
            remedy="Resume what is paused, or submit the dataflow fresh to have it elsewhere.", query=query, slot=slot)
    if slot == bundle.slot:
        raise InvalidTransition(
            f"{query} runs in {slot} already.", remedy="Choose another slot.", query=query, slot=slot)
    why_not = "" if node_of(slot) == node_of(bundle.slot) else why_not_to_other_nodes(
        estate, fragment, bundle, task_types=task_types, file_secrets=() if from_copy else file_secrets)
    if why_not:
        raise InvalidTransition(
            f"{query} cannot be moved to {slot}: {why_not}.",
            remedy=f"Choose another slot of {node_of(bundle.slot)}, or schedule the dataflow on that node.",
            query=query, slot=slot)


def plan_moving_back(estate: EstateView, plan: Plan) -> Plan:
    """Plan to undo a move: each query goes on in the slot where it was.

    Raises
    ------
    NotSubmitted
        The dataflow that it was for has left the estate.
    InvalidTransition
        A query was changed since, or its former slot is gone.
    """
    submitted = submitted_in(estate, plan.dataflow.id)
    moved = [_ended_and_heir(plan, step) for step in plan.steps]
    homes = {
        heir.id: fragment for step, (_, heir) in zip(plan.steps, moved, strict=True)
        if (fragment := estate.fragments.get(step.fragment)) is not None and _as_it_works(heir) in map(
            _as_it_works, fragment.queries)
        and (fragment.tasks, fragment.active) == _tasks_of(plan.fragments_after[step.fragment])}
    if len(homes) < len(moved):
        raise InvalidTransition(
            f"The queries of {submitted.name} were changed again since {'some were' if moved[1:] else 'one was'} "
            "moved.",
            remedy="There is nothing left to undo.", dataflow=submitted.id)
    if any(fragment.paused or fragment.resting for fragment in homes.values()):
        raise InvalidTransition(
            f"{submitted.name} went on elsewhere with tasks of a dataflow that is paused, whose state is there.",
            remedy="Resume what is paused, then move it.", dataflow=submitted.id)
    slots = {heir.id: ended.slot for ended, heir in moved}
    offered = estate.slot_loads(list(slots.values()))
    gone = next((slot for slot in slots.values() if slot not in offered), None)
    if gone is not None:
        raise InvalidTransition(
            f"The slot {gone} is gone, or its node is drained.", remedy="Move the query to another slot.",
            dataflow=submitted.id)
    change = moved_in(estate, slots, outputs=kept_outputs(homes.values()), homes=homes)
    # The ones before them, too: they may still work, where the move was not over.
    after = dict(change.after)
    for step, (ended, _) in zip(change.steps, moved, strict=True):
        after[step.fragment] = _inheriting_too(after[step.fragment], step, ended.id)
    return plan_taking_back(
        estate, plan, replace(change, after=after), heads=heads_of(homes.values()), notes=())


def _ended_and_heir(plan: Plan, step: Step) -> tuple[RunningBundle, RunningBundle]:
    """The query that a step of a move ends, and that which goes on with it."""
    fragment = plan.fragments_after[step.fragment]
    heir = next(bundle for bundle in fragment.queries if bundle.id == (step.bundle or step.fragment))
    inherits, _ = fragment.inherited_by(heir)
    home = plan.fragments_before[step.fragment if step.bundle else inherits[-1]]
    return next(bundle for bundle in home.queries if bundle.id == inherits[-1]), heir


def _as_it_works(bundle: RunningBundle) -> tuple[str, int, float]:
    """A query, wherever it is: its node may have fewer slots than it had."""
    return bundle.id, bundle.threads, bundle.weight


def _tasks_of(fragment: Fragment) -> tuple[tuple[str, ...], int]:
    return fragment.tasks, fragment.active


def _inheriting_too(fragment: Fragment, step: Step, before: str) -> Fragment:
    """The fragment whose query that a step is about goes on with an earlier one as well."""
    if step.bundle is None:
        return replace(fragment, inherits=(before, *fragment.inherits))
    return replace(fragment, bundles=tuple(
        replace(bundle, inherits=(before, *bundle.inherits)) if bundle.id == step.bundle else bundle
        for bundle in fragment.bundles))
