"""The loop's values between their rows and the scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from dashboard.audit.trail import inside_command
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import is_uuid
from dashboard.controllers.merging import gist
from dashboard.controllers.models import ControllerSettings, LoopRow, ReasonRow, RoundRow
from dashboard.profiles.models import ProfileRecord
from dashboard.teams.models import Team
from scheduler.contracts.codec import Codec
from scheduler.controllers.controller_port import Controller
from scheduler.controllers.loop_values import DAY_S, OFF, Decision, IdleReason, LoopState, Policy, Round

DECISIONS = Codec(Decision)
REMEMBERED = timedelta(seconds=2 * DAY_S + 3600)  # ended rounds that limits may depend on
REASONS_KEPT = timedelta(days=14)


def policies_of(controller: Controller) -> dict[str, Policy]:
    """What every team lets a controller do, by short name, and ``""`` for what belongs to all."""
    stored = {
        row.team.slug if row.team else "": row.policy
        for row in ControllerSettings.objects.filter(controller=controller.name).select_related("team")}
    return {slug: stored.get(slug, controller.usual) for slug in ["", *Team.objects.values_list("slug", flat=True)]}


def is_wanted(policies: Mapping[str, Policy]) -> bool:
    """Whether anybody wants to hear of it."""
    return any(policy.mode != OFF for policy in policies.values())


def loop_time() -> datetime:
    """The newest moment that the loop has seen."""
    clock_s = LoopRow.objects.filter(pk=1).values_list("clock_s", flat=True).first() or 0.0
    return datetime.fromtimestamp(clock_s, UTC)


def loop_for_update() -> LoopRow:
    """The loop's row, locked: one step at a time."""
    _require_command()
    LoopRow.objects.get_or_create(pk=1)
    return LoopRow.objects.select_for_update().get(pk=1)


def state_of(loop: LoopRow, *, at: datetime) -> LoopState:
    """Rounds in flight, and those that ended lately."""
    rows = [*RoundRow.objects.filter(ended=None), *RoundRow.objects.filter(ended__gt=at - REMEMBERED)]
    return LoopState(
        tuple(round_of(row) for row in sorted(rows, key=lambda row: row.pk)), loop.next_number, loop.clock_s)


def round_of(row: RoundRow) -> Round:
    """The value that a row stands for."""
    return Round(
        row.key, row.controller, row.mode, DECISIONS.read(row.decision), _s(row.begun), row.phase, _s(row.changed),
        _s(row.back), _s(row.ended), row.why, row.refused)


def store(loop: LoopRow, before: LoopState, after: LoopState) -> tuple[list[RoundRow], list[RoundRow]]:
    """Keep what a step came to; which rounds began, and which came to another phase."""
    _require_command()
    known = {loop_round.key: loop_round for loop_round in before.rounds}
    begun, moved = [], []
    for loop_round in after.rounds:
        old = known.get(loop_round.key)
        if old is None:
            begun.append(_created(loop_round))
        elif old != loop_round:
            row = RoundRow.objects.select_for_update().get(key=loop_round.key)
            _write(row, loop_round)
            row.save(update_fields=["phase", "changed", "back", "ended", "why", "refused"])
            if old.phase != loop_round.phase:
                moved.append(row)
    loop.clock_s, loop.next_number = after.clock_s, after.next_number
    loop.save()
    return begun, moved


def note(controller: str, reasons: Iterable[IdleReason], *, at: datetime) -> None:
    """Keep why things were left as they are; the same as the last time is the same row."""
    _require_command()
    teams = {team.slug: team for team in Team.objects.all()}
    for reason in reasons:
        team, text = teams.get(reason.team), gist(reason.why)
        newest = ReasonRow.objects.filter(
            controller=controller, team=team, target=reason.target).order_by("-until").first()
        if newest is not None and newest.gist == text:
            newest.until, newest.why, newest.times = at, reason.why, newest.times + 1
            newest.save(update_fields=["until", "why", "times"])
        else:
            ReasonRow.objects.create(
                controller=controller, team=team, why=reason.why, gist=text, since=at, until=at,
                **_target(reason.target))
    ReasonRow.objects.filter(until__lt=at - REASONS_KEPT).delete()


def _created(loop_round: Round) -> RoundRow:
    decision = loop_round.decision
    row = RoundRow(
        key=loop_round.key, controller=loop_round.controller, mode=loop_round.mode,
        decision=DECISIONS.document(decision),
        begun=_at(loop_round.begun_s), team=Team.objects.filter(slug=decision.team).first(), **_target(decision.target))
    _write(row, loop_round)
    row.save()
    return row


def _write(row: RoundRow, loop_round: Round) -> None:
    row.phase, row.why, row.refused = loop_round.phase, loop_round.why, loop_round.refused
    row.changed, row.back, row.ended = _at(loop_round.changed_s), _at(loop_round.back_s), _at(loop_round.ended_s)


def _target(target: str) -> dict[str, object]:
    """A target's id, and the dataflow or profile that it is."""
    if not is_uuid(target):
        return {"target": target}
    return {
        "target": target, "dataflow": DataflowRecord.objects.filter(pk=target).first(),
        "profile": ProfileRecord.objects.filter(pk=target).first()}


def _at(moment_s: float | None) -> datetime | None:
    return None if moment_s is None else datetime.fromtimestamp(moment_s, UTC)


def _s(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _require_command() -> None:
    if not inside_command():
        raise RuntimeError("the loop's state is stored inside an audited command only")
