"""Answers about the library, the estate, logs, savepoints, bills, teams and the audit trail."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from dashboard.approvals import savepoints_told
from dashboard.catalog import selectors as catalog
from dashboard.jobs import ModelVersion
from dashboard.operations.live_view import live_documents, log_reading
from scheduler.model import task_types

from .common import Answer, HistoryAnswer, answer_of

ParameterAnswer = answer_of(
    task_types.Parameter, name="ParameterAnswer", about="A parameter of a task type.",
    without=("form", "added", "alternate_types"))
TaskTypeRow = answer_of(
    task_types.TaskType, name="TaskTypeRow", about="An installed task type.", without=("build",))
Sample = answer_of(catalog.SampleDocument)


answer_of(live_documents.SpareDriver, name="Spare")
Estate = answer_of(live_documents.LiveEstate, name="Estate")
ReadLog = answer_of(log_reading.ReadLog)
NamedSavepoint = answer_of(savepoints_told.NamedSavepoint)
SavepointsOfDataflow = answer_of(savepoints_told.SavepointsOfDataflow)


class EstateHistory(HistoryAnswer):
    """The estate over time."""

    running_tasks: list[float]
    tasks_without_reuse: list[float]


class AmountsAnswer(Answer):
    """The used amounts, and money as decimals in text, exact to the billionth.

    Of what is paid ``batches_…`` is for batches, whatever was in them, and of that ``latency_…`` for latency limits;
    null where that was not measured. It was for ``latency_known`` of the time, from 0 to 1.
    """

    core_hours: float
    memory_gib_hours: float
    traffic_bytes: int
    disk_gb_hours: float
    pays: str
    alone: str
    saved: str
    batches_core_hours: float | None
    batches_pays: str | None
    latency_core_hours: float | None
    latency_pays: str | None
    latency_known: float


class DataflowBillAnswer(AmountsAnswer):
    """A dataflow's part of a bill; ``latency_limit`` says the limits that hold for it now."""

    id: str
    name: str
    team: str
    latency_limit: str


class TaskBillAnswer(AmountsAnswer):
    """A task's part of a bill; ``users`` is how many needed it on average."""

    task: str
    type: str
    users: float
    shared_with: list[str]


class PeriodAnswer(Answer):
    """The days of a bill, both included, and its currency."""

    first: str = Field(alias="from")
    last: str = Field(alias="to")
    currency: str


class Bills(PeriodAnswer):
    """The use and the bills of the caller's dataflows in a period."""

    total: AmountsAnswer
    dataflows: list[DataflowBillAnswer]


class BillAnswer(PeriodAnswer):
    """One dataflow's bill, task by task; ``latency_limit`` says the limits that hold for it now."""

    id: str
    name: str
    team: str
    latency_limit: str
    total: AmountsAnswer
    tasks: list[TaskBillAnswer]


class Me(Answer):
    """The caller, and the role in each team."""

    username: str
    administrator: bool
    roles: dict[str, str]


class SecretRow(Answer):
    """A secret without its value."""

    name: str
    set_at: str
    set_by: str


class CalendarRow(Answer):
    """Days that policies of a team name, in order."""

    name: str
    days: list[str]


class EventStreamRow(Answer):
    """Events that a team posts: each field with its kind, ``number``, ``text`` or ``truth``."""

    name: str
    figures: dict[str, str]


class PostedEventRow(Answer):
    """An event that was taken in: its number, and when it was, in ms since the epoch."""

    id: int
    stream: str
    at_ms: int


ModelVersionRow = answer_of(
    ModelVersion, name="ModelVersionRow", about="A version of a model that a team keeps.", without=("learned_ms",),
    learned=str)


class Models(Answer):
    """The models of a team, by name and the newest version first; not ``available`` where the broker is away."""

    available: bool
    models: list[ModelVersionRow]


class ContainmentAnswer(Answer):
    """The team's choice of containment: plans may refine wider tasks that run, or not."""

    team: str
    containment: bool


class DefragmentationAnswer(Answer):
    """The team's permission for defragmentation."""

    team: str
    defragmentation: str


class TeamWhenBehind(Answer):
    """The treatment of the team's dataflows that are too slow and choose nothing themselves."""

    team: str
    when_behind: str


class TeamFreshness(Answer):
    """The freshness of the team's dataflows that ask for nothing themselves, in seconds; null: no limit."""

    team: str
    freshness_s: float | None


class AuditRow(Answer):
    """An entry of the audit trail."""

    at: str
    actor: str | None
    verb: str
    subject_type: str
    subject_id: str
    team: str | None
    details: dict[str, Any]


class ApprovalRulesVersion(Answer):
    """One version of a team's rules of approval."""

    version: int
    author: str
    note: str
    created: str
    rules: dict[str, Any]
    state: str
    """``holds`` (the newest of these counts), ``waits`` for a second person, or was ``declined``."""
    second: str | None
    """Who agreed to rules that waited, or declined them."""


class ApprovalRules(Answer):
    """A team's rules of approval: what counts now (``version`` null: the default), and the newest versions.

    ``waiting`` is the version that asks for less, and holds once a second person agrees; null where none waits.
    """

    version: int | None
    waiting: int | None
    rules: dict[str, Any]
    versions: list[ApprovalRulesVersion]
