"""Lines and CSV records of a file or a message. A damaged record spoils no other.

A line ends with a line feed, a carriage return, or both. A byte order mark at the beginning is not part of it.
"""

from __future__ import annotations

import csv
import io
from codecs import BOM_UTF8
from collections.abc import Generator, Iterator
from typing import BinaryIO

from scheduler.model.bounds import FILE_LINES, FILE_RECORD
from workers.library.json_values import UnreadableMessage, text_of

csv.field_size_limit(FILE_RECORD.most)  # a record is bounded by that; the module's own bound is far below it


def lines_of(file: BinaryIO, begin: int = 0) -> Iterator[tuple[int, int, bytes | None]]:
    """Lines with the bytes before and behind them; None for one that is too long."""
    file.seek(begin)
    if not begin:
        begin = len(BOM_UTF8) if file.read(len(BOM_UTF8)) == BOM_UTF8 else 0
        file.seek(begin)
    at, cut, is_long = begin, b"", False
    while chunk := file.readline(FILE_RECORD.most):
        if chunk.endswith(b"\r"):  # its line feed may be what comes next
            behind = file.read(1)
            if behind == b"\n":
                chunk += behind
            elif behind:
                file.seek(-1, io.SEEK_CUR)
        for line in chunk.splitlines(keepends=True) if b"\r" in chunk else (chunk,):
            is_long = is_long or len(cut) + len(line) > FILE_RECORD.most
            cut, at = b"" if is_long else cut + line, at + len(line)
            if line.endswith((b"\n", b"\r")):
                yield begin, at, None if is_long else cut
                begin, cut, is_long = at, b"", False
    if at > begin:
        yield begin, at, None if is_long else cut


def records_of(file: BinaryIO, at: int = 0, *, values: int | None = None) -> Iterator[tuple[int, int, bytes | None]]:
    """Records by their quotes, with the bytes before and behind them; None for one that is too long.

    A record that a stray quote opens ends with its line, and reading goes on behind it.

    Parameters
    ----------
    values : int, optional
        The number of values of each: lines that do not join to a record of so many are separate.
    """
    begin: int | None = at
    while begin is not None:
        begin = yield from _records_from(file, begin, values)


def _records_from(
    file: BinaryIO, at: int, values: int | None
) -> Generator[tuple[int, int, bytes | None], None, int | None]:
    """Records, up to one that does not end: its first line is given alone, and where that ends is returned."""
    begin = end_of_first = at
    lines: list[bytes] = []
    quotes = 0
    for start, end, line in lines_of(file, at):
        if not lines:
            begin, end_of_first, quotes = start, end, 0
        if line is None:
            if lines:
                break
            yield begin, end, None
            continue
        lines.append(line)
        quotes += line.count(b'"')
        if quotes % 2 == 0:
            record = b"".join(lines)
            if len(lines) > 1 and not _is_one(record, values):
                break
            yield begin, end, record
            lines = []
        elif len(lines) >= FILE_LINES.most or end - begin > FILE_RECORD.most:
            break
    if not lines:
        return None
    yield begin, end_of_first, lines[0]
    return end_of_first


def _is_one(record: bytes, values: int | None) -> bool:
    try:
        return values in (None, len(values_of(record)))
    except UnreadableMessage:
        return False


def values_of(record: bytes) -> list[str]:
    """The values of a record; raises `UnreadableMessage`."""
    text = text_of(record)
    if '"' not in text:
        return text.rstrip("\r\n").split(",")
    try:
        return next(iter(csv.reader(io.StringIO(text, newline=""), strict=True)), [])
    except csv.Error as error:
        raise UnreadableMessage(f"is no CSV: {error}") from None
