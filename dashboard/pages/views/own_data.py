"""A way to one's own data in four steps: a source, its columns, what to do first, where it goes; then the editor."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from dashboard import connector_calls, jobs
from dashboard.connector_calls import AS_IS, AVERAGE, COLUMN_TYPES, COMPARISONS, FILTER
from dashboard.explorer import source_looks
from dashboard.pages import flash
from dashboard.pages import own_data_answers as own_data
from dashboard.pages.own_data_answers import OF_EVENTS, STEPS, ColumnAnswer, OwnData
from dashboard.pages.parameter_forms import MOST_CHARACTERS, config_of, fields_of, filled_in
from dashboard.pages.views.streams import shown_look
from dashboard.teams import selectors as teams
from dashboard.teams.models import Role, Team
from dashboard.teams.services import set_secret
from scheduler.model.errors import NotFound, Problem, WeirError
from scheduler.model.task_types import TaskType

TYPES = (*(kind for kind in COLUMN_TYPES if "(" not in kind), "decimal(38,2)")
UNITS = ("ms", "s", "us", "ns")
SEEN = 6  # events above the columns: these are what one has to correct, and are to be in sight
WORKS = {AS_IS: "Nothing: pass events on as they are", FILTER: "Keep some events",
         AVERAGE: "Average a column in windows of time"}
EMPTY_ROWS = 2  # below the columns, to write further ones in
Answered = tuple[OwnData, dict[str, str], list[Problem]]


@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def own_data_step(request: HttpRequest, step: str = "source") -> HttpResponse:
    """A step: its form, and what it sends. Each answer is kept, so that one may go back and forth."""
    if step not in STEPS:
        raise NotFound("There is no such step.", remedy=f"The steps are {', '.join(STEPS)}.")
    answers = own_data.answers_of(request)
    may = teams.teams_to_submit_for(request.viewer)
    team = may.filter(slug=request.GET.get("team") or answers.team).first() or may.first()
    if team is None:
        return render(request, "own_data.html", {"teams": may})
    if request.method == "POST" and request.POST.get("go") == "cancel":
        own_data.forget(request)
        return redirect("dataflow_new")
    if step != "source" and own_data.type_named(answers.type, own_data.sources()) is None:
        return redirect("own_data")
    answers = replace(answers, team=team.slug)
    if step == "source" and request.GET.get("type"):
        answers = _turned_to(answers, request.GET["type"])
    if step == "target" and own_data.type_named(request.GET.get("to", ""), own_data.targets()):
        answers = replace(answers, to=request.GET["to"])
    if request.method == "POST":
        return _save_step(request, step, answers, team)
    return _step_page(request, step, answers, team, {}, [])


def _save_step(request: HttpRequest, step: str, answers: OwnData, team: Team) -> HttpResponse:
    """Keep what a form says, and go on where it is sound."""
    go = request.POST.get("go", "next")
    answers, errors, others = _TAKEN[step](request, answers, team)
    own_data.keep(request, answers)
    names = list(STEPS)
    if go == "back":
        return redirect("own_data_step", names[max(0, names.index(step) - 1)])
    if step == "columns" and go in ("propose", "look", "example"):
        return _take_look(request, answers, team, go)
    if errors or others:
        return _step_page(request, step, answers, team, errors, others, status=422)
    if step == "target":
        return redirect(f"{reverse('dataflow_new')}?own=1")
    if step == "source" and answers.has_fields and not answers.columns and _has_looks(answers):
        return _take_look(request, answers, team, "propose")
    return redirect("own_data_step", names[names.index(step) + 1])


# -- what each step's form says ----------------------------------------------------------------------------------------


def _source_taken(request: HttpRequest, before: OwnData, team: Team) -> Answered:
    source_type = own_data.type_named(request.POST.get("type", before.type), own_data.sources())
    if source_type is None:
        return before, {}, [Problem("no_source", "No kind of source is chosen.", "Choose one.")]
    texts, errors = _form(request, source_type, team, without=OF_EVENTS)
    answers = replace(
        _turned_to(before, source_type.name), source=texts, name=request.POST.get("dataflow", "").strip()[:100])
    if answers.type != before.type or texts != before.source:
        answers = replace(answers, columns=(), time={}, left_out={}, look="", proposes=False)
    errors = config_of(source_type, texts, without=OF_EVENTS)[1] | errors
    if errors:
        return answers, errors, []
    return answers, *own_data.wrong_in(own_data.first_dataflow(answers, columns=False, finished=False), texts)


def _columns_taken(request: HttpRequest, answers: OwnData, team: Team) -> Answered:
    answers = own_data.columns_written(answers, request.POST)
    if answers.has_fields and answers.columns and not any(column.taken for column in answers.columns):
        return answers, {"columns": "No column is chosen. Choose at least one."}, []
    bare = replace(answers, work={})
    return answers, *own_data.wrong_in(own_data.first_dataflow(bare, finished=False), answers.source)


def _work_taken(request: HttpRequest, answers: OwnData, team: Team) -> Answered:
    kind = request.POST.get("work", AS_IS)
    column = request.POST.get("average_column" if kind == AVERAGE else "filter_column", "")
    work = {"kind": kind, "column": column, "comparison": request.POST.get("comparison", ">"),
            "value": request.POST.get("filter_value", ""), "by": request.POST.get("by", ""),
            "size": request.POST.get("size", "").strip() or "1 min"}
    answers = replace(answers, work={name: text[:MOST_CHARACTERS] for name, text in work.items()})
    errors, others = own_data.wrong_in(own_data.first_dataflow(answers, finished=False), {})
    at_size = next((problem for problem in others if problem.path.endswith("/size")), None)
    if at_size is None:
        return answers, errors, others
    return answers, {"size": f"{at_size.message} {at_size.remedy}"}, [
        other_problem for other_problem in others if other_problem != at_size]


def _target_taken(request: HttpRequest, answers: OwnData, team: Team) -> Answered:
    target_type = own_data.type_named(request.POST.get("to", answers.to), own_data.targets())
    if target_type is None:
        return answers, {}, [Problem("no_target", "No target is chosen for the events.", "Choose a target.")]
    texts, errors = _form(request, target_type, team)
    answers = replace(answers, to=target_type.name, target=texts)
    errors = config_of(target_type, texts)[1] | errors
    if errors:
        return answers, errors, []
    return answers, *own_data.wrong_in(own_data.first_dataflow(answers), texts, at_end=True)


_TAKEN: Mapping[str, Callable[[HttpRequest, OwnData, Team], Answered]] = {
    "source": _source_taken, "columns": _columns_taken, "work": _work_taken, "target": _target_taken}


def _form(
    request: HttpRequest, task_type: TaskType, team: Team, *, without: tuple[str, ...] = ()
) -> tuple[dict[str, str], dict[str, str]]:
    """The values of a type's form, once values that were written into it are kept as secrets of the team."""
    texts = filled_in(task_type, request.POST, without=without)
    errors: dict[str, str] = {}
    for parameter in task_type.parameters:
        value = request.POST.get(f"new.{parameter.name}.value", "")
        if not parameter.secret or not value:
            continue
        name = request.POST.get(f"new.{parameter.name}.name", "").strip()
        if name and team.secrets.filter(name=name).exists():
            errors[parameter.name] = f"{team.name} has a secret {name} already. Choose it, or give another name."
            continue
        try:
            set_secret(actor=request.user, team=team, name=name, value=value)
            texts[parameter.name] = name
        except WeirError as error:
            errors[parameter.name] = error.full_message
    return texts, errors


# -- looking -----------------------------------------------------------------------------------------------------------


def _take_look(request: HttpRequest, answers: OwnData, team: Team, go: str) -> HttpResponse:
    """Begin a look for columns, or with those that are chosen; or propose columns from an example."""
    address = redirect("own_data_step", "columns")
    if go == "example":
        first = own_data.first_dataflow(answers, columns=False, finished=False)
        proposal = connector_calls.proposed_columns(
            request.POST.get("example", "")[:MOST_CHARACTERS], {**first.source, **answers.time})
        if not proposal.columns:
            flash.failure(request, NotFound(
                "No event with fields can be read from the example.",
                remedy="Paste one as it would be sent, such as {\"room\": \"7\", \"celsius\": 21.5}."))
        else:
            own_data.keep(request, own_data.with_proposal(answers, proposal))
        return address
    proposes = go == "propose"
    try:
        first = own_data.first_dataflow(replace(answers, work={}), columns=not proposes, finished=False)
        look_id = source_looks.begin_look(
            actor=request.user, team=team, text=own_data.json_of(first), format="json", task_id="source",
            proposes=proposes)
    except WeirError as error:
        flash.failure(request, error)
        look_id = ""
    own_data.keep(request, replace(answers, look=look_id, proposes=proposes and bool(look_id)))
    return address


def _has_looks(answers: OwnData) -> bool:
    return connector_calls.shows_before_it_runs(jobs.task_types()[answers.type])


def _look_events(request: HttpRequest, answers: OwnData) -> tuple[OwnData, dict[str, Any]]:
    """The events of the look, as the page shows them; what it proposes becomes the answers' columns once it is over."""
    if not answers.look:
        return answers, {}
    try:
        source_look = source_looks.look(request.viewer, answers.look)
    except WeirError:  # over for a minute: what it saw is kept nowhere
        return own_data.keep(request, replace(answers, look="", proposes=False)), {}
    if source_look.is_over and answers.proposes:
        proposal = source_look.proposal
        answers = own_data.with_proposal(answers, proposal) if proposal and proposal.columns else replace(
            answers, proposes=False)
        own_data.keep(request, answers)
    return answers, shown_look(source_look)


# -- showing -----------------------------------------------------------------------------------------------------------


def _step_page(
    request: HttpRequest, step: str, answers: OwnData, team: Team, errors: Mapping[str, str],
    others: list[Problem], *, status: int = 200,
) -> HttpResponse:
    context: dict[str, Any] = {
        "step": step, "steps": STEPS, "earlier": list(STEPS)[:list(STEPS).index(step)], "team": team,
        "teams": teams.teams_to_submit_for(request.viewer),
        "errors": errors, "others": others, "may_keep_secrets": request.viewer.has_role(team.pk, Role.ADMIN)}
    if step == "columns":
        answers, context["seen"] = _look_events(request, answers)
        looking = context["seen"].get("is_under_way", False)
        context |= {"rows": [*answers.columns, *[ColumnAnswer("", taken=False)] * EMPTY_ROWS], "types": TYPES,
                    "units": UNITS, "most_seen": f":{SEEN}",
                    "has_looks": _has_looks(answers), "looking": looking,
                    "awaited": looking and answers.proposes and not answers.columns}
    elif step == "work":
        taken = [column for column in answers.columns if column.taken] or [ColumnAnswer("value")]
        context |= {"works": WORKS, "comparisons": COMPARISONS, "columns": taken}
    chosen = _type_of(step, answers)
    if chosen is not None:
        texts, without = (answers.source, OF_EVENTS) if step == "source" else (_target(answers), ())
        fields = fields_of(
            chosen, texts, errors, secrets=[secret.name for secret in teams.secrets(team)], without=without)
        context |= {"chosen": chosen, "fields": fields, "usual": [field for field in fields if field.is_usual],
                    "more": [field for field in fields if not field.is_usual]}
    among = own_data.sources() if step == "source" else own_data.targets()
    kinds = [(kind.name, kind.title or kind.name, kind.doc.partition(". ")[0]) for kind in among]
    source = own_data.type_named(answers.type, own_data.sources())
    kind_words = answers.type if source is None else source.title or source.name
    return render(
        request, "own_data.html", {**context, "answers": answers, "kinds": kinds, "kind_words": kind_words},
        status=status)


def _type_of(step: str, answers: OwnData) -> TaskType | None:
    """The type whose parameters a step asks for."""
    if step == "source":
        return own_data.type_named(answers.type, own_data.sources())
    return own_data.type_named(answers.to, own_data.targets()) if step == "target" else None


def _target(answers: OwnData) -> Mapping[str, str]:
    """The target's form; an output is called as the dataflow is, unless it was said otherwise."""
    if answers.to != "output" or "name" in answers.target:
        return answers.target
    name = re.sub(r"[^a-z0-9]+", "-", answers.name.lower()).strip("-")[:60]
    return {**answers.target, "name": name or "mine"}


def _turned_to(answers: OwnData, source_type: str) -> OwnData:
    """The answers for a kind of source; those of another kind are given up."""
    if answers.type == source_type or own_data.type_named(source_type, own_data.sources()) is None:
        return answers
    return replace(OwnData(), team=answers.team, name=answers.name, type=source_type)

