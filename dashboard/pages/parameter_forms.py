"""Forms for the config of a task, from what its type declares: fields to show, and a config from what was filled in."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from scheduler.model.errors import Problem
from scheduler.model.secrets import SECRET
from scheduler.model.task_types import Parameter, TaskType

USUAL = frozenset({  # shown at once beside what is required
    "format", "header", "match", "username", "password", "folder", "key", "columns"})
UNITS = {"_per_s": "per s", "_ms": "ms", "_s": "s"}  # as names of parameters end
MOST_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True)
class ParameterField:
    """A parameter as a form asks for it. ``kind`` is ``text``, ``lines``, ``choice``, ``boolean`` or ``secret``;
    ``value`` is what was filled in, or the default; ``error`` is what is wrong with it."""

    name: str
    doc: str
    kind: str
    value: str = ""
    choices: tuple[str, ...] = ()
    required: bool = False
    hint: str = ""
    error: str = ""

    @property
    def label(self) -> str:
        """Its name as a person reads it."""
        ending = next((ending for ending in UNITS if self.name.endswith(ending)), "")
        words = self.name.removesuffix(ending).replace("_", " ").capitalize()
        return f"{words} ({UNITS[ending]})" if ending else words

    @property
    def is_usual(self) -> bool:
        """True if it is shown at once, and not among the further ones."""
        return self.required or bool(self.error) or self.name in USUAL


def fields_of(
    task_type: TaskType, texts: Mapping[str, str], errors: Mapping[str, str], *, secrets: Sequence[str],
    without: Collection[str] = (),
) -> list[ParameterField]:
    """The fields of a type's parameters, in their order."""
    fields = []
    for parameter in _asked_parameters(task_type, without):
        value = texts.get(parameter.name, _default(parameter))
        fields.append(ParameterField(
            parameter.name, parameter.doc, "lines" if "\n" in value else _kind(parameter), value,
            _choices(parameter, value, secrets), parameter.required, _hint(parameter), errors.get(parameter.name, "")))
    return fields


def config_of(
    task_type: TaskType, texts: Mapping[str, str], *, without: Collection[str] = ()
) -> tuple[dict[str, Any], dict[str, str]]:
    """The config that was filled in, and what is wrong by parameter: only what is missing, for the rest is checked with
    the document. What has its default is left out."""
    config: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for parameter in _asked_parameters(task_type, without):
        text = texts.get(parameter.name, "")
        if not text.strip():
            if parameter.required:
                errors[parameter.name] = "This is needed."
        elif text != _default(parameter):
            config[parameter.name] = _value(parameter, text)
    return config, errors


def texts_of(task_type: TaskType, config: Mapping[str, Any]) -> dict[str, str]:
    """A config as a form of its type shows it, by parameter."""
    return {
        parameter.name: _default(parameter) if config.get(parameter.name) is None
        else _text_of(parameter, config[parameter.name])
        for parameter in task_type.parameters}


def changes_of(
    task_type: TaskType, config: Mapping[str, Any], texts: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The changes that a form makes to a config, None for what takes its default from now on; and what is missing, by
    parameter. What was not touched stays as its author spelled it."""
    shown = texts_of(task_type, config)
    config_given, errors = config_of(task_type, texts)
    return {name: config_given.get(name) for name, text in texts.items() if text != shown[name]}, errors


def filled_in(task_type: TaskType, post: Mapping[str, str], *, without: Collection[str] = ()) -> dict[str, str]:
    """The values of a form that was sent, by parameter."""
    texts = {}
    for parameter in _asked_parameters(task_type, without):
        text = post.get(f"p.{parameter.name}", "")[:MOST_CHARACTERS].replace("\r\n", "\n")
        if parameter.type == "boolean" and not text:
            text = "false"
        texts[parameter.name] = text
    return texts


def errors_at_fields(
    problems: Sequence[Problem], number: int, texts: Mapping[str, str]
) -> tuple[dict[str, str], list[Problem]]:
    """Problems of a document by the parameter that they are about, and those that are about none."""
    errors: dict[str, str] = {}
    others: list[Problem] = []
    for problem in problems:
        name = _parameter_of(problem, number, texts)
        if name is None:
            others.append(problem)
        else:
            errors.setdefault(name, f"{problem.message} {problem.remedy}".strip())
    return errors, others


def _parameter_of(problem: Problem, number: int, texts: Mapping[str, str]) -> str | None:
    """The parameter that a problem stands at; of one that stands at the task, the one whose value it names."""
    here = f"/tasks/{number}"
    if problem.path.startswith(f"{here}/config/"):
        name = problem.path.removeprefix(f"{here}/config/").partition("/")[0]
        return name if name in texts else None
    if problem.path == here or problem.path.startswith(f"{here}/"):
        for name, text in texts.items():
            hosts = [part.partition("://")[2] or part for part in _parts(text)]
            if any(len(host) > 2 and host.partition(":")[0] in problem.message for host in hosts):
                return name
    return None


def _asked_parameters(task_type: TaskType, without: Collection[str]) -> Iterator[Parameter]:
    return (parameter for parameter in task_type.parameters if parameter.name not in without)


def _kind(parameter: Parameter) -> str:
    if parameter.secret:
        return "secret"
    if parameter.type == "boolean":
        return "boolean"
    if parameter.choices:
        return "choice"
    return "lines" if parameter.query or parameter.expression or parameter.type == "object" else "text"


def _choices(parameter: Parameter, value: str, secrets: Sequence[str]) -> tuple[str, ...]:
    """The choices, with the present value, or nothing, where that is none of them."""
    choices = tuple(secrets) if parameter.secret else parameter.choices
    is_among = not choices or value in choices or (not value and (parameter.required or parameter.secret))
    return choices if is_among else (value, *choices)


def _default(parameter: Parameter) -> str:
    if parameter.default is None or parameter.secret:
        return ""
    return _text_of(parameter, parameter.default)


def _text_of(parameter: Parameter, value: Any) -> str:
    """A value as a form shows it: what `_value` makes of the text is the value again, where it is of its type."""
    if parameter.secret and isinstance(value, Mapping):
        return str(value.get(SECRET, ""))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        texts = [str(item) for item in value]
        is_short = all(isinstance(item, str | int | float) and not isinstance(item, bool) for item in value)
        if is_short and texts == _parts(", ".join(texts)) and not ", ".join(texts).startswith("["):
            return ", ".join(texts)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | tuple | Mapping) else str(value)


def _hint(parameter: Parameter) -> str:
    if parameter.type == "list":
        return "Several by commas."
    if parameter.type == "object":
        return "As JSON."
    return f"In {parameter.unit}, or with a unit." if parameter.unit not in (None, "1") else ""


def _value(parameter: Parameter, text: str) -> Any:
    """A parameter's value as it was meant; what is none of its type stays text, and the document's check says so."""
    if parameter.secret:
        return {SECRET: text}
    if parameter.type == "boolean":
        return text == "true"
    if parameter.type == "list":
        with suppress(ValueError, RecursionError):
            if text.lstrip().startswith("["):
                return json.loads(text)
        return [_number(part) if parameter.items in ("number", "integer") else part for part in _parts(text)]
    if parameter.type in ("number", "integer"):
        return _number(text)
    if parameter.type == "object":
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    return text.strip()


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.replace("\n", ",").split(",") if part.strip()]


def _number(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        with suppress(ValueError):
            number = float(text)
            return number if number == number and abs(number) != float("inf") else text
    return text.strip()
