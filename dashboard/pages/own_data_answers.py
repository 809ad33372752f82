"""The way to one's own data: the answers so far, kept with the session, and the document that they give.

Answers are kept as they were filled in, so that a reload, a step back or a mistake loses none. Of a secret only its
name is among them, and no event that was seen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from django.http import HttpRequest, QueryDict

from dashboard import connector_calls, jobs
from dashboard.catalog.document_checks import parse_document
from dashboard.connector_calls import FirstDataflow, FirstWork, OwnColumn
from dashboard.pages.parameter_forms import config_of, errors_at_fields
from scheduler.contracts.looks import ColumnProposal
from scheduler.model.documents import dump_document
from scheduler.model.errors import InvalidDataflow, Problem, WeirError
from scheduler.model.task_types import TaskType

KEY = "own_data"
STEPS = {"source": "Source", "columns": "Columns", "work": "What to do first", "target": "Where it goes"}
OF_EVENTS = ("columns", "time_field", "time_unit", "time_zone")  # parameters of a source that the second step asks for
WITHOUT_FIELDS = frozenset({"text", "bytes"})  # formats
MOST_COLUMNS = 250
NAME = "My data"
_KEY_OF_PATH = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, slots=True)
class ColumnAnswer:
    """A column as it was proposed or written, and whether it is taken."""

    name: str
    type: str = "string"
    taken: bool = True
    may_lack: bool = False
    zoneless: bool = False
    path: tuple[str, ...] = ()

    @property
    def within(self) -> str:
        """The path of a value inside of a field of an event."""
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class OwnData:
    """All answers so far. ``source`` and ``target`` are forms as they were filled in, ``time`` the parameters of a
    source's time; ``look`` is the look under way or the last one, from which columns are taken where it ``proposes``.
    """

    team: str = ""
    name: str = NAME
    type: str = ""
    source: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[ColumnAnswer, ...] = ()
    time: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    work: Mapping[str, str] = field(default_factory=dict)
    to: str = "output"
    target: Mapping[str, str] = field(default_factory=dict)
    look: str = ""
    proposes: bool = False

    @property
    def has_fields(self) -> bool:
        """True if its format has fields, so that there are columns to choose."""
        return self.source.get("format") not in WITHOUT_FIELDS


def answers_of(request: HttpRequest) -> OwnData:
    """The answers so far; nothing where the session holds none that can be read."""
    document = request.session.get(KEY)
    try:
        columns = tuple(
            ColumnAnswer(**{**column, "path": tuple(column["path"])}) for column in document.get("columns", ()))
        return OwnData(**{**document, "columns": columns})
    except (AttributeError, KeyError, TypeError):
        return OwnData()


def keep(request: HttpRequest, answers: OwnData) -> OwnData:
    """Keep answers with the session."""
    request.session[KEY] = asdict(answers)
    return answers


def forget(request: HttpRequest) -> None:
    """Forget all answers."""
    request.session.pop(KEY, None)


def sources() -> list[TaskType]:
    """The types of live sources, by name."""
    return [task_type for task_type in _types("source") if task_type.connector is not None]


def targets() -> list[TaskType]:
    """The types of sinks that show events on a page or write them to another system; the page's output first."""
    kinds = ("output", "connector")
    open_ended = [task_type for task_type in _types("sink") if task_type.terminal in kinds]
    return sorted(open_ended, key=lambda task_type: kinds.index(task_type.terminal or ""))


def type_named(name: str, among: list[TaskType]) -> TaskType | None:
    """The type of that name, or None."""
    return next((task_type for task_type in among if task_type.name == name), None)


def with_proposal(answers: OwnData, proposal: ColumnProposal) -> OwnData:
    """The answers with columns as they were proposed. An object of which values are columns is not taken itself."""
    apart = {column.path[0] for column in proposal.columns if column.path}
    columns = tuple(
        ColumnAnswer(column.name, column.type, column.name not in apart or bool(column.path), column.may_lack,
                     column.name in proposal.zoneless, column.path)
        for column in proposal.columns)
    time = {**answers.time, "time_field": proposal.time_field, "time_unit": proposal.time_unit}
    return replace(
        answers, columns=columns, time=time, left_out=dict(proposal.left_out), proposes=False)


def columns_written(answers: OwnData, post: QueryDict) -> OwnData:
    """The answers with columns as a form has them; rows without a name are none."""
    before = {(column.name, column.path): column for column in answers.columns}
    names, types, paths = (post.getlist(part) for part in ("name", "type", "path"))
    taken = set(post.getlist("take"))
    columns = []
    for number, (name, kind, within) in enumerate(zip(names, types, paths, strict=False)):
        if not name.strip() or len(columns) >= MOST_COLUMNS:
            continue
        path = tuple(within.split(".")) if within else ()
        if not all(map(_KEY_OF_PATH.fullmatch, path)):
            continue
        answer_before = before.get((name.strip(), path), ColumnAnswer(name.strip()))
        columns.append(replace(
            answer_before, name=name.strip()[:200], type=kind[:40], taken=str(number) in taken, path=path))
    time = {part: post.get(part, "").strip()[:100] for part in OF_EVENTS[1:]}
    return replace(answers, columns=tuple(columns), time=time)


def first_dataflow(answers: OwnData, *, columns: bool = True, finished: bool = True) -> FirstDataflow:
    """The document that the answers give.

    Parameters
    ----------
    columns : bool, optional
        False before columns are chosen: one stands in their place where the format needs any.
    """
    source_type = jobs.task_types()[answers.type]
    config, _ = config_of(source_type, answers.source, without=OF_EVENTS)
    chosen: tuple[OwnColumn, ...] = ()
    if not columns:
        chosen = (OwnColumn("value"),) if answers.has_fields else ()
    elif answers.has_fields:
        chosen = tuple(OwnColumn(column.name, column.type, column.path) for column in answers.columns if column.taken)
        config |= _time(answers)
    target_type = jobs.task_types()[answers.to if finished else "output"]
    target = config_of(target_type, answers.target)[0] if finished else {"name": "own-data"}
    work = FirstWork(**{**asdict(FirstWork()), **answers.work}) if columns and answers.work else FirstWork()
    return FirstDataflow(
        answers.name.strip() or NAME, answers.type, config, chosen, work, target_type.name, target)


def written(request: HttpRequest) -> dict[str, str]:
    """The document that the answers give, as a start for the editor, and its team; empty without answers.

    A document with problems is given too: the editor shows them.
    """
    answers = answers_of(request)
    if type_named(answers.type, sources()) is None:
        return {}
    first = first_dataflow(answers)
    try:
        document = connector_calls.first_document(first)
        text = dump_document(parse_document(json.dumps(document), format="json"), "yaml")
    except InvalidDataflow:
        return {"text": json.dumps(document, indent=2), "format": "json", "team": answers.team}
    except WeirError:
        return {}
    return {"text": text, "format": "yaml", "team": answers.team}


def json_of(first: FirstDataflow) -> str:
    """The document as JSON, unchecked."""
    return json.dumps(connector_calls.first_document(first))


def wrong_in(first: FirstDataflow, texts: Mapping[str, str], *, at_end: bool = False
             ) -> tuple[dict[str, str], list[Problem]]:
    """The faults of answers: by parameter or answer, and those that concern none.

    Parameters
    ----------
    texts : mapping of str to str
        The form of the source, or of the target where it is ``at_end``.
    """
    try:
        document = connector_calls.first_document(first)
        parse_document(json.dumps(document), format="json")
    except InvalidDataflow as invalid:
        number = len(document["tasks"]) - 1 if at_end else 0
        return errors_at_fields(invalid.problems, number, texts)
    except WeirError as error:
        answer = str(error.facts.get("answer", ""))
        if answer:
            return {answer: f"{error.message} {error.remedy}"}, []
        return {}, [Problem(error.code, error.message, error.remedy)]
    return {}, []


def _time(answers: OwnData) -> dict[str, str]:
    if not answers.time.get("time_field"):
        return {"time_zone": answers.time["time_zone"]} if answers.time.get("time_zone") else {}
    usual = {"time_unit": "ms"}
    return {part: text for part, text in answers.time.items() if text and text != usual.get(part)}


def _types(kind: str) -> list[TaskType]:
    return sorted((
        task_type for task_type in jobs.task_types().values() if task_type.kind == kind),
        key=lambda task_type: task_type.name)
