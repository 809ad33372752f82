"""The due events: of plans that were enacted since the last look, through the outbox. Each is stored once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from dashboard.approvals.lifecycle import DONE
from dashboard.approvals.models import Proposal
from dashboard.catalog.models import DataflowRecord
from dashboard.lineage.lineage_events import COMPLETE, RUNNING, START, LineageRun, OwnedTask, Producer, run_event
from dashboard.lineage.models import LineageMark
from dashboard.operations.estate_store.estate_loader import current_estate
from dashboard.outbox.models import LINEAGE, Delivery
from dashboard.outbox.sending import enqueue
from dashboard.plans.selectors import plan_of
from scheduler.model.estate import Estate, Submitted
from scheduler.model.plan import Plan
from scheduler.model.plan_kinds import PLAN_KINDS

OVERLAP = timedelta(minutes=10)  # a transaction may commit later than it says


def is_wanted() -> bool:
    """True if lineage is sent anywhere."""
    return bool(settings.OPENLINEAGE_URL)


def emit_finished() -> int:
    """Enqueue the events of plans that were enacted or taken back since the last look; how many plans there were."""
    if not is_wanted():
        return 0
    mark, _ = LineageMark.objects.get_or_create(pk=1, defaults={"since": timezone.now()})
    finished = Proposal.objects.in_effect().filter(finished_at__gte=mark.since - OVERLAP)
    keys = {_key(pk, dataflow_id): pk for pk, dataflow_id in finished.values_list("pk", "dataflow_id")}
    enqueued = set(Delivery.objects.filter(key__in=list(keys)).values_list("key", flat=True))
    new = finished.filter(pk__in=[pk for key, pk in keys.items() if key not in enqueued])
    count = 0
    for proposal in new.select_related("plan", "rollback_plan", "dataflow__team").order_by("finished_at", "pk"):
        with transaction.atomic():  # all events of a plan, or none
            enqueue(list(_deliveries(proposal)))
            LineageMark.objects.filter(pk=1, since__lt=proposal.finished_at).update(since=proposal.finished_at)
        count += 1
    return count


def _key(proposal_id: object, dataflow_id: object) -> str:
    return f"lineage:{proposal_id}:{dataflow_id}"


def _deliveries(proposal: Proposal) -> Iterator[Delivery]:
    plan, estate = plan_of(proposal.rollback_plan or proposal.plan), current_estate()
    for dataflow_id in (plan.dataflow.id, *plan.touched):
        record = DataflowRecord.objects.select_related("team").filter(pk=dataflow_id).first()
        run_id = None if record is None else _run_of(record, proposal)
        if record is None or run_id is None:
            continue
        is_own = dataflow_id == plan.dataflow.id
        entry = estate.submitted.get(dataflow_id) or (plan.dataflow if is_own else None)
        if entry is None:
            continue
        event = run_event(
            _deployment(record, run_id, entry, estate, plan), _type(proposal, plan) if is_own else RUNNING,
            proposal.finished_at, producer())
        yield Delivery(
            key=_key(proposal.pk, dataflow_id), channel=LINEAGE, payload=event,
            subject=f"{event['eventType']} {event['job']['name']}")


def producer() -> Producer:
    """The producer of the events: this installation."""
    site = settings.SITE_URL
    return Producer(
        uri=site or "urn:weir", namespace=settings.OPENLINEAGE_NAMESPACE,
        facet_schema=f"{site}/static/lineage/WeirTasksRunFacet.json" if site else "urn:weir:WeirTasksRunFacet:1-0-0")


def _type(proposal: Proposal, plan: Plan) -> str:
    """The plan's effect on its dataflow's run; a removal that was taken back goes on with it."""
    if proposal.took_back_a_removal:
        return RUNNING
    return {"added": START, "removed": COMPLETE}.get(PLAN_KINDS[plan.kind].entry, RUNNING)


def _run_of(record: DataflowRecord, proposal: Proposal) -> str | None:
    """The run that a dataflow is in at a proposal's end: the submission that brought it into the estate last."""
    brought = [kind.name for kind in PLAN_KINDS.values() if kind.entry == "added"]
    pk = Proposal.objects.filter(
        dataflow=record, status=DONE, plan__kind__in=brought, finished_at__lte=proposal.finished_at).order_by(
        "-finished_at").values_list("pk", flat=True).first()
    return None if pk is None else str(pk)


def _deployment(record: DataflowRecord, run_id: str, entry: Submitted, estate: Estate, plan: Plan) -> LineageRun:
    stopped = {task.id: task for task in plan.stopped}
    tasks = []
    for name, running in sorted(entry.running.items()):
        task = estate.tasks.get(running) or stopped.get(running)
        owners = _names({*estate.users.get(running, ()), str(record.pk)})
        tasks.append(OwnedTask(name, running, task.type if task else "", owners))
    sources = [
        name for name, running in sorted(entry.running.items())
        if (task := estate.tasks.get(running) or stopped.get(running)) is not None and not task.parents]
    job = f"{record.team.slug}.{record.name}"
    return LineageRun(
        run_id, job, [f"{job}.{name}" for name in sources], [f"{job}.{name}" for name in sorted(entry.sinks)], tasks)


def _names(ids: set[str]) -> list[str]:
    rows = DataflowRecord.objects.filter(pk__in=ids).values_list("team__slug", "name")
    return sorted(f"{team}.{name}" for team, name in rows)
