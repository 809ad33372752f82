"""`./weir node list`, `./weir node remove NAME`: the machines whose slots the estate has."""

from __future__ import annotations

from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError

from dashboard import jobs
from dashboard.operations.nodes import take_out_node, unpinned
from dashboard.operations.selectors import nodes
from scheduler.model.errors import WeirError


class Command(BaseCommand):
    help = "List the nodes of the estate, or take one out whose agent has been stopped. One joins when its agent runs."

    def add_arguments(self, parser: ArgumentParser) -> None:
        words = parser.add_subparsers(dest="word", required=True)
        words.add_parser("list", help="name, slots, class of machine, and when it was heard of")
        remove = words.add_parser("remove", help="offer its slots no more")
        remove.add_argument("name")

    def handle(self, *, word: str, name: str = "", **_: object) -> None:
        if word == "list":
            self._list()
            return
        try:
            take_out_node(name=name)
        except WeirError as error:
            raise CommandError(error.full_message) from error
        self.stdout.write(f"{name} offers no slots any more.")

    def _list(self) -> None:
        reports = jobs.read_live((), {}).reports
        for node in nodes():
            seen = "reports" if node.name in reports else f"last heard of {node.seen:%Y-%m-%d %H:%M} UTC" if node.seen \
                else "never heard of"
            report = unpinned(reports.node(node.name))
            held = f", slots not held to cores of their own: {report}" if report else ""
            own = reports.node(node.name)
            link = f", link to the broker: {own.link}" if own and own.link else ""
            self.stdout.write(
                f"{node.name}: {node.slots} slots, {node.machine or 'unknown machine'}, {seen}{held}{link}")
