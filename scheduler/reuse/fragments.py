"""Fragments: chains of running tasks, each one query; how a merge adds them and an unmerge takes them away.

Paper [1], 4.3, launches what is new as a dataflow of its own that a broker joins to what runs, and pauses what is no
longer needed where it cannot be stopped apart. Here the broker's part is an outlet, the pause a closed tail.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter

from scheduler.model.estate import Fragment, RunningTask
from scheduler.model.plan import Step
from scheduler.model.ports import EstateView
from scheduler.model.task_types import TaskTypes


@dataclass(frozen=True, slots=True)
class FragmentChange:
    """The fragments that a plan starts, changes or stops, before and after, and the steps from the one to the other."""

    before: Mapping[str, Fragment]
    after: Mapping[str, Fragment]
    steps: tuple[Step, ...]


def cut_into_chains(
    tasks: Sequence[RunningTask], *, task_types: TaskTypes, longest_chain: int | None = None
) -> tuple[tuple[str, ...], ...]:
    """Cut new running tasks into chains, each to be a fragment on one slot.

    A chain continues along the child with the longest way to a sink; a fork's other children start chains of their
    own. A task with several parents always starts one: then only the head of a chain reads from others, a chain that
    reads from another's task is wholly behind it, and the graph of fragments has no cycle. A task that reads from
    what runs already starts one too, as does one whose type says ``chain: never``, which also ends it.

    Parameters
    ----------
    tasks : sequence of RunningTask
        With each task all that is downstream of it: a merge starts nothing else.
    task_types : TaskTypes
        Declarations; a type that is not there chains.
    longest_chain : int, optional
        Most tasks that a chain may have; None for no limit.

    Returns
    -------
    tuple of tuple of str
        Running task ids, upstream first within a chain; the chains in such order that one reads only from earlier
        ones. They partition the tasks.
    """
    given = {task.id: task for task in tasks}
    streams = {task.id: [parent for parent in task.parents if parent in given] for task in tasks}
    new = {task_id: given[task_id] for task_id in TopologicalSorter(streams).static_order()}
    children: dict[str, list[str]] = {task_id: [] for task_id in new}
    way_to_sink: dict[str, int] = {}
    for task_id in reversed(new):
        way_to_sink[task_id] = 1 + max((way_to_sink[child] for child in children[task_id]), default=0)
        for parent in streams[task_id]:
            children[parent].append(task_id)

    def chains(task: RunningTask) -> bool:
        return task.type not in task_types or task_types[task.type].chain == "always"

    cut: list[list[str]] = []
    chain_of: dict[str, list[str]] = {}
    continues: dict[str, str] = {}  # task id -> the parent whose chain it goes on with
    for task in new.values():
        chain = chain_of[continues[task.id]] if task.id in continues else []
        if not chain or len(chain) == longest_chain:
            chain = []
            cut.append(chain)
        chain.append(task.id)
        chain_of[task.id] = chain
        heirs = [child for child in children[task.id] if len(new[child].parents) == 1 and chains(new[child])]
        if chains(task) and heirs:
            continues[min(heirs, key=lambda child: (-way_to_sink[child], child))] = task.id
    return tuple(tuple(chain) for chain in cut)


def attach(
    estate: EstateView, chains: Sequence[Sequence[str]], slots: Sequence[str], *, started: Mapping[str, RunningTask]
) -> FragmentChange:
    """Start chains as fragments on their slots and open the outlets that they read, in new and running fragments.

    Nothing that runs changes but for its outlets. New fragments start upstream first; running ones publish last, when
    whoever is to read them has been told to start.
    """
    ids = [f"f{estate.generation + 1}-{number}" for number in range(len(chains))]
    home = {task_id: fragment_id for fragment_id, chain in zip(ids, chains, strict=True) for task_id in chain}
    readers: dict[str, dict[str, list[str]]] = {}  # fragment -> task -> the new fragments that read it
    for fragment_id, chain in zip(ids, chains, strict=True):
        for parent in started[chain[0]].parents:
            upstream = home.get(parent) or estate.places[parent][0]
            readers.setdefault(upstream, {}).setdefault(parent, []).append(fragment_id)
    after = {
        fragment_id: Fragment(
            id=fragment_id, tasks=tuple(chain), slot=slot, active=len(chain),
            outlets={task: tuple(those) for task, those in readers.pop(fragment_id, {}).items()},
        )
        for fragment_id, chain, slot in zip(ids, chains, slots, strict=True)
    }
    steps = [Step(kind="start_fragment", fragment=fragment_id) for fragment_id in ids]
    before = {fragment_id: estate.fragments[fragment_id] for fragment_id in sorted(readers)}
    for fragment_id, fragment in before.items():
        outlets = dict(fragment.outlets)
        for task, those in sorted(readers[fragment_id].items()):
            outlets[task] = (*outlets.get(task, ()), *those)
            steps.extend(
                Step(kind="open_outlet", fragment=fragment_id, task=task, reader=reader) for reader in those
            )
        after[fragment_id] = replace(fragment, outlets=outlets)
    return FragmentChange(before=before, after=after, steps=tuple(steps))


def detach(estate: EstateView, stopped: Collection[str]) -> FragmentChange:
    """Take stopped tasks out of the fragments: stop a fragment that is left with none, else close its tail.

    Stopped tasks bring all that is downstream of them along, so within a fragment they are its last ones. Outlets that
    only stopped fragments read close first, so that nobody writes to a channel that is about to go.
    """
    gone = set(stopped)
    shrunk = {estate.places[task_id][0] for task_id in gone}
    active = {
        fragment_id: sum(task_id not in gone for task_id in estate.fragments[fragment_id].active_tasks)
        for fragment_id in shrunk
    }
    ended = [fragment_id for fragment_id in sorted(shrunk) if active[fragment_id] == 0]
    closing = _closing(estate, ended)
    close, tails, after = [], [], {}
    for fragment_id in sorted(shrunk.union(closing).difference(ended)):
        fragment = estate.fragments[fragment_id]
        left = active.get(fragment_id, fragment.active)
        outlets = {}
        for task, readers in sorted(fragment.outlets.items()):
            leaving = closing.get(fragment_id, {}).get(task, [])
            close.extend(Step(kind="close_outlet", fragment=fragment_id, task=task, reader=one) for one in leaving)
            if staying := tuple(reader for reader in readers if reader not in leaving):
                outlets[task] = staying
        if left != fragment.active:
            tails.append(
                Step(
                    kind="close_tail", fragment=fragment_id, task=fragment.tasks[left - 1],  # whose valve closes
                    active=left, active_before=fragment.active,
                )
            )
        after[fragment_id] = replace(fragment, active=left, outlets=outlets)
    stops = [Step(kind="stop_fragment", fragment=fragment_id) for fragment_id in _downstream_first(estate, ended)]
    before = {fragment_id: estate.fragments[fragment_id] for fragment_id in [*after, *ended]}
    return FragmentChange(before=before, after=after, steps=(*close, *tails, *stops))


def _closing(estate: EstateView, ended: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    """For each fragment that stays and is read by ended ones: the tasks read, and by which of them."""
    closing: dict[str, dict[str, list[str]]] = {}
    going = set(ended)
    for reader in ended:
        for parent in estate.tasks[estate.fragments[reader].tasks[0]].parents:
            upstream = estate.places[parent][0]
            if upstream not in going:
                closing.setdefault(upstream, {}).setdefault(parent, []).append(reader)
    return closing


def _downstream_first(estate: EstateView, fragment_ids: Sequence[str]) -> list[str]:
    """Fragments in such order that each comes after all those that read it."""
    chosen = set(fragment_ids)
    ordered: dict[str, None] = {}
    stack = [(fragment_id, False) for fragment_id in reversed(fragment_ids)]
    while stack:
        fragment_id, readers_done = stack.pop()
        if readers_done:
            ordered.setdefault(fragment_id)
        elif fragment_id not in ordered:
            stack.append((fragment_id, True))
            for _, readers in sorted(estate.fragments[fragment_id].outlets.items()):
                stack.extend((reader, False) for reader in readers if reader in chosen and reader not in ordered)
    return list(ordered)
