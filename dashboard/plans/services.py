"""Writing plans: requested, then frozen or failed, then carried over for as long as they stand, then stale."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from django.utils import timezone

from dashboard.audit.trail import audited
from dashboard.catalog.models import DataflowRecord
from dashboard.plans import joining_options
from dashboard.plans.lifecycle import FAILED, LIFECYCLE, READY, STALE
from dashboard.plans.models import PlanRecord
from dashboard.teams.models import User
from scheduler.model.encoding import plan_to_json
from scheduler.model.errors import WeirError
from scheduler.model.plan import Plan
from scheduler.model.plan_kinds import PLAN_KINDS
from scheduler.read_set import Reads


def request_plan(
    *, actor: User | None, dataflow: DataflowRecord, kind: str, options: Mapping[str, Any] | None = None,
    version: int | None = None,
) -> PlanRecord:
    """Ask for a plan of the dataflow's current version, or of another version that is to take its place.

    ``options`` say how a submission joins what runs (`joining_options.options_of`); without them it joins as that
    version was planned to join last.
    """
    if options is None:
        options = joining_options.last_options(dataflow) if PLAN_KINDS[kind].has_document else {}
    if PLAN_KINDS[kind].has_version:
        options = {**options, "former": dataflow.version}
    with audited(actor=actor, verb="plan.request", team=dataflow.team) as audit:
        record = PlanRecord.objects.create(
            dataflow=dataflow, kind=kind, version=version or dataflow.version, options=dict(options))
        audit.subject, audit.details = record, {"kind": kind, "dataflow": str(dataflow.pk), **options}
        return record


def freeze(*, record: PlanRecord, plan: Plan, reads: Reads | None = None) -> PlanRecord:
    """Keep a computed plan, with its digest and generation, and what it was made from where it is to be reviewed."""
    with audited(actor=None, verb="plan.freeze", subject=record, team=record.dataflow.team) as audit:
        _move(record, READY)
        record.generation, record.digest = plan.generation, plan.digest
        record.document, record.has_promise = plan_to_json(plan), plan.promise is not None
        record.reads = "" if reads is None else reads.to_json()
        record.finished = timezone.now()
        record.save()
        audit.details = {"generation": plan.generation, "digest": plan.digest}
        return record


def fail(*, record: PlanRecord, error: WeirError) -> PlanRecord:
    """Keep why no plan could be made."""
    with audited(actor=None, verb="plan.fail", subject=record, team=record.dataflow.team) as audit:
        _move(record, FAILED)
        record.error, record.finished = error.as_dict(), timezone.now()
        record.save()
        audit.details = {"code": error.code}
        return record


def leave_standing(*, plan_ids: Collection[UUID], generation: int) -> int:
    """Note of plans that nothing of a later generation concerns that they stand at it; how many. Their text stays."""
    with audited(actor=None, verb="plan.leave_standing") as audit:
        audit.nothing_changed()  # they are what they were
        return PlanRecord.objects.filter(pk__in=plan_ids, status=READY, generation__lt=generation).update(
            generation=generation)


def carry_over(*, record: PlanRecord, plan: Plan) -> PlanRecord:
    """Keep the same plan, numbered for a later generation, in which all that it was made from is as it was."""
    if plan.digest != record.digest:
        raise ValueError("another plan is no plan carried over")
    with audited(actor=None, verb="plan.carry_over", subject=record, team=record.dataflow.team) as audit:
        audit.details = {"before": record.generation, "generation": plan.generation}
        record.generation, record.document = plan.generation, plan_to_json(plan)
        record.save(update_fields=["generation", "document"])
        return record


def renew(*, record: PlanRecord, plan: Plan, reads: Reads) -> PlanRecord:
    """Keep a plan that does the same as the one that was reviewed, made anew since others share its tasks by now."""
    with audited(actor=None, verb="plan.renew", subject=record, team=record.dataflow.team) as audit:
        audit.details = {
            "before": record.generation, "generation": plan.generation, "digest_before": record.digest,
            "digest": plan.digest}
        record.generation, record.digest = plan.generation, plan.digest
        record.document, record.reads = plan_to_json(plan), reads.to_json()
        record.save(update_fields=["generation", "digest", "document", "reads"])
        return record


def overtake(*, record: PlanRecord, error: WeirError | None = None) -> PlanRecord:
    """Mark a plan that the estate has moved past, with what has changed."""
    with audited(actor=None, verb="plan.overtaken", subject=record, team=record.dataflow.team) as audit:
        _move(record, STALE)
        if error is not None:
            record.error = error.as_dict()
            audit.details = {"why": error.message}
        record.save(update_fields=["status", "error"])
        return record


def _move(record: PlanRecord, to: str) -> None:
    LIFECYCLE.check(record.status, to)
    record.status = to
