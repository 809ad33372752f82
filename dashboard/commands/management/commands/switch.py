"""`./weir switch DATAFLOW [TASK ALTERNATE]`: which alternates of a dataflow's tasks are on; or propose another one."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandError

from dashboard.approvals.models import Proposal
from dashboard.approvals.services import switch_alternate, switch_key
from dashboard.catalog.models import DataflowRecord
from dashboard.commands.proposing import ProposingCommand
from dashboard.operations.live_view.dynamic_reader import DynamicTask, dynamic_tasks, with_switches
from dashboard.plans.alternate_figures import with_figures
from dashboard.teams.models import User
from dashboard.teams.permissions import viewer_of
from scheduler.model.units import in_unit
from scheduler.model.warm_up import at_work_in_words, working


def _propose(*, key: Sequence[str], at_once: bool, along: Mapping[str, str], **choice: Any) -> Proposal:
    """A switch of one key where one is given, else of the whole task, with others along."""
    if key and along:
        raise CommandError("--key is of one task alone: leave out --along, or propose the other tasks by themselves.")
    return switch_key(key=key, **choice) if key else switch_alternate(at_once=at_once, along=along, **choice)


class Command(ProposingCommand):
    help = "Say which alternates of a dataflow's tasks are on, or propose that a task is done by another one."
    propose = staticmethod(_propose)

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("task", nargs="?", help="the task's id in the dataflow; without it nothing is proposed")
        parser.add_argument("alternate", nargs="?", help="the name of the alternate that is to be on")
        parser.add_argument(
            "--along", metavar="TASK=ALTERNATE", action="append", default=[],
            help="another task that switches with it, in the same wave; may be given several times")
        parser.add_argument("--hold", help="how long it stays so, whatever policies want, such as \"2 h\"; an hour")
        parser.add_argument("--at-once", action="store_true", help="do not warm it up first, or no longer")
        parser.add_argument("--key", action="append", default=[], metavar="VALUE",
                            help="for this key alone; once for each column by which the task is switched")

    def more(self, options: Mapping[str, Any]) -> dict[str, Any]:
        hold_s = options["hold"] and in_unit(options["hold"], "s")
        if options["hold"] and hold_s is None:
            raise CommandError(f"“{options['hold']}” is no time: write a number and a unit, such as \"2 h\".")
        pairs = [pair.partition("=") for pair in options["along"]]
        if wrong := next((pair for pair in pairs if not (pair[0] and pair[2])), None):
            raise CommandError(f"“{''.join(wrong)}” names no task and alternate: write --along TASK=ALTERNATE.")
        along = {task: alternate for task, _, alternate in pairs}
        if len(along) < len(pairs):
            raise CommandError("A task is named twice: give each --along another task.")
        return {"task": options["task"], "alternate": options["alternate"] or "", "along": along,
                "hold_s": float(hold_s) if hold_s is not None else None, "at_once": options["at_once"],
                "key": options["key"]}

    def act(self, record: DataflowRecord, actor: User, options: Mapping[str, Any]) -> str:
        if options["task"]:
            return super().act(record, actor, options)
        viewer = viewer_of(actor)
        tasks = with_switches(viewer, with_figures(viewer, record.pk, dynamic_tasks(viewer, record.pk)))
        return "\n".join(line for task in tasks for line in _lines(task)) or (
            f"No task of {record.name} that runs has alternates.")


def _lines(task: DynamicTask) -> Iterator[str]:
    yield f"{task.task}, in query {task.query}:"
    if task.warming:
        yield f"  {task.warming} warms up" + (
            f" until {datetime.fromtimestamp(task.warming_until_ms / 1000, UTC):%d %b, %H:%M:%S} UTC"
            if task.warming_until_ms is not None else ", from its next event on")
    for alternate, figures in zip(task.alternates, task.figures, strict=True):
        guard = f", while {alternate.guard}" if alternate.guard else ""
        sign = "*" if alternate.name == task.on else "~" if alternate.name == task.warming else " "
        yield f"  {sign} {alternate.name}: {alternate.summary}, worth " \
            f"{alternate.value if isinstance(alternate.value, str) else f'{alternate.value:g}'}{guard}"
        basis = "measured" if figures.selectivity_is_measured else "declared"
        yield f"      {figures.event_s * 1e6:.3g} µs of CPU an event, {figures.cost.cores:.3f} cores " \
            f"({figures.cost.basis}); {figures.selectivity:.3g} events out for each in ({basis})"
    for hold in task.held_keys:
        until = datetime.fromtimestamp(hold.until_ms / 1000, UTC)
        yield f"  {hold.by} holds {hold.alternate} for {', '.join(hold.key)} until {until:%d %b, %H:%M} UTC"
    for switch in task.switches:
        at_work = at_work_in_words(working(switch.alternate, switch.warming))
        yield f"  from number {switch.seq} on: {at_work} (batch {switch.batch} of {switch.query})"
    for switch in task.key_switches:
        changed = ", ".join(f"{key}: {name or 'as the task'}" for key, name in sorted(switch.keys.items()))
        yield f"  from number {switch.seq} on: {changed} (batch {switch.batch} of {switch.query})"
