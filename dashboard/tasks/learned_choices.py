"""The alternate of each key of a dynamic task: as the policy source ``models`` chooses it, a learned guard, or as
people hold it.

Once a second it reads what the task's outputs hold of forecasts that it has not read yet, and lets the choice
(`workers.library.forecast_choice`) go on for their customers. What it needs to go on is in the broker with what was
chosen, written before any query changes: a process that is killed leaves nothing half done.

While somebody holds the task, or its policy leaves it to people, it chooses nothing, and keys keep what they have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.utils import timezone

from dashboard import jobs
from dashboard.operations.policies.policy_reader import held_keys, hold_of
from dashboard.operations.policies.task_failures import TaskFailures
from dashboard.operations.policies.team_turns import TeamTurns
from scheduler.guards.element_policies import policy_of
from scheduler.guards.policy_sources import PEOPLE, WantedSwitch
from scheduler.history.series import Series
from scheduler.model.alternates import BY, alternates_in, guards_kind, is_dynamic, learned_bound
from scheduler.model.estate import Estate
from scheduler.model.fragment import RunningTask
from scheduler.model.settings_of_fragments import USUAL
from workers.engine.keyed_choices import KeyedChoices, chosen_by_key, read_choices, switch_keys, write_choices

NEWEST = 1_000  # events of an output that are looked at in a second


class LearnedChoices:
    """Chooses at each ``look``, and takes in what people hold; what is there of an earlier process is taken up."""

    def __init__(self) -> None:
        self.are_there = False  # whether there was something to choose at the last look
        self._choices: dict[str, KeyedChoices] = {}
        self._in_queries: dict[str, tuple[Sequence[tuple[str, int]], Mapping[str, str]]] = {}
        self._failures = TaskFailures("nothing_chosen")
        self._turns = TeamTurns()

    def look(self, estate: Estate, values: Mapping[Series, float], now_s: int) -> Sequence[WantedSwitch]:
        """Choose by what has come. No switch of a whole task is wanted: keys are switched at once."""
        bounds = {
            task.id: _bound_of(estate, task) for task in estate.tasks.values()
            if task.id in estate.places and task.config.get(BY) and is_dynamic(task.type)}
        by_hand = held_keys(bounds, at=datetime.fromtimestamp(now_s, UTC)) if bounds else {}
        self.are_there = bool(by_hand) or any(bound is not None for bound in bounds.values())
        self._failures.keep(bounds)
        for task_id in self._turns.of(estate, bounds):
            task = estate.tasks[task_id]
            names = {alternate.name for alternate in alternates_in(task.type, task.config)}
            try:
                with suppress(jobs.BrokerAway), jobs.broker_needed("so nothing is chosen."):  # it is read later
                    self._choose(estate, task_id, task.config, names, bounds[task_id], by_hand.get(task_id, {}))
                self._failures.over(task_id)
            except Exception as error:  # of this task alone: its output holds what are no forecasts
                self._failures.note(task_id, error, now_s)
        return ()

    def store(self) -> None:
        """Store nothing: what was chosen is stored when it is."""

    def _choose(
        self, estate: Estate, task_id: str, config: Mapping[str, Any], names: set[str], bound: float | None,
        by_hand: Mapping[str, str],
    ) -> None:
        broker = jobs.broker(settings.REDIS_URL)
        choices = self._choices.get(task_id) or read_choices(broker, task_id)
        chosen = replace(choices, by_hand=by_hand)
        if bound is not None:
            events = [event for channel in outputs_of(estate, task_id) for event in jobs.output_tail(channel, NEWEST)]
            chosen = chosen_by_key(chosen, events, by=config[BY], among=names, bound=bound)
        if chosen != choices:
            write_choices(broker, task_id, chosen)
        self._choices[task_id] = chosen
        query, position = estate.places[task_id]
        places = [(bundle.id, position) for bundle in estate.fragments[query].queries]
        if (places, chosen.in_force) != self._in_queries.get(task_id):  # or another query has taken the task over
            switch_keys(broker, task_id, places, chosen.in_force)
            self._in_queries[task_id] = places, chosen.in_force


def _bound_of(estate: Estate, task: RunningTask) -> float | None:
    """The error up to which a learned guard keeps a key's alternate; None where no model chooses now."""
    bound = learned_bound(task.type, task.config)
    return bound if bound is not None and is_left_to_others(estate, task) else None


def is_left_to_others(estate: Estate, task: RunningTask) -> bool:
    """True if others than people may switch a task now: nobody holds it, and its policy does not say people alone."""
    settings_now = estate.settings.get(estate.places[task.id][0], USUAL)
    policy = policy_of(task.id, alternates_in(task.type, task.config), settings_now, guards_kind(task.config))
    return policy.source != PEOPLE and hold_of(task.id, at=timezone.now()) is None


def outputs_of(estate: Estate, task_id: str) -> Iterable[str]:
    """The channels of a named output that works and reads a running task directly; none where there is none."""
    for sink in estate.tasks.values():
        if task_id not in sink.parents or sink.type != "output" or sink.id not in estate.places:
            continue
        fragment = estate.fragments[estate.places[sink.id][0]]
        if sink.id in fragment.active_tasks:
            yield from fragment.channels_of(sink.id)
            return  # another one that works has the same events
