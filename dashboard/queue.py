"""The task queue: the Celery app and the names of its tasks, so that whoever sends a task need not import it.

Messages are JSON, delivered at least once, on the same broker as everything else. A task is acknowledged when it is
done, and given to another worker when its own was killed: every task is safe to run twice. No task is long, so the
broker may hand out an unacknowledged one again after five minutes.
"""

from __future__ import annotations

from celery import Celery
from django.conf import settings

QUEUE = "weir"

PREPARE_PROPOSAL = "weir.prepare_proposal"
CARRY_OVER = "weir.carry_over"
ENACT = "weir.enact"
ADVANCE_PROPOSALS = "weir.advance_proposals"
REPUBLISH_DESIRED = "weir.republish_desired"
RECORD_OBSERVATIONS = "weir.record_observations"
OBSERVE_PROFILES = "weir.observe_profiles"
ADVANCE_SWEEPS = "weir.advance_sweeps"
ADVANCE_SIMULATIONS = "weir.advance_simulations"
FIT_COSTS = "weir.fit_costs"
RECORD_USAGE = "weir.record_usage"
RUN_CONTROLLERS = "weir.run_controllers"
ADVANCE_MACHINES = "weir.advance_machines"
ENACT_HELD = "weir.enact_held"
GUARD = "weir.guard"
GO_ON = "weir.go_on"
SWEEP = "weir.sweep"
TIDY = "weir.tidy"
EVALUATE_ALERTS = "weir.evaluate_alerts"
DELIVER = "weir.deliver"
EMIT_LINEAGE = "weir.emit_lineage"

LONGEST_TASK_S = 120
VISIBILITY_TIMEOUT_S = 300

app = Celery("weir")
app.config_from_object("django.conf:settings", namespace="CELERY")  # read when it is first used
app.conf.update(
    task_serializer="json",
    accept_content=["json"],
    task_ignore_result=True,
    task_default_queue=QUEUE,
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
    broker_channel_error_retry=True,  # a broker whose disk is full refuses all that would write, as taking a job does
    broker_transport_options={
        "visibility_timeout": VISIBILITY_TIMEOUT_S,
        # Together: what a killed worker left unacknowledged is looked for every 5 s.
        "unacked_restore_interval": 5,
        "unacked_restore_throttle": 1,
        "socket_connect_timeout": 2.0,
        # Who sends a job does not wait for a broker that is away: six seconds, unless told. The sweep sends it again.
        "max_retries": 1,
        "interval_start": 0,
        "interval_step": 0,
        "socket_keepalive": True,
        "global_keyprefix": "weir:celery:",
        **settings.QUEUE_ADDRESS_OPTIONS,
    },
    timezone="UTC",
)
