"""What fails of single running tasks where many are looked at each second: it stops no other task, and is told once."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import structlog

log = structlog.get_logger(__name__)


class TaskFailures:
    """The tasks that fail, each with the circumstances in which it does.

    Parameters
    ----------
    event : str
        What the log calls such a failure.
    """

    def __init__(self, event: str) -> None:
        self._event = event
        self._in: dict[str, Any] = {}

    def keep(self, tasks: Collection[str]) -> None:
        """Forget all but these tasks: the others are gone."""
        self._in = {task: circumstances for task, circumstances in self._in.items() if task in tasks}

    def fails_in(self, task: str, circumstances: Any) -> bool:
        """Whether a task has failed in just these circumstances."""
        return task in self._in and self._in[task] == circumstances

    def note(self, task: str, error: Exception, circumstances: Any = None) -> None:
        """A task has failed; it is told unless it fails in these circumstances already."""
        if not self.fails_in(task, circumstances):
            log.warning(self._event, task=task, error=f"{type(error).__name__}: {error}"[:300])
        self._in[task] = circumstances

    def over(self, task: str) -> None:
        """A task works again."""
        self._in.pop(task, None)
