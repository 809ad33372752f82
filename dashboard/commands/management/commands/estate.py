"""`./weir manage estate`: a summary of what runs, for people and, with --json, for programs."""

from __future__ import annotations

from argparse import ArgumentParser
from json import dumps

from django.core.management.base import BaseCommand

from dashboard.core.state_words import words
from dashboard.operations.diagnosis.health import verdict_of
from dashboard.operations.live_reader import live_estate
from dashboard.operations.live_view.findings import NOTE
from dashboard.operations.live_view.survival import if_lost_in_words
from dashboard.operations.live_view.telemetry import EVERYTHING


class Command(BaseCommand):
    help = "Show a summary of the estate."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="the live document as it is")

    def handle(self, *, json: bool, **_: object) -> None:
        state = live_estate(EVERYTHING)
        self.stdout.write(dumps(state, indent=2) if json else "\n".join(_lines(state)))


def _lines(state: dict) -> list[str]:
    counts = state["counts"]
    lines = [
        f"{_counted(counts['submitted'], 'dataflow')}: {_counted(counts['running_tasks'], 'task')} run, "
        f"{counts['without_reuse']} without sharing."]
    if if_lost := if_lost_in_words(counts["copied"], counts["queries"], counts["survives"]):
        lines.append(f"If a node is lost, {if_lost}.")
    if not state["live"]["available"]:
        lines.append(state["live"]["reason"])
    for name, slot in state["slots"].items():
        queries = _counted(slot["fragments"], "query", "queries")
        lines.append(f"slot {name}: {words(slot['state'])}, {queries}")
    for name, node in state["nodes"].items():
        if node["spare"]:
            lines.append(f"spare driver on {name}: {node['spare']['state']}, {node['spare']['memory_mb']:.0f} MB")
    for dataflow in state["dataflows"].values():
        shown = dataflow["state"] if dataflow["status"] == "running" else dataflow["status"]
        lines.append(f"dataflow {dataflow['name']} ({dataflow['team']}): {words(shown)}")
    for key, finding in state["health"].items():
        lines.append(f"{'note' if finding['severity'] == NOTE else 'problem'}: {finding['cause']} {finding['remedy']} "
                     f"({key}, {words(finding['state'])})")
    lines.append(f"{verdict_of(state)}.")
    return lines


def _counted(number: int, singular: str, plural: str = "") -> str:
    return f"{number} {singular if number == 1 else plural or f'{singular}s'}"
