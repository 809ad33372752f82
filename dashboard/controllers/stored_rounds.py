"""The loop's values between their rows and the scheduler."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from django.db.models import Max, Q

from dashboard.audit.trail import inside_command
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import is_uuid
from dashboard.controllers.merging import gist
from dashboard.controllers.models import ControllerSettings, LoopRow, ReasonRow, RoundRow
from dashboard.profiles.models import ProfileRecord
from dashboard.teams.models import Team
from scheduler.contracts.codec import Codec
from scheduler.controllers.controller_port import Controller
from scheduler.controllers.loop_values import (
    BROKEN,
    DAY_S,
    KEPT,
    OPEN_PHASES,
    UNCHECKED,
    Decision,
    IdleReason,
    LoopState,
    Policy,
    Round,
)

DECISIONS = Codec(Decision)
FOLLOWED = OPEN_PHASES | {KEPT, BROKEN, UNCHECKED}  # phases of rounds of which there may still be news
REMEMBERED = timedelta(seconds=2 * DAY_S + 3600)  # ended rounds that limits may depend on
REASONS_KEPT = timedelta(days=14)


def policies_of(controller: Controller) -> dict[str, Policy]:
    """Every team's permission for a controller, by short name, and ``""`` for what belongs to all."""
    return policies_of_all([controller])[controller.name]


def policy_of_team(controller: Controller, team: Team) -> Policy:
    """One team's permission for a controller."""
    return chosen_policies([controller])[controller.name].get(team.slug, controller.usual)


def policies_of_all(controllers: Collection[Controller]) -> dict[str, dict[str, Policy]]:
    """The same of several, by their names."""
    teams, chosen = ["", *Team.objects.values_list("slug", flat=True)], chosen_policies(controllers)
    return {
        controller.name: dict.fromkeys(teams, controller.usual) | chosen[controller.name] for controller in controllers}


def chosen_policies(controllers: Collection[Controller]) -> dict[str, dict[str, Policy]]:
    """The same of those teams alone that have chosen something."""
    chosen: dict[str, dict[str, Policy]] = {controller.name: {} for controller in controllers}
    for row in ControllerSettings.objects.filter(controller__in=list(chosen)).select_related("team"):
        chosen[row.controller][row.team.slug if row.team else ""] = row.policy
    return chosen


def followed_controllers(*, at: datetime) -> frozenset[str]:
    """The names of those that have rounds in flight, or in force, which people may take back."""
    rounds = RoundRow.objects.filter(_remembered(at), phase__in=FOLLOWED)
    return frozenset(rounds.order_by().values_list("controller", flat=True).distinct())


def decided_s() -> dict[str, float]:
    """The last decision of each controller, by its name, in seconds since the epoch."""
    return LoopRow.objects.filter(pk=1).values_list("decided_s", flat=True).first() or {}


def loop_time() -> datetime:
    """The newest moment that the loop has seen."""
    clock_s = LoopRow.objects.filter(pk=1).values_list("clock_s", flat=True).first() or 0.0
    return datetime.fromtimestamp(clock_s, UTC)


def loop_for_update() -> LoopRow:
    """The loop's row, locked: one step at a time."""
    _require_command()
    rows = LoopRow.objects.select_for_update()
    loop = rows.filter(pk=1).first()
    if loop is None:
        LoopRow.objects.get_or_create(pk=1)
        loop = rows.get(pk=1)
    return loop


def state_of(loop: LoopRow, *, at: datetime) -> LoopState:
    """Rounds in flight, and those that ended lately."""
    rows = RoundRow.objects.filter(_remembered(at)).order_by("pk")
    return LoopState(tuple(map(round_of, rows)), loop.next_number, loop.clock_s)


def round_of(row: RoundRow) -> Round:
    """The value that a row stands for."""
    return Round(
        row.key, row.controller, row.mode, DECISIONS.read(row.decision), _s(row.begun), row.phase, _s(row.changed),
        _s(row.back), _s(row.ended), row.why, row.refused)


def store(loop: LoopRow, before: LoopState, after: LoopState) -> tuple[list[RoundRow], list[RoundRow]]:
    """Store the result of a step; the rounds that began, and those that entered another phase."""
    _require_command()
    rounds_before = {loop_round.key: loop_round for loop_round in before.rounds}
    begun, moved = [], []
    for loop_round in after.rounds:
        old = rounds_before.get(loop_round.key)
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


def note(controller: str, reasons: Collection[IdleReason], *, at: datetime) -> None:
    """Keep why things were left as they are; the same as the last time is the same row."""
    _require_command()
    if not reasons:
        return
    teams = {team.slug: team for team in Team.objects.all()}
    newest = _newest_reasons(controller, {reason.target for reason in reasons})
    again, new = [], []
    for reason in reasons:
        team, text = teams.get(reason.team), gist(reason.why)
        row = newest.get((team, reason.target))
        if row is not None and row.gist == text:
            row.until, row.why, row.times = at, reason.why, row.times + 1
            again.append(row)
        else:
            new.append(ReasonRow(
                controller=controller, team=team, target=reason.target, why=reason.why, gist=text, since=at, until=at))
    ReasonRow.objects.bulk_update(again, ["until", "why", "times"])
    subjects = _subjects([row.target for row in new])
    for row in new:
        row.dataflow, row.profile = subjects[row.target]
    ReasonRow.objects.bulk_create(new)


def forget_reasons(at: datetime) -> int:
    """Drop why things were left as they are where that was last so two weeks ago; how many there were."""
    return ReasonRow.objects.filter(until__lt=at - REASONS_KEPT).delete()[0]


def _newest_reasons(controller: str, targets: Collection[str]) -> dict[tuple[Team | None, str], ReasonRow]:
    """The last reason for each target, by the team that it was told."""
    rows = ReasonRow.objects.filter(controller=controller, target__in=targets)
    last = rows.order_by().values("team", "target").annotate(last=Max("until")).values("last")
    return {(row.team, row.target): row for row in rows.filter(until__in=last).select_related("team").order_by("until")}


def _created(loop_round: Round) -> RoundRow:
    decision = loop_round.decision
    dataflow, profile = _subjects([decision.target])[decision.target]
    row = RoundRow(
        key=loop_round.key, controller=loop_round.controller, mode=loop_round.mode,
        decision=DECISIONS.document(decision), begun=_at(loop_round.begun_s),
        team=Team.objects.filter(slug=decision.team).first(), target=decision.target, dataflow=dataflow,
        profile=profile)
    _write(row, loop_round)
    row.save()
    return row


def _write(row: RoundRow, loop_round: Round) -> None:
    row.phase, row.why, row.refused = loop_round.phase, loop_round.why, loop_round.refused
    row.changed, row.back, row.ended = _at(loop_round.changed_s), _at(loop_round.back_s), _at(loop_round.ended_s)


def _subjects(targets: Collection[str]) -> dict[str, tuple[DataflowRecord | None, ProfileRecord | None]]:
    """The dataflow or profile that each target is."""
    ids = [target for target in targets if is_uuid(target)]
    dataflows = {str(key): record for key, record in DataflowRecord.objects.in_bulk(ids).items()}
    profiles = {str(key): record for key, record in ProfileRecord.objects.in_bulk(ids).items()}
    return {target: (dataflows.get(target), profiles.get(target)) for target in targets}


def _remembered(at: datetime) -> Q:
    """Rounds in flight, and those that ended lately."""
    return Q(ended=None) | Q(ended__gt=at - REMEMBERED)


def _at(moment_s: float | None) -> datetime | None:
    return None if moment_s is None else datetime.fromtimestamp(moment_s, UTC)


def _s(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _require_command() -> None:
    if not inside_command():
        raise RuntimeError("the loop's state is stored inside an audited command only")
