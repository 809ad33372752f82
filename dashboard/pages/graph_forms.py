"""Edits of a document from its graph: the form that each takes, and what is meant once it is filled in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dashboard import jobs
from dashboard.catalog.document_checks import parse_document
from dashboard.pages.parameter_forms import (
    ParameterField,
    changes_of,
    errors_at_fields,
    fields_of,
    filled_in,
    texts_of,
)
from scheduler.model.canonical import RATE_KEY
from scheduler.model.documents import Format
from scheduler.model.errors import InvalidDataflow, NotFound
from scheduler.model.graph_edits import (
    GraphNotEditable,
    add_task,
    configure_task,
    editable,
    free_id,
    join_stream,
    possible_readers,
    remove_stream,
    remove_task,
    rename_task,
    require_config,
    stated_rate,
    written_task,
    wrong_id,
)
from scheduler.model.positions import UnreadableDocument
from scheduler.model.task_types import TaskType
from scheduler.model.text_changes import LONGEST_EDITED, TextChange, applied, document_value, text_changes

FEW = 6  # fields that are shown without more
KINDS = {"source": "Sources", "transform": "Transforms", "sink": "Sinks"}
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class GraphForm:
    """A form for an edit of a task, as it was filled in so far.

    ``meant`` is the document after it, None while something is missing or wrong: then ``errors`` say what, by field.
    ``types`` are those that a new task may have, by kind; ``readers`` those that may come to read the task, or between
    which and the task a new one may come; ``read_by`` those that read it.
    """

    edit: str
    task: str
    chosen: TaskType | None = None
    given: Mapping[str, str] = field(default_factory=dict)
    fields: tuple[ParameterField, ...] = ()
    stated: frozenset[str] = frozenset()
    types: Mapping[str, list[TaskType]] = field(default_factory=dict)
    readers: tuple[str, ...] = ()
    read_by: tuple[str, ...] = ()
    errors: Mapping[str, str] = field(default_factory=dict)
    meant: Document | None = None
    after: str = ""  # the task to choose then
    notes: str = ""  # what is to be said of it then

    @property
    def usual(self) -> list[ParameterField]:
        """Fields that are shown at once."""
        return [
            field for field in self.fields
            if len(self.fields) <= FEW or field.is_usual or field.name in self.stated]

    @property
    def more(self) -> list[ParameterField]:
        """Fields behind *More settings*."""
        return [field for field in self.fields if field not in self.usual]


def document_of(text: str, format: Format) -> Document:
    """The value of a document whose graph can be edited."""
    if len(text) > LONGEST_EDITED:
        raise GraphNotEditable(
            f"The text has more than {LONGEST_EDITED:,} characters.", remedy="Change longer documents in the text.")
    try:
        return editable(document_value(text, format))
    except UnreadableDocument as unreadable:
        raise GraphNotEditable(
            f"The text cannot be read as {format.upper()}.", remedy="Correct the first problem of the list.",
        ) from unreadable


def graph_form(
    edit: str, document: Document, post: Mapping[str, str], *, secrets: Iterable[str], applies: bool
) -> GraphForm:
    """The form of an edit; with the edit itself if it ``applies`` and nothing is missing."""
    if edit not in _FORMS:
        raise NotFound("There is no such edit.", remedy=f"The edits are {', '.join(_FORMS)}.")
    return _FORMS[edit](document, post, list(secrets), applies)


def changes_to(text: str, format: Format, form: GraphForm) -> tuple[tuple[TextChange, ...], GraphForm]:
    """The changes of the text that an edit comes to; with those errors at its fields that only the document shows."""
    assert form.meant is not None
    changes = text_changes(text, form.meant, format)
    if changes is None:
        raise GraphNotEditable(
            "The text cannot be changed there without the rest: an alias, a tag or a value over several lines stands "
            "in the way.", remedy="Change it in the text.")
    return changes, _checked(form, applied(text, changes), format) if form.chosen else form


def _checked(form: GraphForm, text: str, format: Format) -> GraphForm:
    try:
        parse_document(text, format=format)
    except InvalidDataflow as invalid:
        number = next(at for at, task in enumerate(form.meant["tasks"]) if task["id"] == form.after)
        task_problems = [problem for problem in invalid.problems if problem.path.startswith(f"/tasks/{number}/config/")]
        errors, _ = errors_at_fields(task_problems, number, form.given)
        return _with_errors(form, errors) if errors else form
    return form


def _with_errors(form: GraphForm, errors: Mapping[str, str]) -> GraphForm:
    fields = tuple(replace(field, error=errors.get(field.name, "")) for field in form.fields)
    return replace(form, fields=fields, errors=errors, meant=None)


# -- the edits ---------------------------------------------------------------------------------------------------------


def _configure(document: Document, post: Mapping[str, str], secrets: list[str], applies: bool) -> GraphForm:
    task = written_task(document, post.get("task", ""))
    config = require_config(task)
    chosen = jobs.task_types().get(str(task.get("type")))
    if chosen is None:
        raise GraphNotEditable(
            f"Task {task['id']} has no type that is installed here.", remedy="Correct its type in the text.")
    texts = _texts_in_form(chosen, post) if applies else {
        **texts_of(chosen, config), **({} if (rate := stated_rate(document, task)) is None else {RATE_KEY: str(rate)})}
    values, errors = changes_of(chosen, config, {name: text for name, text in texts.items() if name != RATE_KEY})
    if _has_rate(chosen):
        rate, wrong = _rate(texts.get(RATE_KEY, ""))
        errors |= wrong
        if rate != stated_rate(document, task):
            values[RATE_KEY] = rate
    errors = errors if applies else {}
    return GraphForm(
        "configure", task["id"], chosen, texts, _fields(chosen, texts, errors, secrets),
        frozenset(config), errors=errors, after=task["id"],
        meant=configure_task(document, task["id"], values) if applies and not errors else None)


def _add(document: Document, post: Mapping[str, str], secrets: list[str], applies: bool) -> GraphForm:
    source = post.get("task", "")
    read_by = tuple(_read_by(document, source)) if source else ()
    if source:
        _require_stream(written_task(document, source))
    types = {KINDS[kind]: _types(kind) for kind in (("transform", "sink") if source else ("source",))}
    by_name = {task_type.name: task_type for listed in types.values() for task_type in listed}
    chosen = by_name.get(post.get("type", ""))
    if chosen is None:
        return GraphForm("add", source, types=types, errors={"type": "Choose a type."} if applies else {})
    task_id = post.get("id", "").strip()
    if not task_id:
        task_id = free_id(document, chosen.name)
    usual = read_by[0] if len(read_by) == 1 and not applies else ""
    target = post.get("target", usual) if chosen.kind == "transform" else ""
    texts = _texts_in_form(chosen, post) if applies else texts_of(chosen, {})
    config, errors = changes_of(chosen, {}, {name: text for name, text in texts.items() if name != RATE_KEY})
    rate, wrong = _rate(texts.get(RATE_KEY, ""))
    errors |= wrong
    if reason := wrong_id(document, task_id):
        errors["id"] = reason
    if target and target not in read_by:
        errors["target"] = "No stream leads there any more."
    meant = None
    if applies and not errors:
        task = {"id": task_id, "type": chosen.name} | ({"config": config} if config else {})
        meant = add_task(document, task, source=source or None, target=target or None)
        meant = meant if rate is None else configure_task(meant, task_id, {RATE_KEY: rate})
    errors = errors if applies else {}
    return GraphForm(
        "add", source, chosen, {**texts, "id": task_id, "target": target}, _fields(chosen, texts, errors, secrets),
        types=types, read_by=read_by if chosen.kind == "transform" else (), errors=errors, meant=meant, after=task_id)


def _join(document: Document, post: Mapping[str, str], secrets: list[str], applies: bool) -> GraphForm:
    task = written_task(document, post.get("task", ""))
    _require_stream(task)
    types = jobs.task_types()
    kinds = {task["id"]: _kind(task, types) for task in document["tasks"]}
    readers = tuple(name for name in possible_readers(document, task["id"]) if kinds[name] != "source")
    read_by = tuple(_read_by(document, task["id"]))
    removed, target = post.get("remove", ""), post.get("target", "")
    errors, meant = {}, None
    if applies and removed in read_by:
        meant = remove_stream(document, task["id"], removed)
    elif applies and target in readers:
        meant = join_stream(document, task["id"], target)
    elif applies:
        errors = {"target": "Choose a task."}
    return GraphForm("join", task["id"], readers=readers, read_by=read_by, errors=errors, meant=meant, after=task["id"])


def _rename(document: Document, post: Mapping[str, str], secrets: list[str], applies: bool) -> GraphForm:
    task = written_task(document, post.get("task", ""))
    new = post.get("id", "").strip() if applies else task["id"]
    wrong = wrong_id(document, new) if applies and new != task["id"] else ""
    return GraphForm(
        "rename", task["id"], given={"id": new}, errors={"id": wrong} if wrong else {}, after=new,
        meant=rename_task(document, task["id"], new) if applies and not wrong else None)


def _remove(document: Document, post: Mapping[str, str], secrets: list[str], applies: bool) -> GraphForm:
    task = written_task(document, post.get("task", ""))
    parent = next((stream["from"] for stream in document["streams"] if stream["to"] == task["id"]), "")
    return GraphForm("remove", task["id"], meant=remove_task(document, task["id"]), after=parent,
                     notes=f"{task['id']} is removed. Ctrl+Z brings it back.")


_FORMS: Mapping[str, Callable[[Document, Mapping[str, str], list[str], bool], GraphForm]] = {
    "configure": _configure, "add": _add, "join": _join, "rename": _rename, "remove": _remove}


# -- their parts -------------------------------------------------------------------------------------------------------


def _texts_in_form(chosen: TaskType, post: Mapping[str, str]) -> dict[str, str]:
    texts = filled_in(chosen, post)
    return texts | ({RATE_KEY: post.get(f"p.{RATE_KEY}", "")[:40]} if _has_rate(chosen) else {})


def _fields(
    chosen: TaskType, texts: Mapping[str, str], errors: Mapping[str, str], secrets: list[str]
) -> tuple[ParameterField, ...]:
    fields = fields_of(chosen, texts, errors, secrets=secrets)
    if _has_rate(chosen):
        fields.append(ParameterField(
            RATE_KEY, "Events per second. Left empty, the rate of its type holds.", "text", texts.get(RATE_KEY, ""),
            error=errors.get(RATE_KEY, "")))
    return tuple(fields)


def _has_rate(task_type: TaskType) -> bool:
    """True if the document gives a source of this type its rate."""
    return task_type.kind == "source" and task_type.parameter(RATE_KEY) is None


def _rate(text: str) -> tuple[float | None, dict[str, str]]:
    if not text.strip():
        return None, {}
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        return None, {RATE_KEY: "Write a number above 0, in events per second."}
    return int(rate) if rate.is_integer() else rate, {}


def _require_stream(task: Mapping[str, Any]) -> None:
    """Raise unless a task gives a stream, as far as its type is known."""
    if _kind(task, jobs.task_types()) == "sink":
        raise GraphNotEditable(
            f"Task {task['id']} is a sink: nothing comes after it.", remedy="Choose the task before it.")


def _kind(task: Mapping[str, Any], types: Mapping[str, TaskType]) -> str:
    declared = types.get(str(task.get("type")))
    return declared.kind if declared else ""


def _read_by(document: Document, task_id: str) -> Iterator[str]:
    return (stream["to"] for stream in document["streams"] if stream["from"] == task_id)


def _types(kind: str) -> list[TaskType]:
    return sorted((
        task_type for task_type in jobs.task_types().values() if task_type.kind == kind),
        key=lambda task_type: task_type.name)
