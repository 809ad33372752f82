"""Carrying out what is measured again: a sweep, suggested or started, and the profile that was in use before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dashboard.audit.trail import audited
from dashboard.controllers.models import RoundRow
from dashboard.profiles import lifecycle as sweeps
from dashboard.profiles.models import ProfileRecord
from dashboard.profiles.services.choosing import use_again
from dashboard.profiles.services.sweeps import give_up_sweep, measure_again
from scheduler.controllers.controller_port import CommandProgress
from scheduler.controllers.loop_values import ACTS, BEGUN, ROLLING_BACK, WITHDRAWING, Begin, Command, RollBack
from scheduler.model.errors import WeirError

_UNDER_WAY = frozenset({sweeps.QUEUED, sweeps.RUNNING, sweeps.PAUSED})


class SweepActuator:
    """Starts sweeps, or suggests them; takes a profile back by using the one before it again."""

    def progress(self, rows: Sequence[RoundRow]) -> Mapping[str, CommandProgress]:
        """The progress of rounds, by their sweeps and which profiles are in use."""
        return {row.key: self._progress(row) for row in rows}

    def _progress(self, row: RoundRow) -> CommandProgress:
        if row.sweep is None:
            if row.phase == WITHDRAWING:
                return CommandProgress("declined")
            return CommandProgress("overtaken", row.stuck) if row.stuck else CommandProgress("absent")
        if row.sweep.status == sweeps.SUGGESTED:
            return CommandProgress("asked")
        if row.sweep.status in _UNDER_WAY:
            return CommandProgress("enacting", row.sweep.reason)
        if row.sweep.status != sweeps.DONE:  # it found no profile: the next try waits
            return CommandProgress("declined", row.sweep.reason or "The sweep was cancelled.", refused=True)
        made, before = row.sweep.profile, row.profile
        if made is None or made.active or before is None:
            return CommandProgress("in_force")
        if before.active:
            return CommandProgress("rolled_back")
        return CommandProgress("stuck", "Another profile is in use by now.")

    def busy(self) -> Mapping[str, str]:
        """None: what is being measured is not offered as evidence."""
        return {}

    def carry_out(self, command: Command) -> None:
        """Start or suggest the sweep; give up; or use the profile before again."""
        with audited(actor=None, verb="controller.carry_out") as audit:
            row = RoundRow.objects.select_for_update(of=("self",)).select_related("profile", "sweep", "team").get(
                key=command.round.key)
            audit.subject, audit.team = row, row.team
            if isinstance(command, Begin):
                done = row.phase == BEGUN and row.sweep is None and self._begin(row)
            elif isinstance(command, RollBack):
                done = row.phase == ROLLING_BACK and self._roll_back(row)
            else:
                done = row.phase == WITHDRAWING and row.sweep is not None and give_up_sweep(row.sweep)
            if not done:
                audit.nothing_changed()

    def _begin(self, row: RoundRow) -> bool:
        try:
            sweep = measure_again(
                actor=None, profile=row.profile, slot=row.decision["arguments"]["slot"], suggested=row.mode != ACTS)
        except WeirError as error:
            row.stuck = error.message
            row.save(update_fields=["stuck"])
            return False
        if RoundRow.objects.filter(sweep=sweep).exists():
            return False
        row.sweep = sweep
        row.save(update_fields=["sweep"])
        return True

    def _roll_back(self, row: RoundRow) -> bool:
        made = row.sweep.profile if row.sweep else None
        if made is None:  # it is still being measured, and something fails
            return row.sweep is not None and give_up_sweep(row.sweep)
        if row.profile is None or not ProfileRecord.objects.filter(pk=made.pk, active=True).exists():
            return False
        use_again(row.profile)
        return True


SWEEP_ACTUATORS: Mapping[str, SweepActuator] = {"remeasuring": SweepActuator()}
