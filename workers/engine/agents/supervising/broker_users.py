"""Users of the broker for a node's processes: one for its slots, one for its connector host, one for its looks.

The agent makes them, with passwords that live as long as it does, and keeps the keys that each may touch in step with
what the node works for. The broker's own password stays with the agent. They run the scripts that it loads, and no
others. A broker that was started anew has lost these, and may have forgotten the users: both are made good. Where the
agent may make none, its processes have the agent's own address.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from urllib.parse import quote, urlsplit, urlunsplit

import redis

from scheduler.contracts.desired import DesiredState, WantedFragment
from workers.engine import look_store
from workers.engine.channels import keys, scripts

from ..agent_logs import logger
from ..node_files.node_store import NodeStore
from ..reconciling.started_fragments import SlotStore
from . import key_patterns

# Roles. The host's is also its process's name: it reads live sources, and writes sinks.
SLOTS, CONNECTORS, LOOKS = "slots", "connectors", "looks"
_TRIAL, _SHOWN = "trial", "shown"
# Reading and writing what the patterns let through, and nothing that tells or touches more than its keys. Of scripts
# those that were loaded: one of an intruder's own would never have to end. Nor can one command among these take the
# product of what is stored, and of how often that is named; nor make more than was sent, as a text of 512 MB from
# thirty bytes, or a copy of what is stored.
COMMANDS = (
    "-@all", "+@read", "+@write", "+@pubsub", "+@connection", "+@transaction", "-@scripting", "+evalsha", "-@admin",
    "-@dangerous", "-scan", "-randomkey", "-dbsize", "-pubsub", "-copy", "-move", "-client|tracking", "+time", "+role",
    *(f"-{command}" for command in (
        "sinter", "sinterstore", "sintercard", "sunion", "sunionstore", "sdiff", "sdiffstore", "zinter", "zinterstore",
        "zintercard", "zunion", "zunionstore", "zdiff", "zdiffstore", "bitop", "lcs", "pfcount", "pfmerge",
        "srandmember", "hrandfield", "zrandmember", "rename", "renamenx",
        "setrange", "setbit", "bitfield", "zrangestore", "geosearchstore", "georadius", "georadiusbymember", "pfadd",
        "xgroup", "xreadgroup", "xclaim", "xautoclaim", "xsetid")))
# Of what writes all that a reader does where others read, too: it notes how far it is, and frees what all have read.
OF_READERS = ("-@write", "+hset", "+hsetnx", "+hdel", "+hincrby", "+xtrim", "+xdel")
UNKNOWN = ("?",)  # rules that no user has
CROWDED = key_patterns.READ_ONLY + key_patterns.escaped(keys.CROWDED)
TOPICS = (f"&{keys.channel('')}*", f"&{keys.valve('')}*")


def _may_make_none(error: redis.ResponseError) -> bool:
    """Whether a broker refuses users as such, and not for what they are."""
    return isinstance(error, redis.exceptions.NoPermissionError) or "unknown command" in str(error).lower()


class BrokerUsers:
    """The users of one node."""

    def __init__(self, broker: redis.Redis, url: str, store: NodeStore, *, has_copies: bool = False) -> None:
        self._broker, self._url, self._store, self._has_copies = broker, url, store, has_copies
        self._passwords = {role: secrets.token_urlsafe(24) for role in (SLOTS, CONNECTORS, LOOKS)}
        self._rules: dict[str, tuple[str, ...]] = {}  # as the broker has them that runs as `_run`
        self._run = ""
        self._patterns_for_now: dict[str, frozenset[str]] = {}  # trials and looks, by what they are
        self._lock = threading.RLock()
        self._known_fragments: Mapping[str, WantedFragment] | None = None
        self._next_desired = DesiredState()  # what the node is about to be told to
        self.is_refused = False  # the broker lets the agent make no users

    def url(self, role: str) -> str:
        """The address for processes of a role."""
        if self.is_refused:
            return self._url
        parts = urlsplit(self._url)
        host = parts.netloc.rpartition("@")[2]
        user = f"{quote(self.name(role), safe='')}:{quote(self._passwords[role], safe='')}"
        return urlunsplit(parts._replace(netloc=f"{user}@{host}"))

    def name(self, role: str) -> str:
        """The name of the user of a role."""
        return f"weir-{self._store.node}-{role}"

    def expect(self, coming: DesiredState | None = None) -> None:
        """Let the users touch what the node works for, and what it is about to be told to.

        What is ``coming`` stays let until the node's store has it: whoever else calls this meanwhile, as its lease is
        renewed, must not take away what slots are about to need.

        Raises
        ------
        redis.RedisError
            The broker is away; what was so stays so.
        """
        with self._lock:
            if coming is not None:
                self._next_desired = coming
            if self.is_refused:
                return
            with suppress(redis.ResponseError):  # who may not ask has one server alone
                if (run := self._broker.info("server")["run_id"]) != self._run:  # a replica has users of its own
                    self._rules, self._run = dict.fromkeys(self._rules, UNKNOWN), run
            fragments = self._fragments()
            patterns = key_patterns.of_fragments(tuple(fragments.values()))
            rehearsal = key_patterns.named_after(f"rehearsal-{self._store.node}-", more="*")
            try:
                scripts.load(self._broker)  # before the users: who is let in finds them
                shown, trial = (self._patterns_for_now.get(purpose, frozenset()) for purpose in (_SHOWN, _TRIAL))
                copies = self._of_copies(fragments) if self._has_copies else ()
                only_read = key_patterns.only_read(tuple(fragments.values()))
                self._set(SLOTS, {*patterns, *rehearsal, *shown, *trial, *copies, CROWDED}, only_read=only_read)
                self._set(CONNECTORS, {*patterns, *key_patterns.of_connectors(self._store.node), CROWDED},
                          only_read=only_read)  # what live sources write it has by their own patterns
                self._set(LOOKS, self._patterns_for_now.get(LOOKS, frozenset()))
            except redis.ResponseError as error:
                # What it let the agent do once, it will again; and what else is wrong opens nothing to the processes.
                self.is_refused = not self._rules and _may_make_none(error)
                logger().warning("the broker did not let users be made", error=str(error), given_up=self.is_refused)

    def works_for(self, query: str) -> bool:
        """True where the node works for a query, or has not cleared it away yet; of all where that is not known."""
        return self.is_refused or self._known_fragments is None or query in self._known_fragments

    def look(self, *, is_away: bool) -> None:
        """Make the users where they are missing: a broker that was started anew may have forgotten them."""
        if not is_away:
            with suppress(redis.RedisError):
                self.expect()

    def let_trial(self, fragment: str) -> None:
        """Let slots touch what is named after a trial, and nothing of another."""
        self._let(_TRIAL, set(key_patterns.named_after(fragment, more="*")))

    def let_looks(self, look_ids: Collection[str], *, in_slots: bool = False) -> None:
        """Let the processes of looks, or slots, tell of these looks and of no others."""
        names = [key_patterns.escaped(look_store.key(look_id)) for look_id in look_ids]
        self._let(_SHOWN if in_slots else LOOKS, {pattern for name in names for pattern in (name, f"{name}:*")})

    def _of_copies(self, fragment_ids: Collection[str]) -> Collection[str]:
        owners = self._broker.hgetall(keys.copies_at(self._store.node))
        return tuple(key_patterns.of_copies(
            self._store.node, fragment_ids, {name.decode(): node.decode() for name, node in owners.items()}))

    def _let(self, purpose: str, patterns: set[str]) -> None:
        with self._lock:
            if self._patterns_for_now.get(purpose, frozenset()) != patterns:
                self._patterns_for_now[purpose] = frozenset(patterns)
                self.expect()

    def _set(self, role: str, patterns: Collection[str], *, only_read: Collection[str] = ()) -> None:
        """Make a user, or bring it up to date; a broker whose user is equal is sent nothing.

        The user adds no block to ``only_read`` channels, and writes there by the commands of a reader alone: a reader
        of another team's stream must not forge events for its other readers, nor end the stream for its writer.
        """
        name, allowed = self.name(role), sorted(filter(key_patterns.can_be_given, patterns))
        rules = tuple(rule if rule.startswith(key_patterns.READ_ONLY) else f"~{rule}" for rule in allowed)
        if only_read:
            written = (rule for rule in rules if rule.startswith("~") and rule[1:] not in only_read)
            rules = (*OF_READERS, *rules, f"({' '.join((*COMMANDS, '-@pubsub', *written))})")
        if self._rules.get(role) == rules and self._broker.execute_command("ACL", "GETUSER", name) is not None:
            return
        self._broker.execute_command(
            "ACL", "SETUSER", name, "reset", "on", f">{self._passwords[role]}", *COMMANDS, *TOPICS,
            *rules)
        self._rules[role] = rules
        with suppress(redis.ResponseError):  # one without a file of users forgets them when it ends
            self._broker.execute_command("ACL", "SAVE")

    def _fragments(self) -> Mapping[str, WantedFragment]:
        """What the node works for, as the agent was told: what slots record says what is not cleared away yet, also of
        queries that stood by, what the connector host notes says whose sinks are written still, and nothing more, for
        who breaks out of one writes there."""
        standby = SlotStore(self._store.data_dir, self._store.folder).having("standby")
        recorded = standby | {path.stem for path in self._store.folder.glob("slot-*/*.json")}
        if self._known_fragments is None:
            self._known_fragments = self._store.read_known()
        if self._known_fragments is None:  # of an earlier version
            folders = self._store.folder.glob("slot-*")
            self._known_fragments = {
                name: fragment for folder in folders
                for name, fragment in SlotStore(self._store.data_dir, folder).records().items()}
        draining: Collection[bytes] = ()
        with suppress(redis.ResponseError):  # the host writes there, and may write what is no set
            draining = self._broker.smembers(keys.sinks(self._store.node))
        earlier = [
            fragment for name, fragment in self._known_fragments.items()
            if name in recorded or any(channel.encode() in draining for channel in fragment.written[-1:])]
        stored = self._store.read_desired()
        coming = (self._next_desired,) if self._next_desired.order >= stored.order else ()
        fragments = key_patterns.known_fragments(stored, *coming, earlier=earlier)
        if fragments != self._known_fragments or not self._store.known_path.exists():
            self._store.write_known(fragments)
            self._known_fragments = fragments
        return fragments
