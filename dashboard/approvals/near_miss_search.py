"""Near misses of a dataflow that waits for its review, or that is still being written.

- ``near_misses_of(proposal)``: changes that would let it reuse more, best first; none unless it waits for a decision
- ``near_misses_in(team, text)``: the same for a document before it is submitted, each with the document changed
- ``near_miss_row(miss)``: one of them as JSON
"""

from __future__ import annotations

from functools import partial
from typing import Any

from dashboard import jobs
from dashboard.approvals.lifecycle import PENDING, STALE
from dashboard.approvals.models import Proposal
from dashboard.catalog.document_checks import format_of, parse_document, stored_dataflow
from dashboard.catalog.models import DataflowVersion
from dashboard.operations.estate_store.estate_loader import stored_estate
from dashboard.operations.estate_store.sibling_rows import StoredSiblings
from dashboard.plans.price_settings import prices
from dashboard.plans.team_containment import containment_of
from dashboard.teams.models import Team
from scheduler.model.dataflow import Dataflow
from scheduler.model.editing import Edited, with_values
from scheduler.model.errors import UnknownTaskType
from scheduler.model.plan_kinds import PLAN_KINDS
from scheduler.model.secrets import with_scoped_secrets
from scheduler.reuse.activity import waking
from scheduler.reuse.near_misses import NearMiss, adopted, near_misses


def near_misses_of(proposal: Proposal) -> tuple[NearMiss, ...]:
    """The near misses of a proposal's dataflow, by what runs now."""
    if not PLAN_KINDS[proposal.plan.kind].has_document or proposal.status not in {PENDING, STALE}:
        return ()
    try:
        dataflow = stored_dataflow(version_of(proposal).document)
    except UnknownTaskType:  # a task type is no longer installed: its plan says so, there is nothing to offer
        return ()
    return _near_misses(dataflow, proposal.dataflow.team)


def near_misses_in(team: Team, text: str, *, format: str | None = None) -> list[dict[str, Any]]:
    """The near misses of a document that is submitted for a team, each with ``text``: the document changed."""
    dataflow = parse_document(text, format=format)
    written = format or format_of(text)
    misses = _near_misses(dataflow, team)
    return [
        near_miss_row(miss) | {"text": changed_text(text, dataflow, miss, format=written).text} for miss in misses]


def near_miss_row(miss: NearMiss) -> dict[str, Any]:
    """A near miss as a `dashboard.api.answers.proposals.NearMissAnswer`."""
    return {
        "key": miss.key,
        "summary": miss.text,
        "tasks": list(miss.reused),
        "cores_saved": miss.cores_saved,
        "money_per_hour_saved": miss.money_per_hour_saved,
        "why_beside": miss.why_beside,
        "differences": [
            {name: getattr(difference, name) for name in ("task", "parameter", "submitted", "running", "text")}
            for difference in miss.differences],
    }


def changed_text(text: str, dataflow: Dataflow, miss: NearMiss, *, format: str) -> Edited:
    """A document with a near miss adopted, otherwise as its author wrote it where that can be."""
    values: dict[str, dict[str, Any]] = {}  # a task that becomes another has other keys: the document is written anew
    for difference in miss.differences:
        values.setdefault(difference.task, {})[difference.parameter] = difference.running
    return with_values(
        text, values, meant=adopted(dataflow, miss.differences), format=format, task_types=jobs.task_types())


def version_of(proposal: Proposal) -> DataflowVersion:
    """The document that a proposal's plan is made from."""
    return DataflowVersion.objects.get(dataflow_id=proposal.dataflow_id, number=proposal.plan.version)


def _near_misses(dataflow: Dataflow, team: Team) -> tuple[NearMiss, ...]:
    types, estate = jobs.task_types(), stored_estate()
    return near_misses(
        estate.tasks, with_scoped_secrets(dataflow, team=team.slug, task_types=types),
        siblings=StoredSiblings(), task_types=types, prices=prices(), containment=containment_of(team),
        scope=team.slug if dataflow.visibility == "private" else "", waking=partial(waking, estate),
    )
