"""Limits on the growth of the database: steps that are safe to repeat, each for itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import structlog
from django.utils import timezone

from dashboard import queue
from dashboard.alerts.evaluating import forget_alerts
from dashboard.approvals.policy_retention import forget_policies
from dashboard.approvals.services import forget_plans
from dashboard.audit.audit_archive import archive_months
from dashboard.bills.charging import forget_usage
from dashboard.bills.rollup import roll_up_days
from dashboard.controllers.stored_rounds import forget_reasons
from dashboard.core.database import give_back_space
from dashboard.core.ended_sessions import drop_ended_sessions
from dashboard.outbox.sending import forget_deliveries
from dashboard.profiles.services.trial_retention import forget_series
from dashboard.queue import app
from dashboard.simulations.simulation_driver import forget_simulations
from dashboard.teams.logins import forget_old_failures

log = structlog.get_logger(__name__)

STEPS: tuple[Callable[[datetime], int], ...] = (
    archive_months, forget_series, forget_plans, forget_policies, forget_usage, roll_up_days, drop_ended_sessions,
    forget_alerts, forget_reasons, forget_deliveries, forget_simulations, forget_old_failures, give_back_space)


@app.task(name=queue.TIDY)
def tidy() -> dict[str, int]:
    """Archive, forget and roll up what is old, then give the space back; what each step did."""
    done: dict[str, int] = {}
    at = timezone.now()
    for step in STEPS:
        try:
            done[step.__name__] = step(at)
        except Exception as error:  # such as a full disk: the others may make room
            log.warning("not_tidied", step=step.__name__, error=str(error))
    return done
