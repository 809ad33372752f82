"""Dynamic tasks: what may be done in several ways, its alternates, of which one at a time is on (thesis [3], 3.2).

In a document such a task lists ``alternates`` in the place of a type and a config. Everywhere else it is a task of the
type `DYNAMIC`, whose config holds them: so whatever knows tasks (fingerprints, plans, queries) knows dynamic ones.
Where they keep state it is of the type `DYNAMIC_FOLD`, whose config also says how one begins, and by what key it is on.
An alternate of several tasks, a path, is of the type `PATH` in the same way: its config holds them (`paths`).
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
from .paths import AT_PORT, OUTPUT, PORT, STREAMS, TASKS, TaskPath, path_in
from .task_types import DYNAMIC, DYNAMIC_FOLD, PATH, SWITCHING, WAVE, TaskType
from .warm_up import WARM, on_of, warming_of, working

ALTERNATES = "alternates"  # the key in a document, and the parameter of the type
BEGIN, BY, LEARNED = "begin", "by", "learned"  # keys beside it, of alternates with state
BOUND = 0.1  # the error, as a share, beyond which a learned guard looks again
FRESH, SHARED = "fresh", "shared"
GUARDS = "guards"  # the same of what kind its guards are
DYNAMIC_KEYS = (ALTERNATES, GUARDS, BEGIN, BY, LEARNED, WARM)  # of a task in a document


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

    @property
    def path(self) -> TaskPath | None:
        """Its tasks and streams, where it has several."""
        return path_in(self.config) if self.type == PATH else None

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks that do it, which have ids within a path only."""
        return (Task("", self.type, self.config),) if (path := self.path) is None else path.tasks

    @property
    def summary(self) -> str:
        """Its parts, in words: its type, or those along its path; of ports their names.

        ``from_port left + from_port right → scale → into_port good``
        """
        path = self.path
        if path is None:
            return self.type
        words = {task.id: f"{task.type} {task.config.get(PORT)}" if task.type in AT_PORT else task.type
                 for task in path.tasks}
        return " → ".join(" + ".join(sorted(words[name] for name in stage)) for stage in path.stages())


def is_dynamic(task_type: str) -> bool:
    """True if tasks of a type have alternates."""
    return task_type in (DYNAMIC, DYNAMIC_FOLD)


def dynamic_config(stated: Mapping[str, Any], *, switching: str | None = None) -> tuple[str, dict[str, Any]]:
    """The type and the config of a task for which a document states alternates, and how its tasks switch."""
    config = {key: stated[key] for key in (ALTERNATES, GUARDS) if key in stated}
    config |= {SWITCHING: WAVE} if switching == WAVE else {}
    config |= {key: stated[key] for key in (BEGIN, BY, LEARNED, WARM) if stated.get(key) is not None}
    return DYNAMIC_FOLD if config.keys() & {BEGIN, LEARNED, WARM} else DYNAMIC, config


def alternates_in(task_type: str, config: Mapping[str, Any]) -> tuple[TaskAlternate, ...]:
    """The alternates of a task of this type and config; none where it is not dynamic."""
    if not is_dynamic(task_type):
        return ()
    return tuple(
        TaskAlternate(stated["name"], *type_and_config_of(stated), stated.get("value", 1.0), stated.get("guard") or "")
        for stated in config[ALTERNATES])


def logic_version(
    task_type: TaskType, config: Mapping[str, Any], task_types: Mapping[str, TaskType]
) -> int | list[Any]:
    """The version of a task's logic: that of its type; of a dynamic one also those of its alternates' types, by name,
    where any is another than the first."""
    versions = sorted({
        (step.type, task_types[step.type].version) for way in alternates_in(task_type.name, config)
        for step in way.tasks if step.type in task_types and task_types[step.type].version != 1})
    return [task_type.version, *map(list, versions)] if versions else task_type.version


def in_waves(task_type: str, config: Mapping[str, Any]) -> bool:
    """True if a task is dynamic and switches in waves, so that an event meets the same choice in all such tasks."""
    return is_dynamic(task_type) and config.get(SWITCHING) == WAVE


def learned_bound(task_type: str, config: Mapping[str, Any]) -> float | None:
    """The error beyond which a learned guard chooses anew for a key of a task; None where none chooses."""
    learned = config.get(LEARNED) if task_type == DYNAMIC_FOLD else None
    return None if learned is None else float(learned.get("bound") or BOUND)


def one_state_by_event(alternates: Sequence[TaskAlternate], task_types: Mapping[str, TaskType]) -> bool:
    """True if alternates that share their state are a task with state each: then any event may have another one."""
    return all(alternate.path is None and task_types[alternate.type].stateful for alternate in alternates)


def guards_kind(config: Mapping[str, Any]) -> str:
    """The kind of a dynamic task's guards: ``value``, or ``activation`` where its document says so."""
    return config.get(GUARDS) or "value"


def type_and_config_of(stated: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The type and the config of an alternate as a document or a config states it; of several tasks those of a path."""
    if TASKS in stated:
        return PATH, {TASKS: stated[TASKS], STREAMS: stated[STREAMS]}
    return stated["type"], stated.get("config") or {}


def first_on(alternates: Sequence[TaskAlternate]) -> TaskAlternate:
    """The alternate that is on until another is chosen: that of the highest value; of several the first by name. Those
    that have value functions come after those that have numbers."""
    return min(alternates, key=lambda alternate: (
        (1, 0.0) if isinstance(alternate.value, str) else (0, -alternate.value), alternate.name))


def on_in(task_type: str, config: Mapping[str, Any], chosen: str | None) -> str:
    """The name of the alternate that is on of a dynamic task: the one chosen, or that of the highest value."""
    return on_of(working_in(task_type, config, chosen))


def working_in(task_type: str, config: Mapping[str, Any], chosen: str | None) -> str:
    """The alternates that work at a dynamic task: the alternate that is on, and the one chosen that warms up
    (`warm_up`)."""
    alternates = alternates_in(task_type, config)
    names = {alternate.name for alternate in alternates}
    on = on_of(chosen or "")
    warming = warming_of(chosen)
    return working(on if on in names else first_on(alternates).name, warming if warming in names else "")


def done_at_first(task: Task, task_types: Mapping[str, TaskType]) -> tuple[tuple[Task, float], ...]:
    """The tasks by whose profiles a task is planned, each with how many events it gets for each that the task gets.

    Itself; or of a dynamic one the alternate that is on at first, or the tasks along its path.
    """
    alternates = alternates_in(task.type, task.config)
    if not alternates:
        return ((task, 1.0),)
    shares = _shares(first_on(alternates), task_types)
    return tuple(
        (replace(task, type=step.type, config=step.config), shares.get(step.id, 1.0))
        for step in first_on(alternates).tasks)


def types_at_work(
    task_type: str, config: Mapping[str, Any], task_types: Mapping[str, TaskType], *, on: str = ""
) -> tuple[tuple[TaskType, float], ...]:
    """The types that a task's cost depends on, each with the number of its events for each event of the task.

    They are the task's own type, the type of the alternate that is on, or the types along its path.

    Parameters
    ----------
    on : str, optional
        The name of the alternate that is on; by default the one that is on at first.
    """
    named = _named(task_type, config, on)
    if named is None or any(step.type not in task_types for step in named.tasks):
        return ((task_types[task_type], 1.0),)
    shares = _shares(named, task_types)
    return tuple((task_types[step.type], shares.get(step.id, 1.0)) for step in named.tasks)


def selectivity_at_work(
    task_type: str, config: Mapping[str, Any], task_types: Mapping[str, TaskType], *, on: str = ""
) -> float:
    """Events that a task gives for each that it gets, as types declare: by the alternate that is on, or is at first."""
    named = _named(task_type, config, on)
    if named is not None and named.type == PATH:
        return _shares(named, task_types)[OUTPUT]
    return task_types[task_type if named is None or named.type not in task_types else named.type].selectivity


def _named(task_type: str, config: Mapping[str, Any], on: str) -> TaskAlternate | None:
    alternates = alternates_in(task_type, config)
    if not alternates:
        return None
    return next((alternate for alternate in alternates if alternate.name == on), first_on(alternates))


def _shares(alternate: TaskAlternate, task_types: Mapping[str, TaskType]) -> dict[str, float]:
    """The parts of events, by id of a path's task, and for its output: events for each that enters. What is not
    installed thins nothing."""
    path = alternate.path
    if path is None:
        return {}
    return path.shares(lambda step: task_types[step.type].selectivity if step.type in task_types else 1.0)


def why_no_alternate(task_type: TaskType, *, begin: str | None = None) -> str:
    """The reason why tasks of a type cannot be alternates, in words that go on from its name; empty where they can.

    Parameters
    ----------
    begin : str, optional
        The beginning of alternates, where the document says it.
    """
    if task_type.kind != "transform":
        return f"is a {task_type.kind}: alternates read a stream and give one"
    if not task_type.can_move:
        return "keeps state of Spark's own, which is lost where a batch does without it"
    if task_type.stateful and begin is None:
        return "keeps state, and the task does not say how an alternate begins"
    if task_type.stateful and begin == SHARED and task_type.shares_state is None:
        return "does not say that one of its tasks can go on with the state of another"
    if task_type.approved_only:
        return "reaches beyond Weir"
    if task_type.chain == "never":
        return "has a query of its own"
    if any(parameter.of_team or parameter.is_file for parameter in task_type.parameters):
        return "reads what belongs to a team or a node"
    return ""


def why_not_one_state(first: TaskAlternate, other: TaskAlternate, task_type: TaskType) -> str:
    """The reason why an alternate cannot go on with the state of another of a type that shares it, in words that go on
    from both names; empty where it can."""
    if first.type != other.type:
        return f"are of two types, {first.type} and {other.type}"
    mine, theirs = (canonical_config(task_type, way.config) for way in (first, other))
    shaping = [
        name for name in mine.keys() | theirs.keys() if name not in (task_type.shares_state or ())
        and canonical_json(mine.get(name)) != canonical_json(theirs.get(name))]
    return f"differ in {min(shaping)}, which shapes the state" if shaping else ""


def one_schema(schemas: Sequence[tuple[str, Columns]]) -> Columns:
    """The columns that all alternates of a task give, each with its name; those of the first, in their order.

    Raises
    ------
    AlternatesDiffer
        One gives a column that another does not, or as another type. ``facts`` name the alternate.
    """
    first, columns = schemas[0]
    for name, others in schemas[1:]:
        for who, schema, other_name, theirs in ((name, others, first, columns), (first, columns, name, others)):
            extra = [column for column in schema.types if column not in theirs.types]
            for column in theirs.types:
                if column not in schema.types and schema.complete:
                    near = get_close_matches(column, extra, n=1)
                    raise AlternatesDiffer(
                        f"Alternate {who} gives no column {column}, which {other_name} gives.",
                        remedy=f"Did you mean {near[0]}? Let both call it the same." if near else
                        "Let all alternates give the same columns.", alternate=name, column=column)
        for column, kind in columns.types.items():
            if kind != others.types.get(column, kind) and None not in (kind, others.types[column]):
                raise AlternatesDiffer(
                    f"The column {column} is {others.types[column]} in alternate {name} and {kind} in {first}.",
                    remedy=f"Give it one type in both: cast it in {name}.", alternate=name, column=column)
    return Columns(columns.types, complete=all(given_columns.complete for _, given_columns in schemas))
