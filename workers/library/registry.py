"""The catalogue of task types: the built-in families and what installed packages add through entry points.

A package adds types under the entry-point group ``weir.task_types``: each entry point names a ``TaskType``, a list of
them, or a callable that returns either. A package that cannot be read is reported by ``plugin_problems`` and left out;
it never takes the catalogue down. Importing this module imports neither Spark nor any package's build functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from scheduler.model.columns import Columns
from scheduler.model.errors import NotFound, WeirError
from scheduler.model.refinement import Refined
from scheduler.model.task_types import TaskType, TaskTypes

from . import code
from .config import InvalidConfig, settings

GROUP = "weir.task_types"
FAMILIES = (
    "generators", "taxis", "stories", "replay", "parse", "markup", "format", "filter", "statistics", "rollups",
    "predict", "train", "compute", "download", "tables", "archive", "sql_task", "operators", "joins", "alignment",
    "splits", "port_tasks", "lookups", "python_task", "sinks", "http", "live",
    "live_files", "live_sinks", "spark_sources", "smart_meters")


@dataclass(frozen=True, slots=True)
class PluginProblem:
    """A package's entry point that could not be used, and why."""

    entry_point: str
    package: str
    message: str


def task_types() -> TaskTypes:
    """Every known task type: built-in first, then those of packages. Read once a process."""
    return _catalogue()[0]


def built_in() -> tuple[TaskType, ...]:
    """The library's own task types, family by family."""
    return tuple(
        task_type for family in FAMILIES for task_type in import_module(f"workers.library.{family}").TASK_TYPES)


def plugin_problems() -> tuple[PluginProblem, ...]:
    """The entry points that were left out, in the order in which they were met."""
    return _catalogue()[1]


def refresh() -> None:
    """Forget the catalogue and its code; the next call reads the installed packages again."""
    _catalogue.cache_clear()
    code.forget()


def resolve(task_type: TaskType) -> Callable[..., Any]:
    """The function ``(inputs, config) -> DataFrame`` that builds a task of this type.

    Raises
    ------
    NotFound
        The module or the function is not there.
    """
    function = companion(task_type, "")
    if function is None:
        raise NotFound(
            f"The task type {task_type.name} names {task_type.build}, which is not there.",
            remedy="Install the package that brings this task type on every node.", build=task_type.build,
        )
    return function


def makes_events(task_type: TaskType) -> bool:
    """True where a source makes its events of their numbers alone: it reads nothing outside, and no recording."""
    is_source = task_type.kind == "source" and task_type.connector is None
    return is_source and companion(task_type, "_first_events") is None and companion(task_type, "_schedule") is None


def companion(task_type: TaskType, suffix: str) -> Callable[..., Any] | None:
    """The function beside ``build`` of the same name plus ``suffix`` (``_schedule``, ``_check``), or None."""
    module_name, _, function_name = task_type.build.partition(":")
    try:
        module = import_module(module_name)
    except ImportError as error:
        raise NotFound(
            f"The task type {task_type.name} cannot be loaded: {error}.",
            remedy="Install the package that brings this task type on every node.", build=task_type.build,
        ) from error
    return getattr(module, function_name + suffix, None)


def check(task_type: TaskType, config: Mapping[str, Any]) -> InvalidConfig | None:
    """The problem of a config that is well typed but cannot be built (a range upside down, no such file), or None.

    A task type brings its own check as the function ``<build>_check(config)``, which raises ``InvalidConfig``.
    """
    function = companion(task_type, "_check")
    if function is None:
        return None
    try:
        function(config)
    except InvalidConfig as problem:
        return problem
    return None


def columns_of(task_type: TaskType, inputs: Columns, config: Mapping[str, Any]) -> Columns:
    """The columns of what a task gives, from those of what it reads; unknown where its type does not declare them.

    A task type declares them by the function ``<build>_columns(inputs, values)``, which gets the config with defaults
    filled in. Columns that parameters name (``Parameter.column``) are looked up here.

    Raises
    ------
    ColumnError
        The task reads a column that is not there, or is of a type that it cannot work on.
    """
    values = settings(task_type, config)
    for parameter in task_type.parameters:
        if parameter.column == "names":
            value = values[parameter.name]
            for name in [value] if isinstance(value, str) else value or ():
                inputs.require(str(name), parameter=parameter.name)
    try:
        function = companion(task_type, "_columns")
    except NotFound:
        return Columns.unknown()
    if function is None:
        return Columns.unknown()
    try:
        return function(inputs, values)
    except WeirError:
        raise
    except Exception:
        if task_type.build.startswith("workers.library."):
            raise
        return Columns.unknown()  # whatever a package does wrong, documents can still be read


def refinement(task_type: TaskType, wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> Refined | None:
    """The task that makes what the narrow config gives out of what the wide one gives, or None.

    A task type declares which configs it contains in others by the function ``<build>_contains(wide, narrow)``.
    """
    try:
        function = companion(task_type, "_contains")
    except NotFound:
        return None
    return None if function is None else function(wide, narrow)


@lru_cache(maxsize=1)
def _catalogue() -> tuple[TaskTypes, tuple[PluginProblem, ...]]:
    types_by_name = {task_type.name: task_type for task_type in built_in()}
    problems: list[PluginProblem] = []
    for entry_point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        try:
            added = _types_of(entry_point.load())
            _refuse_taken_names(added, types_by_name)
        except Exception as error:  # whatever a package does wrong, the others must still work
            problems.append(PluginProblem(entry_point.name, _package(entry_point), f"{type(error).__name__}: {error}"))
        else:
            types_by_name.update((task_type.name, task_type) for task_type in added)
    return TaskTypes(tuple(types_by_name.values())), tuple(problems)


def _types_of(target: Any) -> list[TaskType]:
    if callable(target):
        target = target()
    types = [target] if isinstance(target, TaskType) else list(target) if isinstance(target, Iterable) else None
    if types is None or not all(isinstance(task_type, TaskType) for task_type in types):
        raise TypeError("an entry point gives a TaskType, a list of them, or a function that returns either")
    return types


def _refuse_taken_names(added: list[TaskType], task_types: dict[str, TaskType]) -> None:
    names = [task_type.name for task_type in added]
    taken = sorted({name for name in names if name in task_types or names.count(name) > 1})
    if taken:
        raise ValueError(f"the names {', '.join(taken)} are already taken; choose others")


def _package(entry_point: EntryPoint) -> str:
    return entry_point.dist.name if entry_point.dist is not None else ""
