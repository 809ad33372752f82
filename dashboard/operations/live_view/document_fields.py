"""Fields that live documents have in common."""

from __future__ import annotations

from typing import Annotated, TypedDict


class Moving:
    """Marks a field that changes from moment to moment: pages write it in place and fetch nothing anew for it."""


Figure = Annotated[float | None, Moving()]  # None until it is measured
MovingCount = Annotated[int | None, Moving()]


class DataflowUser(TypedDict):
    """A dataflow that uses something, with its team's name."""

    id: str
    name: str
    team: str
