"""The cause of a query's failure, in one message that a person can read: the cause itself, and the task where it can be
told."""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.model.errors import WeirError
from workers.engine.sealed_secrets import redacted
from workers.library.config import InvalidConfig
from workers.library.files import data_folder

LONGEST = 600
LONGEST_TRACEBACK = 6_000  # its end says most
DISK_IS_FULL = (
    "The disk of this node's data folder is full. Make room: the query goes on from its checkpoint by itself.")
BROKER_DISK_IS_FULL = (
    "The disk of the broker is full. Make room: the query goes on from its checkpoint by itself.")
BROKER_IS_FULL = (
    "The memory of the broker is full. Make room, or give it more: the query goes on from its checkpoint by itself.")
EXECUTOR_IS_LOST = (
    "The slot's executor on the Spark cluster was lost, or its worker. The query goes on from its checkpoint by itself "
    "when the cluster has given the slot another.")
_REFUSED = (
    "This version of Weir does not compute it; one that did may have taken it in. Submit a new version of the "
    "dataflow, or remove it; then “Try again” starts what shares the query.")
_EXECUTOR_LOST = re.compile(r"ExecutorLostFailure|SparkContext was shut down")
_BROKER_FULL = re.compile(r"MISCONF")
_BROKER_MEMORY = re.compile(r"OutOfMemoryError: command not allowed|OOM command not allowed")
_DISK_FULL = re.compile(r"No space left on device|Disk quota exceeded|database or disk is full")  # the last: SQLite
_WRONG_CONFIG = f"{InvalidConfig.__module__}.{InvalidConfig.__qualname__}: "
_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s+File "(?P<file>[^"]+)", line \d+, in (?P<function>\S+)')
_BROKER_AWAY = re.compile(
    r"Connection refused|Connection reset|ConnectionError|SocketTimeout|SocketException|ConnectException"
    r"|Broken pipe|Error \d+ connecting|LOADING|broker|command not allowed when used memory",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Cause:
    """One exception of a chain of causes: the Java class and its message."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class TaskCode:
    """The place of a task's code: the file of the module that builds it; whether it reaches beyond Weir."""

    task: str
    type: str
    file: str
    reaches_out: bool = False


class FragmentFailed(Exception):
    """A fragment could not be compiled or its query ended; the message says why and where.

    Parameters
    ----------
    may_pass : bool
        True if the cause may go away by itself: an unreachable service, a full disk. Failures of Weir's own code
        repeat.
    is_final : bool
        True if it fails each time, so that only a person tries it again.
    tasks : sequence of str
        The running tasks that it was in; empty if unknown.
    traceback : str
        Of Python or Java; empty without one.
    """

    def __init__(
        self, message: str, *, broker_is_away: bool = False, may_pass: bool = False, is_final: bool = False,
        tasks: Sequence[str] = (), traceback: str = "",
    ) -> None:
        super().__init__(_for_teams(message))
        self.broker_is_away = broker_is_away
        self.may_pass = may_pass or broker_is_away
        self.is_final = is_final
        self.tasks = tuple(tasks)
        self.traceback = _for_teams(traceback)[-LONGEST_TRACEBACK:]


def _for_teams(text: str) -> str:
    """A text without secrets; where the installation keeps its data is nobody's business either."""
    return redacted(text).replace(str(data_folder()), "<data folder>")


def explain(causes: Sequence[Cause], task_code: Sequence[TaskCode]) -> FragmentFailed:
    """One readable message out of a chain of causes, outermost first.

    The task is named where the traceback of a Python error passes through the module of exactly one task's type, or of
    tasks that are told apart by nothing: then all of them are named.
    """
    text = next((cause.message for cause in reversed(causes) if _TRACEBACK in cause.message), None)
    if text is not None:
        reason, files = _python_error(text)
        tasks = _tasks_in(files, task_code)
        wrong = reason.startswith(_WRONG_CONFIG)  # it is wrong whatever the task reaches
        reason = reason.removeprefix(_WRONG_CONFIG)
        may_pass = bool(_what_is_full(text)) or (not wrong and any(
            task.reaches_out for task in task_code if task.task in tasks or not tasks))
        return FragmentFailed(
            _located(reason, tasks), may_pass=may_pass or is_broker_away(reason), tasks=tasks,
            traceback=text[text.rindex(_TRACEBACK) :].partition("\n\tat ")[0].rstrip())
    if (failure := _result_too_long(causes)) is not None:
        return failure
    root = causes[-1] if causes else Cause("unknown", "the query ended without saying why")
    reason = f"{root.kind.rpartition('.')[2]}: {_first_paragraph(root.message)}"
    if full := _what_is_full(" ".join(cause.message for cause in causes)):
        return FragmentFailed(full, may_pass=True)
    if any(_EXECUTOR_LOST.search(cause.message) for cause in causes):
        return FragmentFailed(EXECUTOR_IS_LOST, may_pass=True)
    return FragmentFailed(
        reason[:LONGEST], broker_is_away=is_broker_away(root.kind + ": " + root.message),
        may_pass=any(task.reaches_out for task in task_code),
        traceback="\n".join(f"{cause.kind}: {cause.message}" for cause in causes))


def _result_too_long(causes: Sequence[Cause]) -> FragmentFailed | None:
    """An event of which a query makes too much: it names its task, and makes as much of the event each time."""
    message = next((cause.message for cause in reversed(causes) if cause.kind.endswith("$ResultTooLong")), None)
    if message is None:
        return None
    reason = _first_paragraph(message)
    return FragmentFailed(reason, is_final=True, tasks=re.findall(r"^task ([^\s:]+): ", reason))


def explain_error(
    error: BaseException, *, task: str | None = None, reaches_out: bool = False, is_final: bool = False
) -> FragmentFailed:
    """One readable message for an error that was raised here, while a task was compiled or the broker was asked.

    Parameters
    ----------
    reaches_out : bool
        True where that asks something beyond Weir, which may be back later.
    is_final : bool
        True where it fails so each time.
    """
    if isinstance(error, FragmentFailed):
        return error
    message = error.full_message if isinstance(error, WeirError) else str(error)
    text = f"{type(error).__name__}: {_first_paragraph(f'{message} {_REFUSED}' if is_final else message)}"
    if full := _what_is_full(text):
        return FragmentFailed(full, may_pass=True)
    tasks = [task] if task else []
    return FragmentFailed(
        _located(text, tasks), broker_is_away=is_broker_away(text), tasks=tasks, is_final=is_final,
        may_pass=task is None or (reaches_out and not isinstance(error, InvalidConfig)),
        traceback="".join(traceback.format_exception(error)))


def _what_is_full(text: str) -> str:
    """What is full, a disk or the memory of the broker, in a sentence; empty where nothing is."""
    if _BROKER_FULL.search(text):
        return BROKER_DISK_IS_FULL
    if _BROKER_MEMORY.search(text):
        return BROKER_IS_FULL
    return DISK_IS_FULL if _DISK_FULL.search(text) else ""


def is_broker_away(text: str) -> bool:
    """True where an error is about the broker's absence, which passes by itself, and not about the dataflow."""
    return _BROKER_AWAY.search(text) is not None


def _python_error(text: str) -> tuple[str, list[str]]:
    """The last exception line of the last Python traceback in the text, and the files that it passes through."""
    lines = text[text.rindex(_TRACEBACK) :].splitlines()[1:]
    files: list[str] = []
    for line in lines:
        frame = _FRAME.match(line)
        if frame:
            files.append(frame["file"])
        elif line and not line[0].isspace():
            return line.strip(), files
    return lines[-1].strip() if lines else "unknown Python error", files


def _tasks_in(files: Sequence[str], task_code: Sequence[TaskCode]) -> list[str]:
    for file in reversed(files):  # innermost first
        tasks = [task.task for task in task_code if task.file == file]
        if tasks:
            return tasks
    return []


def _located(reason: str, tasks: Sequence[str]) -> str:
    reason = reason[:LONGEST]
    if not tasks:
        return reason
    return f"{'task' if len(tasks) == 1 else 'one of tasks'} {', '.join(tasks)}: {reason}"


def _first_paragraph(message: str) -> str:
    """What comes before a stack trace or a query plan, on one line."""
    reasons = []
    for line in message.strip().splitlines():
        if reasons and line.lstrip().startswith(("at ", "Driver stacktrace", "JVM stacktrace", "== ", "+-", "'")):
            break
        reasons.append(line.strip())
    return " ".join(reasons)[:LONGEST]
