"""Connections of threads that stay; and the SQLite file gives back what was freed in it (PostgreSQL by itself)."""

from __future__ import annotations

import time
from datetime import datetime

from django.db import connection

FEWEST_FREE = 0.1  # of the file's pages: what is freed is soon used again
KEPT_S = 60.0
PAGES_AT_ONCE, MOST_STEPS = 500, 40  # 2 MB a step: others write in between


def keep_connection() -> None:
    """Let this thread's connection stay open for a minute, whatever is done with it meanwhile.

    For threads that ask again and again: SQLite's connections are closed after each request, and a new one costs more
    than most of what is asked, and has nothing of the file in memory. One that broke is closed all the same.
    """
    if connection.connection is None and not connection.in_atomic_block:
        connection.ensure_connection()
        connection.close_at = time.monotonic() + KEPT_S


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
            left = _pragma(cursor, "freelist_count")
            freed += free - left
            if left >= free:  # a file of an earlier version that could not be converted
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
