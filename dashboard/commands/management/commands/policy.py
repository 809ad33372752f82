"""`./weir policy DATAFLOW TASK`: by what a dynamic task is switched, and its versions; or try or propose another
policy."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandError

from dashboard.approvals.policy_drafts import PolicyDraft, trial_of
from dashboard.approvals.services import propose_policy, release_alternate, release_key
from dashboard.catalog.models import DataflowRecord
from dashboard.commands.proposing import DataflowCommand
from dashboard.operations.policies.guard_dry_runs import MOST_HOURS
from dashboard.operations.policies.policy_reader import ToldPolicy, policy_told
from dashboard.teams.models import User
from dashboard.teams.permissions import viewer_of
from scheduler.guards.guard_values import ACTIVATION, VALUE


class Command(DataflowCommand):
    help = "Say by what a dynamic task is switched, try or propose another policy, or release what is held."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("task", help="the task's id in the dataflow")
        parser.add_argument("--guard", action="append", default=[], metavar="ALTERNATE=GUARD",
                            help="when an alternate may be on; empty: always. Others stay as they are")
        parser.add_argument("--value", action="append", default=[], metavar="ALTERNATE=VALUE",
                            help="what an alternate is worth: a number, or a function of figures")
        parser.add_argument("--kind", choices=[VALUE, ACTIVATION], help="of which kind guards are")
        parser.add_argument("--source", help="which policy source decides: rules, people, …")
        parser.add_argument("--version-again", type=int, metavar="NUMBER", help="propose an earlier version, 0 is the "
                            "document's")
        parser.add_argument("--dry-run", type=int, metavar="HOURS", help="only say what the policy would have done "
                            f"over the last hours, {MOST_HOURS} at most")
        parser.add_argument("--why", default="", help="what it is for")
        parser.add_argument("--release", action="store_true", help="let the policy decide again where somebody holds")
        parser.add_argument("--key", action="append", default=[], metavar="VALUE", help="with --release: of this key "
                            "alone; once for each column of it")

    def act(self, record: DataflowRecord, actor: User, options: Mapping[str, Any]) -> str:
        task, again = options["task"], options["version_again"]
        if options["release"] and options["key"]:
            release_key(actor=actor, dataflow_id=record.pk, task=task, key=options["key"])
            return f"Nobody holds {', '.join(options['key'])} of {task} any more."
        if options["release"]:
            release_alternate(actor=actor, dataflow_id=record.pk, task=task)
            return f"Nobody holds {task} any more."
        policy = policy_told(viewer_of(actor), record.pk, task)
        changes = options["guard"], options["value"], options["kind"], options["source"]
        if again is None and not any(changes) and options["dry_run"] is None:
            return "\n".join(_lines(policy))
        draft = None if again is not None else PolicyDraft(
            {**policy.policy.guards, **_by_alternate(options["guard"])},
            {**policy.policy.values, **{name: _value(text) for name, text in _by_alternate(options["value"]).items()}},
            options["kind"] or policy.policy.kind, options["source"] or policy.policy.source)
        if options["dry_run"] is not None:
            if draft is None or not 1 <= options["dry_run"] <= MOST_HOURS:
                raise CommandError(f"A dry run is of guards and values, over 1 to {MOST_HOURS} hours.")
            return trial_of(
                viewer_of(actor), record.pk, task, hours=options["dry_run"], draft=draft if any(changes) else None).text
        proposal = propose_policy(
            actor=actor, dataflow_id=record.pk, task=task, draft=draft, version=again, reason=options["why"])
        return f"Proposed for {record.name}: /proposals/{proposal.pk}/"


def _by_alternate(stated: list[str]) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in stated]
    if wrong := next((name for name, sign, _ in pairs if not sign or not name), None):
        raise CommandError(f"“{wrong}” is not of the form ALTERNATE=TEXT. Write for example few=rate > 5.")
    return {name.strip(): text.strip() for name, _, text in pairs}


def _value(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _lines(policy: ToldPolicy) -> Iterator[str]:
    yield f"{policy.task} is switched by {policy.policy.source}, version {policy.number}, {policy.policy.kind}:"
    for way in policy.guards:
        yield f"  {'*' if way.on else ' '} {way.name}: {f'while {way.guard}' if way.guard else 'always'}, worth " \
            f"{way.value if isinstance(way.value, str) else f'{way.value:g}'}"
    for words in (policy.because, policy.advice, *(f"{note.message} {note.remedy}" for note in policy.findings)):
        if words:
            yield f"  {words}"
    if policy.held_until_ms is not None:
        yield f"  {policy.held_by} holds {policy.held} until {_at(policy.held_until_ms)}"
    for version in policy.versions:
        when = f", {_at(version.at_ms)} by {version.author or 'Weir'}" if version.at_ms is not None else ""
        yield f"  {version.number}{when}: {version.policy.words}{f' ({version.reason})' if version.reason else ''}"


def _at(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
