"""The preview of a submission: the running tasks that it would reuse, their teams and the saving. It is planned like
any submission, and not stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Count

from dashboard import jobs
from dashboard.approvals.demands import approvers, team_demands
from dashboard.catalog.document_checks import parse_document, stored_dataflow
from dashboard.catalog.lifecycle import AT_REST
from dashboard.catalog.models import DataflowRecord, limits_of
from dashboard.catalog.permissions import visible_to
from dashboard.catalog.selectors import current_version
from dashboard.operations.estate_store.estate_loader import stored_estate
from dashboard.operations.estate_store.estate_reader import StoredEstate
from dashboard.operations.latency_control.open_batches import lets_open
from dashboard.operations.models import Use
from dashboard.plans.latency_remarks import choice_remarks, reach_of
from dashboard.plans.price_settings import prices
from dashboard.plans.team_containment import containment_of
from dashboard.teams.models import Team
from dashboard.teams.permissions import Viewer
from scheduler import changing, planning
from scheduler.model.cost_figures import CostFigure
from scheduler.model.dataflow import Dataflow
from scheduler.model.documents import to_document
from scheduler.model.plan import Plan
from scheduler.model.saved_states import SavedStates

NOT_STORED = str(UUID(int=0))  # stands for the id that a submission would get
MOST_NAMED = 6


@dataclass(frozen=True, slots=True)
class SubmissionPreview:
    """The effects of a submission that is not stored. Money is per hour, in the currency of the settings.

    ``users``: by task id of the document, the first dataflows that use its running task (``id``, ``name``, ``team``);
    ``counts``: how many use it; ``reused_ids``: task ids of the document; ``sources``: the dataflows with the most
    reused tasks (``id``, ``name``, ``team``, ``tasks``), with ``more_sources`` beside them; ``whole``: the cost of all
    that executes the dataflow; ``notes``: warnings for the author; ``taken``: the team's dataflow of this name that is
    in use; ``change``: for a new version the numbers of tasks that stay, join others', start and stop; ``demands``:
    those of the teams that would be asked.
    """

    dataflow: Dataflow
    reused: int
    started: int
    reused_ids: Sequence[str]
    users: Mapping[str, Sequence[Mapping[str, str]]]
    counts: Mapping[str, int]
    sources: Sequence[Mapping[str, Any]]
    more_sources: int
    whole: CostFigure
    cores_added: float
    cores_error: float
    money_added: float
    money_error: float
    notes: Sequence[str]
    taken: DataflowRecord | None
    change: Mapping[str, int] | None
    demands: Sequence[Mapping[str, Any]]

    @property
    def tasks(self) -> int:
        """The number of the document's tasks."""
        return len(self.dataflow.tasks)

    @property
    def cores_saved(self) -> float:
        return max(0.0, self.whole.cores - self.cores_added)

    @property
    def money_saved(self) -> float:
        return max(0.0, self.whole.per_hour - self.money_added)


def preview_submission(
    viewer: Viewer, *, team: Team, text: str, format: str | None = None, fresh: bool = False,
    changed: DataflowRecord | None = None, begin_from: SavedStates | None = None,
) -> SubmissionPreview:
    """Plan a document for a team on the estate as it stands; nothing is stored.

    Parameters
    ----------
    viewer : Viewer
        May submit for ``team``: what is reused is shared, or private to that team.
    """
    dataflow = parse_document(text, format=format)
    estate = stored_estate()
    plan = _planned(estate, dataflow, team, fresh=fresh, changed=changed, begin_from=begin_from)
    reused = set(plan.reused)
    tasks = {task_id: running for task_id, running in plan.dataflow.running.items() if running in reused}
    named = _named(viewer, estate, tasks.values())
    sources = _sources(named, plan)
    price = plan.price
    return SubmissionPreview(
        dataflow=dataflow, reused=len(reused), started=len(plan.started), reused_ids=list(tasks), users={
            task_id: [named[key] for key in estate.users_of(running).first if key in named]
            for task_id, running in tasks.items()},
        counts={task_id: estate.users_of(running).count for task_id, running in tasks.items()},
        sources=sources, more_sources=max(plan.touched_count, len(named)) - len(sources), whole=price.whole,
        cores_added=price.cores_delta, cores_error=price.cores_error, money_added=price.money_per_hour_delta,
        money_error=price.cores_error * settings.CORE_HOUR_PRICE, notes=plan.notes,
        taken=None if changed else _record_of_name(team, dataflow), change=_change(plan),
        demands=_demand_answers(viewer, plan, team))


def _demand_answers(viewer: Viewer, plan: Plan, team: Team) -> list[dict[str, Any]]:
    """The teams that would be asked: ``team``, ``needed``, ``role``, ``automatic``, ``why`` and ``approvers``."""
    demands = team_demands(plan, owner=team)
    names = approvers(
        [(team_demand.team, team_demand.demand.role) for team_demand in demands], besides=[viewer.user_id])
    return [
        {"team": team_demand.team.name, "needed": team_demand.demand.approvals, "role": team_demand.demand.role,
         "automatic": team_demand.demand.automatic, "why": team_demand.demand.why,
         "approvers": names[team_demand.team.pk]}
        for team_demand in demands]


def _planned(
    estate: StoredEstate, dataflow: Dataflow, team: Team, *, fresh: bool, changed: DataflowRecord | None,
    begin_from: SavedStates | None,
) -> Plan:
    document, task_types = to_document(dataflow), jobs.task_types()
    limits = limits_of(document, team) if changed is None else changed.limits_after(document)
    opens = lets_open(team)
    priced = prices(limits, dataflow=dataflow, opens=opens)
    ending = () if changed is None else choice_remarks(changed, document)
    remarks = (*ending, *reach_of(dataflow, limits, costs=priced.costs, opens=opens))
    if changed is None:
        return planning.plan_submission(
            estate, dataflow, dataflow_id=NOT_STORED, team=team.slug, task_types=task_types, prices=priced,
            containment=containment_of(team), fresh=fresh, remarks=remarks, begin_from=begin_from)
    former = stored_dataflow(current_version(changed).document, installed=False)
    return changing.plan_change(
        estate, dataflow, former=former, dataflow_id=str(changed.pk), team=changed.team.slug,
        task_types=task_types, prices=priced, fresh=fresh, remarks=remarks, begin_from=begin_from)


def _change(plan: Plan) -> dict[str, int] | None:
    if plan.replaced is None:
        return None
    stays = len({*plan.reused} & {*plan.replaced.running.values()})
    return {
        "stays": stays, "joins": len(plan.reused) - stays, "starts": len(plan.started), "stops": len(plan.stopped)}


def _named(viewer: Viewer, estate: StoredEstate, running: Iterable[str]) -> dict[str, dict[str, str]]:
    ids = {key for task_id in running for key in estate.users_of(task_id).first}
    records = DataflowRecord.objects.filter(visible_to(viewer), pk__in=ids).select_related("team")
    return {
        str(record.pk): {"id": str(record.pk), "name": record.name, "team": record.team.name} for record in records}


def _sources(named: dict[str, dict[str, str]], plan: Plan) -> list[dict[str, Any]]:
    """The dataflows with the most reused tasks."""
    uses = Use.objects.filter(dataflow__in=list(named), running_task__in=plan.reused).order_by()
    counted = uses.values("dataflow").annotate(tasks=Count("id")).order_by("-tasks", "dataflow__name", "dataflow")
    return [{**named[str(row["dataflow"])], "tasks": row["tasks"]} for row in counted[:MOST_NAMED]]


def _record_of_name(team: Team, dataflow: Dataflow) -> DataflowRecord | None:
    return DataflowRecord.objects.filter(team=team, name=dataflow.name).exclude(status__in=AT_REST).first()
