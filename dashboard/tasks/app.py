"""The start of a Celery worker: Django set up, and the tasks. When each is due is ``clock.py``'s.

Everybody else sends tasks through ``dashboard.queue``.
"""

from __future__ import annotations

import os
import threading

import django
import structlog
from celery.signals import setup_logging, task_prerun, worker_ready
from django.apps import apps
from django.db import connections

from dashboard.queue import app

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.config.settings")
if not apps.ready:
    django.setup()  # a worker is started by this module; the site has set Django up already

from dashboard.core.database import keep_connection
from dashboard.core.garbage_collection import settle
from dashboard.operations.diagnosis.refused_expressions import refused_expressions

log = structlog.get_logger(__name__)

app.conf.update(
    include=["dashboard.tasks.planning", "dashboard.tasks.execution", "dashboard.tasks.telemetry",
             "dashboard.tasks.measuring", "dashboard.tasks.simulating", "dashboard.tasks.tidying",
             "dashboard.tasks.recording", "dashboard.tasks.controlling", "dashboard.tasks.alerting",
             "dashboard.tasks.clock"],
)


@setup_logging.connect
def _keep_the_sites_logging(**_: object) -> None:
    """Django's settings configure the log; Celery leaves it alone."""


@task_prerun.connect
def _keep_the_connection(**_: object) -> None:
    """The worker's threads take one task after the other."""
    keep_connection()


@worker_ready.connect
def _settle(**_: object) -> None:
    settle()


@worker_ready.connect
def _look_at_expressions(**_: object) -> None:
    # Beside the worker: a thousand documents take seconds.
    threading.Thread(target=tell_refused_expressions, name="refused-expressions", daemon=True).start()


def tell_refused_expressions() -> None:
    """Warn of each expression that an earlier version took in and this one refuses."""
    try:
        for refused in refused_expressions():
            log.warning(
                "an expression is refused by this version", dataflow=refused.dataflow, task=refused.task,
                why=refused.why, remedy="Submit another version of the dataflow, or remove it: the query is given up.")
    finally:
        connections.close_all()  # the thread's own
