"""Connections of threads that stay; writers in line; and SQLite's file gives back what was freed in it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from django.db import connection, transaction

from dashboard.core.http_errors import DatabaseBusy

FEWEST_FREE = 0.1  # of the file's pages: what is freed is soon used again
KEPT_S = 60.0
LONGEST_WAIT_S = 20.0  # of a writer; as long as SQLite waits for other processes (`settings.DATABASES`)
PAGES_AT_ONCE, MOST_STEPS = 500, 40  # 2 MB a step: others write in between


def keep_connection() -> None:
    """Let this thread's connection stay open for a minute, whatever is done with it meanwhile.

    For threads that ask again and again: SQLite's connections are closed after each request, and a new one costs more
    than most of what is asked, and has nothing of the file in memory. One that broke is closed all the same.
    """
    if connection.connection is None and not connection.in_atomic_block:
        connection.ensure_connection()
        connection.close_at = time.monotonic() + KEPT_S


class WriteLine:
    """A line of waiting writers, first come first served: SQLite lets whoever asks at the right moment.

    Of this process alone. Others are waited for in the file, by whoever is first in line here.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._is_taken = False
        self._tickets: deque[threading.Event] = deque()

    def take_turn(self, *, timeout_s: float) -> Callable[[], None]:
        """Wait for the turn; what gives it to the next one, once, however often it is called."""
        with self._guard:
            ticket = threading.Event()
            if self._is_taken:
                self._tickets.append(ticket)
            else:
                self._is_taken = True
                ticket.set()
        if not ticket.wait(timeout_s):
            with self._guard:
                if not ticket.is_set():  # or it was called in the last moment
                    self._tickets.remove(ticket)
                    raise DatabaseBusy()
        is_over = False

        def give_turn() -> None:
            nonlocal is_over
            with self._guard:
                if is_over:
                    return
                is_over = True
                self._is_taken = bool(self._tickets)
                if self._tickets:
                    self._tickets.popleft().set()

        return give_turn


_LINE = WriteLine()
_RIGHTS = 0x77656972  # this project's name: others may use the same database


@contextmanager
def writing() -> Iterator[None]:
    """A transaction that writes, or a part of the one that is open; it waits `LONGEST_WAIT_S` for others at the most.

    Raises
    ------
    DatabaseBusy
        The turn has not come.
    OperationalError
        Writers of other processes were not done in time; `http_errors.as_weir_error` makes the same of it.
    """
    if connection.in_atomic_block:
        with transaction.atomic():
            yield
        return
    if connection.vendor != "sqlite":  # PostgreSQL has a line of its own for each row, and no end of it
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL lock_timeout = '{LONGEST_WAIT_S * 1000:.0f}ms'")
            yield
        return
    give_turn = _LINE.take_turn(timeout_s=LONGEST_WAIT_S)
    try:
        with transaction.atomic():
            transaction.on_commit(give_turn)  # before what is sent after commit, which may wait for a broker
            yield
    finally:
        give_turn()


def hold_rights(*, taking: bool) -> None:
    """Keep rights unchanged until this transaction ends; with ``taking`` keep out all other transactions that rely on
    rights.

    SQLite has one writer anyway. On PostgreSQL this comes before all other locks of the transaction, so that no two
    wait for each other.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT pg_advisory_xact_lock{'' if taking else '_shared'}({_RIGHTS})")


def give_back_space(at: datetime) -> int:
    """Shrink the file by free pages, while there are many; how many went. Never more than 80 MB at a time."""
    if connection.vendor != "sqlite":
        return 0
    freed = 0
    with connection.cursor() as cursor:
        for _ in range(MOST_STEPS):
            free, pages = (_pragma(cursor, name) for name in ("freelist_count", "page_count"))
            if free <= FEWEST_FREE * pages:
                break
            # As a script: a statement would free one page for each row that is fetched, of which there are none.
            connection.connection.executescript(f"PRAGMA incremental_vacuum({PAGES_AT_ONCE})")
            remaining_pages = _pragma(cursor, "freelist_count")
            freed += free - remaining_pages
            if remaining_pages >= free:  # a file of an earlier version that could not be converted
                break
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return freed


def _pragma(cursor: object, name: str) -> int:
    return cursor.execute(f"PRAGMA {name}").fetchone()[0]


def convert_to_shrinking() -> bool:
    """Make the file one that can shrink; False where it is already, or where the disk has no room to write it anew."""
    from django.db.utils import OperationalError

    if connection.vendor != "sqlite":
        return False
    with connection.cursor() as cursor:
        if _pragma(cursor, "auto_vacuum") == 2:
            return False
        try:
            cursor.execute("PRAGMA auto_vacuum=INCREMENTAL")
            cursor.execute("VACUUM")
        except OperationalError:  # it works on as it is
            return False
        return _pragma(cursor, "auto_vacuum") == 2
