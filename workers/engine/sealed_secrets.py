"""Secrets on their way from the site to a slot: sealed wherever they are kept, opened where a task is compiled.

The site seals a value with the installation's key and keeps it in its database; the broker holds all sealed values
(`keys.SECRETS`, by ``team/name``), and a node that reads one keeps a copy in its data folder, so that it starts its
queries while the site, or the broker's memory, is away. Who has only the database, the broker or a plan has nothing.

The key is ``WEIR_SECRETS_KEY``, or one generated once and kept in the data folder; every machine with slots needs the
site's. Imports nothing of Spark.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import redis
from cryptography.fernet import Fernet, InvalidToken

from scheduler.model.errors import WeirError
from scheduler.model.secrets import SECRET, TEAM, is_reference
from workers import broker_client
from workers.engine.channels import keys

KEY_FILE, COPY_FILE = "secrets_key", "secrets.json"
_LEAST_TOLD = 3  # characters of a secret: as few stand in many words
_opened: set[str] = set()  # values that this process knows: no message may show them
_ask: Callable[[str, str], str] | None = None  # of a process that has no key: who opens for it


class SecretAway(WeirError):
    """A secret that a task needs cannot be had here."""

    code = "secret_away"


class Vault:
    """Seals and opens with the installation's key."""

    def __init__(self, data_dir: Path, environment: Mapping[str, str] | None = None) -> None:
        env = os.environ if environment is None else environment
        key = env.get("WEIR_SECRETS_KEY") or _kept_key(data_dir)
        self._fernet = Fernet(base64.urlsafe_b64encode(hashlib.sha256(key.encode()).digest()))

    def seal(self, value: str) -> str:
        """The value as text that nobody reads without the key."""
        return self._fernet.encrypt(value.encode()).decode()

    def open(self, sealed: str) -> str:
        """The value; ``SecretAway`` where it was sealed with another key."""
        try:
            return self._fernet.decrypt(sealed.encode()).decode()
        except InvalidToken:
            raise SecretAway(
                "A secret was sealed with another key than this machine has.",
                remedy="Set WEIR_SECRETS_KEY to the same value on every machine, or set the secret again.",
            ) from None


def publish(broker: redis.Redis, sealed: Mapping[str, str]) -> None:
    """Let the broker hold exactly these: sealed values by ``team/name``."""
    pipeline = broker.pipeline(transaction=True)
    pipeline.delete(keys.SECRETS)
    if sealed:
        pipeline.hset(keys.SECRETS, mapping=dict(sealed))
    pipeline.execute()


def connect(redis_url: str) -> redis.Redis:
    """A client that gives up soon."""
    return broker_client.connect(redis_url, socket_connect_timeout=2.0, socket_timeout=2.0)


def open_by(ask: Callable[[str, str], str]) -> None:
    """From now on this process opens no secret itself: it asks for the value, by team and name."""
    global _ask
    _ask = ask


def opened(config: Mapping[str, Any], *, redis_url: str, data_dir: Path) -> dict[str, Any]:
    """A task's config with the values of the secrets that it names, for its build function and nobody else.

    Raises
    ------
    SecretAway
        The broker does not have one, nor has this machine seen it; or it was sealed with another key; or it is none of
        this process's.
    """
    values = {
        name: _ask(reference.get(TEAM, ""), reference[SECRET]) if _ask is not None
        else open_one(reference.get(TEAM, ""), reference[SECRET], redis_url=redis_url, data_dir=data_dir)
        for name, reference in config.items() if is_reference(reference)}
    _opened.update(values.values())
    return {**config, **values}


def open_one(team: str, name: str, *, redis_url: str, data_dir: Path) -> str:
    """The value of a team's secret, opened with this machine's key; raises ``SecretAway``."""
    field = f"{team}/{name}"
    value = Vault(data_dir).open(_sealed(field, connect(redis_url), data_dir / COPY_FILE))
    _opened.add(value)
    return value


def references_in(value: Any) -> Iterator[tuple[str, str]]:
    """The secrets that are named anywhere in a JSON value: team and name."""
    if is_reference(value):
        yield value.get(TEAM, ""), value[SECRET]
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from references_in(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from references_in(part)


def redacted(text: str) -> str:
    """The text without any secret that this process has opened, as it is or within JSON, nor the beginning of one at
    its end, where it was cut."""
    for value in sorted(_opened.copy(), key=len, reverse=True):
        if len(value) > _LEAST_TOLD:
            for form in {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}:
                text = _without_end(text.replace(form, "•••"), form)
    return text


def _without_end(text: str, form: str) -> str:
    begin = form[:_LEAST_TOLD + 1]
    at = text.find(begin, max(0, len(text) - len(form)))
    while at >= 0 and not form.startswith(text[at:]):
        at = text.find(begin, at + 1)
    return text if at < 0 else f"{text[:at]}•••"


def _sealed(field: str, broker: redis.Redis, copy: Path) -> str:
    copied = json.loads(copy.read_text()) if copy.exists() else {}
    try:
        sealed = broker.hget(keys.SECRETS, field)
        any_there = bool(sealed) or bool(broker.exists(keys.SECRETS))
    except redis.RedisError:
        sealed, any_there = None, False
    if sealed is not None:
        text = sealed.decode() if isinstance(sealed, bytes) else sealed
        if copied.get(field) != text:
            _write_private(copy, json.dumps({**copied, field: text}))
        return text
    if field in copied and not any_there:  # a broker that has others has lost nothing: this one was deleted
        return copied[field]
    team, _, name = field.partition("/")
    raise SecretAway(
        f"The secret {name} of team {team} is not here.",
        remedy="Let an admin of the team set it; the query starts by itself then.", team=team, secret=name)


def _kept_key(data_dir: Path) -> str:
    path = data_dir / KEY_FILE
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = data_dir / f".{KEY_FILE}.{os.getpid()}.{secrets.token_hex(4)}"
    if not path.exists():
        _write_private(temporary, secrets.token_urlsafe(48))
        try:
            os.link(temporary, path)  # of two processes that start together, one makes the key and both read it
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
    return path.read_text()


def _write_private(path: Path, text: str) -> None:
    """Replace a file that only this user reads."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    temporary.replace(path)
