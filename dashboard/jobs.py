"""The site's only door to the workers: one function a job. Jobs are sent after commit, with ids.

A broker that is away costs no user an error: a job that could not be sent is found again by the sweep.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any

import redis
import structlog
import yaml
from django.conf import settings
from django.db import transaction
from kombu.exceptions import OperationalError

from dashboard import queue
from scheduler.contracts.qos import QosSetup
from scheduler.contracts.reports import Reports
from scheduler.contracts.trials import SECONDS, WARM_UP_S, TrialOrder, TrialProgress, TrialResult
from scheduler.model.broker_memory import NO_BOUND, BrokerMemory
from scheduler.model.columns import Columns
from scheduler.model.errors import WeirError
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment
from scheduler.model.profile import Profile
from scheduler.model.profile_csv import read_profiles
from scheduler.model.refinement import Refined
from scheduler.model.task_types import TaskType, TaskTypes
from workers.broker_client import connect, lacks_replica
from workers.engine import counters, observed, qos_store, sealed_secrets, taps, trial_store, turns, waiting
from workers.engine.broker_room import disk_is_full, memory_in, set_even_where_full, why_refused
from workers.engine.channels import keys
from workers.engine.channels.channel_config import EVENTS_KEPT
from workers.engine.channels.channel_registry import Channels
from workers.engine.noted_switches import noted_key_switches, noted_switches
from workers.engine.readings import RateWindow
from workers.engine.taps import NewestEvents, Tapped
from workers.library import databases, model_store, registry
from workers.library import first_events as recorded
from workers.library.code import code_digest
from workers.library.model_store import ModelVersion

log = structlog.get_logger(__name__)
WORKER_HEARD_S = 45  # it says so every ten seconds
TRY_AGAIN_S = 600  # as long as a slot may take to come back


class BrokerAway(WeirError):
    """The broker does not answer: running dataflows go on, but nothing live is known here."""

    code = "broker_away"


@dataclass(frozen=True, slots=True)
class LiveReading:
    """The live observations: reports by node, flows by running task and stream; ``available`` is False where the broker
    is away, and ``reason`` says so."""

    available: bool = True
    reason: str = ""
    reports: Reports = field(default_factory=Reports)
    flows: observed.Flows = field(default_factory=observed.Flows)
    worker: bool = True  # a worker does what is due
    broker_full: bool = False  # the broker refuses what would write, since its disk is full
    broker_memory: BrokerMemory = NO_BOUND
    broker_alone: bool = False  # it should have a replica, and has none online
    measured: bool = False  # two readings have been taken, so rates mean something


def prepare_proposal(proposal_id: str) -> None:
    """After commit: compute the proposal's plan."""
    _send(queue.PREPARE_PROPOSAL, proposal_id=proposal_id)


def carry_over() -> None:
    """After commit: hold plans that wait to the generation that the estate has now; else it is found when due."""
    _send(queue.CARRY_OVER)


def enact(proposal_id: str) -> None:
    """After commit: publish the desired state and begin to follow the proposal."""
    _send(queue.ENACT, proposal_id=proposal_id)


def republish() -> None:
    """After commit: publish the desired state of every node."""
    _send(queue.REPUBLISH_DESIRED)


def deliver() -> None:
    """After commit: send what waits to be sent; else it is found when that is due."""
    _send(queue.DELIVER)


def try_again(queries: Iterable[str]) -> None:
    """Let queries that failed be tried again; ``BrokerAway`` where their nodes cannot be reached."""
    with broker_needed("so nothing is tried again."):
        pipe = broker(settings.REDIS_URL).pipeline(transaction=False)
        for query in queries:
            pipe.set(keys.try_again(query), "1", ex=TRY_AGAIN_S)
        pipe.execute()


def publish_qos(setups: Iterable[QosSetup], *, at_ms: int) -> None:
    """Let nodes have their parts in watching limits; while the broker is away they go on with what they have."""
    with suppress(redis.RedisError):
        qos_store.publish(broker(settings.REDIS_URL), setups, at_ms=at_ms)


def seal(value: str) -> str:
    """A secret's value as it is stored: read by nobody without the installation's key."""
    return sealed_secrets.Vault(settings.DATA_DIR).seal(value)


def unseal(sealed: str) -> str:
    """The value of a secret, for the site's own use and nobody's eyes; ``SecretAway`` where the key is another."""
    return sealed_secrets.Vault(settings.DATA_DIR).open(sealed)


def task_types() -> TaskTypes:
    """The catalogue of task types."""
    return registry.task_types()


def names_a_file(sealed: str) -> bool:
    """True if a secret, as far as it can be opened here, stands for a file of the node that reads it: a database."""
    with suppress(sealed_secrets.SecretAway):
        return databases.is_file(unseal(sealed))
    return False


def check_config(task_type: TaskType, config: Mapping[str, Any]) -> WeirError | None:
    """The fault that a task type itself finds in a config that is well typed, or None."""
    try:
        return registry.check(task_type, config)
    except WeirError as missing:  # the package that brings the type cannot be loaded here
        return missing


def columns_of(task_type: TaskType, inputs: Columns, config: Mapping[str, Any]) -> Columns:
    """The columns of what a task gives; ``ColumnError`` where it reads what its input does not have."""
    return registry.columns_of(task_type, inputs, config)


def code_of(task_type: TaskType) -> str:
    """A digest of the code that a task type rests on here; empty where it cannot be read."""
    return code_digest(task_type)


def first_events(task_type: TaskType, config: Mapping[str, Any], count: int) -> list[dict[str, Any]] | None:
    """The first events that a source will give; None if they are unknown before it runs."""
    return recorded.first_events(task_type, config, count)


def refinement(task_type: TaskType, wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> Refined | None:
    """The task that makes what the narrow config gives out of what the wide one gives, or None."""
    return registry.refinement(task_type, wide, narrow)


def plugin_problems() -> tuple[registry.PluginProblem, ...]:
    """Packages whose task types could not be loaded."""
    return registry.plugin_problems()


def models_of(team: str) -> tuple[ModelVersion, ...] | None:
    """The models that a team keeps, by name and the newest version first; None where the broker is away."""
    with suppress(redis.RedisError), model_store.connected(settings.REDIS_URL) as client:
        return model_store.model_versions(client, team)
    return None


@lru_cache(maxsize=1)
def samples() -> tuple[dict[str, Any], ...]:
    """Sample documents of the library by file name: slug, name, description, text, tasks."""
    counted, folder = [], resources.files("workers.library").joinpath("samples")
    for file in sorted(folder.rglob("*.yaml"), key=lambda file: file.name):
        document = yaml.safe_load(text := file.read_text(encoding="utf-8"))
        counted.append({
            "slug": file.name.removesuffix(".yaml"), "name": document["name"],
            "description": document.get("description", ""), "text": text, "tasks": len(document["tasks"]),
        })
    return tuple(counted)


@lru_cache(maxsize=1)
def shipped_profiles() -> tuple[Profile, ...]:
    """The profiles that come with Weir, for a core of `scheduler.performance.shipped.SPEED`."""
    return read_profiles(resources.files("workers.library").joinpath("profiles.csv").read_text(encoding="utf-8"))


def read_live(fragments: Iterable[Fragment], parents: Mapping[str, tuple[str, ...]]) -> LiveReading:
    """Reports and flows of the whole estate now; without fragments reports alone. Shared in a process for a moment."""
    try:
        reading, client = _window(settings.REDIS_URL).read(list(fragments), parents), broker(settings.REDIS_URL)
        pipeline = client.pipeline(transaction=False).exists(keys.WORKER).info("persistence").info("memory")
        (is_heard, persistence, memory), is_alone = pipeline.execute(), lacks_replica(client)
    except redis.RedisError as error:
        return LiveReading(available=False, reason=f"The broker does not answer ({type(error).__name__}).")
    return LiveReading(
        reports=reading.reports, flows=reading.flows, measured=reading.measured, worker=bool(is_heard),
        broker_full=disk_is_full(persistence), broker_alone=is_alone, broker_memory=memory_in(memory))


def worker_works() -> None:
    """Let the site know that a worker does what is due; for nobody where the broker is away."""
    with suppress(redis.RedisError):
        set_even_where_full(broker(settings.REDIS_URL), keys.WORKER, "1", ex=WORKER_HEARD_S)


def read_part(fragments: Iterable[Fragment], parents: Mapping[str, tuple[str, ...]]) -> observed.Flows:
    """Flows of a part of the estate now; none where the broker is away or nobody has read the whole of it lately."""
    try:
        return _window(settings.REDIS_URL).read_part(list(fragments), parents)
    except redis.RedisError:
        return observed.Flows()


def meters(query_ids: Iterable[str]) -> tuple[int, dict[str, dict[str, int]]]:
    """The meters of queries and the broker's time in ms; none where the broker is away."""
    try:
        reading = observed.read_meters(broker(settings.REDIS_URL), query_ids)
    except redis.RedisError:
        return 0, {}
    return reading.at_ms, {name: dict(counts) for name, counts in reading.counts.items()}


def flows_since(
    at_ms: int, counts: Mapping[str, Mapping[str, int]], fragment: Fragment
) -> Mapping[str, observed.TaskFlow]:
    """The events that left each task of a fragment since its meters had these counts; none without the broker."""
    before = observed.Meters(at_ms=at_ms, counts=counts)
    now_ms, now = meters([fragment.id])
    after = observed.Meters(at_ms=now_ms, counts=now)
    return observed.flows(before, after, [fragment], {}).tasks if now_ms > at_ms else {}


def selectivities(fragments: Iterable[Fragment], *, least: int) -> dict[str, float]:
    """Output events for each input event of running tasks that have read so many; none where the broker is away."""
    running = list(fragments)
    try:
        meters = observed.read_meters(broker(settings.REDIS_URL), observed.queries_of(running))
    except redis.RedisError:
        return {}
    return observed.selectivities(meters, running, least=least)


def slot_counters(fragments: Callable[[Collection[str]], Mapping[str, Fragment]]) -> dict[str, dict[str, Any]]:
    """Counters of what every slot that reports has used so far; ``BrokerAway`` where the broker does not answer."""
    with broker_needed("so nothing is measured; use meanwhile is counted once it answers."):
        return counters.read_counters(broker(settings.REDIS_URL), fragments)


def output_tail(channel: str, count: int) -> list[dict[str, Any]]:
    """The newest events that a channel holds, oldest first; ``BrokerAway`` where the broker does not answer."""
    with broker_needed("so events cannot be shown."):
        return Channels(broker(settings.REDIS_URL)).tail(channel, count)


def newest_events(stream: Tapped, *, count: int) -> NewestEvents:
    """The newest events of a stream, copied from the first look on; raises ``BrokerAway``."""
    with broker_needed("so events cannot be shown."):
        return taps.newest_events(broker(settings.REDIS_URL), stream, count=count)


def switches_of(task_ids: Iterable[str], *, of_keys: bool = False) -> dict[str, tuple[Any, ...]]:
    """The switches of these running tasks, or of keys of theirs: the alternates with their first events; or
    ``BrokerAway``."""
    read = noted_key_switches if of_keys else noted_switches
    with broker_needed("so it is not known which alternates worked on which events."):
        return {task_id: read(broker(settings.REDIS_URL), task_id) for task_id in task_ids}


def notable_events() -> list[dict[str, Any]]:
    """The events that nodes reported, newest first; nothing where the broker does not answer."""
    try:
        entries = broker(settings.REDIS_URL).xrevrange(keys.EVENTS, count=EVENTS_KEPT)
    except redis.RedisError:
        return []
    return [{name.decode(): json.loads(value) for name, value in fields.items()} for _, fields in entries]


def notable_events_after(entry: str) -> tuple[str, list[dict[str, Any]]]:
    """The newest entry and what nodes told after another (empty: all of it), oldest first; raises ``BrokerAway``."""
    with broker_needed("so it is not known what happened."):
        entries = broker(settings.REDIS_URL).xrange(keys.EVENTS, min=f"({entry}" if entry else "-")
    events = [{name.decode(): json.loads(value) for name, value in fields.items()} for _, fields in entries]
    return (entries[-1][0].decode() if entries else entry), events


def channel_blocks(channels: Iterable[str]) -> dict[str, int]:
    """The number of blocks of each channel in the broker; raises ``BrokerAway``."""
    with broker_needed("so it is not known what waits."):
        return observed.channel_blocks(broker(settings.REDIS_URL), channels)


def waiting_events(estate: Estate, fragments: Iterable[Fragment]) -> dict[str, int]:
    """The number of waiting events, by query of these fragments; raises ``BrokerAway``."""
    with broker_needed("so it is not known what waits."):
        return waiting.waiting_events(
            broker(settings.REDIS_URL), waiting.reads_of(estate, fragments, task_types()))


def event_bytes(channels: Iterable[str]) -> dict[str, float]:
    """The size of an event of each channel, in bytes; raises ``BrokerAway``."""
    with broker_needed("so it is not known what passes between queries."):
        return observed.event_bytes(broker(settings.REDIS_URL), channels)


def hold_turn(name: str, owner: str, *, for_ms: int) -> bool:
    """Take the lease of what one process at a time does; False where another has it. Raises ``BrokerAway``."""
    with broker_needed("so it is not known whose turn it is."):
        return turns.hold(broker(settings.REDIS_URL), name, owner, for_ms=for_ms)


def give_turn_back(name: str, owner: str) -> None:
    """Give the turn to another process at once; if the broker is away, it lapses by itself."""
    with suppress(redis.RedisError):
        turns.give_back(broker(settings.REDIS_URL), name, owner)


# Trials ---------------------------------------------------------------------------------------------------------------
TRIAL_WARM_UP_S, TRIAL_SECONDS = WARM_UP_S, SECONDS


def order_trial(order: TrialOrder) -> None:
    """Let a node's agent run a trial; ``BrokerAway`` where the broker does not answer."""
    with broker_needed("so nothing can be measured."):
        trial_store.order(broker(settings.REDIS_URL), order)


def trial_progress(trial_id: str) -> TrialProgress | None:
    """The progress of a trial; None where nothing is heard of it. ``BrokerAway`` where the broker does not answer."""
    with broker_needed("so it is not known how far a measurement is."):
        return trial_store.progress(broker(settings.REDIS_URL), trial_id)


def trial_result(trial_id: str) -> TrialResult | None:
    """The result of a trial, or None; ``BrokerAway`` where the broker does not answer."""
    with broker_needed("so it is not known what was measured."):
        return trial_store.result(broker(settings.REDIS_URL), trial_id)


def cancel_trial(trial_id: str) -> None:
    """After commit: let a trial end. Where the broker is away it ends by itself, for nobody."""
    def send() -> None:
        try:
            trial_store.cancel(broker(settings.REDIS_URL), trial_id)
        except redis.RedisError as error:
            log.warning("trial_not_cancelled", trial=trial_id, error=str(error))

    transaction.on_commit(send, robust=True)


@contextmanager
def broker_needed(consequence: str) -> Iterator[None]:
    """Raise ``BrokerAway`` with this consequence where the broker does not answer."""
    try:
        yield
    except redis.RedisError as error:
        cause, remedy = why_refused(error)
        raise BrokerAway(f"{cause}, {consequence}", remedy=remedy) from error


@lru_cache(maxsize=4)
def broker(url: str) -> redis.Redis:
    """One client a process and URL; it gives up soon, because a page waits for it."""
    return connect(url, socket_connect_timeout=1.0, socket_timeout=3.0, max_connections=50, health_check_interval=30)


@lru_cache(maxsize=4)
def _window(url: str) -> RateWindow:
    return RateWindow(broker(url))


def _send(name: str, **kwargs: str) -> None:
    transaction.on_commit(lambda: _send_now(name, kwargs), robust=True)


def _send_now(name: str, kwargs: dict[str, str]) -> None:
    try:
        queue.app.send_task(name, kwargs=kwargs, retry=False)
    except (OperationalError, redis.RedisError, OSError) as error:
        log.warning("job_not_sent", job=name, error=str(error), **kwargs)
