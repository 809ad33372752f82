"""Failures of single running tasks among the many of each second: one stops no other, and is logged once."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import structlog

log = structlog.get_logger(__name__)
AGAIN_S = 60  # so seldom is tried again what fails in the same circumstances


class TaskFailures:
    """The tasks that fail, each with the circumstances in which it does, and when it was tried last."""

    def __init__(self, event: str) -> None:
        self._event = event
        self._failed: dict[str, tuple[Any, int]] = {}

    def keep(self, tasks: Collection[str]) -> None:
        """Forget all but these tasks: the others are gone."""
        self._failed = {task: failure for task, failure in self._failed.items() if task in tasks}

    def waits(self, task: str, circumstances: Any, now_s: int) -> bool:
        """True if a task has failed in just these circumstances so lately that it is not tried again yet."""
        failed_in, at_s = self._failed.get(task, (None, now_s - AGAIN_S))
        return failed_in == circumstances and now_s - at_s < AGAIN_S

    def note(self, task: str, error: Exception, now_s: int, circumstances: Any = None) -> None:
        """A task has failed; it is logged unless it fails in these circumstances already."""
        if task not in self._failed or self._failed[task][0] != circumstances:
            log.warning(self._event, task=task, error=f"{type(error).__name__}: {error}"[:300])
        self._failed[task] = circumstances, now_s

    def over(self, task: str) -> None:
        """A task works again."""
        self._failed.pop(task, None)
