"""The embedded broker: reachable with its password alone, and the same again after a restart."""

from __future__ import annotations

import re
import socket
import stat
from contextlib import closing
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import psutil
import pytest
import redis

from workers.launcher import broker as embedded
from workers.launcher.backup import broker_keys
from workers.launcher.state_folder import CannotStart, broker_url_file, surroundings
from workers.processes import spawn, stop

from .waiting import wait_until

pytestmark = pytest.mark.broker


def test_it_refuses_a_client_without_the_password(broker_url: str) -> None:
    _, _, address = broker_url.rpartition("@")
    with redis.Redis.from_url(f"redis://{address}") as client, pytest.raises(redis.AuthenticationError):
        client.ping()


def test_what_was_written_and_the_address_survive_a_restart(tmp_path: Path) -> None:
    urls = []
    for _ in range(2):
        prepared = embedded.prepare(tmp_path)
        urls.append(prepared.url)
        process = spawn(prepared.argv)
        try:
            wait_until(lambda: embedded.answers(prepared.url))  # noqa: B023 (called within the iteration)
            with redis.Redis.from_url(prepared.url) as client:
                count = client.incr("starts")
        finally:
            stop(process, timeout_s=5)
    assert count == 2
    assert urls[0] == urls[1]


def test_answers_that_nobody_takes_end_their_connection_and_fill_nothing(tmp_path: Path) -> None:
    prepared = embedded.prepare(tmp_path)
    assert re.search(r"(?m)^maxmemory-clients [1-9][0-9]+mb$", Path(prepared.argv[1]).read_text())
    most_mb, size, times = 64, 1_000_000, 1_000  # of a gigabyte that is asked for in 40 kB
    process = spawn([*prepared.argv, "--maxmemory-clients", f"{most_mb}mb"])
    try:
        wait_until(lambda: embedded.answers(prepared.url))
        with redis.Redis.from_url(prepared.url) as client, closing(socket.create_connection(
                ("127.0.0.1", prepared.port))) as greedy:
            client.set("large", b"x" * size)
            password = urlsplit(prepared.url).password
            greedy.sendall(f"AUTH {password}\r\n".encode() + b"GET large\r\n" * times)
            wait_until(lambda: client.info("stats")["evicted_clients"] == 1)
            assert client.info("memory")["mem_clients_normal"] < most_mb << 20
            assert client.get("large") == b"x" * size, "who takes its answers goes on"
    finally:
        stop(process, timeout_s=5)


@pytest.mark.parametrize(("text", "most_mb", "clients_mb"), [("64", 64, 16), ("100000", 100_000, 1_024)])
def test_it_may_hold_what_is_set_and_drops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, most_mb: int, clients_mb: int
) -> None:
    monkeypatch.setenv("WEIR_BROKER_MEMORY_MB", text)
    lines = Path(embedded.prepare(tmp_path).argv[1]).read_text().splitlines()
    assert {f"maxmemory {most_mb}mb", "maxmemory-policy noeviction", f"maxmemory-clients {clients_mb}mb"} <= {*lines}


def test_a_value_has_a_bound_and_what_is_larger_from_before_stays(tmp_path: Path) -> None:
    for most in ((), ("--proto-max-bulk-len", "1mb")):
        prepared = embedded.prepare(tmp_path)
        process = spawn([*prepared.argv, *most])
        try:
            wait_until(lambda: embedded.answers(prepared.url))  # noqa: B023 (called within the iteration)
            with redis.Redis.from_url(prepared.url) as client:
                if not most:
                    assert client.config_get("proto-max-bulk-len") == {"proto-max-bulk-len": str(256 << 20)}
                    client.set("larger", b"x" * (2 << 20))
                    continue
                assert client.strlen("larger") == 2 << 20
                with pytest.raises((redis.ResponseError, redis.ConnectionError)):
                    client.set("larger", b"y" * (2 << 20))
                assert client.get("larger") == b"x" * (2 << 20)
        finally:
            stop(process, timeout_s=5)


def test_a_value_beyond_the_broker_s_bound_is_put_back(broker: redis.Redis, tmp_path: Path) -> None:
    """As a channel is, all of whose blocks are one value then."""
    limit, blocks = "proto-max-bulk-len", [Random(number).randbytes(600_000) for number in range(3)]
    before = broker.config_get(limit)
    for block in blocks:
        broker.xadd("weir:channel:c", {"b": block})
    broker_keys.dump(broker, tmp_path / "keys")
    broker.flushall()
    broker.config_set(limit, 1 << 20)
    try:
        assert broker_keys.load(broker, tmp_path / "keys") == 1
        assert broker.config_get(limit) == {limit: str(1 << 20)}
    finally:
        broker.config_set(limit, before[limit])
    assert [fields[b"b"] for _, fields in broker.xrange("weir:channel:c")] == blocks


def test_without_a_setting_it_may_hold_a_third_of_the_machine() -> None:
    assert 0 < embedded.memory_mb({}) <= psutil.virtual_memory().total >> 20


@pytest.mark.parametrize("text", ["63", "-1", "1gb", "1" * 10])
def test_a_bound_that_is_none_ends_the_start(text: str) -> None:
    with pytest.raises(CannotStart, match="WEIR_BROKER_MEMORY_MB"):
        embedded.memory_mb({"WEIR_BROKER_MEMORY_MB": text})


def test_a_taken_port_moves_the_broker_to_another(tmp_path: Path) -> None:
    first = embedded.prepare(tmp_path)
    port = int(first.url.rpartition(":")[2].partition("/")[0])
    with socket.socket() as other:
        other.bind((embedded.HOST, port))
        other.listen()
        assert embedded.prepare(tmp_path).url != first.url


@pytest.mark.parametrize("also_at", ["127.0.0.2", "0.0.0.0"])
def test_it_listens_for_other_machines_where_it_is_asked_to(tmp_path: Path, also_at: str) -> None:
    prepared = embedded.prepare(tmp_path, also_at=also_at)
    process = spawn(prepared.argv)
    try:
        wait_until(lambda: embedded.answers(prepared.url))
        assert embedded.answers(prepared.url.replace("@127.0.0.1:", "@127.0.0.2:"))
    finally:
        stop(process, timeout_s=5)


def test_nobody_else_reaches_it(broker_url: str) -> None:
    assert not embedded.answers(broker_url.replace("@127.0.0.1:", "@127.0.0.2:"))


def test_the_password_is_for_the_owner_alone(tmp_path: Path) -> None:
    embedded.prepare(tmp_path)
    for path in (broker_url_file(tmp_path), tmp_path / "broker" / "valkey.conf"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_management_commands_find_the_broker_of_the_state_folder(tmp_path: Path) -> None:
    url = embedded.prepare(tmp_path).url
    assert surroundings({"WEIR_DATA_DIR": str(tmp_path)}) == {"WEIR_DATA_DIR": str(tmp_path), "REDIS_URL": url}


def test_a_given_broker_is_left_alone(tmp_path: Path) -> None:
    embedded.prepare(tmp_path)
    variables = surroundings({"WEIR_DATA_DIR": str(tmp_path), "REDIS_URL": "redis://elsewhere"})
    assert "REDIS_URL" not in variables
