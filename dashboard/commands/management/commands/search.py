"""`./weir search DATAFLOW TASK CONDITION`: the events of a running stream that meet a condition, as they come."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from dashboard.catalog.models import DataflowRecord
from dashboard.commands.proposing import DataflowCommand
from dashboard.explorer.stream_searches import EVENTS, SECONDS, begin_search, search
from dashboard.operations.selectors import running_task_of
from dashboard.teams.models import User
from dashboard.teams.permissions import viewer_of

EVERY_S = 1.0


class Command(DataflowCommand):
    help = "Print the newest events of a task's stream that meet an SQL condition, of those that come for some seconds."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("task", help="the task whose stream is searched")
        parser.add_argument("condition", help="over its columns, as \"value > 100 AND sensor = 'a'\"")
        parser.add_argument("--seconds", type=int, default=SECONDS, help="for how long (%(default)s, 60 at most)")
        parser.add_argument("--events", type=int, default=EVENTS, help="how many at most (%(default)s, 50 at most)")

    def act(self, record: DataflowRecord, actor: User, options: Mapping[str, Any]) -> str:
        viewer = viewer_of(actor)
        search_id = begin_search(
            actor=actor, task_id=running_task_of(viewer, record.pk, options["task"]), where=options["condition"],
            seconds=options["seconds"], count=options["events"])
        while not (progress := search(viewer, search_id)).is_over:
            time.sleep(EVERY_S)
        if progress.message:
            return f"{progress.message} {progress.remedy}"
        events = [json.dumps(event) for event in reversed(progress.events)]
        return "\n".join([*events, f"{progress.found} of {progress.looked_at} events met the condition."])
