"""`./weir submit FILE`: submit a dataflow from the command line."""

from __future__ import annotations

from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError

from dashboard.approvals.near_miss_search import near_misses_in
from dashboard.approvals.savepoints_told import beginnings_told
from dashboard.approvals.services import change_dataflow, submit_dataflow
from dashboard.catalog.document_checks import parse_document
from dashboard.catalog.selectors import dataflows
from dashboard.commands.actors import actor_of
from dashboard.commands.input_files import text_of
from dashboard.plans.choices import ScheduleChoice
from dashboard.teams.models import Team, User
from dashboard.teams.permissions import viewer_of
from dashboard.teams.selectors import teams_to_submit_for
from scheduler.model.errors import InvalidDataflow, WeirError
from scheduler.pairs import MODEL_BASED, key_of


class Command(BaseCommand):
    help = "Submit a dataflow (JSON or YAML; - reads standard input). Every problem of the file is listed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file")
        parser.add_argument("--as", dest="username", help="who submits; otherwise the first administrator")
        parser.add_argument("--team", help="short name of the team; otherwise the user's only or first team")
        parser.add_argument("--fresh", action="store_true", help="join no stateful task that runs already; start anew")
        parser.add_argument(
            "--begin", default="now", metavar="WHEN",
            help="read running streams from now on, from the oldest event still kept, or from a time (ISO 8601)")
        parser.add_argument(
            "--change", action="store_true",
            help="propose it as a new version of the team's dataflow of that name, which runs")
        parser.add_argument(
            "--from-savepoint", default="", metavar="NAME", help="begin from the team's savepoint of that name")
        parser.add_argument("--schedule", metavar="PAIR", help=f"run by a schedule, such as {key_of(MODEL_BASED)}")
        parser.add_argument("--rate", type=float, metavar="PER_S", help="that the schedule is for, of every source")

    def handle(
        self, *, file: str, username: str | None, team: str | None, fresh: bool, begin: str,
        schedule: str | None = None, rate: float | None = None, change: bool = False,
        from_savepoint: str = "", **_: object
    ) -> None:
        actor = actor_of(username)
        teams = teams_to_submit_for(viewer_of(actor))
        chosen = teams.filter(slug=team).first() if team else teams.first()
        if chosen is None:
            raise CommandError(f"{actor.username} may not submit for {team or 'any team'}.")
        try:
            if change:
                if schedule:
                    raise CommandError("A new version has no schedule: propose one when it runs.")
                self._change(
                    actor, chosen, text_of(file), fresh=fresh, begin=begin, begin_from=from_savepoint)
                return
            choice = ScheduleChoice.of(pair=schedule.split("-"), rate_per_s=rate) if schedule else None
            text = text_of(file)
            misses = [] if schedule or from_savepoint else near_misses_in(chosen, text)
            proposal = submit_dataflow(
                actor=actor, team=chosen, text=text, fresh=fresh, begin=begin, schedule=choice,
                begin_from=from_savepoint)
        except InvalidDataflow as invalid:
            for problem in invalid.problems:
                position = f"{file}:{problem.line}:{problem.column}" if problem.line else f"{file} {problem.path}"
                self.stderr.write(f"{position}: {problem.message} {problem.remedy}")
            raise CommandError(invalid.message) from invalid
        except WeirError as error:
            raise CommandError(error.full_message) from error
        self.stdout.write(f"{proposal.dataflow.name} is submitted for {chosen.name}: /proposals/{proposal.pk}/")
        self._say_beginnings(chosen, from_savepoint, text)
        for miss in misses:
            self.stdout.write(f"Near miss: {miss['summary']}. {miss['why_beside']}".rstrip())

    def _change(
        self, actor: User, team: Team, text: str, *, fresh: bool, begin: str, begin_from: str
    ) -> None:
        name = parse_document(text).name
        record = dataflows(viewer_of(actor), team=team.slug).filter(name=name).first()
        if record is None:
            raise CommandError(f"{team.name} has no dataflow {name!r}: submit it without --change.")
        proposal = change_dataflow(
            actor=actor, dataflow_id=record.pk, text=text, fresh=fresh, begin=begin, begin_from=begin_from)
        self.stdout.write(
            f"Version {proposal.plan.version} of {name} is proposed for {team.name}: /proposals/{proposal.pk}/")
        self._say_beginnings(team, begin_from, text)

    def _say_beginnings(self, team: Team, savepoint: str, text: str) -> None:
        for task in beginnings_told(team, savepoint, text).tasks if savepoint else ():
            self.stdout.write(f"{task.task} {task.why}")
