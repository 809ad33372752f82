"""An estate that changes by plans, and the agent that follows it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from scheduler.applying import apply_plan
from scheduler.model.dataflow import Dataflow
from scheduler.model.documents import read_document
from scheduler.model.estate import Estate
from scheduler.model.plan import Plan
from scheduler.model.prices import Prices
from scheduler.planning import plan_removal, plan_submission
from scheduler.rearranging import plan_pause, plan_resumption

from .rig import Rig


class PlannedEstate:
    """What a node runs: it begins empty, and is wanted anew after each plan."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.estate = Estate(slots=rig.slots, generation=rig.version)
        self._plan_by = {"task_types": rig.task_types, "prices": Prices()}

    def read(self, document: str) -> Dataflow:
        """The dataflow of a document."""
        return read_document(document, task_types=self.rig.task_types)

    def submit(self, dataflow: Dataflow, name: str, *, team: str = "city") -> Plan:
        """Submit a dataflow under that id."""
        return self.carry_out(plan_submission(
            self.estate, dataflow, dataflow_id=name, team=team, **self._plan_by))

    def remove(self, name: str) -> None:
        self.carry_out(plan_removal(self.estate, name, **self._plan_by))

    def pause(self, name: str) -> None:
        self.carry_out(plan_pause(self.estate, name, **self._plan_by))

    def resume(self, name: str) -> None:
        self.carry_out(plan_resumption(self.estate, name, **self._plan_by))

    def carry_out(self, plan: Plan) -> Plan:
        """Make the plan's estate the one that the node should run."""
        self.estate = apply_plan(self.estate, plan)
        self.rig.version = self.estate.generation
        self.rig.want(self.estate)
        return plan

    def hosted(self, kind: str, name: str, task: str) -> dict[str, Any]:
        """What the connector host reports of a dataflow's ``sources`` or ``sinks``."""
        connectors = self.rig.report().get("connectors") or {}
        return connectors.get(kind, {}).get(self.estate.submitted[name].running[task], {})

    def output(self, name: str, task: str = "out") -> list[dict[str, Any]]:
        """The events that a dataflow's output keeps."""
        return self.rig.events(self.estate.channel_of(self.estate.submitted[name].running[task]))

    def numbers(self, name: str) -> Counter[int]:
        """How often each number is in a dataflow's output."""
        return Counter(event["n"] for event in self.output(name))
