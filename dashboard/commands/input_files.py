"""Files that commands are given."""

from __future__ import annotations

import sys
from pathlib import Path

from django.core.management.base import CommandError


def text_of(file: str) -> str:
    """The text of a file, or of standard input for ``-``; a ``CommandError`` where it cannot be read or is no UTF-8."""
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{file} is not UTF-8: byte {error.start + 1} cannot stand there.") from error
