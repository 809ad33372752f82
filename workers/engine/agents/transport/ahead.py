"""The decision whether a fragment's state goes ahead to the node of its heir, and what is sent when it ends. Pure.

What is large would keep its outputs still for as long as it is on its way. So a copy goes ahead while the fragment
works on, then in rounds what was written meanwhile (pre-copy [1]), and at its end only what is new since the last one.
Where that does not come about the whole record is sent instead.

[1] Clark, Fraser, Hand, Hansen, Jul, Limpach, Pratt and Warfield, "Live Migration of Virtual Machines", NSDI 2005.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

STILL_MS = 60_000  # after which a copy that gets no further is not waited for any more


class Ahead(StrEnum):
    """The progress of the copy of a fragment's state."""

    WAIT = "wait"  # for its heir to be ready
    COPY = "copy"  # one is to be made, or what was written since
    SEND = "send"  # that is on its way
    OVER = "over"  # the fragment may end


@dataclass(frozen=True, slots=True)
class CopyLimits:
    """The limits of copies that go ahead.

    Parameters
    ----------
    least_bytes : int
        Bytes on disk from which on a state goes ahead.
    most_share : float
        The largest share of a text, from 0 to 1, up to which its difference is sent, and not all of it.
    small_bytes : int
        A round of no more bytes than that is the last one: what is new since will be as little.
    most_rounds : int
        Rounds after the copy, at most.
    shrinks_to : float
        The largest share of the round before, from 0 to 1, up to which a round is followed by another one.
    most_copies : int
        Copies that rounds follow, at most: where a round cannot be told from a copy, all goes again.
    """

    least_bytes: int = 256 << 10
    most_share: float = 0.5
    small_bytes: int = 1 << 20
    most_rounds: int = 5
    shrinks_to: float = 0.7
    most_copies: int = 2


LIMITS = CopyLimits()


@dataclass(frozen=True, slots=True)
class Sent:
    """The part of a state that has gone ahead: whether this node has a copy; whether the heir's node has all of that,
    or cannot use it; the number of copies that arrived there, the bytes of the last one and of each round after it, and
    the bytes that are still on their way."""

    has_copy: bool = False
    is_stored: bool = False
    is_refused: bool = False
    copies: int = 1
    lengths: tuple[int, ...] = ()
    left_bytes: int = 0

    @property
    def is_on_its_way(self) -> bool:
        """True where the heir is to have more of it, and has not refused it."""
        return self.has_copy and not self.is_stored and not self.is_refused


def how_far(
    sent: Sent, *, is_ready: bool, is_over: bool, state_bytes: int, still_ms: int, limits: CopyLimits = LIMITS
) -> Ahead:
    """The progress of the copy for an heir.

    Parameters
    ----------
    is_over : bool
        True where it was over before: a copy is not made again for an heir that was ready once.
    """
    if not is_ready:
        return Ahead.WAIT
    if is_over or sent.is_refused or still_ms >= STILL_MS:
        return Ahead.OVER
    if not sent.has_copy:
        return Ahead.COPY if state_bytes >= limits.least_bytes else Ahead.OVER
    if not sent.is_stored:
        return Ahead.SEND
    is_due = sent.copies <= limits.most_copies and is_worth_another(sent.lengths, limits)
    return Ahead.COPY if is_due else Ahead.OVER


def is_worth_another(lengths: Sequence[int], limits: CopyLimits) -> bool:
    """True where another round would leave less to be sent at the end."""
    *before, last = lengths
    if last <= limits.small_bytes or len(before) >= limits.most_rounds:
        return False
    return not before or last <= limits.shrinks_to * before[-1]


def goes_as_difference(*, copied: str | None, stored: bytes | None, is_refused: bool) -> bool:
    """True where a record may be sent as the difference from a copy: the heir has just that, and has not found it
    broken.
    """
    return copied is not None and stored == copied.encode() and not is_refused
