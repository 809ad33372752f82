"""`./weir logs DATAFLOW`: the newest lines of the log of a dataflow, of one of its tasks, or of a process of a node."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from typing import Any

from django.core.management.base import CommandError

from dashboard.catalog.models import DataflowRecord
from dashboard.commands.actors import actor_of
from dashboard.commands.proposing import DataflowCommand
from dashboard.operations.live_view.log_reading import (
    INFO,
    LEVELS,
    LINES,
    LogQuestion,
    ReadLog,
    as_text,
    dataflow_log,
    process_log,
)
from dashboard.teams.models import User
from dashboard.teams.permissions import viewer_of
from scheduler.model.errors import WeirError

FOLLOWS_S = 1.0


class Command(DataflowCommand):
    help = "Print the newest lines of a dataflow's log, or with --process of a slot, a spare driver or connectors."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser, dataflow_needed=False)
        parser.add_argument("--task", default="", help="one of its tasks")
        parser.add_argument(
            "--process", metavar="NODE/PROCESS", help="a slot's index, spare or connectors of a node, as n1/0")
        parser.add_argument("--level", default=INFO, choices=LEVELS, help="the least level (%(default)s)")
        parser.add_argument("--search", default="", help="only lines with this text, whatever its case")
        parser.add_argument("--lines", type=int, default=LINES, help="how many at most (%(default)s)")
        parser.add_argument("--follow", action="store_true", help="go on with what comes, until Ctrl-C")

    def handle(self, *, dataflow: str | None, username: str | None, **options: Any) -> None:
        if (dataflow is None) == (options["process"] is None):
            raise CommandError("Name a dataflow, or a process of a node with --process NODE/PROCESS.")
        if dataflow is not None:
            super().handle(dataflow=dataflow, username=username, **options)
            return
        node, _, process = options["process"].partition("/")
        viewer = viewer_of(actor_of(username))
        try:
            self._print(lambda question: process_log(viewer, node, process, question), options)
        except WeirError as error:
            raise CommandError(error.full_message) from error

    def act(self, record: DataflowRecord, actor: User, options: Mapping[str, Any]) -> str:
        viewer, task = viewer_of(actor), options["task"]
        self._print(lambda question: dataflow_log(viewer, record.pk, question, task=task), options)
        return ""

    def _print(self, read: Callable[[LogQuestion], ReadLog], options: Mapping[str, Any]) -> None:
        after = ""
        while True:
            log = read(LogQuestion(options["level"], options["search"], options["lines"], after))
            for line in as_text(log):
                self.stdout.write(line, ending="")
            if log.missing and not after:
                self.stderr.write(f"{', '.join(log.missing)} did not answer: see whether its agent runs.")
            if not options["follow"]:
                return
            self.stdout.flush()
            after = log.after
            time.sleep(FOLLOWS_S)
