"""States in words, the same on pages and at the terminal."""

from __future__ import annotations

_WORDS = {
    "computing": "planning", "pending": "in review", "planned": "in review", "executing": "in progress",
    "rolling_back": "rolling back", "rolled_back": "rolled back", "unplannable": "no plan possible",
    "begun": "beginning", "asked": "waits for approval", "enacting": "in progress", "checking": "checking its promise",
    "withdrawing": "being given up", "kept": "promise kept", "broken": "promise broken", "unchecked": "not checked",
    "declined": "not done", "stuck": "cannot be taken back",
    "taking": "being taken",
    "approve": "approved", "reject": "rejected", "backoff": "failing", "gave_up": "failed",
    "silent": "not reporting", "spill": "continues from disk", "pause": "is paused", "lose_oldest": "loses the oldest",
}


def words(value: str) -> str:
    """``rolling_back`` as words."""
    return _WORDS.get(value, str(value).replace("_", " ").replace(".", " "))
