"""Carrying out what is decided of open batches: queries' modes, asked for or changed, and changed back.

A mode is a wish like any other of the estate's: it is written, and agents bring it into force by a restart from the
checkpoint. What has become of it is told by what is written and by their reports.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import QuerySet

from dashboard import jobs
from dashboard.audit.trail import audited
from dashboard.controllers.models import TAKEN_BACK, TURNED_DOWN, LoopRow, RoundRow
from dashboard.controllers.stored import policies_of, round_of
from dashboard.operations.estate import current_estate
from dashboard.operations.generation import lock_generation
from dashboard.operations.modes import CannotChange, change_modes, in_force, is_still_wanted, refusals_of
from dashboard.teams.models import User
from scheduler.contracts.reports import FAILING, RUNNING, Reports
from scheduler.controllers.opening import OPEN, Opening
from scheduler.controllers.protocol import Progress
from scheduler.controllers.values import (
    ACTS,
    ASKED,
    BEGUN,
    BROKEN,
    ENACTING,
    KEPT,
    ROLLING_BACK,
    UNCHECKED,
    WITHDRAWING,
    Begin,
    Change,
    Command,
    RollBack,
)
from scheduler.model.errors import InvalidTransition
from scheduler.model.estate import Estate

ASKED_FOR = timedelta(minutes=1)  # at the least: what is worth it only now and then is not asked about again and again
FAILS_FOR = timedelta(minutes=1)  # that long a query may fail after it was restarted
SILENT_FOR = timedelta(minutes=2)  # a query that does not run is not waited for any longer
IGNORES_FOR = timedelta(minutes=5)  # nor one that runs on as it was
_ENDED_WELL = frozenset({KEPT, BROKEN, UNCHECKED})


def being_changed() -> QuerySet[RoundRow]:
    """Rounds whose queries are restarting just now."""
    return RoundRow.objects.filter(
        controller=Opening.name, phase__in=(ASKED, BEGUN, ENACTING, ROLLING_BACK)).exclude(carried=None)


@dataclass(frozen=True, slots=True)
class ModeActuator:
    """Changes modes, or asks people whether to; takes them back where it may.

    Attributes
    ----------
    require_calm : callable
        Raises `InvalidTransition` while other queries are being restarted; it is given who asks, if anybody does.
    """

    require_calm: Callable[[User | None], None]

    def progress(self, rows: Sequence[RoundRow]) -> Mapping[str, Progress]:
        """What has become of rounds, by the modes that are written and what agents report."""
        if not rows:
            return {}
        seen = _Seen()
        return {row.key: self._progress(row, seen) for row in rows}

    def _progress(self, row: RoundRow, seen: _Seen) -> Progress:
        if row.answer == TURNED_DOWN:
            return Progress("declined", f"It was turned down{_by(row)}.", refused=True)
        if row.answer == TAKEN_BACK:
            return Progress("rolled_back", f"It was taken back{_by(row)}.")
        if row.phase in _ENDED_WELL:
            return Progress("in_force")
        changes = round_of(row).decision.changes
        if row.carried is None:
            return self._not_begun(row, changes)
        if row.phase == ROLLING_BACK:
            if row.stuck:
                return Progress("stuck", row.stuck)
            back = tuple(change.reverse for change in changes)
            return Progress("rolled_back" if seen.all_written(back) or not seen.known(back) else "rolling_back")
        if seen.all_written(tuple(change.reverse for change in changes)):
            return Progress("rolled_back", seen.why_closed(changes))
        return seen.enacted(changes, since=row.carried)

    @staticmethod
    def _not_begun(row: RoundRow, changes: Sequence[Change]) -> Progress:
        if row.phase == WITHDRAWING:
            return Progress("declined")
        if row.stuck:
            return Progress("overtaken", row.stuck)
        at = _loop_time()
        if row.phase == ASKED and row.asked and at - row.asked > ASKED_FOR and not is_still_wanted(
                wanted_of(changes), at=at):
            return Progress("overtaken", "It would not be chosen any more.")
        return Progress("asked" if row.asked else "absent")

    def busy(self) -> Mapping[str, str]:
        """None: what has another mode already is not offered as evidence."""
        return {}

    def carry_out(self, command: Command) -> None:
        """Change the modes or ask; or change them back. What was given up before it was done needs nothing."""
        with audited(actor=None, verb="controller.carry_out") as audit:
            lock_generation()
            row = RoundRow.objects.select_for_update(of=("self",)).select_related("team").get(key=command.round.key)
            audit.subject, audit.team = row, row.team
            if isinstance(command, Begin):
                done = row.phase == BEGUN and row.carried is None and row.asked is None and self._begin(row)
            else:
                done = isinstance(command, RollBack) and row.phase == ROLLING_BACK and not row.stuck and take_back(row)
            if not done:
                audit.nothing_changed()

    def _begin(self, row: RoundRow) -> bool:
        decision = round_of(row).decision
        policies = policies_of(Opening())
        row.asked_of = [
            team for team in decision.teams if team in policies
            and (row.mode if team == decision.team else policies[team].mode) != ACTS]
        if row.asked_of:
            row.asked = _loop_time()
            row.save(update_fields=["asked", "asked_of"])
            return True
        try:
            self.require_calm(None)
            begin(row)
        except InvalidTransition:
            return False  # the next step commands it again
        except CannotChange as error:
            row.stuck = str(error)
            row.save(update_fields=["stuck"])
            return False
        return True


def begin(row: RoundRow) -> None:
    """Write the modes of a round, whose row is locked; ``CannotChange`` where they cannot be, or are not wanted now."""
    decision, at = round_of(row).decision, _loop_time()
    wanted = wanted_of(decision.changes)
    if not is_still_wanted(wanted, at=at):
        raise CannotChange("It would not be chosen any more.")
    intervals = (part.rpartition("=") for part in decision.arguments.get("trigger_ms", "").split())
    change_modes(
        wanted, trigger_ms={name: int(value) for name, _, value in intervals}, estate=current_estate(), at=at)
    row.carried = at
    row.save(update_fields=["carried"])
    jobs.republish()


def take_back(row: RoundRow) -> bool:
    """Write the modes again that were there before a round, whose row is locked; whether anything was to be done.

    What has gone since is left out. Where a query cannot have its mode again, why is noted.
    """
    estate, back = current_estate(), wanted_of([change.reverse for change in round_of(row).decision.changes])
    now = in_force(back)
    left = {name: opens for name, opens in back.items() if name in estate.fragments and now.get(name) == (not opens)}
    if not left:
        return False
    try:
        change_modes(left, trigger_ms={}, estate=estate, at=_loop_time())
    except CannotChange as error:
        row.stuck = str(error)
        row.save(update_fields=["stuck"])
        return True
    row.carried = _loop_time()
    row.save(update_fields=["carried"])
    jobs.republish()
    return True


def wanted_of(changes: Collection[Change]) -> dict[str, bool]:
    """By query whether its batches are to be open."""
    return {change.subject: change.after == OPEN for change in changes}


class _Seen:
    """What is written of modes, and what is reported of them."""

    def __init__(self) -> None:
        self._reports: Reports = jobs.read_live((), {}).reports
        self._estate: Estate = current_estate()
        self._at = _loop_time()

    def known(self, changes: Sequence[Change]) -> bool:
        """Whether any of their queries is still there."""
        return bool(in_force(change.subject for change in changes))

    def all_written(self, changes: Sequence[Change]) -> bool:
        """Whether all of these that have not gone have their value, and not all have gone."""
        now = in_force(change.subject for change in changes)
        return bool(now) and all(now[name] == opens for name, opens in wanted_of(changes).items() if name in now)

    def why_closed(self, changes: Sequence[Change]) -> str:
        """Why they have their modes of before again, though nothing took them back."""
        refusals = refusals_of(change.subject for change in changes)
        sentences = [f"The batches of {name} cannot stay open: {why}." for name, why in refusals.items() if why]
        return " ".join(sentences) or "Its batches cannot stay open any more."

    def enacted(self, changes: Sequence[Change], *, since: datetime) -> Progress:
        """Whether all queries run in the mode that is wanted; those that do not run are not waited for without end."""
        waited = self._at - since
        late = None
        for name, opens in wanted_of(changes).items():
            fragment = self._estate.fragments.get(name)
            if fragment is None:
                continue
            report = self._reports.query(fragment.slot, fragment.queries[0].id)
            if report is not None and report.state == FAILING and waited > FAILS_FOR:
                return Progress("failing", f"{name} fails since its mode was changed.")
            if report is not None and report.state == RUNNING and report.real_time != opens:
                if waited > IGNORES_FOR:
                    return Progress("failing", f"{name} runs on in the mode that it had.")
                late = name
            elif (report is None or report.state != RUNNING) and waited <= SILENT_FOR:
                late = name
        return Progress("enacting" if late else "in_force")


def _by(row: RoundRow) -> str:
    return f" by {row.answered_by}" if row.answered_by else ""


def _loop_time() -> datetime:
    """The newest moment that the loop has seen."""
    clock_s = LoopRow.objects.filter(pk=1).values_list("clock_s", flat=True).first() or 0.0
    return datetime.fromtimestamp(clock_s, UTC)
