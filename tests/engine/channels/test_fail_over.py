"""What the broker has taken in survives its primary, by every client that speaks to it; without Spark."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import quote

import pytest
import redis
from channels_redis.pubsub import RedisPubSubChannelLayer
from hypothesis import given
from hypothesis import strategies as st
from kombu import Connection, Consumer, Exchange, Queue

from dashboard.config.broker_addresses import celery_address, layer_address
from tests.replicated_broker import PASSWORD, ReplicatedBroker, replicated_broker
from workers.broker_address import replicated_service
from workers.broker_client import ReplicatedRedis, connect, lacks_replica
from workers.engine.agents.node_files.node_store import NodeStore
from workers.engine.agents.supervising.broker_users import SLOTS, BrokerUsers
from workers.engine.channels import keys, scripts
from workers.engine.channels.channel_registry import Channels

WORDS = st.text(alphabet="abcXYZ019", min_size=1, max_size=8)
HOSTS = st.lists(st.tuples(st.one_of(WORDS, st.just("2001:db8::1")), st.integers(1, 65535)), min_size=1, max_size=4)
BROKER = pytest.mark.broker


@given(hosts=HOSTS, service=WORDS, user=st.text(max_size=5), password=st.text(max_size=9), db=st.integers(0, 15))
def test_an_address_of_sentinels_is_read_as_it_was_written(hosts, service, user, password, db):
    written = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in hosts)
    login = f"{quote(user, safe='')}:{quote(password, safe='')}@"
    read = replicated_service(f"redis+sentinel://{login}{written}/{service}/{db}")
    assert read is not None
    assert (list(read.sentinels), read.name, read.username, read.password, read.db) == (
        hosts, service, user, password, db)


@pytest.mark.parametrize("rest", [
    "", "h", "h:1", "h:1/", "/weir/0", "h:1,/weir/0", "h:x/weir", "a@b@h:1/weir/0", "h:1/we ir/0", "h:1/weir/x"])
def test_what_is_no_address_of_sentinels_is_refused(rest):
    with pytest.raises(ValueError, match=r"redis\+sentinel"):
        replicated_service(f"redis+sentinel://{rest}")


def test_the_address_of_one_server_stays_what_it_was():
    for url in ("redis://:x@h:1/0", "rediss://h"):
        assert replicated_service(url) is None
        assert celery_address(url) == (url, {})
        assert layer_address(url) == {"address": url}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedBroker]:
    """A broker with one replica."""
    with replicated_broker(tmp_path_factory.mktemp("replicated")) as running:
        yield running


@pytest.fixture
def whole(servers: ReplicatedBroker) -> ReplicatedBroker:
    """The same with all its servers."""
    servers.heal()
    return servers


def patiently(do):
    """What something gives once the broker is back."""
    deadline = time.monotonic() + 180
    while True:
        try:
            return do()
        except (redis.RedisError, OSError):
            assert time.monotonic() < deadline
            time.sleep(0.05)


@BROKER
def test_what_was_taken_in_outlives_the_primary_and_tokens_never_go_back(whole):
    client = connect(whole.url)
    channels = Channels.connect(whole.url)
    channels.open_channel("fail.0", schema_json="{}", readers=["r"])
    taken, tokens = set(), []
    for life in range(2):
        for number in range(50):
            name = f"{life}.{number}"
            if number == 25:
                whole.kill(whole.primary())
            with suppress(redis.RedisError):
                client.sadd("fail:taken", name)
                taken.add(name.encode())
            with suppress(redis.RedisError):
                tokens.append(channels.take_fence("fail.0"))
        tokens.append(patiently(lambda: channels.take_fence("fail.0")))
        pipeline = client.pipeline(transaction=life == 0)
        pipeline.sadd("fail:taken", f"{life}.p").set("fail:life", life)
        assert pipeline.execute()[1]
        taken.add(f"{life}.p".encode())
        assert lacks_replica(client)
        whole.heal()
        assert not lacks_replica(client)
    assert taken <= client.smembers("fail:taken")
    assert tokens == sorted(set(tokens))
    assert channels.info("fail.0").readers == {"r": "0-0"}


@BROKER
def test_what_a_replica_lacks_does_not_count_as_taken(whole):
    client = connect(whole.url)
    with whole.paused(whole.replica()):
        with pytest.raises(redis.TimeoutError, match="does not take what is written"):
            client.set("fail:lacking", 1)
        with pytest.raises(redis.TimeoutError), client.pipeline() as pipeline:
            pipeline.set("fail:lacking", 2).execute()
        assert client.get("fail:lacking") == b"2"  # reading waits for nobody
    assert patiently(lambda: client.set("fail:lacking", 3))


@BROKER
def test_a_promoted_server_gets_the_users_of_a_node(whole, tmp_path):
    users = BrokerUsers(connect(whole.url), whole.url, NodeStore(tmp_path, "n7"))
    users.expect()
    url = users.url(SLOTS)
    assert replicated_service(url).sentinels == replicated_service(whole.url).sentinels
    with whole.server(whole.replica()) as replica:  # one of an earlier life there, with another password
        replica.acl_setuser(users.name(SLOTS), enabled=True, passwords=["+other"], keys=["*"], commands=["+@all"])
    whole.kill_primary()
    patiently(lambda: (users.look(is_away=False), connect(url).ping()))
    with pytest.raises(redis.exceptions.NoPermissionError):
        connect(url).get("weir:secrets")
    assert connect(url).role()[0] == b"master"
    assert scripts.run(connect(url), "open_outlet", [keys.valve("rehearsal-n7-0")], ["0", ""]) == 1


@BROKER
def test_a_job_that_was_sent_before_is_done_behind_a_promotion(whole):
    address, options = celery_address(whole.url)
    queue = Queue("fail", Exchange("fail"), routing_key="fail")
    heard = []

    def send(text):
        with Connection(address, transport_options=options) as link:
            link.Producer().publish(text, exchange=queue.exchange, routing_key="fail", declare=[queue], retry=False)

    def take():
        with Connection(address, transport_options=options) as link, Consumer(
                link, [queue], callbacks=[lambda body, message: (heard.append(body), message.ack())]):
            link.drain_events(timeout=5)

    send("before")
    with whole.server(whole.primary()) as primary:
        assert primary.execute_command("WAIT", 1, 60_000) == 1
    whole.kill_primary()
    patiently(lambda: send("after"))
    while len(heard) < 2:
        patiently(take)
    assert heard == ["before", "after"]


@BROKER
@pytest.mark.long
def test_live_pages_hear_each_other_behind_a_promotion(whole):
    async def hear() -> str:
        layer = RedisPubSubChannelLayer(hosts=[layer_address(whole.url)])
        channel = await layer.new_channel()
        await layer.group_add("fail", channel)
        await asyncio.to_thread(whole.kill_primary)
        while True:
            with suppress(redis.RedisError, OSError):
                await layer.group_send("fail", {"type": "told"})
            with suppress(asyncio.TimeoutError):
                return (await asyncio.wait_for(layer.receive(channel), 0.5))["type"]

    assert asyncio.run(hear()) == "told"


@BROKER
def test_servers_have_a_password(whole):
    assert isinstance(connect(whole.url), ReplicatedRedis)
    with pytest.raises(redis.AuthenticationError):
        connect(whole.url.replace(whole.url.partition("://:")[2].partition("@")[0], "wrong")).ping()
    assert connect(whole.url).connection_pool.connection_kwargs["password"] == PASSWORD
