"""Reading schedules, as far as the viewer may know of them.

- ``outcome_of(viewer, dataflow_id, proposal_id=…)``: planned, predicted and measured, which promise was missed and
  why; of the schedule in force, or of an earlier one
- ``schedules_of(viewer, dataflow_id)``: those that it has run by; ``runs_by(record)``: the one that it runs by
- slots with their bundles: ``slot_details.slots_grid``
- pairs side by side: ``asking.ask``, with ``comparison.rows_of``
- loads that schedules promised: ``promises.promised_loads``
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from dashboard.approvals.models import Proposal
from dashboard.approvals.permissions import proposal_for
from dashboard.catalog.lifecycle import REMOVED, RUNNING
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import dataflow_for
from dashboard.operations.estate_store.estate_loader import current_estate
from dashboard.schedules.models import KeptOutcome
from dashboard.schedules.outcome_store import ENOUGH, MeasuredOutcome, kept_in, measured_of
from dashboard.schedules.planned_vs_actual import ScheduleFigures, figures_of
from dashboard.schedules.promised_bundles import stands
from dashboard.schedules.promises import PromiseInForce, in_force, made_by, ran_by
from dashboard.schedules.schedule_status import NEVER, ScheduleStatus, status_of
from dashboard.teams.permissions import Viewer
from scheduler.model.errors import NotFound
from scheduler.performance.outcome import Deviation, Miss, blur_of, deviations, lasting_misses, misses
from scheduler.performance.seen import DataflowSeen

__all__ = ["ENOUGH", "ScheduleOutcome", "ScheduleRun", "outcome_of", "runs_by", "schedules_of"]

MOST_LISTED = 20  # of the schedules that a dataflow has run by, the newest


@dataclass(frozen=True)
class ScheduleOutcome:
    """The outcome of one schedule of a dataflow; without ``kept`` it has none.

    ``blur`` is the part of its rate that may be missing by chance, as few events as came.
    """

    record: DataflowRecord
    planned: PromiseInForce | None = None
    status: ScheduleStatus = NEVER
    measured: MeasuredOutcome = field(default_factory=MeasuredOutcome)
    figures: ScheduleFigures = field(default_factory=ScheduleFigures)
    missed: tuple[Miss, ...] = ()
    deviations: tuple[Deviation, ...] = ()
    blur: float = 0.0

    @property
    def judged(self) -> bool:
        """True if there is enough to say something."""
        return self.measured.judged

    @property
    def seen(self) -> DataflowSeen:
        """The typical value of what was measured."""
        return self.measured.seen

    @property
    def of_before(self) -> bool:
        """True if it runs and what was measured is of a time before its last change."""
        return self.status.what == "running" and self.measured.since != self.status.steady_since


@dataclass(frozen=True, slots=True)
class ScheduleRun:
    """A present or former schedule of a dataflow.

    ``missed``: its missed promises by the stored measurements, None if these are too few; ``ends``: the end of the
    measurements. The present schedule has neither: its outcome is still open.
    """

    planned: PromiseInForce
    in_force: bool
    ends: datetime | None = None
    missed: tuple[Miss, ...] | None = None


def outcome_of(viewer: Viewer, dataflow_id: UUID | str, *, proposal_id: UUID | str = "") -> ScheduleOutcome:
    """Planned against actual of a dataflow, over the last minutes in which a schedule was in force.

    Parameters
    ----------
    proposal_id : UUID or str, optional
        Of this schedule; else of the one that the dataflow runs by, or ran by last.
    """
    record = dataflow_for(viewer, dataflow_id)
    if not proposal_id:
        current = in_force([record.pk]).get(str(record.pk))
        if current is None and record.status == REMOVED:
            current = next(iter(ran_by(record.pk, most=1)), None)
        return (
            ScheduleOutcome(record) if current is None
            else _outcome(record, current, proposal_for(viewer, current.proposal_id))
        )
    proposal = proposal_for(viewer, proposal_id)
    current = made_by(proposal) if proposal.dataflow_id == record.pk else None
    if current is None:
        raise NotFound(
            "This proposal has no schedule of this dataflow.", remedy="Leave it out for the schedule in force.")
    return _outcome(record, current, proposal)


def schedules_of(viewer: Viewer, dataflow_id: UUID | str) -> list[ScheduleRun]:
    """The schedules that a dataflow has run by, newest first, with what is kept of them."""
    record = dataflow_for(viewer, dataflow_id)
    runs = ran_by(record.pk, most=MOST_LISTED)
    newest = runs_by(record)
    rows = KeptOutcome.objects.in_bulk([plan.proposal_id for plan in runs], field_name="proposal_id")
    return [_run(plan, rows.get(plan.proposal_id), newest) for plan in runs]


def runs_by(record: DataflowRecord) -> PromiseInForce | None:
    """The schedule that a dataflow runs by as it was promised; None where it has none, or runs otherwise."""
    if record.status != RUNNING:
        return None
    current = in_force([record.pk]).get(str(record.pk))
    return current if current and stands(current_estate(), str(record.pk), current.promise) else None


def _run(plan: PromiseInForce, row: KeptOutcome | None, newest: PromiseInForce | None) -> ScheduleRun:
    is_newest = newest is not None and newest.proposal_id == plan.proposal_id
    if is_newest or row is None or row.readings < ENOUGH:
        return ScheduleRun(plan, is_newest)
    measured = kept_in(row)
    return ScheduleRun(plan, False, measured.ends, misses(plan.promise, measured.seen))


def _outcome(record: DataflowRecord, plan: PromiseInForce, proposal: Proposal) -> ScheduleOutcome:
    status = status_of(proposal, plan.promise)
    measured = measured_of(proposal.pk, since=status.steady_since)
    promise, dataflow_seen = plan.promise, measured.seen
    missed = lasting_misses(promise, dataflow_seen, measured.recent) if measured.judged else ()
    figures = figures_of(promise, dataflow_seen, missed)
    if not measured.judged:
        return ScheduleOutcome(record, plan, status, measured, figures)
    return ScheduleOutcome(
        record, plan, status, measured, figures, missed, deviations(promise, dataflow_seen),
        blur_of(promise, dataflow_seen))
