"""Options of how a submission joins what is under way: as it is, or fresh; and from where on it reads."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone

from dashboard.catalog.models import DataflowRecord
from dashboard.plans.models import PlanRecord
from scheduler.model.errors import WeirError
from scheduler.model.plan_kinds import names_where

BEGINNINGS = ("now", "oldest")


class InvalidBeginning(WeirError):
    """The text is no moment from which events can be read."""

    code = "invalid_beginning"


def options_of(
    *, fresh: bool = False, begin: str = "now", schedule: Mapping[str, Any] | None = None, begin_from: str = ""
) -> dict[str, Any]:
    """The choices as a plan keeps them; what is not chosen is left out.

    Parameters
    ----------
    fresh : bool
        Start fresh from the first stateful task on that runs already, instead of joining its state.
    begin : str
        ``now``, ``oldest`` (the oldest event that the channel still holds), or a time: ISO 8601, UTC unless it says
        otherwise.
    schedule : mapping, optional
        The schedule that it is to have (``plans.choices.Choice``); what is scheduled begins now.
    begin_from : str, optional
        The id of the named savepoint from which it begins: then it joins nothing.

    Raises
    ------
    InvalidBeginning
        It is none of these, lies ahead, or goes with none of the others.
    """
    chosen = begin.strip() or "now"
    options: dict[str, Any] = {"fresh": True} if fresh else {}
    if chosen not in BEGINNINGS:
        options["begin"] = str(_time_ms(chosen))
    elif chosen != "now":
        options["begin"] = chosen
    if begin_from and (options or schedule is not None):
        raise InvalidBeginning(
            "A dataflow that begins from a savepoint joins no others and has no schedule.",
            remedy="Leave out the other choices, or the savepoint.")
    if begin_from:
        options["begin_from"] = begin_from
    if schedule is not None and "begin" in options:
        raise InvalidBeginning(
            "A dataflow with a schedule can only begin now.",
            remedy="Begin now, or submit without a schedule.")
    return options if schedule is None else options | {"schedule": dict(schedule)}


def last_options(dataflow: DataflowRecord) -> Mapping[str, Any]:
    """The options by which the dataflow's current version was planned to join last."""
    last = PlanRecord.objects.filter(
        dataflow=dataflow, kind__in=names_where("joins"), version=dataflow.version).first()
    return joined_by(last.options) if last else {}


def joined_by(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a submission among a plan's options: not which version it takes the place of, and how."""
    return {name: value for name, value in options.items() if name not in ("former", "anew")}


def by_schedule(options: Mapping[str, Any], schedule: Mapping[str, Any] | None) -> dict[str, Any]:
    """The same choices with this schedule, or without any; what is scheduled begins now, and from no savepoint."""
    other_options = {name: value for name, value in options.items() if name != "schedule"}
    if schedule is None:
        return other_options
    other_options = {name: value for name, value in other_options.items() if name not in ("begin", "begin_from")}
    return other_options | {"schedule": dict(schedule)}


def begin_in_words(options: Mapping[str, Any]) -> str:
    """The beginning of its reading, for a form: ``now``, ``oldest`` or an ISO 8601 time."""
    begin = options.get("begin", "now")
    if begin in BEGINNINGS:
        return begin
    return datetime.fromtimestamp(int(begin) / 1000, tz=UTC).isoformat(timespec="seconds")


def _time_ms(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidBeginning(
            f"{text[:60]!r} is no time.", remedy="Use now, oldest, or a time such as 2026-01-31T12:00:00+00:00.",
        ) from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if moment > timezone.now():
        raise InvalidBeginning(f"{text} lies ahead.", remedy="Use now, or a time in the past.")
    return max(0, int(moment.timestamp() * 1000))
