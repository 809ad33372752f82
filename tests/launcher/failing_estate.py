"""Two dataflows on the same first tasks, one of which soon can only fail; and how that one is.

    python -m tests.launcher.failing_estate submit   (with WEIR_DATA_DIR and REDIS_URL of a system that runs)
    python -m tests.launcher.failing_estate tell     (prints JSON)
    python -m tests.launcher.failing_estate resume
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from .carried_estate import Estate, document, sink

STEADY, FAILING, RATE_PER_S = "Smoothed", "Failing", 100.0
BROKEN_AT = 1_000  # the number of the first message that it can do nothing with
FAILS = {"id": "fail", "type": "python", "config": {
    "function": "sensors.checks:picky", "version": "1.2", "columns": ["twice:double"],
    "arguments": {"not": [BROKEN_AT]}}}


def submit() -> None:
    """One that smooths, and one with a function that raises from some message on, each time; both run afterwards."""
    estate = Estate()
    estate.submit(document(STEADY, sink("smoothed"), rate_per_s=RATE_PER_S))
    estate.submit(document(FAILING, FAILS, sink("failing"), chain=2, rate_per_s=RATE_PER_S))


def tell() -> dict[str, Any]:
    """How the dataflows are, what the trail says that Weir did by itself, and what the failing one's page says."""
    from dashboard.audit.models import AuditEntry
    from dashboard.catalog.models import DataflowRecord
    from dashboard.operations.live_reader import live_dataflow
    from dashboard.teams.models import User
    from dashboard.teams.permissions import viewer_of

    records = {record.name: record for record in DataflowRecord.objects.filter(name__in=[STEADY, FAILING])}
    health = live_dataflow(viewer_of(User.objects.get(username="carla")), records[FAILING].pk)["health"]
    return {
        "status": {name: record.status for name, record in records.items()},
        "verbs": [entry.verb for entry in AuditEntry.objects.filter(actor=None, verb__startswith="dataflow.pause")],
        "states": sorted({finding["state"] for finding in health.values()}),
    }


def resume() -> None:
    """The failing one, though nothing is mended: it goes on behind what it failed with."""
    from dashboard.catalog.models import DataflowRecord

    Estate().propose("resume_dataflow", DataflowRecord.objects.get(name=FAILING))


def main(what: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.config.settings")
    import django

    django.setup()
    if what == "tell":
        print(json.dumps(tell()))
    else:
        {"submit": submit, "resume": resume}[what]()


if __name__ == "__main__":
    main(sys.argv[1])
