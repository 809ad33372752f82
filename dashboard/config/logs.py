"""Logs through structlog: one line an event, with its facts as keys."""

from __future__ import annotations

import logging.config
from typing import Any

import structlog

_SHARED = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


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
        ],
    }
    config = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"logfmt": formatter},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "logfmt"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            # Django logs every 4xx as a warning; the access log tells these already.
            "django.request": {"level": "ERROR"},
            "uvicorn.error": {"level": "WARNING"},
        },
    }
    logging.config.dictConfig(config)
    return config
