"""Reports of nodes on the copies of queries' states that they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .codec import Codec, InvalidContract
from .moments import MomentMs


@dataclass(frozen=True, slots=True)
class CopyReport:
    """A whole copy: after which batch, the last entry that it has read by channel (of ticks the next number, under ""),
    by channel the last block number that it has written, and when it was whole, in ms by its holder's clock."""

    batch: int
    places: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    bases: Mapping[str, int] = field(default_factory=dict)
    at_ms: MomentMs = 0


COPY_REPORTS = Codec(CopyReport)


def copies_told(texts: Mapping[str, str]) -> dict[str, CopyReport]:
    """The copies of one query by holder, of what the holders tell (JSON); what cannot be read is none."""
    copies = {}
    for holder, text in sorted(texts.items()):
        try:
            copies[holder] = COPY_REPORTS.loads(text)
        except InvalidContract:
            continue
    return copies
