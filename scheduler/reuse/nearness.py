"""Nearness: by how much two tasks differ, and whether that is little.

Of two configs of one type that is what the type declares. Dynamic tasks are near where their alternates do the same,
whatever their names, values and guards; and a dynamic task is near another one that does what an alternate of it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.model.alternates import ALTERNATES, alternates_in, type_and_config_of
from scheduler.model.canonical import RATE_KEY, canonical_json, plain
from scheduler.model.fragment import RunningTask
from scheduler.model.task_types import NEAR_RATIO, Parameter, TaskType

FAR = float("inf")
_OF_ALTERNATES = ("name", "value", "guard")  # what says nothing of what an alternate does
_RATE = Parameter(RATE_KEY, "number", "Events per second.", near="ratio", near_ratio=NEAR_RATIO)


@dataclass(frozen=True, slots=True)
class ConfigDifference:
    """One parameter of one submitted task that a running task has otherwise.

    ``distance`` is 0 for equal values and grows to 1 and beyond; what it measures depends on the declaration. Where the
    running task is of another type, ``becomes`` is that, and ``submitted`` and ``running`` are the whole configs.
    ``words`` say what cannot be said by the two values.
    """

    task: str
    parameter: str
    submitted: Any
    running: Any
    distance: float
    unit: str = ""
    becomes: str = ""
    words: str = ""

    @property
    def text(self) -> str:
        """The difference in words: ``window 60 instead of 61``."""
        if self.words:
            return self.words
        unit = f" {self.unit}" if self.unit not in ("", "1") else ""
        return f"{self.parameter} {_value_text(self.running)}{unit} instead of {_value_text(self.submitted)}{unit}"


def differences(
    task_type: TaskType, submitted: Mapping[str, Any], running: Mapping[str, Any], *, task: str = ""
) -> tuple[ConfigDifference, ...] | None:
    """The differences of a running config from a submitted one, both canonical; None where it is not near.

    Every parameter that differs must be near by its own declaration (`Parameter.near`). What no parameter declares must
    be equal, but for a source's rate, which is near by ratio. A secret is never near another.

    Parameters
    ----------
    submitted : mapping of str to Any
        The submitted config, canonical.
    running : mapping of str to Any
        The running one, canonical.
    """
    differences = []
    for name in sorted({*submitted, *running}):
        mine, theirs = submitted.get(name), running.get(name)
        if canonical_json(mine) == canonical_json(theirs):
            continue
        declared = task_type.parameter(name) or (_RATE if name == RATE_KEY else None)
        apart = FAR if declared is None else distance(declared, mine, theirs)
        if apart == FAR:
            return None
        differences.append(ConfigDifference(
            task, name, plain(mine), plain(theirs), apart, (declared.unit or "") if declared else "",
            words=_alternates_in_words(mine, theirs) if declared and declared.alternate_types is not None else ""))
    return tuple(differences)


def difference_of_kind(
    submitted_type: str, submitted: Mapping[str, Any], running: RunningTask, *, task: str = ""
) -> ConfigDifference | None:
    """The difference between a task and a running one where either is an alternate of the other; None where neither is
    so. Of alternates that are equal the first by name is told.

    Parameters
    ----------
    submitted : mapping of str to Any
        The submitted config, canonical.
    """
    theirs, mine = alternates_in(running.type, running.config), alternates_in(submitted_type, submitted)
    if bool(theirs) == bool(mine):
        return None
    kind, config = (submitted_type, submitted) if theirs else (running.type, running.config)
    equal = [way.name for way in theirs or mine if way.type == kind and _stated(way.config) == _stated(config)]
    if not equal:
        return None
    if theirs:
        words = f"alternates {', '.join(way.name for way in theirs)} ({min(equal)} is this task) instead of one way"
    else:
        words = f"alternate {min(equal)} alone instead of {len(mine)} alternates"
    return ConfigDifference(
        task, ALTERNATES, plain(submitted), plain(running.config), 1.0, becomes=running.type, words=words)


def _stated(config: Mapping[str, Any]) -> str:
    """The parts of a canonical config that count: a parameter without a value does not."""
    return canonical_json({name: value for name, value in config.items() if value is not None})


def distance(parameter: Parameter, one: Any, other: Any) -> float:
    """The distance of two different values of a parameter, or `FAR` where they are not near."""
    if parameter.alternate_types is not None:
        return float(len(pairs)) if (pairs := _alternates_that_differ(one, other)) else FAR
    if parameter.secret or parameter.nearness == "never":
        return FAR
    if parameter.nearness == "any":
        return 1.0
    if one is None or other is None:
        return FAR
    apart = _ratio(parameter, one, other)
    return apart if apart <= parameter.near_ratio else FAR


def _ratio(parameter: Parameter, one: Any, other: Any) -> float:
    match parameter.type:
        case "number" | "integer":
            return _relative(one, other)
        case "list" if parameter.is_set:
            mine, theirs = ({canonical_json(element) for element in value} for value in (one, other))
            return 1.0 - len(mine & theirs) / len(mine | theirs)
        case "list" if parameter.items in ("number", "integer") and len(one) == len(other):
            return max(map(_relative, one, other), default=0.0)
        case "object" if parameter.bounds and one.keys() == other.keys():
            return max((_bounds(one[name], other[name]) for name in one), default=0.0)
    return FAR


def _relative(one: Any, other: Any) -> float:
    if not _is_number(one) or not _is_number(other):
        return FAR
    larger = max(abs(one), abs(other))
    return abs(one - other) / larger if larger else 0.0


def _bounds(one: Sequence[Any], other: Sequence[Any]) -> float:
    """The larger shift of a bound, as a part of the longer interval."""
    if not all(len(bounds) == 2 and all(map(_is_number, bounds)) for bounds in (one, other)):
        return FAR
    length = max(one[1] - one[0], other[1] - other[0])
    shift = max(abs(one[0] - other[0]), abs(one[1] - other[1]))
    return 0.0 if shift == 0 else shift / length if length > 0 else FAR


def _alternates_that_differ(
    one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]
) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Alternates that do the same and have another name, value or guard, both canonical; none where some do not do the
    same."""
    def does(alternate: Mapping[str, Any]) -> tuple[str, str]:
        kind, config = type_and_config_of(alternate)
        return kind, _stated(config)

    mine, theirs = (sorted(alternates, key=lambda way: (*does(way), way["name"])) for alternates in (one, other))
    if list(map(does, mine)) != list(map(does, theirs)):
        return []
    return [
        (way, their) for way, their in zip(mine, theirs, strict=True)
        if any(way[key] != their[key] for key in _OF_ALTERNATES)]


def _alternates_in_words(one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> str:
    """``guard latency_ms > 2000 instead of none of alternate few``."""
    return ", ".join(
        f"{key} {_worded(their[key])} instead of {_worded(way[key])} of alternate {way['name']}"
        for way, their in _alternates_that_differ(one, other) for key in _OF_ALTERNATES if way[key] != their[key])


def _worded(value: Any) -> str:
    return _value_text(value) or "none"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _value_text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.12g}"
    return value if isinstance(value, str) else canonical_json(value)
