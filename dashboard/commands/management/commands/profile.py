"""`./weir profile list|export|import|measure|use|set-aside`: profiles from the command line."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from dashboard import jobs
from dashboard.catalog.permissions import is_uuid
from dashboard.catalog.selectors import dataflows
from dashboard.commands.actors import actor_of
from dashboard.commands.input_files import text_of
from dashboard.operations.live_view.nodes import current_machine
from dashboard.profiles import selectors
from dashboard.profiles.lifecycle import DONE, OPEN
from dashboard.profiles.measurable import slot_choices
from dashboard.profiles.models import SweepRecord, TrialRecord
from dashboard.profiles.services.choosing import set_aside_profile, use_profile
from dashboard.profiles.services.importing import import_profiles
from dashboard.profiles.services.sweep_driver import advance_sweep
from dashboard.profiles.services.sweeps import SECONDS, USUAL, WARM_UP_S, bounds_for, manner_of, start_sweep
from dashboard.profiles.stored_profiles import entry_of, profile_of
from dashboard.profiles.targets import SweepTarget, target_again, target_of_task, target_of_type
from dashboard.teams.models import User
from dashboard.teams.permissions import viewer_of
from scheduler.model.errors import InvalidDataflow, InvalidProfile, WeirError
from scheduler.model.profile_csv import write_entries

LOOKS_EVERY_S = 1.0


class Command(BaseCommand):
    help = "List profiles, export or import them as CSV, choose which is in use, or measure a task type on a slot."

    def add_arguments(self, parser: ArgumentParser) -> None:
        subcommands = parser.add_subparsers(dest="way", required=True)
        listing = subcommands.add_parser("list", help="active profiles, with what no longer holds")
        listing.add_argument("--set-aside", action="store_true", help="those of kinds of which none is in use instead")
        exporting = subcommands.add_parser("export", help="active profiles as CSV")
        exporting.add_argument("file", nargs="?", default="-", help="where to; - is standard output")
        for subparser in (listing, exporting):
            subparser.add_argument("--search", default="", help="words to find in type, config and origin")
        importing = subcommands.add_parser("import", help="all profiles of a CSV file, or none and every mistake")
        importing.add_argument("file", help="CSV; - reads standard input")
        measuring = subcommands.add_parser("measure", help="ask for a sweep")
        measuring.add_argument("type", nargs="?", default="", help="a task type")
        measuring.add_argument("--config", default="{}", help="its config as JSON")
        measuring.add_argument("--feed", default="", help="source:TYPE or SAMPLE:TASK; otherwise the first way known")
        measuring.add_argument("--dataflow", help="instead of a type: a dataflow's id or name")
        measuring.add_argument("--task", default="", help="the task of that dataflow")
        measuring.add_argument("--again", default="", metavar="PROFILE", help="instead of a type: what that profile "
                               "was measured of, and as it was where nothing else is said")
        measuring.add_argument("--slot", default="", help="otherwise the first on which nothing runs")
        measuring.add_argument("--minutes", type=float, help=f"budget; {USUAL.budget_s / 60:g}")
        measuring.add_argument("--threads", type=int,
                               help=f"at most; {USUAL.largest_threads}, or as many as the slot's driver has")
        measuring.add_argument("--from-rate", type=float,
                               help=f"lowest rate, events/s; {USUAL.smallest_rate_per_s:g}")
        measuring.add_argument("--to-rate", type=float,
                               help=f"highest rate, events/s; {USUAL.largest_rate_per_s:g}")
        measuring.add_argument("--warm-up", type=float, help=f"seconds of a trial; {WARM_UP_S:g}")
        measuring.add_argument("--seconds", type=float, help=f"measured seconds of a trial; {SECONDS:g}")
        measuring.add_argument("--any-config", action="store_true", help="the profile stands for every config")
        measuring.add_argument("--wait", action="store_true", help="follow it to its end, and move it on")
        using = subcommands.add_parser("use", help="put a profile in the place of the one of its kind that is in use")
        leaving = subcommands.add_parser("set-aside", help="take a profile out of use; it is kept")
        for subparser in (using, leaving):
            subparser.add_argument(
                "profile", help="its id: the end of a line of `profile list`, or of its page's address"
            )
        for subparser in (listing, exporting, importing, measuring, using, leaving):
            subparser.add_argument("--as", dest="username", help="who does this; otherwise the first administrator")

    def handle(self, *, way: str, username: str | None, **options: Any) -> None:
        do: dict[str, Callable[..., None]] = {
            "list": self._list, "export": self._export, "import": self._import, "measure": self._measure,
            "use": self._use, "set-aside": self._set_aside}
        try:
            do[way](actor_of(username), options)
        except InvalidDataflow as invalid:
            for problem in invalid.problems:
                self.stderr.write(f"{problem.message} {problem.remedy}")
            raise CommandError(invalid.message) from invalid
        except WeirError as error:
            raise CommandError(error.full_message) from error

    def _list(self, actor: User, options: dict[str, Any]) -> None:
        machine = current_machine()
        viewer = viewer_of(actor)
        records = selectors.set_aside(viewer) if options["set_aside"] else selectors.profiles(viewer)
        for record in selectors.matching(records, options["search"]):
            profile = profile_of(record)
            remarks = [f"stale: {stale}"] if (stale := selectors.staleness(profile, machine=machine)) else []
            remarks += ["drifted"] if record.drifted else []
            threads = profile.peak.threads
            peak = f"{profile.peak.rate_per_s:g}/s with {threads} thread{'s' if threads > 1 else ''}"
            self.stdout.write("  ".join([
                f"{profile.task_type:24}", "any rate" if profile.static else peak,
                profile.machine or "machine not noted", profile.config or "any config", *remarks, str(record.pk)]))

    def _export(self, actor: User, options: dict[str, Any]) -> None:
        records = selectors.profiles(viewer_of(actor), search=options["search"])
        text = write_entries(map(entry_of, records))
        if options["file"] == "-":
            self.stdout.write(text, ending="")
        else:
            try:
                Path(options["file"]).write_text(text, encoding="utf-8")
            except OSError as error:
                raise CommandError(f"{options['file']} cannot be written: {error.strerror}.") from error

    def _import(self, actor: User, options: dict[str, Any]) -> None:
        file = options["file"]
        try:
            records = import_profiles(actor=actor, text=text_of(file))
        except InvalidProfile as invalid:
            for problem in invalid.facts.get("problems", []):
                position = ":".join(str(part) for part in (file, problem["line"], problem["column"]) if part)
                self.stderr.write(f"{position}: {problem['message']}. {problem['remedy']}")
            raise
        for record in records:
            self.stdout.write(f"{record.task_type}: {record.points.count()} points")

    def _use(self, actor: User, options: dict[str, Any]) -> None:
        record = use_profile(actor=actor, profile_id=options["profile"])
        self.stdout.write(f"{record.task_type}: this profile is in use.")

    def _set_aside(self, actor: User, options: dict[str, Any]) -> None:
        record = set_aside_profile(actor=actor, profile_id=options["profile"])
        self.stdout.write(f"{record.task_type}: this profile is set aside.")

    def _measure(self, actor: User, options: dict[str, Any]) -> None:
        slot = options["slot"] or next((choice.name for choice in slot_choices() if choice.free), "")
        if not slot:
            raise CommandError("No slot is free: only one on which nothing runs can be measured on.")
        viewer = viewer_of(actor)
        again = selectors.profile(viewer, options["again"]) if options["again"] else None
        manner = manner_of(again)
        minutes = options["minutes"]
        bounds = bounds_for(slot, manner.bounds, **_given_options(
            budget_s=None if minutes is None else 60 * minutes, largest_threads=options["threads"],
            smallest_rate_per_s=options["from_rate"], largest_rate_per_s=options["to_rate"]))
        manner = replace(manner, **_given_options(
            any_config=options["any_config"] or None, warm_up_s=options["warm_up"], seconds=options["seconds"]))
        sweep = start_sweep(
            actor=actor, target=target_again(again) if again else _target(actor, options), slot=slot, bounds=bounds,
            any_config=manner.any_config, warm_up_s=manner.warm_up_s, seconds=manner.seconds)
        self.stdout.write(f"{sweep.task_type} is measured on {slot}: /profiles/sweeps/{sweep.pk}/")
        if options["wait"]:
            self._follow(sweep)

    def _follow(self, sweep: SweepRecord) -> None:
        """Tell of each trial as it ends, and move the sweep on, whether or not a worker does so too."""
        printed = 0
        while True:
            try:
                sweep = advance_sweep(sweep_id=sweep.pk, at=timezone.now())
            except jobs.BrokerAway as away:
                self.stderr.write(away.message)
            for trial in sweep.trials.exclude(ended=None).filter(number__gt=printed).defer("series"):
                self.stdout.write(_line(trial))
                printed = trial.number
            if sweep.status not in OPEN:
                break
            time.sleep(LOOKS_EVERY_S)
        self.stdout.write(f"{sweep.status}: {sweep.reason}")
        if sweep.status == DONE:
            self.stdout.write(write_entries([entry_of(sweep.profile)]), ending="")
        else:
            raise CommandError(f"{sweep.task_type} was not measured: it is {sweep.status}.")


def _given_options(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def _line(trial: TrialRecord) -> str:
    start = f"{trial.number:3}  {trial.threads:3} threads  {trial.rate_per_s:10.1f}/s"
    if trial.error:
        return f"{start}  failed: {trial.error}"
    slope = "unbounded" if trial.latency_slope is None else f"{trial.latency_slope:+.4f} s/s"
    verdict = "stable" if trial.stable else "not stable"
    if trial.starved:
        verdict = f"fed {trial.offered_per_s:.1f}/s"
    if trial.set_aside:
        verdict = "set aside"
    return (f"{start}  {verdict:10}  through {trial.achieved_per_s:.1f}/s"
            f"  latency {slope}  CPU {trial.cpu:.0%}  memory {trial.memory:.0%}  {trial.took_s:.1f} s")


def _target(actor: User, options: dict[str, Any]) -> SweepTarget:
    viewer, named = viewer_of(actor), options["dataflow"]
    if named:
        records = dataflows(viewer)
        record = (records.filter(pk=named) if is_uuid(named) else records.filter(name=named)).first()
        if record is None:
            raise CommandError(f"There is no dataflow {named} that {actor.username} may know of.")
        return target_of_task(viewer, record.pk, options["task"])
    try:
        config = json.loads(options["config"])
    except ValueError as error:
        raise CommandError(f"The config is not valid JSON: {error}.") from error
    if not isinstance(config, dict):
        raise CommandError('The config is no JSON object: write it as {"parameter": value}.')
    return target_of_type(options["type"], config, feed_key=options["feed"])
