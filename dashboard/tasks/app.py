"""What a Celery worker starts with: Django set up, and the tasks. When each is due is ``clock.py``'s.

Everybody else sends tasks through ``dashboard.queue``.
"""

from __future__ import annotations

import os

import django
from celery.signals import setup_logging, task_prerun, worker_ready
from django.apps import apps

from dashboard.queue import app

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.config.settings")
if not apps.ready:
    django.setup()  # a worker is started by this module; the site has set Django up already

from dashboard.core.database import keep_connection
from dashboard.core.garbage_collection import settle

app.conf.update(
    include=["dashboard.tasks.planning", "dashboard.tasks.execution", "dashboard.tasks.telemetry",
             "dashboard.tasks.measuring", "dashboard.tasks.tidying", "dashboard.tasks.recording",
             "dashboard.tasks.controlling", "dashboard.tasks.alerting"],
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
