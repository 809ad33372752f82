"""Inputs of the API, and the form of records in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal

from django.core.paginator import Paginator
from django.db.models import QuerySet
from pydantic import Field

from dashboard.api.answers.common import row_of
from dashboard.api.answers.dataflows import DataflowRow, VersionRow
from dashboard.api.answers.proposals import ProposalRow
from dashboard.api.answers.site import (
    ApprovalRulesVersion,
    AuditRow,
    ModelVersionRow,
    ParameterAnswer,
    SecretRow,
    TaskTypeRow,
)
from dashboard.api.query_parameters import (
    Beginning,
    ControllerName,
    Format,
    PairNames,
    RateOrNone,
    RoutingName,
    ScopeName,
    SecretValue,
    TeamWhenBehindName,
    WhenBehindName,
)
from dashboard.api.request_schema import RequestSchema
from dashboard.approvals.approval_rules import current_rules, versions_of, waiting_rules
from dashboard.approvals.models import Proposal
from dashboard.approvals.policy_drafts import PolicyDraft
from dashboard.audit.models import AuditEntry
from dashboard.bills.exports import amounts_of
from dashboard.bills.periods import Period
from dashboard.bills.price_history import lists_between
from dashboard.bills.selectors import DataflowBill, TaskBill, total
from dashboard.catalog.document_checks import Checked
from dashboard.catalog.models import DataflowRecord, DataflowVersion
from dashboard.jobs import ModelVersion
from dashboard.operations.latency_control.latency_view import limits_in_words
from dashboard.plans.choices import ScheduleChoice
from dashboard.teams.models import Secret, Team
from scheduler.approving import RULES as APPROVAL_RULES
from scheduler.guards.element_policies import ElementPolicy
from scheduler.guards.policy_sources import RULES
from scheduler.model.columns import Columns
from scheduler.model.task_types import TaskType

PER_PAGE = 50


class DocumentIn(RequestSchema):
    """A document as text; ``format`` is ``json`` or ``yaml``, told from the text where it is absent."""

    text: str
    format: Format = None


class ScheduleIn(RequestSchema):
    """The schedule that a dataflow is to run by; without a rate each source has its own."""

    pair: PairNames
    rate_per_s: RateOrNone = None
    routing: RoutingName = "slot_aware"

    def choice(self) -> ScheduleChoice:
        """The choice that this makes; an error where it makes none."""
        return ScheduleChoice.of(pair=self.pair, rate_per_s=self.rate_per_s, routing=self.routing)


class SubmissionIn(DocumentIn):
    """A document, the short name of the team that it belongs to, how it joins what is under way, and by what schedule.

    ``fresh`` starts fresh from the first stateful task that runs already on; ``begin`` is now, oldest or a time;
    ``begin_from`` is the name of the team's savepoint from which it begins.
    """

    team: str
    fresh: bool = False
    begin: Beginning = "now"
    schedule: ScheduleIn | None = None
    begin_from: str = Field("", max_length=80)


class LookIn(DocumentIn):
    """A document, the short name of the team that it would belong to, and the task that is looked at: a live source;
    and whether columns are to be proposed for it, whatever columns it names."""

    team: str
    task: str
    proposes: bool = False


class VersionIn(DocumentIn):
    """A document that is to take the place of the one that runs, and how what is new of it joins what is under way.

    ``begin_from`` is the name of the team's savepoint from which all of it begins.
    """

    fresh: bool = False
    begin: Beginning = "now"
    begin_from: str = Field("", max_length=80)


class ControllerIn(RequestSchema):
    """A team's permission for a controller: off, recommends or acts."""

    choice: ControllerName


class MoveIn(RequestSchema):
    """A query that is to go on in another slot, and those that go along with it: all of them or none."""

    query: str
    slot: str
    along: list[str] = []


class _PolicyTexts(RequestSchema):
    guards: dict[str, str] = {}
    values: dict[str, float | str] = {}
    kind: Literal["", "value", "activation"] = ""


class ElementPolicyIn(_PolicyTexts):
    """A policy: guards and values by alternate, the kind of its guards, the source that decides; or the number of an
    earlier ``version``, alone."""

    source: str = RULES
    version: int | None = None
    reason: str = ""

    def draft(self) -> PolicyDraft:
        """The policy as it is written."""
        return PolicyDraft(self.guards, self.values, self.kind, self.source)


class GuardTrialIn(_PolicyTexts):
    """Over how many hours a policy is tried, a week at most, and what is otherwise in it than in the one in force."""

    hours: int = Field(24, ge=1, le=168)

    def draft_over(self, policy: ElementPolicy) -> PolicyDraft:
        """The policy that is tried."""
        return PolicyDraft({**policy.guards, **self.guards}, {**policy.values, **self.values}, self.kind or policy.kind)


class CalendarIn(RequestSchema):
    """Days, as ISO dates: 2026-12-25."""

    days: list[date] = Field(max_length=1_000)


class EventIn(RequestSchema):
    """An event that policies may name: its fields, and when it was, in ms since the epoch; now, where that is not said.
    """

    values: dict[str, bool | float | str | None] = Field({}, max_length=32)
    at_ms: int | None = Field(None, ge=0, le=2**53)


class CommentIn(RequestSchema):
    """A comment: of the whole proposal, of one of its tasks, or in answer to a comment."""

    text: str
    task: str = ""
    reply_to: int | None = None


class CommentEditIn(RequestSchema):
    """The new text of a comment."""

    text: str


class ResolutionIn(RequestSchema):
    """The new state of a thread."""

    resolved: bool = True


class ApprovalRulesIn(RequestSchema):
    """A team's rules of approval, whole (`docs/approvals.md`), and why they are as they are."""

    rules: dict[str, Any]
    note: str = ""


class WhenBehindIn(RequestSchema):
    """The treatment of a dataflow that is too slow: ``spill``, ``pause`` or ``lose_oldest``; empty for its team's
    choice. What loses the oldest events has other outputs than it would have alone."""

    choice: WhenBehindName


class WriteAgainIn(RequestSchema):
    """The events that a sink is to write again: ``refused`` events, or all that is kept ``since`` a time (empty: all of
    it). ``understood`` says that these may stand there twice then."""

    what: Literal["refused", "since"]
    since: str = ""
    understood: bool = False


class LatencyIn(RequestSchema):
    """Latency limits as a document has them (``docs/dataflow_format.md``): a time, ``none``, a mapping or a list of
    them; null for what the dataflow's document says, or its team."""

    latency: Any


class FreshnessIn(RequestSchema):
    """The freshness of events, in seconds from 0.02 to 3,600; null where nobody waits for them."""

    freshness_s: float | None


class TeamWhenBehindIn(RequestSchema):
    """The treatment of a team's dataflows that are too slow and choose nothing themselves: ``spill`` or ``pause``."""

    choice: TeamWhenBehindName


class JoiningIn(RequestSchema):
    """The way in which a submission joins what is under way."""

    fresh: bool = False
    begin: Beginning = "now"


class ApprovalIn(RequestSchema):
    """The digest of the plan that the reviewer looked at."""

    digest: str
    comment: str = ""


class RejectionIn(RequestSchema):
    """The change that would be needed."""

    comment: str = Field(min_length=1)


class AdoptionIn(RequestSchema):
    """The key of the near miss to adopt."""

    key: str


class SecretIn(RequestSchema):
    """The value to keep."""

    value: SecretValue


class ContainmentIn(RequestSchema):
    """A choice of containment: plans may make tasks from wider ones that run, or not."""

    on: bool


class TokenIn(RequestSchema):
    """The use of the token, its permission at most, and its days (by default: a setting's)."""

    name: str
    scope: ScopeName = "submit"
    days: Annotated[int, Field(ge=1, le=36_500)] | None = None


def page_of(records: QuerySet, number: int, row: Any) -> dict[str, Any]:
    """One page of records: ``items``, ``page``, ``pages``, ``total``."""
    paginator = Paginator(records, PER_PAGE)
    page = paginator.get_page(number)
    return {
        "items": [row(record) for record in page.object_list], "page": page.number, "pages": paginator.num_pages,
        "total": paginator.count}


def task_type_row(task_type: TaskType) -> dict[str, Any]:
    """A task type with its parameters; where its code lives is no client's business."""
    return row_of(TaskTypeRow, task_type, parameters=[
        row_of(ParameterAnswer, parameter) for parameter in task_type.parameters])


def checked_row(checked: Checked) -> dict[str, Any]:
    """The outcome of a check: ``valid``, ``problems``, ``suggestion``, where valid what the dataflow holds, and the
    columns of each task."""
    dataflow = checked.dataflow
    return {
        "valid": dataflow is not None,
        "problems": [asdict(problem) for problem in checked.problems],
        "suggestion": checked.suggestion,
        "dataflow": None if dataflow is None else {
            "name": dataflow.name, "visibility": dataflow.visibility, "tasks": len(dataflow.tasks),
            "streams": len(dataflow.streams)},
        "columns": {
            task_id: {"reads": columns_row(task.inputs), "gives": columns_row(task.outputs)}
            for task_id, task in checked.columns.items()},
    }


def columns_row(columns: Columns) -> dict[str, Any]:
    """Columns in their order, and whether there are no others."""
    return {
        "columns": [{"name": name, "type": kind} for name, kind in columns.types.items()],
        "complete": columns.complete}


def dataflow_row(record: DataflowRecord) -> dict[str, Any]:
    """A dataflow in a list."""
    return row_of(DataflowRow, record, team=record.team.slug, author=record.author.username)


def version_row(record: DataflowRecord, version: DataflowVersion) -> dict[str, Any]:
    """A version in a list."""
    return row_of(
        VersionRow, version, author=version.author.username, current=version.number == record.version)


def proposal_row(record: Proposal) -> dict[str, Any]:
    """A proposal in a list."""
    return row_of(
        ProposalRow, record, dataflow=str(record.dataflow_id), name=record.dataflow.name,
        team=record.dataflow.team.slug, author=record.author_name,
        chosen_by=record.chosen_by.username if record.chosen_by else None,
        **{name: getattr(record.plan, name) for name in ("kind", "digest", "generation", "error", "options")})


def bills_row(rows: Sequence[DataflowBill], period: Period) -> dict[str, Any]:
    """Bills of a period; amounts of money are decimals as text, exact to the billionth."""
    return _of_period(period) | {
        "total": amounts_of(total(row.charge for row in rows)),
        "dataflows": [
            {"id": str(row.dataflow.pk), "name": row.dataflow.name, "team": row.dataflow.team.slug,
             "latency_limit": limits_in_words(row.dataflow), **amounts_of(row.charge)}
            for row in rows],
    }


def bill_row(record: DataflowRecord, rows: Sequence[TaskBill], period: Period) -> dict[str, Any]:
    """A dataflow's bill; ``users`` is how many needed the task, on average over the time that this one did."""
    return _of_period(period) | {
        "id": str(record.pk), "name": record.name, "team": record.team.slug,
        "latency_limit": limits_in_words(record), "total": amounts_of(total(row.charge for row in rows)),
        "tasks": [
            {"task": row.task, "type": row.type, "users": round(row.charge.users, 3),
             "shared_with": [str(other_dataflow.pk) for other_dataflow in row.others], **amounts_of(row.charge)}
            for row in rows],
    }


def _of_period(period: Period) -> dict[str, Any]:
    currency = lists_between(period.since, period.until)[-1][1].currency
    return {"from": str(period.first), "to": str(period.last), "currency": currency}


def approval_rules_row(team: Team) -> dict[str, Any]:
    """A team's rules of approval, and the versions that there were."""
    record, rules = current_rules([team.pk])[team.pk]
    return {
        "version": record.number if record else None, "rules": APPROVAL_RULES.document(rules),
        "waiting": waiting.number if (waiting := waiting_rules(team)) else None,
        "versions": [
            row_of(ApprovalRulesVersion, version, version=version.number, author=version.author.username,
                   rules=version.document, second=version.second.username if version.second else None)
            for version in versions_of(team)]}


def secret_row(secret: Secret) -> dict[str, Any]:
    """A secret without its value."""
    return row_of(SecretRow, secret, set_by=secret.set_by.username)


def models_row(versions: Sequence[ModelVersion] | None) -> dict[str, Any]:
    """The models of a team; None where the broker is away."""
    return {"available": versions is not None, "models": [
        row_of(ModelVersionRow, version, learned=datetime.fromtimestamp(version.learned_ms / 1000, UTC).isoformat())
        for version in versions or ()]}


def audit_row(entry: AuditEntry) -> dict[str, Any]:
    """An audit entry."""
    return row_of(
        AuditRow, entry, actor=entry.actor.username if entry.actor else None,
        team=entry.team.slug if entry.team else None)
