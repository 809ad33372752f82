"""Small dataflows in a system that runs, under one latency limit after the other: what they take and how late they are.

    python -m tests.benches.latency_cost_estate [--built-in] DATAFLOWS[,DATAFLOWS…] SETTLE_S SECONDS LIMIT...

with WEIR_DATA_DIR and REDIS_URL of that system, and its process in BENCH_SYSTEM_PID. Writes a line of JSON for each
number of dataflows and limit.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from tests.benches.tree_usage import by_kind

if TYPE_CHECKING:
    from scheduler.contracts.reports import SlotReport

DONE_S = 900.0
RATE_PER_S = 10
AT_ONCE = 8
SYSTEM_PID = "BENCH_SYSTEM_PID"


def document(number: int, *, is_built_in: bool = False) -> dict[str, Any]:
    """Five tasks in a line, of which no other dataflow has one; ``is_built_in``: the four of built-in expressions."""
    names = ("sense", "parse", "plausible", *(() if is_built_in else ("average",)), "out")
    return {
        "name": f"Small {number:02d}",
        "tasks": [
            {"id": "sense", "type": "urban_sensing", "config": {"seed": 1_000 + number}},
            {"id": "parse", "type": "senml_parse"},
            {"id": "plausible", "type": "range_filter", "config": {"ranges": {"temperature": [-30, 60]}}},
            *(() if is_built_in else ({"id": "average", "type": "block_average", "config": {"window": 10}},)),
            {"id": "out", "type": "output", "config": {"name": f"small-{number}"}}],
        "streams": [{"from": before, "to": after} for before, after in itertools.pairwise(names)],
        "rates": {"sense": RATE_PER_S}}


def main() -> None:
    """Submit, and measure under each limit."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.config.settings")
    import django

    django.setup()
    from dashboard.catalog.models import DataflowRecord
    from dashboard.catalog.services import choose_latency
    from dashboard.teams.models import User
    from scheduler.model.documents import read_limits

    arguments = sys.argv[1:]
    is_built_in = "--built-in" in arguments
    counts, settle_s, seconds, *limits = (text for text in arguments if text != "--built-in")
    author, running = User.objects.get(username="carla"), 0
    for count in map(int, counts.split(",")):
        began_s = time.monotonic()
        _submit(range(running, count), is_built_in=is_built_in)
        started_s, running = time.monotonic() - began_s, count
        for limit in limits:
            chosen = read_limits(limit, tasks=(), streams=())
            for record in DataflowRecord.objects.filter(name__startswith="Small "):
                choose_latency(actor=author, dataflow_id=record.pk, limits=chosen)
            time.sleep(float(settle_s))
            row = {"limit": limit, "dataflows": count, "started_s": round(started_s, 1)} | _measured(float(seconds))
            sys.stdout.write(json.dumps(row) + "\n")
            sys.stdout.flush()


def _submit(numbers: range, *, is_built_in: bool) -> None:
    """Submit and approve all, some at once, and wait until they run."""
    from dashboard.approvals.services import approve_proposal, prepare_proposal, submit_dataflow
    from dashboard.teams.models import Team, User

    author, approver = (User.objects.get(username=name) for name in ("carla", "ana"))
    team = Team.objects.get(slug="city")
    for number in numbers:
        text = json.dumps(document(number, is_built_in=is_built_in))
        proposal = submit_dataflow(actor=author, team=team, text=text, format="json")
        proposal = prepare_proposal(proposal_id=proposal.pk)
        approve_proposal(actor=approver, proposal_id=proposal.pk, digest=proposal.plan.digest)
        _until_done(waiting=AT_ONCE)
    _until_done(waiting=0)


def _until_done(*, waiting: int) -> None:
    """Wait until no more plans than that are not in force; what controllers recommend meanwhile waits for people."""
    from dashboard.approvals.models import Proposal

    deadline = time.monotonic() + DONE_S
    proposals = Proposal.objects.filter(round=None).exclude(status="done")
    while len(left := list(proposals.values_list("dataflow__name", "status"))) > waiting:
        if time.monotonic() > deadline:
            raise TimeoutError(f"not done after {DONE_S:.0f} s: {left}")
        time.sleep(1)


def _measured(seconds: float) -> dict[str, Any]:
    """Cores of all slots over a time, and what was measured of each dataflow at its end."""
    from dashboard import jobs
    from dashboard.catalog.models import DataflowRecord
    from dashboard.history.history_store import DatabaseHistory
    from dashboard.operations.latency_control.limit_statuses import warm_moments
    from dashboard.operations.models import BatchFigures, FragmentRow, LatencyStatus
    from scheduler.history.series import DATAFLOW, SECOND, Series

    system = int(os.environ[SYSTEM_PID])
    before_ms, began_s, parts = _cpu_ms(), time.time(), by_kind(system)
    time.sleep(seconds)
    cores = (_cpu_ms() - before_ms) / 1000 / (time.time() - began_s)
    parts_taken = by_kind(system).since(parts)
    small = {str(pk) for pk in DataflowRecord.objects.filter(name__startswith="Small ").values_list("pk", flat=True)}
    end_s = int(time.time())
    rows = [row for row in LatencyStatus.objects.all() if str(row.dataflow_id) in small]
    history = DatabaseHistory()

    def of(metric: str) -> list[float]:
        points = history.read([Series(DATAFLOW, key, metric) for key in small], SECOND,
                              begin_s=end_s - int(seconds), end_s=end_s)
        measured = [[value for value in line.values if value == value] for line in points.values()]
        return [sum(values) / len(values) for values in measured if values]

    means, p50, p99 = of("latency_mean_ms"), of("latency_p50_ms"), of("latency_p99_ms")
    return {
        "cores": round(cores, 3), "memory_mb": round(sum(slot.memory_mb or 0.0 for slot in _slots())),
        **parts_taken,
        "interval_s": round(median(
            row.trigger_ms / 1000 for row in BatchFigures.objects.select_related("fragment")), 3),
        "open": FragmentRow.objects.filter(real_time=True).count(),
        "mean_ms": _rounded(means), "worst_mean_ms": round(max(means, default=0.0)), "p50_ms": _rounded(p50),
        "p99_ms": _rounded(p99), "measured": len(means),
        "expected_ms": _rounded([1000 * row.expected_s for row in rows]),
        # By drivers that began lately nothing is promised.
        "promised": 0 if warm_moments(jobs.read_live((), {}).reports) else sum(row.least_s is None for row in rows),
        "met": sum(row.state == "met" for row in rows),
        # Of promised ones; the others are said to be impossible.
        "missed": sum(row.state == "missed" for row in rows), "waiting": sum(row.state == "waiting" for row in rows)}


def _cpu_ms() -> int:
    """CPU that all slots have used since they began."""
    return sum(slot.used.cpu_ms for slot in _slots() if slot.used)


def _slots() -> list[SlotReport]:
    """What nodes report of their slots."""
    from dashboard.operations.live_view.estate_view import view_for
    from dashboard.operations.live_view.telemetry import EVERYTHING

    return [slot for report in view_for(EVERYTHING).reading.reports.values() for slot in report.slots.values()]


def _rounded(values: Sequence[float]) -> int | None:
    return round(median(values)) if values else None


if __name__ == "__main__":
    main()
