"""`./weir node list`, `machines`, and `drain`, `undrain`, `remove` with a name: machines whose slots the estate has;
`order`, `decline` with the name of one that is recommended."""

from __future__ import annotations

from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from dashboard import jobs
from dashboard.approvals.drains import Drain, QueryThere, drain_of
from dashboard.approvals.services.machine_ordering import decline_machine, order_machine
from dashboard.commands.actors import actor_of
from dashboard.controllers.machine_states import UNPAID_STATES
from dashboard.controllers.machines_told import machines_told
from dashboard.operations.live_view.nodes import take_out_node, unpinned
from dashboard.operations.selectors import nodes
from dashboard.operations.services import drain_node, undrain_node
from scheduler.model.errors import WeirError


class Command(BaseCommand):
    help = ("List the nodes of the estate, drain one for maintenance, or take one out whose agent has been stopped. "
            "One joins when its agent runs.")

    def add_arguments(self, parser: ArgumentParser) -> None:
        words = parser.add_subparsers(dest="word", required=True)
        words.add_parser("list", help="name, slots, class of machine, and when it last reported")
        words.add_parser("machines", help="machines ordered for adaptation, and their state")
        for word, text in (("order", "start a machine that is recommended for adaptation"),
                           ("decline", "do not start it; none is recommended for a day")):
            answer = words.add_parser(word, help=text)
            answer.add_argument("name")
            answer.add_argument("--as", dest="username", help="who asks; otherwise the first administrator")
        drain = words.add_parser("drain", help="place nothing new on it, and move to others what can move")
        drain.add_argument("name")
        undrain = words.add_parser("undrain", help="use it again as any other")
        undrain.add_argument("name")
        remove = words.add_parser("remove", help="offer its slots no more")
        remove.add_argument("name")

    def handle(self, *, word: str, name: str = "", username: str | None = None, **_: object) -> None:
        if word == "list":
            self._list()
            return
        if word == "machines":
            self._machines()
            return
        try:
            if word == "drain":
                self._drain(name)
            elif word == "order":
                order_machine(actor=actor_of(username), node=name, at=timezone.now())
                self.stdout.write(f"{name} is ordered.")
            elif word == "decline":
                decline_machine(actor=actor_of(username), node=name, at=timezone.now())
                self.stdout.write(f"{name} is declined.")
            elif word == "undrain":
                undrain_node(name=name)
                self.stdout.write(f"{name} is used again.")
            else:
                take_out_node(name=name)
                self.stdout.write(f"{name} offers no slots any more.")
        except WeirError as error:
            raise CommandError(error.full_message) from error

    def _drain(self, name: str) -> None:
        """Begin, or go on, and tell what goes, what waits for what, and what stays; the exit code says whether
        something stays."""
        drain_node(name=name)
        drain = drain_of(name)
        going = len(drain.queries) - len(drain.staying)
        self.stdout.write(
            f"Nothing new is placed on {name}. Of {_queries(len(drain.queries))} there {going} "
            f"{'moves' if going == 1 else 'move'} to other nodes, one after the other: `./weir node list` says how "
            "many are left.")
        for query in drain.waiting:
            self.stdout.write(_waits(query))
        if drain.staying:
            raise CommandError("\n".join([
                f"{len(drain.staying)} cannot go:",
                *(f"  {query.id} on {query.slot} ({query.name}): {query.why_not}" for query in drain.staying)]))

    @staticmethod
    def _drain_progress(drain: Drain) -> str:
        if drain.queries:
            return f"{_queries(len(drain.queries))} left"
        if drain.leaving:
            return f"{_queries(drain.leaving)} still handed over"
        return "empty: its agent can be stopped" if drain.is_empty else "nothing is to run there"

    def _machines(self) -> None:
        listing = machines_told(with_errors=True)
        if listing["provider"] == "none":
            self.stdout.write("No machine is ordered: WEIR_MACHINE_COMMAND names no command, nor WEIR_MACHINE_WEBHOOK "
                              "an address.")
        for row in listing["machines"]:
            until = "was paid until" if row["ended"] else "is paid until"
            slots = "a slot" if row["slots"] == 1 else f"{row['slots']} slots"
            paid = f"for {row['per_hour']:.4g} {listing['currency']} an hour" if row["state"] in UNPAID_STATES else (
                f"ordered {row['ordered']:%Y-%m-%d %H:%M} UTC, {until} {row['paid_until']:%Y-%m-%d %H:%M} UTC, "
                f"{row['cost']:.4g} {listing['currency']}")
            self.stdout.write(
                f"{row['node']}: {row['state']}, {row['size']} with {slots}, {paid}. "
                f"{row['why']} {row['why_back']} {row['error']}".rstrip())

    def _list(self) -> None:
        reports = jobs.read_live((), {}).reports
        for node in nodes():
            last_report = "reports" if node.name in reports else (
                f"last reported {node.seen:%Y-%m-%d %H:%M} UTC" if node.seen else "never reported")
            report = unpinned(reports.node(node.name))
            pinning_text = f", slots not held to cores of their own: {report}" if report else ""
            node_report = reports.node(node.name)
            link = f", link to the broker: {node_report.link}" if node_report and node_report.link else ""
            drained = f", drained, {self._drain_progress(drain_of(node.name))}" if node.draining_since else ""
            self.stdout.write(
                f"{node.name}: {node.slots} {'slot' if node.slots == 1 else 'slots'}, "
                f"{node.machine or 'unknown machine'}, {last_report}{pinning_text}{link}{drained}")


def _queries(count: int) -> str:
    return f"{count} {'query' if count == 1 else 'queries'}"


def _waits(query: QueryThere) -> str:
    again = f" It is tried again from {query.again_at:%H:%M:%S} UTC on." if query.again_at else ""
    link = f" See /proposals/{query.proposal}/." if query.proposal else ""
    return f"  {query.id} on {query.slot} ({query.name}) waits: {query.held}{again}{link}"
