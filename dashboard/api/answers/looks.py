"""What the API answers of looks at sources that do not run."""

from __future__ import annotations

from typing import Any

from dashboard.api.answers.common import Answer


class LookBegun(Answer):
    """A look that was ordered: ask for it by this id at least every four seconds, else it ends."""

    id: str


class UnreadMessage(Answer):
    """What a look could not read: why, where it was, and how it begins."""

    reason: str
    place: str
    sample: str


class Look(Answer):
    """How far a look at a source is. ``state`` is ``ordered``, ``taken``, ``looking``, ``done`` or ``failed``: then
    ``code``, ``message`` and ``remedy`` say why. ``events`` are the newest first, without Weir's own columns;
    ``too_large`` of them are left out for their size."""

    id: str
    state: str
    is_over: bool
    code: str
    message: str
    remedy: str
    types: dict[str, str | None]
    events: list[dict[str, Any]]
    unread: list[UnreadMessage]
    too_large: int
