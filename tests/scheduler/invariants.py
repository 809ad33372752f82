"""What holds of every estate, and of every plan, whatever was submitted and removed in whatever order.

The two constraints of paper [1], 3.3 (sink coverage; task and stream minimisation), and what docs/architecture.md
promises of fragments, channels and plans. Every test of the family calls these.
"""

from __future__ import annotations

import networkx as nx

from scheduler.model.estate import Estate
from scheduler.model.plan import Plan
from scheduler.model.task_types import TaskTypes
from scheduler.model.usage import NAMED
from scheduler.planning import apply_plan, reverse_plan
from scheduler.reuse.running import running_dataflows

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
        own = reference.graphs[dataflow_id]
        assert set(submitted.running) == set(own)
        assert set(submitted.sinks) == {task_id for task_id in own if not own.out_degree(task_id)}
        for source, target in own.edges:
            assert graph.has_edge(submitted.running[source], submitted.running[target])
        for task_id, running_id in submitted.running.items():
            expected = sorted(submitted.running[parent] for parent in own.predecessors(task_id))
            assert sorted(graph.predecessors(running_id)) == expected, "a running task reads what was not asked for"
            assert estate.tasks[running_id].type == own.nodes[task_id]["abstract"][0]


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
    assert {frozenset(one.tasks) for one in running} == {
        frozenset(part) for part in nx.weakly_connected_components(running_graph(estate))
    }
    for one in running:
        users = {
            dataflow_id for dataflow_id, submitted in estate.submitted.items()
            if set(submitted.running.values()) & set(one.tasks)
        }
        assert set(one.serves) == users and users


def check_fragments(estate: Estate) -> None:
    """Working tasks are partitioned into paths whose heads alone may have several parents; their graph is acyclic."""
    graph = running_graph(estate)
    working = [task_id for fragment in estate.fragments.values() for task_id in fragment.active_tasks]
    assert sorted(working) == sorted(estate.tasks), "fragments do not partition the running tasks"
    assert set(estate.places) == set(estate.tasks), "a paused task is taken for a working one"
    names = {slot.name for slot in estate.slots}
    between = nx.DiGraph()
    for fragment_id, fragment in estate.fragments.items():
        assert fragment_id == fragment.id and fragment.slot in names
        assert 1 <= fragment.active <= len(fragment.tasks)
        for before, after in zip(fragment.active_tasks, fragment.active_tasks[1:], strict=False):
            assert list(graph.predecessors(after)) == [before], "a fragment is no path, or reads in its middle"
        head = fragment.active_tasks[0]
        between.add_node(fragment_id)
        between.add_edges_from((estate.places[parent][0], fragment_id) for parent in graph.predecessors(head))
    assert nx.is_directed_acyclic_graph(between)


def check_outlets(estate: Estate) -> None:
    """Exactly the streams between fragments are published, each to exactly those that read it."""
    expected = {
        (parent, fragment.id)
        for fragment in estate.fragments.values()
        for parent in estate.tasks[fragment.tasks[0]].parents
    }
    found = []
    for fragment in estate.fragments.values():
        for task_id, readers in fragment.outlets.items():
            assert task_id in fragment.active_tasks and readers
            found.extend((task_id, reader) for reader in readers)
    assert sorted(found) == sorted(expected)


def check_chains(estate: Estate, plan: Plan, task_types: TaskTypes, longest_chain: int | None) -> None:
    """New fragments keep to ``chain: never`` and to the longest chain allowed."""
    for fragment_id in set(plan.fragments_after) - set(plan.fragments_before):
        tasks = plan.fragments_after[fragment_id].tasks
        assert longest_chain is None or len(tasks) <= longest_chain
        if any(task_types[estate.tasks[task_id].type].chain == "never" for task_id in tasks):
            assert len(tasks) == 1


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
        assert (old.tasks, old.slot) == (new.tasks, new.slot), "a running fragment was changed"
        if plan.kind == "submit":
            assert old.active == new.active
            assert all(set(readers) <= set(new.outlets[task_id]) for task_id, readers in old.outlets.items())
        else:
            assert new.active <= old.active and set(new.outlets) <= set(old.outlets)
    used = set(plan.reused) if plan.kind == "submit" else {
        task_id for fragment_id in plan.fragments_after for task_id in after.fragments[fragment_id].active_tasks
    }
    touched = {
        dataflow_id for dataflow_id, submitted in before.submitted.items()
        if dataflow_id != plan.dataflow.id and used & set(submitted.running.values())
    }
    assert plan.touched == tuple(sorted(touched)[:NAMED]) and plan.touched_count == len(touched)
    assert plan.touched_teams == tuple(sorted({before.submitted[dataflow_id].team for dataflow_id in touched}))
    back = apply_plan(after, reverse_plan(plan))
    assert (back.tasks, back.submitted, back.fragments) == (before.tasks, before.submitted, before.fragments)


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
                fragments[step.fragment] = _with(old, active=step.active)
            case "open_outlet" | "close_outlet":
                old = fragments[step.fragment]
                readers = old.outlets.get(step.task, ())
                if step.kind == "open_outlet":
                    readers = (*readers, step.reader)
                else:
                    assert step.reader in readers
                    readers = tuple(reader for reader in readers if reader != step.reader)
                outlets = {task_id: those for task_id, those in old.outlets.items() if task_id != step.task}
                fragments[step.fragment] = _with(old, outlets=outlets | ({step.task: readers} if readers else {}))
            case other:
                raise AssertionError(f"a plan has no step {other}")
    assert len({step.key for step in plan.steps}) == len(plan.steps)
    return fragments


def _with(fragment, **changes):
    return type(fragment)(
        **{name: getattr(fragment, name) for name in ("id", "tasks", "slot", "active", "outlets")} | changes
    )
