"""The Celery app: JSON only, at least once, on the same broker as everything else.

A task is acknowledged when it is done, and given to another worker when its own was killed: every task is safe to run
twice. No task is long, so the broker may hand out an unacknowledged one again after five minutes.
"""

from __future__ import annotations

import os

import django
from celery import Celery
from celery.signals import setup_logging
from django.apps import apps
from django.conf import settings

from workers import names

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.config.settings")
if not apps.ready:
    django.setup()  # a worker is started by this module; the site has set Django up already

LONGEST_TASK_S = 120
VISIBILITY_TIMEOUT_S = 300
REPUBLISH_EVERY_S = 10.0
OBSERVE_EVERY_S = 10.0
CHARGE_EVERY_S = 15.0
ADVANCE_EVERY_S = 1.0
MEASURE_EVERY_S = 2.0
OBSERVE_PROFILES_EVERY_S = 60.0
SWEEP_EVERY_S = 15.0
DEFRAGMENT_EVERY_S = 300.0


def _every(seconds: float, task: str) -> dict[str, object]:
    # An overdue beat is worth nothing once the next one is due: without a worker they must not pile up.
    return {"task": task, "schedule": seconds, "options": {"expires": max(seconds, 2.0)}}


app = Celery(
    "weir", broker=settings.REDIS_URL,
    include=["workers.tasks.planning", "workers.tasks.execution", "workers.tasks.telemetry", "workers.tasks.measuring"],
)


app.conf.update(
    task_serializer="json",
    accept_content=["json"],
    task_ignore_result=True,
    task_default_queue=names.QUEUE,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_time_limit=LONGEST_TASK_S,
    task_publish_retry=False,
    task_store_errors_even_if_ignored=False,
    worker_prefetch_multiplier=1,
    worker_send_task_events=False,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_transport_options={
        "visibility_timeout": VISIBILITY_TIMEOUT_S,
        # Together: what a killed worker left unacknowledged is looked for every 5 s.
        "unacked_restore_interval": 5,
        "unacked_restore_throttle": 1,
        "socket_connect_timeout": 2.0,
        "socket_keepalive": True,
        "global_keyprefix": "weir:celery:",
    },
    timezone="UTC",
    beat_schedule={
        "advance_proposals": _every(ADVANCE_EVERY_S, names.ADVANCE_PROPOSALS),
        "republish_desired": _every(REPUBLISH_EVERY_S, names.REPUBLISH_DESIRED),
        "record_observations": _every(OBSERVE_EVERY_S, names.RECORD_OBSERVATIONS),
        "record_usage": _every(CHARGE_EVERY_S, names.RECORD_USAGE),
        "advance_sweeps": _every(MEASURE_EVERY_S, names.ADVANCE_SWEEPS),
        "observe_profiles": _every(OBSERVE_PROFILES_EVERY_S, names.OBSERVE_PROFILES),
        "sweep": _every(SWEEP_EVERY_S, names.SWEEP),
        "recommend_defragmentation": _every(DEFRAGMENT_EVERY_S, names.RECOMMEND_DEFRAGMENTATION),
    },
)


@setup_logging.connect
def _keep_the_sites_logging(**_: object) -> None:
    """Django's settings configure the log; Celery leaves it alone."""
