"""The bound of a channel's readers: what a script refuses as an error that says what to do.

Every block that is freed, and every wave, looks at the places of all readers of its channel.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import redis

from scheduler.model.errors import WeirError

REFUSAL = "WEIRREADERS"


class TooManyReaders(WeirError):
    """A channel has as many readers as one may (`lua/trim.lua`); a new one gets no place."""

    code = "too_many_readers"


@contextmanager
def refused_beyond_bound(channel: str) -> Iterator[None]:
    """Raise `TooManyReaders` where a script within says that the channel has no room for a reader."""
    try:
        yield
    except redis.ResponseError as error:
        if not str(error).startswith(REFUSAL):
            raise
        counted = str(error).rpartition(": it has ")[2]
        raise TooManyReaders(
            f"The channel {channel} has {counted}, and no room for another one",
            remedy="Remove dataflows that read its stream, or submit this one as private: it has tasks of its own then",
            channel=channel) from None
