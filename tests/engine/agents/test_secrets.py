"""Secrets on their way to a slot: sealed everywhere but where a task is compiled, and there in no message."""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from scheduler.contracts.desired import DESIRED_STATES
from workers.engine import sealed_secrets
from workers.engine.agents.supervising.broker_users import CONNECTORS
from workers.engine.agents.supervising.secret_opening import Opener
from workers.engine.agents.supervising.secret_requests import RequestedSecrets
from workers.engine.channels import keys
from workers.engine.sealed_secrets import KEY_FILE, SecretAway, Vault, opened, publish, redacted
from workers.engine.spark.failure_messages import FragmentFailed
from workers.engine.worker_settings import Settings

REFERENCE = {"secret": "hook", "team": "city"}
VALUE = "correct horse battery"


class StandIn:
    """As much of a broker as secrets need; it may be away, or have forgotten everything."""

    def __init__(self) -> None:
        self.hash: dict[str, str] = {}
        self.away = False

    def hget(self, key, field):
        self._answer(key)
        sealed = self.hash.get(field)
        return sealed.encode() if sealed else None

    def exists(self, key):
        self._answer(key)
        return bool(self.hash)

    def pipeline(self, *, transaction):
        assert transaction
        return self

    def delete(self, key):
        self._answer(key)
        self.hash = {}

    def hset(self, key, *, mapping):
        self.hash = dict(mapping)

    def execute(self):
        pass

    def _answer(self, key):
        assert key == keys.SECRETS
        if self.away:
            raise redis.ConnectionError


@pytest.fixture
def broker(monkeypatch):
    broker = StandIn()
    monkeypatch.delenv("WEIR_SECRETS_KEY", raising=False)
    monkeypatch.setattr(sealed_secrets, "connect", lambda url: broker)
    monkeypatch.setattr(sealed_secrets, "_opened", set())
    return broker


def open_here(folder, **config):
    return opened({"url": "u", **config}, redis_url="redis://nowhere", data_dir=folder)


def test_a_value_goes_sealed_through_the_broker_to_the_task(broker, tmp_path):
    publish(broker, {"city/hook": Vault(tmp_path).seal(VALUE)})
    assert VALUE not in str(broker.hash)
    assert open_here(tmp_path, token=REFERENCE) == {"url": "u", "token": VALUE}
    assert open_here(tmp_path) == {"url": "u"}, "a task without secrets asks nobody"


def test_two_teams_secrets_of_one_name_are_two(broker, tmp_path):
    vault = Vault(tmp_path)
    publish(broker, {"city/hook": vault.seal("ours"), "roads/hook": vault.seal("theirs")})
    assert open_here(tmp_path, token=REFERENCE)["token"] == "ours"
    assert open_here(tmp_path, token={**REFERENCE, "team": "roads"})["token"] == "theirs"
    with pytest.raises(SecretAway):
        open_here(tmp_path, token={"secret": "hook"})


def test_a_node_goes_on_while_the_broker_is_away_or_has_lost_all(broker, tmp_path):
    publish(broker, {"city/hook": Vault(tmp_path).seal(VALUE)})
    open_here(tmp_path, token=REFERENCE)
    broker.away = True
    assert open_here(tmp_path, token=REFERENCE)["token"] == VALUE
    broker.away, broker.hash = False, {}
    assert open_here(tmp_path, token=REFERENCE)["token"] == VALUE


def test_a_deleted_secret_opens_nothing_and_a_new_value_counts_at_once(broker, tmp_path):
    vault = Vault(tmp_path)
    publish(broker, {"city/hook": vault.seal(VALUE)})
    open_here(tmp_path, token=REFERENCE)
    publish(broker, {"city/hook": vault.seal("rotated")})
    assert open_here(tmp_path, token=REFERENCE)["token"] == "rotated"
    publish(broker, {"city/other": vault.seal("x")})
    with pytest.raises(SecretAway) as away:
        open_here(tmp_path, token=REFERENCE)
    assert "hook" in away.value.message and away.value.remedy


def test_another_key_opens_nothing_and_says_so(broker, tmp_path, monkeypatch):
    monkeypatch.setenv("WEIR_SECRETS_KEY", "the site's")
    publish(broker, {"city/hook": Vault(tmp_path).seal(VALUE)})
    monkeypatch.setenv("WEIR_SECRETS_KEY", "this node's")
    with pytest.raises(SecretAway, match="another key"):
        open_here(tmp_path, token=REFERENCE)
    monkeypatch.setenv("WEIR_SECRETS_KEY", "the site's")
    assert open_here(tmp_path, token=REFERENCE)["token"] == VALUE


def test_what_is_kept_on_disk_is_this_users_and_sealed(broker, tmp_path):
    publish(broker, {"city/hook": Vault(tmp_path).seal(VALUE)})
    open_here(tmp_path, token=REFERENCE)
    for path in (tmp_path / KEY_FILE, tmp_path / sealed_secrets.COPY_FILE):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert set(json.loads((tmp_path / sealed_secrets.COPY_FILE).read_text())) == {"city/hook"}
    assert not any(VALUE in path.read_text() for path in tmp_path.iterdir())
    assert Vault(tmp_path).open(Vault(tmp_path).seal("again")) == "again", "the key is made once"


def test_no_message_of_this_process_shows_what_it_opened(broker, tmp_path):
    publish(broker, {"city/hook": Vault(tmp_path).seal(VALUE)})
    open_here(tmp_path, token=REFERENCE)
    assert VALUE not in redacted(f"Bearer {VALUE} was refused")
    for cut in range(4, len(VALUE)):
        assert redacted(f"{VALUE[0]}: Bearer {VALUE[:cut]}") == f"{VALUE[0]}: Bearer •••", "where a message is cut"
    assert redacted(f"{VALUE[:6]} is not it") == f"{VALUE[:6]} is not it"
    assert VALUE not in str(FragmentFailed(f"task post: NotPosted: {VALUE}"))


def test_a_process_without_a_key_gets_what_its_tasks_name_and_nothing_else(broker, tmp_path, monkeypatch):
    """Both ends of the lines, with the slot's agent between the broker and the slot."""
    vault = Vault(tmp_path)
    publish(broker, {"city/hook": vault.seal(VALUE), "city/other": vault.seal("not yours")})
    wanted = DESIRED_STATES.read({"version": 1, "node": "n1", "generation": 1, "slots": {
        "0": {"fragments": [{"id": "f1-0", "inputs": [], "outlets": {}, "active": 1, "trigger_ms": 500, "tasks": [
            {"id": "t", "type": "http_post", "config": {"token": REFERENCE}}]}]}, "1": {"fragments": []}}})
    opener = Opener(Settings(data_dir=tmp_path), lambda: wanted)

    def process_of(name: str, ordered: Mapping[str, Any]) -> RequestedSecrets:
        owner = SimpleNamespace(name=name, ordered=frozenset(sealed_secrets.references_in(ordered)))
        process = RequestedSecrets(lambda request: process.hear(opener.answer(owner, request).decode()))
        return process

    monkeypatch.setattr(sealed_secrets, "_ask", None)
    for name, ordered, has in (
        ("0", {}, True), (CONNECTORS, {}, True), ("1", {}, False), ("spare", {}, False),
        ("1", {"chain": [{"config": {"token": REFERENCE}}]}, True),
    ):
        sealed_secrets.open_by(process_of(name, ordered))
        if has:
            assert open_here(tmp_path / "nowhere", token=REFERENCE)["token"] == VALUE
            assert redacted(VALUE) == "•••"
        for reference in ({"secret": "other", "team": "city"}, *([] if has else [REFERENCE])):
            with pytest.raises(SecretAway, match="in nothing that runs here"):
                open_here(tmp_path / "nowhere", token=reference)
    broker.hash = {}
    (tmp_path / sealed_secrets.COPY_FILE).unlink()
    with pytest.raises(SecretAway, match="is not here"):
        open_here(tmp_path / "nowhere", token=REFERENCE)
