"""What the API answers of looks at sources that do not run."""

from __future__ import annotations

from dashboard.api.answers.common import Answer, answer_of
from dashboard.explorer import source_looks
from scheduler.contracts.looks import ColumnProposal, Unread


class LookBegun(Answer):
    """A look that was ordered: ask for it by this id at least every four seconds, else it ends."""

    id: str


answer_of(Unread, name="UnreadMessage")
answer_of(ColumnProposal)
Look = answer_of(source_looks.Look)
