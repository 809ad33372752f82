"""The dynamic tasks of a dataflow: which alternate of each is on and why, what its guards saw, and its policy.

A policy is tried over the time that the page shows, proposed, and proposed again in an earlier version; an alternate is
switched to by hand and held, and released.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from dashboard import jobs
from dashboard.approvals import services
from dashboard.approvals.policy_drafts import PolicyDraft, policy_for
from dashboard.catalog import selectors as catalog
from dashboard.catalog.lifecycle import RUNNING
from dashboard.operations.live_view.chart_marks import marks_of
from dashboard.operations.live_view.dynamic_reader import DynamicTask, HeldKey, dynamic_tasks, with_switches
from dashboard.operations.policies.guard_dry_runs import MOST_HOURS, looked_at, replayed
from dashboard.operations.policies.policy_reader import (
    RunningElement,
    ToldGuard,
    ToldPolicy,
    ToldVersion,
    known_to,
    policy_told,
    running_element,
)
from dashboard.pages import flash
from dashboard.pages.charts import group_marks, mark_rows
from dashboard.pages.dynamic_charts import (
    AlternateSpan,
    alternates_figure,
    chart_names,
    figure_charts,
    spans_on,
    spans_tried,
)
from dashboard.pages.policy_changes import PolicyChange, policy_changes
from dashboard.pages.ranges import ChosenRange, chosen, chosen_or_default
from dashboard.plans.alternate_figures import with_figures
from dashboard.teams.models import Role
from scheduler.guards.element_policies import ElementPolicy
from scheduler.guards.figure_streams import DATAFLOW_FIGURES
from scheduler.guards.guard_dry_run import GuardDryRun
from scheduler.guards.guard_traces import GuardTrace
from scheduler.guards.guard_values import ACTIVATION, VALUE
from scheduler.guards.task_figures import TASK_FIGURES
from scheduler.history.series import DATAFLOW
from scheduler.model.alternates import TaskAlternate, first_on, is_dynamic
from scheduler.model.bounds import KEYS_BY_HAND
from scheduler.model.cost_figures import ESTIMATED
from scheduler.model.errors import WeirError
from scheduler.performance.alternate_costs import AlternateFigures

LONGEST_S = MOST_HOURS * 3600  # of what is played again
SWITCHES_SHOWN = 100
VERSIONS_SHOWN = 20
KINDS = {VALUE: "the most valuable of those that are allowed", ACTIVATION: "the one whose guard is true"}
WITH = "along_"  # fields of the form for other tasks that switch with one begin so
HOLDS = {900: "15 min", 3600: "1 h", 14400: "4 h", 86400: "1 day", 604800: "1 week"}


@dataclass(frozen=True, slots=True)
class AlternateRow:
    """An alternate as a row: by its policy, by its document, and γ, c and s as far as they are known."""

    guard: ToldGuard
    alternate: TaskAlternate
    worth: float | None  # γ, from 0 to 1
    figures: AlternateFigures | None  # None where a type of it is not installed
    form_guard: str
    form_value: str
    keys: int = 0  # for how many keys it works, of a task that is switched by key

    @property
    def cost_us(self) -> float | None:
        """The cost of one event with it, in µs of CPU."""
        return self.figures and 1e6 * self.figures.event_s

    @property
    def is_measured(self) -> bool:
        """True if that was measured, and not declared by the types of its tasks."""
        return self.figures is not None and self.figures.cost.basis != ESTIMATED

    @property
    def function(self) -> str:
        """Its value function; empty where its value is a number."""
        return self.guard.value if isinstance(self.guard.value, str) else ""


@dataclass(frozen=True, slots=True)
class ElementPanel:
    """A dynamic task as its page shows it."""

    task: DynamicTask
    policy: ToldPolicy
    kind: str
    rows: list[AlternateRow]
    charts: list[tuple[str, str, str]]
    charts_address: str
    failure: WeirError | None  # why the policy that is tried, or the one in force, cannot be played
    run: GuardDryRun | None  # the dry run, where one was asked for
    shares: list[tuple[str, float]]  # for how much of the time each alternate would have been on, in percent
    versions: list[tuple[ToldVersion, datetime | None, list[PolicyChange]]]

    @property
    def high(self) -> int:
        """The number of rows for the height of its chart of alternates."""
        return min(max(len(self.rows), 2), 6)

    @property
    def held_until(self) -> datetime | None:
        """The time until which somebody holds the active alternate."""
        return _moment(self.policy.held_until_ms)

    @property
    def held_keys(self) -> list[tuple[HeldKey, datetime | None]]:
        """The keys that people hold, each with the time until when."""
        return [(held_key, _moment(held_key.until_ms)) for held_key in self.task.held_keys]

    @property
    def warm_until(self) -> datetime | None:
        """The time until which the alternate warms up that does."""
        return _moment(self.task.warming_until_ms)

    @property
    def switches(self) -> list[tuple[datetime, Any]]:
        """The switches of the dry run, the newest first."""
        changes = self.run.switches if self.run else ()
        return [
            (datetime.fromtimestamp(change.at_ms / 1000, UTC), change)
            for change in reversed(changes)][:SWITCHES_SHOWN]


@require_safe
def dynamic(request: HttpRequest, dataflow_id: UUID) -> HttpResponse:
    """The page; ``try`` names the task of which the policy in the form is played over the range."""
    record = catalog.dataflow(request.viewer, dataflow_id)
    span = chosen_or_default(request.GET, now_s=int(timezone.now().timestamp()))
    tasks = with_figures(request.viewer, dataflow_id, dynamic_tasks(request.viewer, dataflow_id))
    if any(task.warming or task.by for task in tasks):
        with suppress(jobs.BrokerAway):
            tasks = with_switches(request.viewer, tasks)
    panels = [_panel(request, dataflow_id, task, span) for task in tasks]
    tried = request.GET.get("try", "")
    is_engineer = request.viewer.has_role(record.team_id, Role.ENGINEER)
    return render(request, "dynamic.html", {
        "record": record, "panels": panels, "tried": tried, "kinds": KINDS, "holds": HOLDS,
        "named": [task["id"] for task in catalog.graph_of(record)["tasks"] if is_dynamic(task["type"])],
        "may_switch": is_engineer and record.status == RUNNING, "most_keys": KEYS_BY_HAND.most,
        "known": known_to(record.team.slug),
        "figures": [*((name, figure.doc) for name, figure in TASK_FIGURES.items()),
                    *((f"dataflow.{name}", figure.doc) for name, figure in DATAFLOW_FIGURES.items())],
        "range_query": span.query, "range_fields": parse_qsl(span.query),
    }, status=400 if any(panel.failure and panel.task.task == tried for panel in panels) else 200)


@require_safe
def dynamic_charts(request: HttpRequest, dataflow_id: UUID, task: str) -> JsonResponse:
    """The charts of one dynamic task over a range: its alternates, then what guards saw (``only`` names some)."""
    element = running_element(request.viewer, dataflow_id, task)
    span = chosen(request.GET, now_s=int(timezone.now().timestamp()))
    marks = marks_of(request.viewer, DATAFLOW, str(dataflow_id), begin_s=span.begin_s, end_s=span.end_s + 1)
    draft = _draft(request.GET, element) if request.GET.get("try") == task else None
    policy = policy_for(request.viewer, element, draft) if draft else element.policy
    run, trace = _played(element, policy, span)
    tried = spans_tried(run, first_on(element.alternates).name) if draft else ()
    drawn = {"marks": marks, "begin_s": span.begin_s, "end_s": span.end_s}
    charts = [
        alternates_figure([way.name for way in element.alternates], on=_on(request, dataflow_id, task, span),
                          trace=trace, tried=tried, **drawn),
        *figure_charts(trace, **drawn)]
    only = request.GET.getlist("only")
    return JsonResponse({
        "range": {"name": span.name, "title": span.title, "from_ms": 1000 * span.begin_s, "to_ms": 1000 * span.end_s,
                  "every_s": span.every_s, "step_s": 1, "over": "", "over_empty": False},
        "charts": [chart for chart in charts if not only or chart["name"] in only],
        "marks": mark_rows(group_marks(marks, span.begin_s, span.end_s))}, json_dumps_params={"separators": (",", ":")})


@require_POST
def propose_policy(request: HttpRequest, dataflow_id: UUID, task: str) -> HttpResponse:
    """Propose the policy in the form, or a ``version`` again."""
    catalog.dataflow(request.viewer, dataflow_id)
    version = request.POST.get("version", "")
    try:
        element = running_element(request.viewer, dataflow_id, task)
        proposal = services.propose_policy(
            actor=request.user, dataflow_id=dataflow_id, task=task, reason=request.POST.get("reason", ""),
            version=int(version) if version.isdecimal() and len(version) < 10 else None,
            draft=None if version else _draft(request.POST, element))
    except WeirError as error:
        return _refusal_page(request, dataflow_id, error)
    flash.proposed(request, proposal)
    return redirect("proposal", proposal.pk)


@require_POST
def hold(request: HttpRequest, dataflow_id: UUID, task: str) -> HttpResponse:
    """Propose that an alternate is on and stays so for a time, alone or with those of other tasks; or let the policy
    decide again."""
    catalog.dataflow(request.viewer, dataflow_id)
    key = request.POST.getlist("key")
    try:
        if "release" in request.POST and key:
            services.release_key(actor=request.user, dataflow_id=dataflow_id, task=task, key=key)
            flash.success(request, f"Nobody holds {', '.join(key)} any more.", code="released")
            return redirect("dynamic", dataflow_id)
        if "release" in request.POST:
            services.release_alternate(actor=request.user, dataflow_id=dataflow_id, task=task)
            flash.success(request, f"The policy of {task} decides again.", code="released")
            return redirect("dynamic", dataflow_id)
        chosen_s = request.POST.get("hold_s", "")
        choice = {
            "actor": request.user, "dataflow_id": dataflow_id, "task": task,
            "alternate": request.POST.get("alternate", ""),
            "hold_s": float(chosen_s) if chosen_s.isdecimal() and len(chosen_s) < 10 else None}
        along = {name.removeprefix(WITH): chosen for name, chosen in request.POST.items()
                 if name.startswith(WITH) and chosen}
        proposal = services.switch_key(key=key, **choice) if key else services.switch_alternate(
            at_once="at_once" in request.POST, along=along, **choice)
    except WeirError as error:
        return _refusal_page(request, dataflow_id, error)
    flash.proposed(request, proposal)
    return redirect("proposal", proposal.pk)


def _refusal_page(request: HttpRequest, dataflow_id: UUID, error: WeirError) -> HttpResponse:
    flash.failure(request, error)
    return redirect("dynamic", dataflow_id)


def _panel(request: HttpRequest, dataflow_id: UUID, task: DynamicTask, span: ChosenRange) -> ElementPanel:
    """A policy that is tried and cannot be one gives an error, and the charts are of the one in force."""
    element, policy_now = (read(request.viewer, dataflow_id, task.task) for read in (running_element, policy_told))
    is_tried = request.GET.get("try") == task.task
    draft = _draft(request.GET if is_tried else {}, element)
    failure, run, trace = None, None, None
    try:
        policy = policy_for(request.viewer, element, draft) if is_tried else element.policy
        trace = looked_at(element, policy)
        run = _played(element, policy, span)[0] if is_tried else None
    except WeirError as error:
        failure = error
        with suppress(WeirError):
            trace = looked_at(element, element.policy)
    whole = sum(run.on_ms.values()) if run else 0
    return ElementPanel(
        task, policy_now, draft.kind, _rows(task, policy_now, draft), chart_names(trace) if trace else [],
        _charts_address(request, dataflow_id, task.task, is_tried=is_tried and run is not None), failure,
        run,
        [(name, 100 * ms / whole) for name, ms in run.on_ms.items() if ms] if run and whole else [],
        _versions(policy_now))


def _rows(task: DynamicTask, policy: ToldPolicy, draft: PolicyDraft) -> list[AlternateRow]:
    alternates = {way.name: way for way in task.alternates}
    figures = {figure.name: figure for figure in task.figures}
    keys = task.keys_by_alternate
    numbers = [way.worth for way in policy.guards if isinstance(way.worth, float | int) and way.worth > 0]
    most = max(numbers, default=1)
    return [
        AlternateRow(
            way, alternates[way.name], way.worth / most if isinstance(way.worth, float | int) else None,
            figures.get(way.name), draft.guards[way.name], str(draft.values[way.name]),
            keys.get(way.name, 0))
        for way in policy.guards]


def _versions(policy: ToldPolicy) -> list[tuple[ToldVersion, datetime | None, list[PolicyChange]]]:
    """Each with what it changed of the one before it, the newest first."""
    before = [*policy.versions[1:], None]
    return [
        (version, _moment(version.at_ms), policy_changes(older.policy, version.policy) if older else [])
        for version, older in zip(policy.versions, before, strict=True)][:VERSIONS_SHOWN]


def _charts_address(request: HttpRequest, dataflow_id: UUID, task: str, *, is_tried: bool) -> str:
    address = reverse("dynamic_charts", args=[dataflow_id, task])
    form = [
        (name, value) for name, value in request.GET.items() if name.startswith(("guard_", "value_", "kind", "try"))]
    return f"{address}?{urlencode(form)}" if is_tried else address


def _played(element: RunningElement, policy: ElementPolicy, span: ChosenRange) -> tuple[GuardDryRun, GuardTrace]:
    """A policy over a range; of a longer one over its last week."""
    return replayed(element, policy, begin_s=max(span.begin_s, span.end_s - LONGEST_S), end_s=span.end_s)


def _on(request: HttpRequest, dataflow_id: UUID, task: str, span: ChosenRange) -> list[AlternateSpan]:
    """The spans of alternates that were on; nothing where the broker cannot be asked."""
    try:
        noted = with_switches(
            request.viewer, [element for element in dynamic_tasks(request.viewer, dataflow_id) if element.task == task])
    except jobs.BrokerAway:
        return []
    return [part for element in noted
            for part in spans_on(element.switches, begin_ms=1000 * span.begin_s, end_ms=1000 * span.end_s)]


def _draft(form: Mapping[str, str], element: RunningElement) -> PolicyDraft:
    """The policy of a form; missing fields are those of the policy in force."""
    guarded = element.policy.element(element.task, element.alternates).alternates
    return PolicyDraft(
        {way.name: form.get(f"guard_{way.name}", way.guard) for way in guarded},
        {way.name: _value(form.get(f"value_{way.name}", str(way.value))) for way in guarded},
        form.get("kind", element.policy.kind))


def _value(text: str) -> float | str:
    """A number, or a value function."""
    try:
        return float(text)
    except ValueError:
        return text


def _moment(at_ms: int | None) -> datetime | None:
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC)
