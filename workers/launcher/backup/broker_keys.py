"""The broker's keys as one file: read while it takes nothing in, and put into an empty broker again.

The file is a row of records: lengths of key and value (4 and 8 bytes), milliseconds to live (8 bytes, -1 for ever), the
key, and the value as ``DUMP`` gives it, which ``RESTORE`` of the same or a later version takes.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import redis

from workers.launcher.state_folder import CannotStart

PREFIX = "weir:"
HEADER = struct.Struct("<IQq")
# What says who lives now, and what people look at at the moment: nobody does after a restore.
PASSING = (
    "lease:", "observed:", "turn:", "tap:", "tapped:", "trial:", "trials:", "look", "search", "again:", "worker")
KEYS_AT_ONCE = 64
MOST_OF_VALUE = "proto-max-bulk-len"


class TookTooLong(CannotStart):
    """The broker's pause was over before everything was read."""


@contextmanager
def paused(client: redis.Redis, *, limit_s: float) -> Iterator[None]:
    """A context in which the broker takes no write: whoever writes waits. It ends by itself when this process dies.

    Raises
    ------
    TookTooLong
        The context's end came later than the pause's, so that something may have been written meanwhile.
    CannotStart
        The broker cannot be paused.
    """
    began_s = time.monotonic()
    try:
        client.execute_command("CLIENT", "PAUSE", round(limit_s * 1000), "WRITE")
    except redis.ResponseError as error:
        raise CannotStart(
            f"The broker cannot be paused for the copy ({error}): its user needs the command CLIENT PAUSE.") from None
    try:
        yield
        # A tenth is for the clocks, which are two.
        if time.monotonic() - began_s > 0.9 * limit_s:
            raise TookTooLong(
                f"The copy needs more than the {limit_s:g} s for which writers may be held: try again when less is "
                "going on, or allow more with --pause SECONDS.")
    finally:
        client.execute_command("CLIENT", "UNPAUSE")


def dump(client: redis.Redis, path: Path) -> int:
    """Write every key of Weir's that outlasts a restart into a file; how many these were. Only while it is paused."""
    names = sorted(name for name in client.scan_iter(match=f"{PREFIX}*", count=1000) if not _passes(name))
    written = 0
    with path.open("wb") as file:
        for first in range(0, len(names), KEYS_AT_ONCE):
            part = names[first:first + KEYS_AT_ONCE]
            pipe = client.pipeline(transaction=False)
            for name in part:
                pipe.dump(name).pttl(name)
            replies = iter(pipe.execute())
            for name in part:
                value, left_ms = next(replies), next(replies)
                if value is not None:
                    file.write(HEADER.pack(len(name), len(value), left_ms if left_ms > 0 else -1) + name + value)
                    written += 1
    return written


def records(path: Path) -> Iterator[tuple[bytes, int, bytes]]:
    """Key, milliseconds to live (0 for ever) and value of each record of a file.

    Raises
    ------
    CannotStart
        It is no such file, or has a key that is not Weir's.
    """
    left_bytes = path.stat().st_size
    with path.open("rb") as file:
        while header := file.read(HEADER.size):
            is_whole = len(header) == HEADER.size
            key_bytes, value_bytes, left_ms = HEADER.unpack(header) if is_whole else (left_bytes, left_bytes, 0)
            left_bytes -= HEADER.size + key_bytes + value_bytes
            if left_bytes < 0 or not (name := file.read(key_bytes)).startswith(PREFIX.encode()):
                raise CannotStart("The copied keys of the broker are not as a back-up writes them: take another one.")
            yield name, max(0, left_ms), file.read(value_bytes)


def load(client: redis.Redis, path: Path) -> int:
    """Put the keys of a file into a broker that has none of them; how many these were. What passes stays out, as an
    order that somebody forged.

    Raises
    ------
    CannotStart
        The broker is of an older version than the one that was copied, or what was copied is damaged.
    """
    loaded = 0
    try:
        with _taking_values_of(client, path):
            pipe = client.pipeline(transaction=False)
            for name, left_ms, value in records(path):
                if _passes(name):
                    continue
                pipe.restore(name, left_ms, value)
                loaded += 1
                if loaded % KEYS_AT_ONCE == 0:
                    pipe.execute()
            pipe.execute()
    except redis.ResponseError as error:
        raise CannotStart(
            f"The broker does not take the copied keys ({error}): it must be empty, and no older than the one that "
            "they are of, and the file undamaged.") from None
    return loaded


@contextmanager
def _taking_values_of(client: redis.Redis, path: Path) -> Iterator[None]:
    """A context in which the broker takes the largest value of a file: all blocks of a channel come as one."""
    largest = max((len(value) for _, _, value in records(path)), default=0)
    before = largest
    with suppress(redis.ResponseError):  # one of your own may not tell
        before = int(client.config_get(MOST_OF_VALUE)[MOST_OF_VALUE])
    if largest <= before:
        yield
        return
    client.config_set(MOST_OF_VALUE, largest)
    try:
        yield
    finally:
        client.config_set(MOST_OF_VALUE, before)


def is_empty(client: redis.Redis) -> bool:
    """True where a broker has no key of Weir's that a restore would meet."""
    return not any(not _passes(name) for name in client.scan_iter(match=f"{PREFIX}*", count=1000))


def nodes_with_work(client: redis.Redis) -> list[str]:
    """The nodes that are to run something."""
    names = sorted(name.decode() for name in client.scan_iter(match=f"{PREFIX}desired:*"))
    return [name.rpartition(":")[2] for name in names if b'"id"' in (client.get(name) or b"")]


def _passes(name: bytes) -> bool:
    return name.decode(errors="replace").removeprefix(PREFIX).startswith(PASSING)
