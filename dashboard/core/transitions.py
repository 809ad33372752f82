"""State machines as tables: a move that the table lacks raises ``InvalidTransition``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dashboard.core.state_words import words
from scheduler.model.errors import InvalidTransition


class Transitions:
    """A closed set of states and the moves allowed between them.

    ``table`` names every state as a key; a state without a way out has an empty set.
    """

    def __init__(self, subject: str, table: Mapping[str, Iterable[str]]) -> None:
        self.subject = subject
        self.table = {state: frozenset(targets) for state, targets in table.items()}
        unknown = {target for targets in self.table.values() for target in targets} - set(self.table)
        if unknown:
            raise ValueError(f"{subject}: states that are no keys of the table: {sorted(unknown)}")

    @property
    def states(self) -> tuple[str, ...]:
        """Every state, in the table's order."""
        return tuple(self.table)

    def allows(self, before: str, after: str) -> bool:
        """True if the table has this move."""
        return after in self.table.get(before, frozenset())

    def check(self, before: str, after: str) -> None:
        """Raise ``InvalidTransition`` unless the table has this move."""
        if not self.allows(before, after):
            raise InvalidTransition(
                f"This {self.subject} is {words(before)}: it cannot change to {words(after)}.",
                remedy="Reload the page: it may have changed meanwhile.",
                subject=self.subject, before=before, after=after,
            )
