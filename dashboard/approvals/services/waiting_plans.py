"""The validity of waiting plans: each is compared with the estate after every change of it, and before its enactment.

After a change a job does it, outside of the change's transaction: plans of others cost whoever makes the change
nothing. Before an enactment it is done for the one plan, under the estate's lock: no plan is enacted without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django.db.models import Subquery

from dashboard.approvals.lifecycle import PENDING
from dashboard.approvals.models import Proposal
from dashboard.approvals.services.enacting import overtake
from dashboard.approvals.services.review_requests import ask
from dashboard.audit.trail import audited
from dashboard.operations.estate_store.estate_reader import current_generation
from dashboard.operations.estate_store.generation import lock_generation
from dashboard.operations.models import EstateState
from dashboard.plans import services as plans
from dashboard.plans.carrying_over import PlanCarrier
from dashboard.plans.selectors import plan_of
from scheduler.model.errors import WeirError
from scheduler.model.plan import Plan
from scheduler.read_set import Reads

ATTEMPTS = 3  # while the estate changes; then the job of a later change goes on
READ_AT_ONCE_CHARS = 400_000  # of what plans looked up: some 4,000 keys, as many as one statement may well name
_Outcome = tuple[Plan, Reads | None] | WeirError  # or the reason why it no longer stands


def is_any_behind() -> bool:
    """True if a pending plan is of an older generation than the estate."""
    now = EstateState.objects.filter(pk=1).values("generation")
    return Proposal.objects.filter(status=PENDING, plan__generation__lt=Subquery(now)).exists()


def carry_over_waiting() -> int:
    """Compare every pending plan of an older generation with the estate as it is; how many there were.

    Plans that no change touched are noted as standing, many in one transaction. Each other one is carried over, made
    anew or overtaken, in a short transaction of its own. Nothing is computed under the estate's lock: if the estate
    changes meanwhile, the result is thrown away.
    """
    carried_count = 0
    for _ in range(ATTEMPTS):
        generation = current_generation()
        older = Proposal.objects.filter(status=PENDING, plan__generation__lt=generation).select_related("plan")
        for some in _chunks(older.order_by("created")):
            if not _hold(some, generation):
                break
            carried_count += len(some)
        else:
            break
    return carried_count


def bring_up_to_date(proposal: Proposal, *, generation: int) -> WeirError | None:
    """Carry one pending proposal's plan over to the estate as it is, make it anew, or overtake it.

    The caller holds the estate's lock and the proposal's, inside its own audited command, which it lets commit in any
    case.

    Parameters
    ----------
    proposal : Proposal
        Pending, locked. Afterwards its plan has another digest where it was made anew.

    Returns
    -------
    WeirError
        The reason why the plan no longer stands; None where it is of this generation now.
    """
    try:
        if plan_of(proposal.plan).generation == generation:
            return None
    except WeirError as altered:
        return _settle(proposal, altered)
    return _settle(proposal, _outcome(PlanCarrier(generation, [proposal.plan]), proposal))


def _chunks(proposals: Iterable[Proposal]) -> Iterator[list[Proposal]]:
    """The proposals in pieces whose look-ups one statement can name."""
    chunk: list[Proposal] = []
    chars = 0
    for proposal in proposals:
        chars += len(proposal.plan.reads)
        if chunk and chars > READ_AT_ONCE_CHARS:
            yield chunk
            chunk, chars = [], len(proposal.plan.reads)
        chunk.append(proposal)
    if chunk:
        yield chunk


def _hold(proposals: list[Proposal], generation: int) -> bool:
    """Compare these with the estate; False where it has changed since."""
    carrier = PlanCarrier(generation, [proposal.plan for proposal in proposals])
    touched = [proposal for proposal in proposals if not carrier.leaves_standing(proposal.plan)]
    untouched = {proposal.pk for proposal in proposals} - {proposal.pk for proposal in touched}
    return _leave_standing(untouched, generation) and all(
        _store(proposal, _outcome(carrier, proposal), generation) for proposal in touched)


def _outcome(carrier: PlanCarrier, proposal: Proposal) -> _Outcome:
    try:
        return carrier.carried_over(proposal.plan)
    except WeirError as error:
        return error


def _leave_standing(proposal_ids: Iterable[object], generation: int) -> bool:
    with audited(actor=None, verb="plan.leave_standing") as audit:
        audit.nothing_changed()
        if lock_generation() != generation:
            return False
        waiting = Proposal.objects.filter(pk__in=proposal_ids, status=PENDING).values_list("plan_id", flat=True)
        plans.leave_standing(plan_ids=list(waiting), generation=generation)
        return True


def _store(proposal: Proposal, outcome: _Outcome, generation: int) -> bool:
    """Store the outcome for one proposal; False where the estate has changed since it was computed."""
    with audited(actor=None, verb="plan.settle", subject=proposal) as audit:
        audit.nothing_changed()  # what changes has rows of its own
        if lock_generation() != generation:
            return False
        fresh = Proposal.objects.select_for_update(of=("self",)).select_related("plan", "dataflow__team", "round").get(
            pk=proposal.pk)
        if fresh.status == PENDING and fresh.plan_id == proposal.plan_id and fresh.plan.generation < generation:
            _settle(fresh, outcome)
        return True


def _settle(proposal: Proposal, outcome: _Outcome) -> WeirError | None:
    if isinstance(outcome, WeirError):
        overtake(proposal, error=outcome)
        return outcome
    plan, reads = outcome
    if reads is None:
        plans.carry_over(record=proposal.plan, plan=plan)
    else:
        _renew(proposal, plan, reads)
    return None


def _renew(proposal: Proposal, plan: Plan, reads: Reads) -> None:
    """Keep a plan that does the same; teams that share the same tasks by now are asked, and none twice."""
    with audited(actor=None, verb="proposal.renew", subject=proposal, team=proposal.dataflow.team) as audit:
        audit.details = {"digest_before": proposal.plan.digest, "digest": plan.digest}
        plans.renew(record=proposal.plan, plan=plan, reads=reads)
        ask(audit, proposal, plan)
