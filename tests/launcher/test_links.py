"""Links: bytes arrive whole and in order, as late as the link says; namespaces are made, joined, and leave nothing."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from workers.launcher.agent import read_options
from workers.launcher.links import link as links
from workers.launcher.links import namespaces
from workers.launcher.links.link import LinkRequest, NoLink, linked
from workers.launcher.links.relay import Relay
from workers.launcher.links.shaping import Shaper

NODE = f"test{os.getpid()}"


def why_no_namespace() -> str:
    try:
        namespaces.join(NODE, delay_ms=0, mbit_per_s=None).remove()
    except namespaces.NotAllowed as error:
        return str(error)
    return ""


# shaping -------------------------------------------------------------------------------------------------------------


@given(st.floats(0, 1), st.floats(1, 1e6), st.lists(
    st.tuples(st.floats(0, 2), st.integers(0, 100_000)), min_size=1, max_size=30))
def test_nothing_arrives_sooner_than_the_link_allows_and_nothing_overtakes(delay_s, bytes_per_s, sent) -> None:
    shaper, now_s, arrivals = Shaper(delay_s, bytes_per_s), 100.0, []
    for pause_s, size in sent:
        now_s += pause_s
        arrivals.append((now_s, shaper.arrives_s(now_s, size), size))
        assert arrivals[-1][1] >= now_s + delay_s + size / bytes_per_s - 1e-6
    assert [arrives for _, arrives, _ in arrivals] == sorted(arrives for _, arrives, _ in arrivals)
    first, last = arrivals[0][0], arrivals[-1][1]
    assert last - delay_s - first >= sum(size for _, _, size in arrivals) / bytes_per_s - 1e-6


@given(st.floats(0, 1), st.floats(0, 1e6))
def test_without_a_bandwidth_there_is_the_delay_alone(delay_s, now_s) -> None:
    assert Shaper(delay_s).arrives_s(now_s, 10**9) == now_s + delay_s


# the relay -----------------------------------------------------------------------------------------------------------


@contextmanager
def echo() -> Iterator[tuple[str, int]]:
    """A server that sends back what it gets."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            while piece := connection.recv(1 << 16):
                connection.sendall(piece)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield server.getsockname()
    finally:
        server.close()


def sent_through(port: int, content: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        threading.Thread(target=connection.sendall, args=(content,), daemon=True).start()
        came = b""
        while len(came) < len(content) and (piece := connection.recv(1 << 16)):
            came += piece
        return came


@pytest.mark.parametrize("bytes_per_s", [None, 20e6])
def test_what_goes_through_the_relay_comes_whole_and_in_order(bytes_per_s: float | None) -> None:
    content = os.urandom(3_000_000)
    with echo() as server:
        relay = Relay(server, onward=Shaper(0.005, bytes_per_s), back=Shaper(0.005, bytes_per_s))
        port = relay.start("127.0.0.1")
        try:
            assert sent_through(port, content) == content
            assert sent_through(port, content[:1]) == content[:1]
        finally:
            relay.stop()


def test_a_broker_that_is_away_ends_the_connection_and_not_the_relay(free_port: int) -> None:
    relay = Relay(("127.0.0.1", free_port), onward=Shaper(0), back=Shaper(0))
    port = relay.start("127.0.0.1")
    try:
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", port)) as connection:
                assert connection.recv(1) == b""
    finally:
        relay.stop()


# links ---------------------------------------------------------------------------------------------------------------


@pytest.mark.broker
def test_a_node_behind_a_relay_reaches_the_broker_and_says_what_joins_it(broker_url: str) -> None:
    with linked(NODE, broker_url, LinkRequest("relay", 1.5, 80)) as link:
        assert link.url != broker_url and link.command(["a", "b"]) == ("a", "b")
        assert link.words == "1.5 ms each way, 80 Mbit/s; relay on this machine, delay and bandwidth by a relay"
        with redis.Redis.from_url(link.url) as client:
            assert client.ping()
    with pytest.raises(redis.RedisError), redis.Redis.from_url(link.url) as client:
        client.ping()


@pytest.mark.broker
def test_a_node_in_a_namespace_reaches_the_broker_by_its_link_alone(broker_url: str) -> None:
    why_not = why_no_namespace()
    if why_not:
        pytest.skip(why_not)
    asks = (
        "import redis, sys\n"
        "for url in sys.argv[1:]:\n"
        "    try:\n        print(redis.Redis.from_url(url, socket_connect_timeout=5).ping())\n"
        "    except redis.RedisError:\n        print(False)\n")
    with linked(NODE, broker_url, LinkRequest("netns", 1, 100)) as link:
        done = subprocess.run(
            link.command([sys.executable, "-c", asks, link.url, broker_url]), capture_output=True, text=True,
            check=True)
        assert done.stdout.split() == ["True", "False"]
        assert f"weir-{NODE}" in link.words and "1 ms each way, 100 Mbit/s" in link.words
        held = subprocess.Popen(link.command(["sh", "-c", "echo joined; exec sleep 60"]), stdout=subprocess.PIPE)
        try:
            assert held.stdout.readline() == b"joined\n"  # ``ip netns exec`` joins it some time after it began
            with pytest.raises(NoLink, match="processes run in the network namespace"), linked(
                    NODE, broker_url, LinkRequest("netns")):
                pass
        finally:
            held.kill()
            held.communicate()
    names = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    interfaces = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    assert f"weir-{NODE}" not in names and link.joined.interface not in interfaces


def test_a_namespace_that_a_killed_node_left_is_made_anew() -> None:
    why_not = why_no_namespace()
    if why_not:
        pytest.skip(why_not)
    left = namespaces.join(NODE, delay_ms=0, mbit_per_s=10)
    again = namespaces.join(NODE, delay_ms=0, mbit_per_s=10)
    again.remove()
    again.remove()
    assert left.name == again.name


@pytest.mark.parametrize("lacks", ["root", "iproute2", "kernel"])
def test_without_namespaces_netns_is_refused_with_the_reason_and_auto_says_it(lacks, monkeypatch) -> None:
    if lacks == "root":
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
    elif lacks == "iproute2":
        monkeypatch.setattr(shutil, "which", lambda tool: None)
    else:
        def run(argv):
            if "veth" in argv:
                raise namespaces.NotAllowed("`ip link add` says: Operation not supported")
            return ""

        monkeypatch.setattr(namespaces, "_why_not", lambda: "")
        monkeypatch.setattr(namespaces, "_run", run)
    reason = {"root": "only root", "iproute2": "ip and tc of iproute2", "kernel": "Operation not supported"}[lacks]
    url = "redis://:secret@127.0.0.1:6379/0"
    with pytest.raises(NoLink, match=f"{reason}.*--link relay"), linked(NODE, url, LinkRequest("netns")):
        pass
    with linked(NODE, url, LinkRequest("auto", 2)) as link:
        assert reason in link.words and "2 ms each way; relay on this machine, delay by a relay" in link.words
        assert link.url.startswith("redis://:secret@127.0.0.1:") and "secret" not in link.words


@pytest.mark.parametrize(("kernel", "words"), [
    ({"netem", "tbf"}, "delay and bandwidth by tc"), ({"tbf"}, "bandwidth by tc, delay by a relay"),
    (set(), "delay and bandwidth by a relay")])
def test_what_the_kernel_does_not_do_of_a_link_a_relay_does(kernel: set[str], words: str, monkeypatch) -> None:
    monkeypatch.setattr(namespaces, "_run", lambda argv: "")
    monkeypatch.setattr(
        namespaces, "_all_run", lambda ends, discipline: discipline[0] in kernel)
    delays, limits = namespaces._shape("weir-x", ("a", "b"), delay_ms=2, mbit_per_s=10)
    joined = namespaces.JoinedNamespace("weir-x", "127.0.0.1", "a", delays, limits)
    assert words in links._words(LinkRequest("netns", 2, 10), joined, "")


def test_a_broker_that_speaks_tls_is_refused() -> None:
    with pytest.raises(NoLink, match="without TLS"), linked(NODE, "rediss://host:6379/0", LinkRequest("relay")):
        pass


@pytest.mark.parametrize("arguments", [
    ["--link", "wire"], ["--delay-ms", "2"], ["--mbit", "3"], ["--link", "auto", "--delay-ms", "-1"],
    ["--link", "auto", "--mbit", "0"], ["--link", "relay", "--delay-ms", "nan"]])
def test_a_link_that_is_none_is_refused(arguments: list[str], capsys) -> None:
    with pytest.raises(SystemExit):
        read_options(["--node", "n2", *arguments])
    assert "--" in capsys.readouterr().err


def test_a_link_is_an_option_of_the_agent() -> None:
    assert read_options(["--node", "n2"]).link is None
    given_link = read_options(["--node", "n2", "--link", "auto", "--delay-ms", "2", "--mbit", "100"]).link
    assert given_link == LinkRequest("auto", 2.0, 100.0)
