"""Answers of the API on looks at sources that do not run, and on searches of streams that do."""

from __future__ import annotations

from dashboard.api.answers.common import Answer, answer_of
from dashboard.explorer import source_looks, stream_searches
from scheduler.contracts.looks import ColumnProposal, Unread


class LookBegun(Answer):
    """A look that was ordered: ask for it by this id at least every four seconds, else it ends."""

    id: str


class SearchBegun(Answer):
    """A search that was begun: ask for it by this id about every second, for it looks at what came since."""

    id: str


answer_of(Unread, name="UnreadMessage")
answer_of(ColumnProposal)
Look = answer_of(source_looks.Look)
StreamSearch = answer_of(stream_searches.StreamSearch)
