"""Expressions of what runs or rests that this version of Weir refuses, though an earlier one took them in.

Their queries are given up when they start; who upgrades hears of all of them at once, also of those that are paused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from dashboard import jobs
from dashboard.catalog.document_checks import check_document
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.selectors import current_version
from dashboard.operations.models import Use
from scheduler.model.names import one_line

MOST_CHARACTERS = 500  # of a reason: it may hold the whole expression


@dataclass(frozen=True, slots=True)
class RefusedExpression:
    """A task of a dataflow in the estate with such an expression, and why it is refused, on one line."""

    dataflow: str
    task: str
    why: str


def refused_expressions() -> list[RefusedExpression]:
    """All of them, by dataflow and task."""
    types = jobs.task_types()
    kinds = {name for name, declared in types.items() if declared.has_expressions}
    using = Use.objects.filter(running_task__type__in=kinds).values("dataflow")
    refused = []
    for record in DataflowRecord.objects.filter(pk__in=using).order_by("name", "pk"):
        document = current_version(record).document
        expressive = {task["id"] for task in document["tasks"] if task["type"] in kinds}
        problems = check_document(json.dumps(document), format="json").problems
        refused += [
            RefusedExpression(record.name, problem.task_id, one_line(
                f"{problem.message} {problem.remedy}", most=MOST_CHARACTERS))
            for problem in problems if problem.task_id in expressive]
    return refused
