"""The readable parts of a document: tasks and streams as they stand in it, with their places."""

from __future__ import annotations

from dataclasses import dataclass, field

from .dataflow import Chaining, Visibility
from .dataflow_goals import DataflowGoals
from .latency_limits import Limits
from .paths import ENDS
from .positions import DocumentNode, TextPosition
from .task_types import TaskType


@dataclass(slots=True)
class DraftTask:
    """A task as it stands in the document, or one ``alternate`` of it, with the ``path`` that it may be; ``type`` is
    None where its type is not known."""

    id: str
    type: TaskType | None
    config: dict[str, object]
    position: TextPosition
    parameters: dict[str, DocumentNode] = field(default_factory=dict)  # where its config's values stand
    chain: Chaining = "allowed"
    alternate: str = ""
    alternates: dict[str, DraftTask] = field(default_factory=dict)
    path: Draft | None = None
    conditions: list[DocumentNode] = field(default_factory=list)  # of an alternate: its guard, and its value function

    @property
    def ways(self) -> list[DraftTask]:
        """The tasks by which it may be done: its alternates, or itself."""
        return list(self.alternates.values()) or [self]

    @property
    def is_end(self) -> bool:
        """True if it stands for what enters a path or a loop, or for what leaves."""
        return self.id in ENDS and self.type is not None and not self.type.build

    @property
    def where(self) -> str:
        """The name of the task in problems."""
        return f"Task {self.id}, alternate {self.alternate}" if self.alternate else f"Task {self.id}"

    @property
    def steps(self) -> list[DraftTask]:
        """The tasks that work on what it reads: those of its path, or itself."""
        if self.path is None:
            return [self]
        return [step for step in self.path.tasks.values() if not step.is_end]


@dataclass(slots=True)
class DraftStream:
    """A stream as it stands in the document; an end is None if it is missing or no text. With ``split`` it
    carries a part of the events, with ``ports`` those of a named input or output (`stream_ports`)."""

    source: DocumentNode | None
    target: DocumentNode | None
    selectivity: float | None
    position: TextPosition
    split: DocumentNode | None = None
    ports: dict[str, DocumentNode] = field(default_factory=dict)


@dataclass(slots=True)
class DraftLoop:
    """A loop whose iterations are among the tasks: the ids of those that what enters goes to, in the first, and of
    those that give what leaves, in the last."""

    id: str
    times: int
    position: TextPosition
    entering: list[str] = field(default_factory=list)
    leaving: list[str] = field(default_factory=list)

    def in_iteration(self, iteration: int, task_id: str) -> str:
        """The id of a task of the loop in one of its iterations, from 1."""
        return f"{self.id}.{iteration}.{task_id}"


@dataclass(slots=True)
class Draft:
    """The readable parts of a document."""

    name: str = ""
    description: str = ""
    visibility: Visibility = "shared"
    tasks: dict[str, DraftTask] = field(default_factory=dict)
    streams: list[DraftStream] = field(default_factory=list)
    rates_per_s: dict[str, float] = field(default_factory=dict)
    latency: Limits | None = None
    goals: DataflowGoals | None = None
    invalid_ids: set[str] = field(default_factory=set)  # streams may name them
    loops: dict[str, DraftLoop] = field(default_factory=dict)  # whose iterations are among the tasks
    is_path: bool = False  # between what enters a dynamic task and what leaves it
    ports: dict[str, list[DraftStream]] = field(default_factory=dict)  # of a path: what begins and ends at its ends


def free_id(beginning: str, ending: str, draft: Draft) -> str:
    """An id of a task that nothing in a draft has yet, at most 64 characters long."""
    taken = {*draft.tasks, *draft.loops, *draft.invalid_ids}
    number, ending = 1, ending[:32]
    free = f"{beginning[:64 - len(ending)]}{ending}"
    while free in taken:
        number += 1
        end = f"{ending}.{number}"
        free = f"{beginning[:64 - len(end)]}{end}"
    return free
