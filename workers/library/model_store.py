"""The models of teams in the broker: by the name that the team gave them, the newest versions of each.

``weir:models:TEAM`` is the set of its names. ``weir:models:TEAM/NAME`` is a sorted set of versions, by when the last
event that each was learned from was born; what each says is in the hash ``…:texts``. A batch that Spark repeats writes
the same versions in the same places.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from scheduler.contracts.moments import LATEST_MS

from .models import UnreadableModel, read_model

if TYPE_CHECKING:
    import redis

PREFIX = "weir:models:"
MOST_NAMES, MOST_VERSIONS = 500, 100  # of a team that are read at a time; of a model, as many as are kept at most
DEFAULT_URL = "redis://127.0.0.1:6379/0"


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A version of a model as it is stored: its name, when the last event that it knows was born (ms), its text."""

    version: str
    born_ms: int
    text: str


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """A version of a model that a team keeps: what it reads and gives, from how many events, and how long it is."""

    name: str
    version: str
    kind: str
    features: tuple[str, ...]
    target: str
    events: int
    learned_ms: int  # when the last event that it knows was born
    characters: int


def broker_url(environment: Mapping[str, str] | None = None) -> str:
    """The broker's address, from the environment."""
    return (os.environ if environment is None else environment).get("REDIS_URL", DEFAULT_URL)


def connected(url: str) -> redis.Redis:
    """A client that gives up soon."""
    from workers import broker_client

    return broker_client.connect(
        url, socket_connect_timeout=2.0, socket_timeout=5.0, decode_responses=True, encoding_errors="replace")


@dataclass(frozen=True, slots=True)
class ModelName:
    """A model's full name: the team, and the team's name for it."""

    team: str
    name: str

    @property
    def key(self) -> str:
        """The key of its versions."""
        return f"{PREFIX}{self.team}/{self.name}"

    @property
    def texts(self) -> str:
        """The key of what each version says."""
        return f"{self.key}:texts"


def store_version(broker: redis.Redis, model: ModelName, stored: StoredVersion, *, keep: int) -> None:
    """Store a version, and forget all but so many of the newest.

    Parameters
    ----------
    broker : Redis
        A client with decoded answers.
    stored : StoredVersion
        The version to store; it replaces a version of the same number.
    """
    key, number = model.key, stored.version.partition("-")[0]
    member = f"{number:0>12}|{stored.version}"  # of one moment, the later one counts as newer
    with broker.pipeline(transaction=True) as pipeline:
        pipeline.sadd(f"{PREFIX}{model.team}", model.name)
        pipeline.zadd(key, {member: stored.born_ms})
        pipeline.hset(model.texts, stored.version, stored.text)
        pipeline.execute()
    old = broker.zrange(key, 0, -keep - 1)
    if old:
        with broker.pipeline(transaction=True) as pipeline:
            pipeline.zrem(key, *old)
            pipeline.hdel(model.texts, *(member.partition("|")[2] for member in old))
            pipeline.execute()


def stored_text(broker: redis.Redis, model: ModelName, version: str = "") -> str | None:
    """The text of a version, or of the newest where none is named; None where it is not there."""
    key = model.key
    if not version:
        newest = broker.zrange(key, -1, -1)
        if not newest:
            return None
        version = newest[0].partition("|")[2]
    return broker.hget(model.texts, version)


def stored_versions(broker: redis.Redis, team: str) -> dict[str, list[StoredVersion]]:
    """The models of a team by name, the newest version first: no more of either than is shown, for slots write them."""
    models: dict[str, list[StoredVersion]] = {}
    for name in sorted(islice(broker.sscan_iter(f"{PREFIX}{team}", count=MOST_NAMES), MOST_NAMES)):
        model = ModelName(team, name)
        born = {member.partition("|")[2]: born_ms for member, born_ms in broker.zrevrange(
            model.key, 0, MOST_VERSIONS - 1, withscores=True)}
        texts = broker.hmget(model.texts, list(born)) if born else ()
        models[name] = [
            StoredVersion(version, int(born[version]), text) for version, text in zip(born, texts, strict=True)
            if text is not None and 0 <= born[version] <= LATEST_MS]
    return models


def model_versions(broker: redis.Redis, team: str) -> tuple[ModelVersion, ...]:
    """The models of a team, by name and the newest version first; what slots wrote that is no model is left out."""
    return tuple(
        described for name, versions in stored_versions(broker, team).items() for stored in versions
        if (described := _described(name, stored)) is not None)


def _described(name: str, stored: StoredVersion) -> ModelVersion | None:
    try:
        model = read_model(stored.text)
    except UnreadableModel:
        return None
    target, events = model.get("target", ""), model.get("events", 0)
    if not isinstance(target, str) or type(events) is not int:
        return None
    return ModelVersion(
        name, stored.version, model["kind"], tuple(model["features"]), target, events, stored.born_ms,
        len(stored.text))
