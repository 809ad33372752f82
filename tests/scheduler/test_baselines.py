"""What reuse is measured against finds the same, so that the measurement compares like with like."""

from __future__ import annotations

from hypothesis import given, settings

from scheduler.reuse.merge import merge
from scheduler.reuse.unmerge import unmerge
from tests.benches.baselines import as_graph, match_ancestors, match_isomorphic, own_tasks, unmerge_by_ancestors
from tests.scheduler.running_dataflows import running_dataflows

from .catalogue import EMPTY, TYPES, remove, submit
from .strategies import dataflows, histories


@settings(max_examples=80, deadline=None)
@given(histories(longest=5), dataflows())
def test_comparing_ancestors_and_isomorphism_find_what_fingerprints_find(history, dataflow):
    estate = EMPTY
    for dataflow_id, part, team in history:
        estate = submit(estate, part, dataflow_id, team) if part is not None else remove(estate, dataflow_id)
    scope = "water" if dataflow.visibility == "private" else ""
    merged = merge(estate.tasks, dataflow, task_types=TYPES, scope=scope)
    expected = {task_id: running for task_id, running in merged.running.items() if running in estate.tasks}
    submitted = own_tasks(dataflow, task_types=TYPES, scope=scope)
    parts = running_dataflows(estate)
    running = [{task_id: estate.tasks[task_id] for task_id in part.tasks} for part in parts]
    assert match_ancestors(running, submitted) == match_ancestors(running, submitted, all_pairs=True) == expected
    assert match_isomorphic(as_graph(estate.tasks), as_graph(submitted)) == expected
    for dataflow_id in estate.submitted:
        serving = [part for part in parts if dataflow_id in part.serves]
        tasks = {task_id: estate.tasks[task_id] for part in serving for task_id in part.tasks}
        others = {user for part in serving for user in part.serves if user != dataflow_id}
        gone = unmerge_by_ancestors(tasks, _within(estate, others, tasks))
        assert gone == set(unmerge(estate, dataflow_id).stopped)


def _within(estate, dataflow_ids, tasks):
    """Those dataflows' entries, as far as they are served by these running tasks."""
    for dataflow_id in dataflow_ids:
        submitted = estate.submitted[dataflow_id]
        yield type(submitted)(
            id=submitted.id, name=submitted.name, team=submitted.team, running=submitted.running,
            sinks=tuple(sink for sink in submitted.sinks if submitted.running[sink] in tasks))
