"""Choices of alternates for the keys of a dynamic task, in the broker: what chooses goes on with it after a kill, and
so does a query that takes the task over."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

import redis

from scheduler.model.key_texts import key_text_of
from workers.engine.channels import keys
from workers.engine.channels.channel_registry import Channels
from workers.library.forecast_choice import ForecastChoice, shipped_choice

MOST_KEYS = 10_000  # for which an alternate is chosen; the others have that of the task
LONGEST_KEY = 200  # characters; events bring keys, and a longer one has the alternate of the task, too
MOST_NOTES = 10_000  # switches of keys that are kept of a task
_KEPT_S = 90 * 24 * 3600


@dataclass(frozen=True, slots=True)
class KeyedChoices:
    """Choices of alternates by key: the alternate, and the state of whatever chose it, which read up to ``place``; and
    the alternates that people hold ``by_hand``, for which nothing else counts."""

    place: tuple[int, int] = (-1, -1)
    alternates: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, Any] = field(default_factory=dict)
    by_hand: Mapping[str, str] = field(default_factory=dict)

    @property
    def in_force(self) -> Mapping[str, str]:
        """By key the alternate that is to work."""
        return {**self.alternates, **self.by_hand}


def read_choices(broker: redis.Redis, task_id: str) -> KeyedChoices:
    """The last choices for a running task."""
    text = broker.get(keys.keyed(task_id))
    if text is None:
        return KeyedChoices()
    stated = json.loads(text)
    return KeyedChoices(tuple(stated["place"]), stated["alternates"], stated["states"], stated.get("by_hand", {}))


def write_choices(broker: redis.Redis, task_id: str, choices: KeyedChoices) -> None:
    """Keep what was chosen, all at once."""
    text = json.dumps({
        "place": choices.place, "alternates": choices.alternates, "states": choices.states,
        "by_hand": choices.by_hand})
    broker.set(keys.keyed(task_id), text, ex=_KEPT_S)


def switch_keys(
    broker: redis.Redis, task_id: str, places: Iterable[tuple[str, int]], alternates: Mapping[str, str]
) -> None:
    """Let these alternates work for these keys, in all queries that execute a running task."""
    channels = Channels(broker)
    changed = [channels.switch_keys(query, position, alternates) for query, position in places]
    if any(changed) and broker.hlen(keys.key_switches(task_id)) > MOST_NOTES:
        noted = broker.hgetall(keys.key_switches(task_id))
        oldest = sorted(noted, key=lambda name: json.loads(noted[name])["at_ms"])
        broker.hdel(keys.key_switches(task_id), *oldest[:len(oldest) // 2])


def chosen_by_key(
    choices: KeyedChoices, events: Iterable[Mapping[str, Any]], *, by: Sequence[str], among: Collection[str],
    bound: float,
) -> KeyedChoices:
    """The choices of a learned guard after it has read the new ones of some events.

    Parameters
    ----------
    events : iterable of mapping
        Forecasts (``variances``, ``error``, the columns of the key), in any order; the newest ones of an output.
    among : collection of str
        The known alternates: a key whose choice is none of these keeps its alternate.
    bound : float
        As of `ForecastChoice`.
    """
    choice = ForecastChoice(shipped_choice(), bound)
    newest, alternates, states = choices.place, dict(choices.alternates), dict(choices.states)
    for at, event in sorted((((event["_born"], event["_seq"]), event) for event in events), key=itemgetter(0)):
        key = key_text_of([event.get(name) for name in by])
        is_full = key not in states and len(states) >= MOST_KEYS
        if at <= newest or key is None or len(key) > LONGEST_KEY or is_full or not event.get("variances"):
            continue
        newest, state = at, dict(states.get(key) or choice.start())
        [(name, _)] = choice.step(state, event["variances"], event.get("error"))
        states[key] = state
        if name in among:
            alternates[key] = name
    return replace(choices, place=newest, alternates=alternates, states=states)
