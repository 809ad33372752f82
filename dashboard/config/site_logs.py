"""Logs through structlog: one line an event, with its facts as keys."""

from __future__ import annotations

import logging.config
import re
import time
from typing import Any

import structlog

from scheduler.model.positions import TURNS

_SHARED = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


QUIET_S = 60.0
LONGEST_TOLD = 300
# What a terminal obeys, and what turns the direction of text: a path or an answer of another system may have it.
_UNSHOWN = re.compile(f"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f{TURNS}]")


class Quietly(logging.Filter):
    """Lets one line a minute pass of what anybody can have logged by a request that is refused, such as one for a host
    that is not ours: without its traceback, cut, and with how many there were meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self._next_s, self._hushed_count = 0.0, 0

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith("django.security"):
            return True
        if time.monotonic() < self._next_s:
            self._hushed_count += 1
            return False
        more = f" ({self._hushed_count} more since)" if self._hushed_count else ""
        record.msg, record.args = f"{record.getMessage()[:LONGEST_TOLD]}{more}", ()
        record.exc_info = record.exc_text = None
        self._next_s, self._hushed_count = time.monotonic() + QUIET_S, 0
        return True


def shown(_logger: object, _method: str, line: str) -> str:
    """The line, with U+FFFD for each character that whoever reads it would not see."""
    return _UNSHOWN.sub("\ufffd", line)


def logging_config(*, level: str) -> dict[str, Any]:
    """Configure structlog and the standard library's logging, and return the latter's dictionary."""
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    formatter = {
        "()": structlog.stdlib.ProcessorFormatter,
        "foreign_pre_chain": list(_SHARED),
        "processors": [
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "logger", "event"], drop_missing=True),
            shown,
        ],
    }
    config = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"logfmt": formatter},
        "filters": {"quietly": {"()": Quietly}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "logfmt", "filters": ["quietly"]}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            # Django logs every 4xx as a warning; the access log tells these already.
            "django.request": {"level": "ERROR"},
            "uvicorn.error": {"level": "WARNING"},
            # A line when a job comes and one when it is done, for a job every second: what fails is an error.
            "celery.worker.strategy": {"level": "WARNING"},
            "celery.app.trace": {"level": "WARNING"},
        },
    }
    logging.config.dictConfig(config)
    return config
