"""The broker's users for a node's processes: each reaches what its node works for, and no more."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from scheduler.contracts.desired import DESIRED_STATES, DesiredState
from scheduler.model.task_types import DYNAMIC
from tests.conftest import running_broker
from workers.engine.agents.node_files.node_store import NodeStore
from workers.engine.agents.reconciling.started_fragments import SlotStore
from workers.engine.agents.supervising import key_patterns
from workers.engine.agents.supervising.broker_users import CONNECTORS, LOOKS, SLOTS, BrokerUsers
from workers.engine.channels import keys, scripts
from workers.engine.channels.channel_registry import Channels
from workers.engine.look_store import key as look_key
from workers.library.model_store import ModelName, StoredVersion, connected, store_version, stored_versions

pytestmark = pytest.mark.broker
LOOT = b"what-nobody-may-have"
FORBIDDEN = (
    "CONFIG GET *", "CONFIG SET maxmemory 1", "KEYS *", "SCAN 0", "RANDOMKEY", "DBSIZE", "ACL LIST", "ACL WHOAMI",
    "CLIENT LIST", "CLIENT KILL TYPE normal", "INFO", "FLUSHALL", "FLUSHDB", "MONITOR", "SCRIPT FLUSH", "FUNCTION LIST",
    "PUBSUB CHANNELS *", "DEBUG SLEEP 0", "SHUTDOWN", "SAVE", "BGREWRITEAOF", "REPLICAOF NO ONE", "SWAPDB 0 1",
    "GET weir:desired:n2", "SET weir:desired:n1 x", "SET weir:observed:n1 x", "SET weir:lease:n1 x",
    "XRANGE weir:ch:f9-0.0 - +", "HGETALL weir:ch:f9-0.0:meta", "DEL weir:ch:f9-0.0", "HGETALL weir:valve:f9-0",
    "XRANGE weir:ch:f1-00.0 - +", "XRANGE weir:ch:f0-0.20 - +", "HGETALL weir:secrets", "LRANGE celery 0 -1",
    "LPUSH celery x", "PUBLISH weir:push n1", "XADD weir:events * kind x", "HGETALL weir:handover:f9-0",
    "SMEMBERS weir:models:roads", "ZRANGE weir:models:city/other 0 -1", "HGETALL weir:look:2",
    "HGETALL weir:trial:1:order", "RENAME weir:ch:f9-0.0 x", "COPY weir:ch:f9-0.0 weir:ch:x",
    "SORT weir:looks:n1 BY weir:secrets->x", "EVAL return(redis.call('GET','weir:desired:n2')) 0",
    "EVAL return(redis.call('KEYS','*')) 0", "CLIENT TRACKING ON BCAST", "CLIENT PAUSE 1", "CLIENT UNBLOCK 1",
    "SORT_RO weir:looks:n1 BY weir:secrets->x", "MEMORY DOCTOR", "LATENCY RESET", "MODULE LIST", "PSUBSCRIBE *",
    "SUBSCRIBE __keyevent@0__:set", "SPUBLISH weir:push n1", "BLPOP celery 1", "DUMP weir:desired:n2", "SLOWLOG GET",
    "RESTORE weir:ch:x 0 x", "MIGRATE h 1 weir:secrets 0 1",
    "EVAL_RO return(redis.call('GET','weir:desired:n2')) 0", "MEMORY USAGE weir:secrets",
    "OBJECT ENCODING weir:secrets",
    # Keys of others that are named as the node's own fragments are, or as its rehearsals: whoever looks for all of a
    # kind, as the site for reports, would take them for what they say.
    "SET weir:observed:f1-0 x", "SET weir:observed:z:f1-0 x", "SET weir:observed:z:f1-0.0 x",
    "SET weir:observed:rehearsal-n1-0 x", "SET weir:observed:z:rehearsal-n1-0 x", "SET weir:desired:f1-0 x",
    "SET weir:desired:z:f1-0. x", "SET weir:lease:f1-0 x", "SET weir:trial:f1-0:result x", "SET weir:keyed:f1-0 x",
    "HGETALL weir:look:f1-0", "RPUSH weir:qos:f1-0:reports x", "LPUSH weir:tapped:of-others:f1-0 x",
    "SADD weir:tapped:t-of-others x", "HSET weir:lost n2 1", "HGETALL weir:switches:f1-0", "SMEMBERS weir:models:f1-0")
# What holds the broker for as long as its sender likes, on keys that are the node's own. A script need never end, and a
# broker ends none that has written; a command takes as long as what is stored times how often that is named.
WITHOUT_END = (
    "EVAL return(1) 0", "EVAL_RO return(1) 0", f"EVALSHA_RO {'0' * 40} 0", "SCRIPT LOAD return(1)", "SCRIPT KILL",
    f"SCRIPT EXISTS {'0' * 40}", "SCRIPT DEBUG YES", "FCALL f 0", "FCALL_RO f 0", "FUNCTION LOAD x",
    *(f"{command} weir:valve:f1-0 weir:valve:f1-0" for command in (
        "SINTER", "SINTERSTORE weir:valve:f1-0", "SINTERCARD 2", "SUNION", "SUNIONSTORE weir:valve:f1-0", "SDIFF",
        "SDIFFSTORE weir:valve:f1-0", "ZINTER 2", "ZINTERSTORE weir:valve:f1-0 2", "ZINTERCARD 2", "ZUNION 2",
        "ZUNIONSTORE weir:valve:f1-0 2", "ZDIFF 2", "ZDIFFSTORE weir:valve:f1-0 2", "BITOP AND weir:valve:f1-0", "LCS",
        "PFCOUNT", "PFMERGE weir:valve:f1-0")),
    "SRANDMEMBER weir:valve:f1-0 -9", "HRANDFIELD weir:valve:f1-0 -9", "ZRANDMEMBER weir:valve:f1-0 -9")
# What makes more of the broker's memory than was sent: texts from a number, copies, another name for all of a stream.
MAKES_MORE = (
    "SETRANGE weir:ch:f1-0:a 536870000 x", "SETBIT weir:ch:f1-0:a 4294967295 1",
    "BITFIELD weir:ch:f1-0:a SET u1 #4294967295 1", "ZRANGESTORE weir:ch:f1-0:a weir:ch:f1-0:b 0 -1",
    "GEOSEARCHSTORE weir:ch:f1-0:a weir:ch:f1-0:b FROMLONLAT 1 1 BYRADIUS 9 m",
    "GEORADIUS weir:ch:f1-0:b 1 1 9 m STORE weir:ch:f1-0:a",
    "GEORADIUSBYMEMBER weir:ch:f1-0:b m 9 m STORE weir:ch:f1-0:a", "PFADD weir:ch:f1-0:a x",
    "XGROUP CREATE weir:ch:f1-0:a g 0 MKSTREAM", "XREADGROUP GROUP g c STREAMS weir:ch:f1-0:a >",
    "XCLAIM weir:ch:f1-0:a g c 0 1-1", "XAUTOCLAIM weir:ch:f1-0:a g c 0 0")
# Commands that write and are let: what each makes is what it is sent, but for a constant. One that a newer broker has
# is looked at before it is in this list.
WRITES = frozenset((
    "append", "blmove", "blmpop", "blpop", "brpop", "brpoplpush", "bzmpop", "bzpopmax", "bzpopmin", "decr",
    "decrby", "del", "delifeq", "expire", "expireat", "geoadd", "getdel", "getex", "getset", "hdel", "hexpire",
    "hexpireat", "hgetdel", "hgetex", "hincrby", "hincrbyfloat", "hmset", "hpersist", "hpexpire", "hpexpireat",
    "hset", "hsetex", "hsetnx", "incr", "incrby", "incrbyfloat", "linsert", "lmove", "lmpop", "lpop", "lpush",
    "lpushx", "lrem", "lset", "ltrim", "mset", "msetex", "msetnx", "persist", "pexpire", "pexpireat", "psetex",
    "rename", "renamenx", "rpop", "rpoplpush", "rpush", "rpushx", "sadd", "set", "setex", "setnx", "smove",
    "spop", "srem", "unlink", "xack", "xadd", "xdel", "xtrim", "zadd", "zincrby", "zmpop", "zpopmax",
    "zpopmin", "zrem", "zremrangebylex", "zremrangebyrank", "zremrangebyscore"))
CHANNEL = tuple(of("f1-0.0") for of in (keys.channel, keys.meta, keys.readers))
VALVE = (keys.valve("f1-0"),)
HOLD = (keys.meter("f1-0"), keys.channel_meters("f1-0"))  # the script is told which keys
CALLS: dict[str, tuple[tuple[str, ...], tuple[object, ...], object]] = {  # of each script: keys, arguments, its answer
    "backpressure": (VALVE, (keys.channel(""), keys.CROWDED, "f1-0.0"), [0, b"", 0, -1, 0]),
    "blocks": (CHANNEL[:1], ("0-0", 9, 9), []),
    "bounded": ((keys.handover("f1-0"),), (2, "manifest"), [None]),
    "claim": ((keys.handover("f1-0"),), ("manifest", "f2-0"), 0),
    "close_tail": (VALVE, ("1", "2"), 1),
    "commit": (CHANNEL, ("f1-0", "0-1"), 0),
    "end_hold": (HOLD, ("n1", "t", 1), 1),
    "hold_token": (HOLD, ("n1",), 0),
    "intake": ((*CHANNEL, *VALVE, *HOLD, keys.ahead("f1-0")), (
        "0", 0, 1, b"block", 1, "", "", 1, 0, 100, "", ""), 1),
    "intake_room": (CHANNEL, (100,), b""),
    "join": (CHANNEL, ("f1-1", "now"), [b"0-0", b""]),
    "open_outlet": (VALVE, ("0", ""), 1),
    "pass_hold": (HOLD, ("n1", "t", "n2"), 0),
    "range": ((keys.ranges("f1-0"),), ("f1-0", "{}", '{"a":"1-0"}'), b'{"a":"1-0"}'),
    "refuse": ((keys.tapped("t"), *VALVE), (1, 1, "1-1", "reason", "place", "sample", b"event"), 1),
    "register": (CHANNEL, ("f1-1",), b"0-0"),
    "route": (VALVE, ("0:route:f2:", '{"a":1}', ""), 1),
    "skip": (CHANNEL, ("f1-0", "0-0", "0-0", "0-0", 0, 0), b""),
    "spill": (CHANNEL, ("f1-0", "0-0"), b""),
    "take_hold": (HOLD, ("n1", "t", 0), 1),
    "take_ranges": ((keys.ranges("f0-5"), keys.ranges("f1-0")), ("f1-0", 60), 1),
    "unregister": (CHANNEL, ("f1-0", 1), 0),
    "waiting": (CHANNEL, ("f1-0", 4), 0),
    "write": (CHANNEL, (0, 1, 0, 1, b"block", 0), 1),
}
READ = ("f0-0.2", "f0-1.0@f1-0", "f0-1.0")  # by f1-0, of other nodes
OF_CONNECTORS = ("HGETALL weir:connector:t", "HGETALL weir:sink:f9-0.0", "SMEMBERS weir:sinks:n1")


def desired() -> DesiredState:
    """A fragment that goes on with another's work, reads a stream and a part of one, and learns a model."""
    return DESIRED_STATES.read({
        "version": 1, "node": "n1", "generation": 1, "slots": {"0": {"fragments": [{
            "id": "f1-0", "inherits": ["f0-5"], "origin": "n2", "channels": {"0": "f0-5.0"}, "outlets": {}, "active": 1,
            "trigger_ms": 500,
            "inputs": [{"channel": "f0-0.2", "task": "p"}, {"channel": "f0-1.0@f1-0", "task": "q"}],
            "tasks": [{"id": "t", "type": "train", "config": {"model": {"name": "rides", "team": "city"}}},
                      {"id": "ways", "type": DYNAMIC, "config": {}}]}]}}})


@pytest.fixture
def users(broker: redis.Redis, broker_url: str, tmp_path: Path) -> Iterator[BrokerUsers]:
    store = NodeStore(tmp_path, "n1")
    store.write_desired(desired())
    made = BrokerUsers(broker, broker_url, store)
    made.expect()
    broker.execute_command("ACL", "LOG", "RESET")
    yield made
    for role in (SLOTS, CONNECTORS, LOOKS):
        broker.execute_command("ACL", "DELUSER", made.name(role))


def as_role(users: BrokerUsers, role: str) -> redis.Redis:
    return redis.Redis.from_url(users.url(role))


@pytest.mark.parametrize("role", [SLOTS, CONNECTORS, LOOKS])
def test_what_is_others_is_refused(users, role):
    with as_role(users, role) as client:
        done = {command for command in (*FORBIDDEN, *OF_CONNECTORS) if does(client, command)}
    assert done == (set(OF_CONNECTORS) if role == CONNECTORS else set())


def does(client: redis.Redis, command: str) -> bool:
    """Whether a user may do it; fails where the broker refuses it for another reason."""
    try:
        client.execute_command(*command.split())
    except redis.exceptions.ResponseError as refusal:
        assert re.search(r"(?i)perm|can't access|not allowed", str(refusal)), f"{command}: {refusal}"
        return False
    return True


@pytest.mark.parametrize("role", [SLOTS, CONNECTORS])
def test_what_is_the_nodes_is_had(users, broker, role):
    with as_role(users, role) as client:
        channels = Channels(client)
        for channel in ("f1-0.0", "f1-0.0@f2-0", "f0-5.0", "f0-0.2", "f0-1.0@f1-0"):
            channels.open_channel(channel, schema_json="{}", readers=["f1-0"])
            channels.join(channel, "f1-1", where="oldest", predecessors=["f1-0"])
            channels.commit(channel, "f1-0", "0-1")
            channels.take_fence(channel)
            channels.unregister(channel, "f1-0", for_good=True)
            if channel not in READ:
                client.xadd(keys.channel(channel), {"b": b"x"})
            client.xtrim(keys.channel(channel), minid="1-1")
            client.publish(keys.channel(channel), "x")
            client.publish(keys.room(channel), "x")
        for key in (keys.handover("f1-0"), keys.handover("f0-5"), keys.ahead("f1-0"), keys.valve("f1-0"),
                    keys.meter("f1-0"), keys.channel_meters("f1-0"), keys.valve("f0-5")):
            client.hset(key, "x", 1)
            client.expire(key, 10)
        client.set(keys.heir("f0-5"), 1, ex=5)
        client.getdel(keys.try_again("f1-0"))
        client.hexists(keys.LOST, "n2")  # where it comes from, also without copies of state
        client.lpush(keys.tapped("t", "f1-0"), b"x")
        with client.pubsub() as listening:
            listening.subscribe(keys.channel("f0-0.2"), keys.valve("f1-0"))
            assert listening.get_message(timeout=5)
    model = ModelName("city", "rides")
    with connected(users.url(role)) as client:
        store_version(client, model, StoredVersion("1-a", 1, "{}"), keep=5)
        client.hget(model.texts, "1-a")
    assert broker.execute_command("ACL", "LOG") == []
    assert [version.version for version in stored_versions(
        redis.Redis.from_url(users._url, decode_responses=True), "city")["rides"]] == ["1-a"]


@pytest.mark.parametrize("role", [SLOTS, CONNECTORS])
def test_weirs_own_scripts_are_run_by_their_digests(users, broker, role):
    broker.script_flush()
    users.look(is_away=False)  # the agent loads what the broker has lost
    assert CALLS.keys() == scripts.digests().keys()
    with as_role(users, role) as client:
        for name, (names, arguments, answer) in CALLS.items():
            broker.flushdb()
            Channels(broker).open_channel("f1-0.0", schema_json="{}", readers=["f1-0"])
            broker.hset(keys.ranges("f0-5"), mapping={"owner": "f0-5", "next": 7})
            assert client.evalsha(scripts.digests()[name], len(names), *names, *arguments) == answer, name
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.evalsha(scripts.digests()[name], 1, "weir:secrets", *arguments)


@pytest.mark.parametrize("role", [SLOTS, CONNECTORS, LOOKS])
def test_nobody_holds_the_broker_for_as_long_as_they_like(users, role):
    with as_role(users, role) as client:
        for command in WITHOUT_END:
            with pytest.raises(redis.exceptions.NoPermissionError, match="to run the"):
                client.execute_command(*command.split())


@pytest.mark.parametrize("role", [SLOTS, CONNECTORS, LOOKS])
def test_nobody_makes_more_than_they_send(users, broker, role):
    with as_role(users, role) as client:
        for command in MAKES_MORE:
            with pytest.raises(redis.exceptions.NoPermissionError, match="to run the"):
                client.execute_command(*command.split())
    writes = {command.decode() for command in broker.execute_command("ACL", "CAT", "write")}
    assert {command for command in writes
            if "|" not in command and may_run(broker, users.name(role), command)} <= WRITES


def may_run(broker: redis.Redis, user: str, command: str) -> bool:
    """Whether the broker lets a user run a command, on whichever keys."""
    [described] = broker.execute_command("COMMAND", "INFO", command).values()
    verdict = broker.execute_command("ACL", "DRYRUN", user, command, *["1"] * (abs(described["arity"]) - 1))
    return b"to run the" not in verdict


def test_a_call_waits_until_the_agent_has_loaded_what_the_broker_lost(users, broker, monkeypatch):
    monkeypatch.setattr(scripts, "PATIENCE_S", 600.0)
    broker.script_flush()
    with as_role(users, SLOTS) as client, ThreadPoolExecutor(1) as elsewhere:
        call = elsewhere.submit(scripts.run, client, "open_outlet", [*VALVE], ["0", ""])
        while not broker.execute_command("ACL", "LOG"):
            assert not call.done(), call.result()
        users.look(is_away=False)
        assert call.result() == 1


def test_a_call_that_nobody_loads_for_ends_with_the_remedy(users, broker, monkeypatch):
    monkeypatch.setattr(scripts, "PATIENCE_S", 0.0)
    broker.script_flush()
    with as_role(users, SLOTS) as client:
        with pytest.raises(redis.exceptions.ConnectionError, match="lost Weir's scripts, which the node's agent loads"):
            scripts.run(client, "open_outlet", [*VALVE], ["0", ""])
        with pytest.raises(redis.exceptions.NoPermissionError):  # that of a key is said at once, and for what it is
            scripts.run(client, "open_outlet", ["weir:secrets"], ["0", ""])


def test_who_has_the_brokers_password_loads_for_itself(broker):
    broker.script_flush()
    assert scripts.run(broker, "open_outlet", [*VALVE], ["0", ""]) == 1


def test_what_is_chosen_for_a_dynamic_task_by_key_is_read_and_not_written(users, broker):
    broker.set(keys.keyed("ways"), "{}")
    with as_role(users, SLOTS) as client:
        assert client.get(keys.keyed("ways")) == b"{}"
        client.hset(keys.switches("ways"), "x", 1)
        for key in (keys.keyed("ways"), keys.keyed("t")):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.set(key, "{}")
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.get(keys.keyed("t"))


def test_looks_and_trials_are_let_one_by_one(users, broker):
    broker.hset(look_key("1"), "state", "x")
    for role, in_slots in ((LOOKS, False), (SLOTS, True)):
        with as_role(users, role) as client:
            users.let_looks(["1"], in_slots=in_slots)
            assert client.hgetall(look_key("1")) and not client.exists(f"{look_key('1')}:asked")
            users.let_looks([], in_slots=in_slots)
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.hgetall(look_key("1"))
    with as_role(users, SLOTS) as client:
        users.let_trial("trial-1")
        client.hset(keys.valve("trial-1-feed"), "x", 1)
        client.hset(keys.channel_meters("trial-1"), "x", 1)
        client.hset(keys.meta("trial-1-feed.0"), "x", 1)
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.set("weir:observed:z:trial-1", "x")
        client.hset(keys.valve("rehearsal-n1-spare-0"), "x", 1)
        client.hset(keys.meta("rehearsal-n1-spare-0.0"), "x", 1)
        users.let_trial("trial-2")
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.hset(keys.valve("trial-1-feed"), "x", 1)


def test_what_is_coming_is_let_before_it_is_kept_and_what_is_recorded_after(users, broker):
    store = users._store
    coming = DESIRED_STATES.read({"version": 2, "node": "n1", "generation": 2, "slots": {"0": {"fragments": [
        {"id": "f2-0", "tasks": [{"id": "t", "type": "filter", "config": {}}], "inputs": [], "outlets": {}, "active": 1,
         "trigger_ms": 500}]}}})
    with as_role(users, SLOTS) as client:
        users.expect(coming)
        users.look(is_away=False)  # the lease is renewed before the coming state is kept
        client.hset(keys.valve("f2-0"), "x", 1)
        client.hset(keys.valve("f1-0"), "x", 1)
        SlotStore(store.data_dir, store.slot_dir("0")).record(desired().wanted["f1-0"])
        store.write_desired(coming)
        users.expect()
        client.hset(keys.valve("f1-0"), "x", 1)  # it has to be cleared away still
        SlotStore(store.data_dir, store.slot_dir("0")).forget("f1-0")
        users.expect()
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.hset(keys.valve("f1-0"), "x", 1)


def test_what_stood_by_may_be_cleared_away(users, broker):
    store = users._store
    slot = SlotStore(store.data_dir, store.slot_dir("0"))
    slot.record_standby("f1-0", ["f1-0.0"])
    store.write_desired(DESIRED_STATES.read({"version": 2, "node": "n1", "generation": 2, "slots": {}}))
    users.expect()
    with as_role(users, SLOTS) as client:
        client.hset(keys.valve("f1-0"), "x", 1)
        slot.record_standby("f1-0", None)
        users.expect()
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.hset(keys.valve("f1-0"), "x", 1)


def test_what_a_slot_records_of_others_lets_it_touch_nothing(users, broker, broker_url):
    """Who breaks out of a slot writes its folder: of a stream and a model of another team, and what no agent reads."""
    store = users._store
    forged = DESIRED_STATES.read({"version": 3, "node": "n1", "generation": 3, "slots": {"0": {"fragments": [
        {"id": name, "inherits": ["f9-0"], "outlets": {}, "active": 1, "trigger_ms": 500,
         "inputs": [{"channel": "f9-0.0", "task": "p"}],
         "tasks": [{"id": "t", "type": "train", "config": {"model": {"name": "x", "team": "roads"}}}]}
        for name in ("f9-0", "f1-0")]}}})
    slot = SlotStore(store.data_dir, store.slot_dir("0"))
    for fragment in forged.wanted.values():
        slot.record(fragment)
    (store.slot_dir("0") / "f8-0.json").write_text("{")
    for again in (users, BrokerUsers(broker, broker_url, store)):
        again.expect()
        with as_role(again, SLOTS) as client:
            client.hset(keys.valve("f1-0"), "x", 1)
            for key in (keys.valve("f9-0"), keys.channel("f9-0.0"), "weir:models:roads"):
                with pytest.raises(redis.exceptions.NoPermissionError):
                    client.exists(key)


def test_a_broker_that_forgot_them_has_them_again(users, broker):
    broker.execute_command("ACL", "DELUSER", users.name(SLOTS))
    with pytest.raises(redis.exceptions.AuthenticationError), as_role(users, SLOTS) as client:
        client.ping()
    users.look(is_away=False)
    with as_role(users, SLOTS) as client:
        assert client.ping()


def test_a_password_lives_as_long_as_its_agent(users, broker, broker_url):
    old = users.url(SLOTS)
    BrokerUsers(broker, broker_url, users._store).expect()
    with pytest.raises(redis.exceptions.AuthenticationError), redis.Redis.from_url(old) as client:
        client.ping()


def test_an_agent_that_may_make_no_users_says_so_and_goes_on(broker, broker_url, tmp_path):
    password = secrets.token_urlsafe(8)
    broker.execute_command("ACL", "SETUSER", "operator", "on", f">{password}", "~*", "&*", "+@all", "-acl")
    url = broker_url.replace("redis://:", f"redis://operator:{password}@").replace(
        f"{password}@{broker_url.rpartition('@')[0].removeprefix('redis://:')}@", f"{password}@")
    try:
        with redis.Redis.from_url(url) as client:
            made = BrokerUsers(client, url, NodeStore(tmp_path, "n1"))
            made.expect()
            assert made.is_refused and made.url(SLOTS) == url
    finally:
        broker.execute_command("ACL", "DELUSER", "operator")


def test_the_embedded_broker_knows_them_when_it_is_started_anew(tmp_path):
    with running_broker(tmp_path) as url, redis.Redis.from_url(url) as client:
        made = BrokerUsers(client, url, NodeStore(tmp_path, "n1"))
        made.expect()
        address = made.url(SLOTS).partition("@")[0]
    with running_broker(tmp_path) as url, redis.Redis.from_url(f"{address}@{url.rpartition('@')[2]}") as client:
        assert client.ping()


@given(st.text("ab-.:*?[]\\^!", min_size=1, max_size=8), st.text("ab-.:*?[]\\^!", min_size=1, max_size=8))
def test_a_pattern_is_of_one_key(broker_url, name, other):  # the broker is the judge
    with redis.Redis.from_url(broker_url) as client:
        client.execute_command("ACL", "SETUSER", "one", "reset", "on", "+get", f"~{key_patterns.escaped(name)}")
        answer = client.execute_command("ACL", "DRYRUN", "one", "GET", other)
        assert (answer == b"OK") == (name == other)
