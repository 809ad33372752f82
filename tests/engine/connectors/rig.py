"""What a rig is: a source with a server behind it, and the events that it is filled with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from scheduler.model.dataflow import Task


class Rig(Protocol):
    """A source to read. ``exact`` where each event comes once whatever dies, else at least once."""

    exact: bool
    takes_garbage: bool
    environment: dict[str, str]

    def task(self, **config: Any) -> Task:
        """The task that reads it: columns n (bigint) and text (string)."""

    def send(self, numbers: Sequence[int]) -> None:
        """Bring events with these numbers."""

    def send_garbage(self) -> None:
        """Bring something that cannot be read."""

    def send_other(self, number: int) -> None:
        """Bring an event of another schema: text is missing, something else is there."""

    def leave(self) -> None:
        """Be away."""

    def anew(self) -> None:
        """Give the next test something of its own to read."""

    def return_(self) -> None:
        """Be there again."""


COLUMNS = ["n:bigint", "text"]


def event(number: int) -> dict[str, Any]:
    return {"n": number, "text": f"event {number}"}
