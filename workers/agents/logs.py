"""Structured logs of agents and slots: one JSON object a line."""

from __future__ import annotations

import logging
from typing import TextIO

import structlog


def configure(stream: TextIO, **always: object) -> None:
    """Send logs to ``stream``, each line with the facts in ``always``."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    for name, value in always.items():
        _ALWAYS[name] = value


_ALWAYS: dict[str, object] = {}


def logger() -> structlog.stdlib.BoundLogger:
    """A logger bound to what ``configure`` was given."""
    return structlog.get_logger(**_ALWAYS)
