"""Fragments: chains of running tasks, each one query, and how a merge adds them to what runs.

Paper [1], 4.3, launches what is new as a dataflow of its own that a broker joins to what runs; here the broker's part
is an outlet. How tasks cease to work is in ``activity.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter
from itertools import count

from scheduler.model.fragment import Fragment, RunningBundle, RunningTask
from scheduler.model.plan import Step
from scheduler.model.ports import EstateView
from scheduler.model.task_types import TaskTypes
from scheduler.step_kinds import OPEN_OUTLET, START_FRAGMENT

from .activity import FragmentChange

NOW = "now"
LONGEST_CHAIN = 50  # tasks of a query: Spark plans them within one another, and its stack ends between 100 and 150


def cut_into_chains(
    tasks: Sequence[RunningTask], *, task_types: TaskTypes, longest_chain: int = LONGEST_CHAIN,
    unchained: Collection[str] = (),
) -> tuple[tuple[str, ...], ...]:
    """Cut new running tasks into chains, each to be a fragment on one slot.

    A chain continues along the child with the longest way to a sink; a fork's other children start chains of their
    own. A task with several parents always starts one: then only the head of a chain reads from others, a chain that
    reads from another's task is wholly behind it, and the graph of fragments has no cycle. A task that reads from
    what runs already starts one too, as does one whose type or dataflow says ``chain: never``, which also ends it.

    Parameters
    ----------
    tasks : sequence of RunningTask
        With each task all that is downstream of it: a merge starts nothing else.
    unchained : collection of str, optional
        Those of the tasks whose dataflow gives them a query of their own.

    Returns
    -------
    tuple of tuple of str
        Running task ids, upstream first within a chain; the chains in such order that one reads only from earlier
        ones. They partition the tasks.
    """
    tasks_by_id = {task.id: task for task in tasks}
    streams = {task.id: [parent for parent in task.parents if parent in tasks_by_id] for task in tasks}
    new = {task_id: tasks_by_id[task_id] for task_id in TopologicalSorter(streams).static_order()}
    children: dict[str, list[str]] = {task_id: [] for task_id in new}
    way_to_sink: dict[str, int] = {}
    for task_id in reversed(new):
        way_to_sink[task_id] = 1 + max((way_to_sink[child] for child in children[task_id]), default=0)
        for parent in streams[task_id]:
            children[parent].append(task_id)

    def chains(task: RunningTask) -> bool:
        may_chain = task.type not in task_types or task_types[task.type].chain == "always"
        return may_chain and task.id not in unchained

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


def chained_note(estate: EstateView, tasks: Mapping[str, str]) -> str:
    """A note for reviewers about tasks that are to have a query of their own (submitted to running task id) and run in
    one with others already; empty where there are none."""
    chained = [
        task_id for task_id, running_id in tasks.items()
        if running_id in estate.places and len(estate.fragments[estate.places[running_id][0]].kept_tasks) > 1]
    if not chained:
        return ""
    runs = f"{', '.join(chained)} {'run' if len(chained) > 1 else 'runs'}"
    return f"{runs} in a query with others already, and stays there: from now on nothing more is fused with it."


def begun_note(
    estate: EstateView, running: Mapping[str, str], *, reused: Collection[str], task_types: TaskTypes
) -> str:
    """A note for reviewers about live sources that are to begin with what is old and are read already; empty where
    there are none.

    Parameters
    ----------
    running : mapping of str to str
        The newcomer's tasks and the running ones that they are.
    """
    begun = [
        name for name, task_id in running.items()
        if task_id in reused and task_types[estate.tasks[task_id].type].connector
        and estate.tasks[task_id].config.get("start", "newest") != "newest"]
    if not begun:
        return ""
    reads = f"{', '.join(sorted(begun))} {'are' if len(begun) > 1 else 'is'} read already, and shared"
    return (f"{reads}: this dataflow gets what comes from now on, and none of what was read before, though “start” "
            "asks for it. A source of its own begins there: give it a config that differs, such as another keep_dead.")


def attach(
    estate: EstateView, chains: Sequence[Sequence[str]], slots: Sequence[str], *, team: str = "",
    started: Mapping[str, RunningTask], resumed: FragmentChange | None = None, begin: str = NOW,
    bundles: Mapping[str, tuple[RunningBundle, ...]] | None = None,
) -> FragmentChange:
    """Start chains as fragments on their slots and open the outlets that they read, in new and running fragments.

    Of running fragments only outlets change. New fragments start upstream first; running ones publish last, after their
    new readers were told to start. ``resumed``: what the same plan lets work again. The ``bundles`` get their ids here.

    Parameters
    ----------
    team : str, optional
        The team of the new fragments.
    begin : str, optional
        The beginning of their reading in present streams (`Fragment.joins`): ``now``, ``oldest``, or a time.
    bundles : Mapping[str, tuple[RunningBundle, ...]], optional
        Bundles of a divided fragment, by its first task.
    """
    resumed = resumed or FragmentChange()
    ids = [f"f{estate.generation + 1}-{number}" for number in range(len(chains))]
    further = (f"f{estate.generation + 1}-{number}" for number in count(len(chains)))
    divided = {
        fragment_id: tuple(
            replace(bundle, id=next(further) if number else fragment_id)
            for number, bundle in enumerate((bundles or {}).get(chain[0], ())))
        for fragment_id, chain in zip(ids, chains, strict=True)
    }
    home = {task_id: fragment_id for fragment_id, chain in zip(ids, chains, strict=True) for task_id in chain}
    heads = [started[chain[0]].parents for chain in chains]
    readers: dict[str, dict[str, list[str]]] = {}  # fragment -> task -> the new fragments that read it
    for fragment_id, parents in zip(ids, heads, strict=True):
        for parent in parents:
            upstream = home.get(parent) or estate.places[parent][0]
            readers.setdefault(upstream, {}).setdefault(parent, []).append(fragment_id)
    after = dict(resumed.after) | {
        fragment_id: Fragment(
            id=fragment_id, tasks=tuple(chain), slot=slot, active=len(chain),
            outlets={task: tuple(reader_ids) for task, reader_ids in readers.pop(fragment_id, {}).items()},
            joins={parent: begin for parent in parents if begin != NOW and parent not in home},
            bundles=divided[fragment_id], team=team,
        )
        for fragment_id, chain, slot, parents in zip(ids, chains, slots, heads, strict=True)
    }
    starts = [Step(kind=START_FRAGMENT.name, fragment=fragment_id) for fragment_id in ids]
    opens = []
    for fragment_id in sorted(readers):
        fragment = after.get(fragment_id) or estate.fragments[fragment_id]
        outlets = dict(fragment.outlets)
        for task, reader_ids in sorted(readers[fragment_id].items()):
            outlets[task] = (*outlets.get(task, ()), *reader_ids)
            opens.extend(
                Step(kind=OPEN_OUTLET.name, fragment=fragment_id, task=task, reader=reader) for reader in reader_ids)
        after[fragment_id] = replace(fragment, outlets=outlets)
    before = dict(resumed.before) | {fragment_id: estate.fragments[fragment_id] for fragment_id in sorted(readers)}
    # What is resumed as a whole publishes from its first batch on, as what is new does.
    opens = [step for step in opens if not before[step.fragment].paused]
    return FragmentChange(before=before, after=after, steps=(*starts, *resumed.steps, *opens))
