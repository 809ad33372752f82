"""The name of a query for people: by its tasks, the same in lists, findings, alerts, marks and logs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from dashboard.history import query_lines

if TYPE_CHECKING:
    from dashboard.operations.live_view.estate_view import View
    from scheduler.model.fragment import Fragment

MOST_NAMED = 3  # tasks of a query that its name lists
OF_OTHERS = "a query of other teams"
QUERY_ID = re.compile(r"(?<![\w./:@-])f\d+-\d+(?![\w/:@-]|\.\w)")  # no part of a path, or of a channel's name


def names_along(view: View, fragment: Fragment) -> list[str]:
    """Names of its working tasks. Where neighbours are named for the same dataflow, only the last one says which."""
    return _named(view, fragment.active_tasks)


def name_of_query(view: View, fragment: Fragment) -> str:
    """``parse → average of traffic``; of many tasks the first and the last: ``parse → … → out of traffic``."""
    tasks = fragment.active_tasks or fragment.tasks
    if view.tasks.isdisjoint(tasks):
        return OF_OTHERS
    if len(tasks) <= MOST_NAMED:
        return " → ".join(_named(view, tasks))
    return " → … → ".join(_named(view, (tasks[0], tasks[-1])))


def names_of_queries(view: View, query_ids: Iterable[str]) -> dict[str, str]:
    """Names by id. A query that has ended has the name of its heir; the id stands for one of which the viewer may know
    neither."""
    ids = set(query_ids)
    names = {query_id: query_id for query_id in ids} | {
        query_id: name_of_query(view, view.fragment_of[query_id]) for query_id in ids if query_id in view.fragment_of}
    ended = [query_id for query_id in ids if query_id not in view.fragment_of]
    for former, heirs in query_lines.heirs_of(ended).items() if ended else ():
        fragment = next((view.fragment_of[heir] for heir in heirs if heir in view.fragment_of), None)
        if fragment is not None:
            names[former] = name_of_query(view, fragment)
    return names


def with_query_names(view: View, text: str) -> str:
    """A text in which the ids of queries that run are replaced by their names."""
    def name(query_id: re.Match[str]) -> str:
        fragment = view.fragment_of.get(query_id[0])
        return query_id[0] if fragment is None else name_of_query(view, fragment)

    return QUERY_ID.sub(name, text)


def _named(view: View, tasks: Iterable[str]) -> list[str]:
    names = [view.name_of(task) for task in tasks]
    ends = [name.partition(" of ")[2] for name in names]
    return [name if end != after else name.partition(" of ")[0]
            for name, end, after in zip(names, ends, [*ends[1:], ""], strict=True)]
