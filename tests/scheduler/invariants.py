"""What holds of every estate, and of every plan, whatever was submitted and removed in whatever order.

The two constraints of paper [1], 3.3 (sink coverage; task and stream minimisation), and what docs/architecture.md
promises of fragments, channels and plans. Every test of the family calls these.
"""

from __future__ import annotations

from dataclasses import replace

import networkx as nx

from scheduler.applying import apply_plan
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, node_of
from scheduler.model.plan import Plan
from scheduler.model.task_types import TaskTypes
from scheduler.model.usage import NAMED
from tests.scheduler.reversing import reverse_plan
from tests.scheduler.running_dataflows import running_dataflows

from .reference import Reference


def check_estate(estate: Estate, reference: Reference) -> None:
    """All invariants of an estate that runs exactly the reference's dataflows."""
    check_sink_coverage(estate, reference)
    check_minimality(estate, reference)
    check_running_dataflows(estate)
    check_fragments(estate)
    check_outlets(estate)


def running_graph(estate: Estate) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from(estate.tasks)
    graph.add_edges_from((parent, task.id) for task in estate.tasks.values() for parent in task.parents)
    assert set(graph) == set(estate.tasks), "a running task's parent does not run"
    return graph


def check_sink_coverage(estate: Estate, reference: Reference) -> None:
    """Each submitted sink has a running task with an equivalent ancestor graph; likewise each task on the way."""
    graph = running_graph(estate)
    assert set(estate.submitted) == set(reference.graphs)
    for dataflow_id, submitted in estate.submitted.items():
        expected_graph = reference.graphs[dataflow_id]
        assert set(submitted.running) == set(expected_graph)
        assert set(submitted.sinks) == {task_id for task_id in expected_graph if not expected_graph.out_degree(task_id)}
        for source, target in expected_graph.edges:
            assert graph.has_edge(submitted.running[source], submitted.running[target])
        for task_id, running_id in submitted.running.items():
            expected = sorted(submitted.running[parent] for parent in expected_graph.predecessors(task_id))
            assert sorted(graph.predecessors(running_id)) == expected, "a running task reads what was not asked for"
            assert estate.tasks[running_id].type == expected_graph.nodes[task_id]["abstract"][0]


def check_minimality(estate: Estate, reference: Reference) -> None:
    """One running task for each class of equivalent submitted tasks, and no other task or stream."""
    by_running: dict[str, set[tuple[str, str]]] = {task_id: set() for task_id in estate.tasks}
    for dataflow_id, submitted in estate.submitted.items():
        for task_id, running_id in submitted.running.items():
            by_running[running_id].add((dataflow_id, task_id))
    assert sorted(map(sorted, by_running.values())) == sorted(map(sorted, reference.classes()))
    graph = running_graph(estate)
    needed = set()
    for submitted in estate.submitted.values():
        for sink in submitted.sinks:
            needed |= {submitted.running[sink], *nx.ancestors(graph, submitted.running[sink])}
    assert needed == set(estate.tasks), "a task runs that no submitted sink needs"


def check_running_dataflows(estate: Estate) -> None:
    """Running dataflows are disjoint, together all that runs, and serve exactly those that use them."""
    running = running_dataflows(estate)
    assert {frozenset(dataflow.tasks) for dataflow in running} == {
        frozenset(part) for part in nx.weakly_connected_components(running_graph(estate))
    }
    for running_part in running:
        users = {
            dataflow_id for dataflow_id, submitted in estate.submitted.items()
            if set(submitted.running.values()) & set(running_part.tasks)
        }
        assert set(running_part.serves) == users and users


def check_fragments(estate: Estate) -> None:
    """Tasks are partitioned into paths whose heads alone may have several parents; their graph is acyclic.

    Exactly those work that a dataflow needs which is not paused, and in each fragment they come first.
    """
    graph = running_graph(estate)
    kept_tasks = [task_id for fragment in estate.fragments.values() for task_id in fragment.kept_tasks]
    assert sorted(kept_tasks) == sorted(estate.tasks), "fragments do not partition the running tasks"
    assert set(estate.places) == set(estate.tasks), "a task that nobody needs is taken for one that is there"
    working = {task_id for fragment in estate.fragments.values() for task_id in fragment.active_tasks}
    assert working == {
        task_id for entry in estate.submitted.values() if not entry.paused for task_id in entry.running.values()
    }, "other tasks work than those that a working dataflow needs"
    names = {slot.name for slot in estate.slots}
    between = nx.DiGraph()
    for fragment_id, fragment in estate.fragments.items():
        assert fragment_id == fragment.id and fragment.slot in names
        assert 1 <= len(fragment.kept_tasks) <= len(fragment.tasks)
        for before, after in zip(fragment.kept_tasks, fragment.kept_tasks[1:], strict=False):
            assert list(graph.predecessors(after)) == [before], "a fragment is no path, or reads in its middle"
        between.add_node(fragment_id)
        between.add_edges_from(
            (estate.places[parent][0], fragment_id) for parent in graph.predecessors(fragment.tasks[0]))
    assert nx.is_directed_acyclic_graph(between)


def check_outlets(estate: Estate) -> None:
    """Exactly the streams into working fragments are published, each to exactly those that read it, on one channel."""
    expected = {
        (parent, fragment.id)
        for fragment in estate.fragments.values() if not fragment.paused
        for parent in estate.tasks[fragment.tasks[0]].parents
    }
    opened = []
    for fragment in estate.fragments.values():
        for task_id, readers in fragment.outlets.items():
            assert task_id in fragment.active_tasks and readers
            opened.extend((task_id, reader) for reader in readers)
        assert set(fragment.channels) <= set(fragment.tasks)
    assert sorted(opened) == sorted(expected)
    channels = [estate.channel_of(task_id) for task_id in estate.tasks]
    assert len(set(channels)) == len(channels), "two streams share a channel"


def check_chains(estate: Estate, plan: Plan, task_types: TaskTypes, longest_chain: int) -> None:
    """New fragments keep to ``chain: never``, of types and of whoever uses a task, and to the longest chain allowed."""
    for fragment_id in set(plan.fragments_after) - set(plan.fragments_before):
        tasks = plan.fragments_after[fragment_id].tasks
        assert len(tasks) <= longest_chain
        if any(task_types[estate.tasks[task_id].type].chain == "never" or task_id in estate.unchained
               for task_id in tasks):
            assert len(tasks) == 1


def check_homes(old: Fragment, new: Fragment) -> None:
    """A query stays on its node: its checkpoint, and what is on disk for it, are there."""
    homes = {bundle.id: node_of(bundle.slot) for bundle in old.queries}
    assert all(homes.get(bundle.id, node_of(bundle.slot)) == node_of(bundle.slot) for bundle in new.queries)


def check_plan(before: Estate, plan: Plan) -> None:
    """What every plan keeps to: no restart, steps that say what changes, and a way back."""
    after = apply_plan(before, plan)
    assert after.generation == before.generation + 1
    started, stopped = set(after.tasks) - set(before.tasks), set(before.tasks) - set(after.tasks)
    assert {task.id for task in plan.started} == started and {task.id for task in plan.stopped} == stopped
    assert set(plan.reused) == set(plan.dataflow.running.values()) - started - stopped
    assert plan.price.tasks_started == len(started) and plan.price.tasks_stopped == len(stopped)
    assert _replayed(before, plan) == dict(after.fragments), "the steps do not lead to what the plan says"
    for fragment_id in set(before.fragments) & set(after.fragments):
        old, new = before.fragments[fragment_id], after.fragments[fragment_id]
        assert (old.tasks, old.slot, old.channels) == (new.tasks, new.slot, new.channels), "a fragment was changed"
        check_homes(old, new)
        if plan.kind in {"submit", "resume"}:
            assert old.active <= new.active
            assert all(set(readers) <= set(new.outlets[task_id]) for task_id, readers in old.outlets.items())
        elif plan.kind in {"remove", "pause"}:
            assert new.active <= old.active and set(new.outlets) <= set(old.outlets)
        elif plan.kind == "change":
            assert set(plan.replaced.running.values()) & set(plan.dataflow.running.values()) <= set(after.places)
        else:
            assert new.active == old.active and set(new.outlets) == set(old.outlets)
    check_rest(before, after, plan)
    if plan.kind == "submit":
        used = set(plan.reused)
    elif plan.kind in {"defragment", "isolate", "move"}:
        gone = set(before.fragments) - set(after.fragments)
        used = {task_id for fragment_id in gone for task_id in before.fragments[fragment_id].active_tasks}
    elif plan.kind == "change":
        used = set(plan.reused) - set(plan.replaced.running.values())
        used |= {task_id for name in plan.fragments_before if name in plan.fragments_after
                 for task_id in after.fragments[name].kept_tasks}
    elif switched := {step.task for step in plan.steps if step.kind == "switch"}:
        used = switched
    else:
        used = {task_id for fragment_id in plan.fragments_after for task_id in after.fragments[fragment_id].kept_tasks}
    touched = {
        dataflow_id for dataflow_id, submitted in before.submitted.items()
        if dataflow_id != plan.dataflow.id and used & set(submitted.running.values())
    }
    assert plan.touched == tuple(sorted(touched)[:NAMED]) and plan.touched_count == len(touched)
    assert plan.touched_teams == tuple(sorted({before.submitted[dataflow_id].team for dataflow_id in touched}))
    back = apply_plan(after, reverse_plan(plan))
    assert (back.tasks, back.submitted) == (before.tasks, before.submitted)
    if plan.kind in {"defragment", "isolate", "move"}:
        assert cut_of(back) == cut_of(before), "what was fused is not cut as it was"
        check_outlets(back)
    else:
        assert back.fragments == before.fragments


def cut_of(estate: Estate) -> set[tuple[tuple[str, ...], str]]:
    """How an estate is cut, whatever its fragments are called and whatever dead tasks they drag along."""
    return {(fragment.kept_tasks, fragment.slot) for fragment in estate.fragments.values()}


def check_rest(before: Estate, after: Estate, plan: Plan) -> None:
    """The plan names exactly the tasks that cease to work and stay, and those that begin again."""
    was, works = (
        {task_id for fragment in estate.fragments.values() for task_id in fragment.active_tasks}
        for estate in (before, after)
    )
    assert set(plan.rested) == (was - works) & set(after.tasks)
    assert set(plan.resumed) == (works - was) & set(before.tasks)


def _replayed(before: Estate, plan: Plan) -> dict:
    """The fragments after the steps are carried out one by one, told nothing of how they shall end but where to start.

    A reader may be named before or after its fragment starts or stops: slots reconcile, so only the sum counts.
    """
    fragments = dict(before.fragments)
    for step in plan.steps:
        match step.kind:
            case "start_fragment":
                assert step.fragment not in fragments
                fragments[step.fragment] = plan.fragments_after[step.fragment]
            case "stop_fragment":
                del fragments[step.fragment]
            case "close_tail":
                old = fragments[step.fragment]
                assert (old.active, step.task) == (step.active_before, old.tasks[step.active - 1])
                fragments[step.fragment] = replace(old, active=step.active)
            case "open_tail":
                old = fragments[step.fragment]
                assert (old.active, step.task) == (step.active_before, old.tasks[old.active - 1])
                fragments[step.fragment] = replace(old, active=step.active)
            case "pause_fragment":
                old = fragments[step.fragment]
                assert (old.active, step.active) == (step.active_before, 0)
                fragments[step.fragment] = replace(old, active=0, outlets={}, joins={})
            case "resume_fragment":
                old, new = fragments[step.fragment], plan.fragments_after[step.fragment]
                assert old.paused and (step.active_before, step.active) == (0, new.active)
                fragments[step.fragment] = replace(old, active=step.active, outlets=new.outlets)
            case "hand_over":
                new = plan.fragments_after[step.fragment]
                fragments[step.fragment] = new
                for name in new.inherits:
                    head = fragments.pop(name).tasks[0] if name in fragments else None
                    if head == new.tasks[0]:
                        _pass_on(fragments, name, step.fragment)
            case "open_outlet" | "close_outlet":
                old = fragments[step.fragment]
                readers = old.outlets.get(step.task, ())
                if step.kind == "open_outlet":
                    readers = (*readers, step.reader)
                else:
                    assert step.reader in readers
                    readers = tuple(reader for reader in readers if reader != step.reader)
                outlets = {task_id: readers for task_id, readers in old.outlets.items() if task_id != step.task}
                fragments[step.fragment] = replace(old, outlets=outlets | ({step.task: readers} if readers else {}))
            case "switch":  # what queries are set to is no part of what they are
                assert step.task in fragments[step.fragment].tasks
            case other:
                raise AssertionError(f"a plan has no step {other}")
    assert len({step.key for step in plan.steps}) == len(plan.steps)
    # How many tasks rest behind a closed tail is nothing that a slot has to do.
    planned = {name: plan.fragments_after.get(name, fragment) for name, fragment in fragments.items()}
    return {name: replace(fragment, resting=planned[name].resting) for name, fragment in fragments.items()}


def _pass_on(fragments: dict, old: str, new: str) -> None:
    """The new fragment takes the old one's place with whoever that reads."""
    for name, fragment in fragments.items():
        if any(old in readers for readers in fragment.outlets.values()):
            fragments[name] = replace(fragment, outlets={
                task_id: tuple(new if reader == old else reader for reader in readers)
                for task_id, readers in fragment.outlets.items()
            })
