"""Successors of queries: what one debugs goes by one history over moves, fusions, cuts and versions."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.model.fragment import Fragment, RunningBundle
from scheduler.model.plan import Plan


def successions(plan: Plan) -> Mapping[str, tuple[str, ...]]:
    """The predecessors of each query that a plan starts: ending queries whose place it takes.

    The first of them is the one that read its input; for a fused query the most upstream one. A query that begins anew
    with another version takes the place of the query with a task of its first task's name.
    """
    before, after = _queries(plan.fragments_before), _queries(plan.fragments_after)
    ended = {name for name in before if name not in after or after[name][1].leaving}
    successors: dict[str, tuple[str, ...]] = {}
    for name, (fragment, bundle) in after.items():
        formers = fragment.inherited_by(bundle)[0] or _of_the_same_name(plan, fragment, bundle)
        formers = tuple(former for former in formers if former in ended)
        if formers and name not in before:
            successors[name] = formers
    return successors


def _queries(fragments: Mapping[str, Fragment]) -> dict[str, tuple[Fragment, RunningBundle]]:
    return {bundle.id: (fragment, bundle) for fragment in fragments.values() for bundle in fragment.queries}


def _of_the_same_name(plan: Plan, fragment: Fragment, bundle: RunningBundle) -> tuple[str, ...]:
    """The query that worked, at the same position among its fragment's, at the former version's task of this name."""
    if plan.entry_before is None or plan.entry_after is None or not fragment.active_tasks:
        return ()
    names = {running: name for name, running in plan.entry_after.running.items()}
    former = plan.entry_before.running.get(names.get(fragment.active_tasks[0], ""))
    position = fragment.queries.index(bundle)
    return tuple(
        next_query.id for before in plan.fragments_before.values() if former in before.active_tasks
        for next_query in before.queries[position:position + 1])
