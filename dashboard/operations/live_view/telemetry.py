"""Writing what is observed of nodes: when they were seen. No state changes, so nothing is audited."""

from __future__ import annotations

from datetime import datetime

from dashboard import jobs
from dashboard.operations.live_view.nodes import take_in_nodes
from dashboard.operations.models import NodeRow
from dashboard.teams.permissions import Viewer
from scheduler.model.checks import is_count
from scheduler.model.profile import MOST_THREADS
from scheduler.performance.shipped import SPEED

MOST_TIMES = 100.0  # that cores are faster or slower than those of profiles: what is beyond is a wrong report
EVERYTHING = Viewer(user_id=-1, roles={}, superuser=True)


def is_speed(speed: float | None) -> bool:
    """True if cores may be that fast: all estimates of profiles, for plans of all teams, are worked out by it."""
    return speed is not None and SPEED / MOST_TIMES <= speed <= SPEED * MOST_TIMES


def record_nodes(*, at: datetime) -> int:
    """Note when nodes were seen, what class of machine they are, by which profiles fit them or not, how many threads
    their drivers have and how fast their cores are; how many report.

    Those that nobody knew join the estate, by a command that leaves its row.
    """
    reports = jobs.read_live([], {}).reports
    take_in_nodes(reports)
    nodes = NodeRow.objects.filter(name__in=list(reports))
    nodes.update(seen=at)
    for name, machine, threads, speed in nodes.values_list("name", "machine", "threads", "speed"):
        report = reports[name]
        before = {"machine": machine, "threads": threads, "speed": speed}
        # An agent of an older version tells neither threads nor speed.
        now = {
            "machine": report.machine[:120],
            "threads": report.threads if is_count(report.threads, most=MOST_THREADS) else None,
            "speed": report.speed if is_speed(report.speed) else speed}
        if now != before:
            nodes.filter(name=name).update(**now)
    return len(reports)
