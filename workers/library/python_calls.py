"""Calling a function of a package: what it raises, told with place and remedy, or marked on the events that it is of.

What it raises it would raise again with the same events: so a query that it stops is not tried for ever. An ``OSError``
(a connection that was refused, time that ran out) is as it was: what the function reaches may be back later.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduler.model.task_types import Parameter

from .config import InvalidConfig
from .packages import function_of

if TYPE_CHECKING:
    import pyarrow as pa

STOP, MARK = "stop", "mark"
PROBLEM = "problem"  # the column that says why an event has no result
ON_ERROR = Parameter(
    "on_error", "string", "What is done if the function raises, or returns something undeclared: stop the query, or "
    f"go on, and give the events concerned no values but the reason as “{PROBLEM}”.", default=STOP,
    choices=(STOP, MARK), added=True)
LONGEST = 300


def call(function: str, *arguments: Any) -> Any:
    """The result of a function that is called by its name.

    Raises
    ------
    InvalidConfig
        It cannot be imported, or it raised something.
    OSError, MemoryError
        As it raised them.
    """
    try:
        return function_of(function)(*arguments)
    except (InvalidConfig, OSError, MemoryError):
        raise
    except Exception as error:  # of a stranger's code
        frame = traceback.extract_tb(error.__traceback__)[-1]
        words = " ".join(str(error).split())[:LONGEST]
        raise wrong(
            function, f"raised {type(error).__name__}{f': {words}' if words else ''} "
            f"({Path(frame.filename).name}, line {frame.lineno})",
            f"Mend it and install it as another version; set on_error to {MARK} to go on with the other events; or "
            "leave such events out by a sql task before it.") from error


def wrong(function: str, problem: str, remedy: str) -> InvalidConfig:
    """An error about a function: the problem, and the remedy."""
    return InvalidConfig(f"The function {function} {problem}. {remedy}", remedy=remedy)


def results_of(
    table: pa.Table, work: Callable[[pa.Table], pa.Table], *, function: str, on_error: str
) -> list[pa.Table]:
    """Results of some work on a table, in the order of its events.

    Parameters
    ----------
    table : Table
        Events, with `_seq`, `_time` and `_born`.
    work : callable
        Calls the function with a part of them, and sees that what it gives is as declared.
    on_error : str
        ``stop``: what the work raises is raised. ``mark``: the events that it fails with are found by halves, and have
        a result of nothing but a problem; all results have that column.
    """
    if on_error == STOP:
        return [work(table)]
    function_of(function)  # one that cannot be had is the fault of no event
    return _parts(table, work)


def _parts(table: pa.Table, work: Callable[[pa.Table], pa.Table]) -> list[pa.Table]:
    import pyarrow as pa

    try:
        result = work(table)
        return [result.append_column(PROBLEM, pa.nulls(result.num_rows, pa.string()))]
    except InvalidConfig as error:
        if table.num_rows == 1:
            return [table.select(["_seq", "_time", "_born"]).append_column(PROBLEM, pa.array([_cause(error)]))]
    middle = table.num_rows // 2
    return [*_parts(table.slice(0, middle), work), *_parts(table.slice(middle), work)]


def _cause(error: InvalidConfig) -> str:
    """What went wrong, without what to do: that stands in the docs and not in every event."""
    return error.message.removesuffix(error.remedy).strip()
