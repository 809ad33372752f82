"""Whether the state of a fragment goes ahead to the node of its heir, and what is sent when it ends. Pure.

What is large would keep its outputs still for as long as it is on its way. So a copy goes ahead while the fragment
works on, and at its end only what is new since then. Where that does not come about the whole record is sent instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

STILL_MS = 60_000  # after which a copy that gets no further is not waited for any more


class Ahead(StrEnum):
    """How far the copy of a fragment's state is."""

    WAIT = "wait"  # for its heir to be ready
    COPY = "copy"  # one is to be made
    SEND = "send"  # it is on its way
    OVER = "over"  # the fragment may end


@dataclass(frozen=True, slots=True)
class Limits:
    """From how many bytes on disk a state goes ahead, and up to which share of a record its difference is sent."""

    least_bytes: int = 256 << 10
    most_share: float = 0.5


LIMITS = Limits()


def how_far(
    *, is_ready: bool, is_over: bool, state_bytes: int, least_bytes: int, has_copy: bool, is_stored: bool, still_ms: int
) -> Ahead:
    """How far the copy for an heir is.

    Parameters
    ----------
    is_ready : bool
        Whether the heir stands by.
    is_over : bool
        Whether it was over before: a copy is not made again for an heir that was ready once.
    state_bytes, least_bytes : int
        What the fragment's state takes on disk, and from where on a copy is worth it.
    has_copy, is_stored : bool
        Whether it is on this node's disk, and on the heir's.
    still_ms : int
        Since when nothing of it has come any further.
    """
    if not is_ready:
        return Ahead.WAIT
    if is_over or is_stored or still_ms >= STILL_MS:
        return Ahead.OVER
    if has_copy:
        return Ahead.SEND
    return Ahead.COPY if state_bytes >= least_bytes else Ahead.OVER


def goes_as_difference(*, copied: str | None, stored: bytes | None, is_refused: bool) -> bool:
    """Whether a record may be sent as the difference from a copy: the heir has just that, and has not found it broken.

    Parameters
    ----------
    copied : str, optional
        The checksum of the copy on this node.
    stored : bytes, optional
        That of the one that the heir's node has.
    is_refused : bool
        Whether the heir asks for the whole record.
    """
    return copied is not None and stored == copied.encode() and not is_refused
