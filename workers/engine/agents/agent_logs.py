"""Structured logs of agents and slots: one JSON object a line."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

import structlog


def configure(stream: TextIO, **always: object) -> None:
    """Send logs to ``stream``, each line with the facts in ``always``.

    Where the stream cannot be written (it is a file on the data's disk, and that is full) lines are lost, and what
    logs goes on.
    """
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(_Lossy(stream)),
        cache_logger_on_first_use=True,
    )
    for name, value in always.items():
        _ALWAYS[name] = value


def passed_on(stream: TextIO) -> Callable[[str], None]:
    """Writes what other processes log, line by line, to the same stream; lines that it cannot write are lost."""
    lossy = _Lossy(stream)

    def write(text: str) -> None:
        lossy.write(text)
        lossy.flush()

    return write


class _Lossy:
    """A stream that loses what it cannot write."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # it may have been closed
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


_ALWAYS: dict[str, object] = {}


def logger() -> structlog.stdlib.BoundLogger:
    """A logger bound to what ``configure`` was given."""
    return structlog.get_logger(**_ALWAYS)
