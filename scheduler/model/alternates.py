"""Dynamic tasks: what may be done in several ways, its alternates, of which one at a time is on (thesis [3], 3.2).

In a document such a task lists ``alternates`` in the place of a type and a config. Everywhere else it is a task of the
type `DYNAMIC`, whose config holds them: so whatever knows tasks (fingerprints, plans, queries) knows dynamic ones.
Where they keep state it is of the type `DYNAMIC_FOLD`, whose config also says how one begins, and by what key it is on.
``docs/dynamic.md`` says what they promise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from .canonical import canonical_config, canonical_json
from .columns import ColumnError, Columns
from .dataflow import Task, _frozen
from .task_types import DYNAMIC, DYNAMIC_FOLD, TaskType

ALTERNATES = "alternates"  # the key in a document, and the parameter of the type
BEGIN, BY, LEARNED = "begin", "by", "learned"  # keys beside it, of alternates with state
BOUND = 0.1  # the error, as a share, beyond which a learned guard looks again
FRESH, SHARED = "fresh", "shared"
GUARDS = "guards"  # the same of what kind its guards are


class AlternatesDiffer(ColumnError):
    """Two alternates of a task give different columns."""

    code = "alternates_differ"


@dataclass(frozen=True, slots=True)
class TaskAlternate:
    """One way to do a task.

    ``value`` is what it is worth, above 0: of a canonical config γ, from 0 to 1; or text, a function of figures.
    """

    name: str
    type: str
    config: Mapping[str, Any] = field(default_factory=dict)
    value: float | str = 1.0
    guard: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "config", _frozen(self.config))


def is_dynamic(task_type: str) -> bool:
    """Whether tasks of a type have alternates."""
    return task_type in (DYNAMIC, DYNAMIC_FOLD)


def dynamic_config(stated: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The type and the config of a task for which a document states alternates."""
    more = {key: stated[key] for key in (BEGIN, BY, LEARNED) if stated.get(key) is not None}
    kind = {GUARDS: stated[GUARDS]} if GUARDS in stated else {}
    return DYNAMIC_FOLD if more else DYNAMIC, {ALTERNATES: stated[ALTERNATES], **kind, **more}


def alternates_in(task_type: str, config: Mapping[str, Any]) -> tuple[TaskAlternate, ...]:
    """The alternates of a task of this type and config; none where it is not dynamic."""
    if not is_dynamic(task_type):
        return ()
    return tuple(
        TaskAlternate(
            stated["name"], stated["type"], stated.get("config") or {}, stated.get("value", 1.0),
            stated.get("guard") or "")
        for stated in config[ALTERNATES])


def learned_bound(task_type: str, config: Mapping[str, Any]) -> float | None:
    """The error beyond which a learned guard chooses anew for a key of a task; None where none chooses."""
    learned = config.get(LEARNED) if task_type == DYNAMIC_FOLD else None
    return None if learned is None else float(learned.get("bound") or BOUND)


def guards_kind(config: Mapping[str, Any]) -> str:
    """Of which kind the guards of a dynamic task are: ``value``, or ``activation`` where its document says so."""
    return config.get(GUARDS) or "value"


def first_on(alternates: Sequence[TaskAlternate]) -> TaskAlternate:
    """The alternate that is on until another is chosen: that of the highest value; of several the first by name. Those
    that have value functions come after those that have numbers."""
    return min(alternates, key=lambda alternate: (
        (1, 0.0) if isinstance(alternate.value, str) else (0, -alternate.value), alternate.name))


def on_in(task_type: str, config: Mapping[str, Any], chosen: str | None) -> str:
    """The name of the alternate that is on of a dynamic task: the one chosen, or that of the highest value."""
    alternates = alternates_in(task_type, config)
    return chosen if chosen in {alternate.name for alternate in alternates} else first_on(alternates).name


def done_at_first(task: Task) -> Task:
    """The task as its profile is looked up: itself, or of a dynamic one the alternate that is on at first."""
    alternates = alternates_in(task.type, task.config)
    return replace(task, type=first_on(alternates).type, config=first_on(alternates).config) if alternates else task


def type_at_work(
    task_type: str, config: Mapping[str, Any], task_types: Mapping[str, TaskType], *, on: str = ""
) -> TaskType:
    """The type by which a task's cost and selectivity go: its own, or that of the alternate that is on.

    Parameters
    ----------
    on : str, optional
        The name of that alternate; the one that is on at first where it is not given.
    """
    alternates = alternates_in(task_type, config)
    if not alternates:
        return task_types[task_type]
    named = next((alternate for alternate in alternates if alternate.name == on), first_on(alternates))
    return task_types[named.type] if named.type in task_types else task_types[task_type]


def why_no_alternate(task_type: TaskType, *, begin: str | None = None) -> str:
    """Why tasks of a type cannot be alternates, in words that go on from its name; empty where they can.

    Parameters
    ----------
    begin : str, optional
        How alternates begin, where the document says it.
    """
    if task_type.kind != "transform":
        return f"is a {task_type.kind}: alternates read a stream and give one"
    if not task_type.can_move:
        return "keeps state of Spark's own, which is lost where a batch does without it"
    if task_type.stateful and begin is None:
        return "keeps state, and the task does not say how an alternate begins"
    if not task_type.stateful and begin is not None:
        return "keeps no state, and the task says how an alternate begins"
    if begin == SHARED and task_type.shares_state is None:
        return "does not say that one of its tasks can go on with the state of another"
    if task_type.approved_only:
        return "reaches beyond Weir"
    if task_type.chain == "never":
        return "has a query of its own"
    if any(parameter.of_team or parameter.is_file for parameter in task_type.parameters):
        return "reads what belongs to a team or a node"
    return ""


def why_not_one_state(first: TaskAlternate, other: TaskAlternate, task_type: TaskType) -> str:
    """Why an alternate cannot go on with the state of another of a type that shares it, in words that go on from both
    names; empty where it can."""
    if first.type != other.type:
        return f"are of two types, {first.type} and {other.type}"
    mine, theirs = (canonical_config(task_type, each.config) for each in (first, other))
    shaping = [
        name for name in mine.keys() | theirs.keys() if name not in (task_type.shares_state or ())
        and canonical_json(mine.get(name)) != canonical_json(theirs.get(name))]
    return f"differ in {min(shaping)}, which shapes the state" if shaping else ""


def one_schema(given: Sequence[tuple[str, Columns]]) -> Columns:
    """The columns that all alternates of a task give, each with its name; those of the first, in their order.

    Raises
    ------
    AlternatesDiffer
        One gives a column that another does not, or as another type. ``facts`` name the alternate.
    """
    first, columns = given[0]
    for name, others in given[1:]:
        for who, own, other, theirs in ((name, others, first, columns), (first, columns, name, others)):
            extra = [column for column in own.types if column not in theirs.types]
            for column in theirs.types:
                if column not in own.types and own.complete:
                    near = get_close_matches(column, extra, n=1)
                    raise AlternatesDiffer(
                        f"Alternate {who} gives no column {column}, which {other} gives.",
                        remedy=f"Did you mean {near[0]}? Let both call it the same." if near else
                        "Let all alternates give the same columns.", alternate=name, column=column)
        for column, kind in columns.types.items():
            if kind != others.types.get(column, kind) and None not in (kind, others.types[column]):
                raise AlternatesDiffer(
                    f"The column {column} is {others.types[column]} in alternate {name} and {kind} in {first}.",
                    remedy=f"Give it one type in both: cast it in {name}.", alternate=name, column=column)
    return Columns(columns.types, complete=all(own.complete for _, own in given))
