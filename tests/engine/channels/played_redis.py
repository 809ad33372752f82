"""A broker in memory: the few commands of Redis that channels and agents use, and the real Lua scripts on top of them.

It is quick enough for thousands of histories. The tests of scripts and registry beside this file ask the same of it as
of a real broker.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import redis
from lupa import lua51  # the Lua of Redis

_LUA = lua51.LuaRuntime(encoding=None, unpack_returned_tuples=False)
_FIRST, _LAST = (0, 0), (2**63, 2**63)


@dataclass
class Stream:
    """A stream: ids and fields of its entries, oldest first, and the newest id that it ever had."""

    ids: list[tuple[int, int]] = field(default_factory=list)
    fields: list[list[bytes]] = field(default_factory=list)
    newest: tuple[int, int] = _FIRST


class PlayedRedis:
    """A client and its broker in one, without time: keys that expire are only noted.

    Parameters
    ----------
    before_change : callable
        Called before every change that a client asks for, a script being one; it may raise.
    """

    def __init__(self, before_change: Callable[[], None] = lambda: None) -> None:
        self.hashes: dict[bytes, dict[bytes, bytes]] = {}
        self.streams: dict[bytes, Stream] = {}
        self.texts: dict[bytes, bytes] = {}
        self.expiring: set[bytes] = set()
        self._before_change = before_change
        error_reply = _LUA.eval("function(message) return {err = message} end")
        self._redis = _LUA.table_from({
            b"call": self._call_from_lua, b"error_reply": error_reply, b"acl_check_cmd": lambda *command: True})
        self._cjson = _LUA.table_from({b"decode": _decode_json})

    # -- commands as clients give them ---------------------------------------------------------------------------

    def hget(self, key: str, name: str) -> bytes | None:
        return self.call(b"HGET", key, name)

    def hmget(self, key: str, names: Iterable[str], *further: str) -> list[bytes | None]:
        return self.call(b"HMGET", key, *([names] if isinstance(names, str) else names), *further)

    def hgetall(self, key: str) -> dict[bytes, bytes]:
        return dict(self.hashes.get(_bytes(key), {}))

    def hkeys(self, key: str) -> list[bytes]:
        return self.call(b"HKEYS", key)

    def hexists(self, key: str, name: str) -> bool:
        return bool(self.call(b"HEXISTS", key, name))

    def hset(self, key: str, name: object = None, value: object = None, mapping: Mapping | None = None) -> int:
        self._before_change()
        fields = {**(mapping or {}), **({} if name is None else {name: value})}
        return self.call(b"HSET", key, *(part for pair in fields.items() for part in pair))

    def hsetnx(self, key: str, name: str, value: object) -> int:
        self._before_change()
        return self.call(b"HSETNX", key, name, value)

    def hincrby(self, key: str, name: str, by: int = 1) -> int:
        self._before_change()
        return self.call(b"HINCRBY", key, name, by)

    def hdel(self, key: str, *names: str) -> int:
        self._before_change()
        return self.call(b"HDEL", key, *names)

    def get(self, key: str) -> bytes | None:
        return self.texts.get(_bytes(key))

    def set(self, key: str, value: object, ex: int | None = None) -> bool:
        self._before_change()
        self.texts[_bytes(key)] = _bytes(value)
        if ex is not None:
            self.expiring.add(_bytes(key))
        return True

    def exists(self, key: str) -> int:
        return int(any(_bytes(key) in kind for kind in (self.hashes, self.streams, self.texts)))

    def delete(self, *keys: str) -> None:
        self._before_change()
        self._remove_keys(*map(_bytes, keys))

    def keys(self, pattern: str) -> list[bytes]:
        inside = _bytes(pattern.strip("*"))
        return [key for kind in (self.hashes, self.streams, self.texts) for key in kind if inside in key]

    def flushall(self) -> None:
        for kind in (self.hashes, self.streams, self.texts, self.expiring):
            kind.clear()

    def expire(self, key: str, _seconds: int) -> None:
        self._before_change()
        if self.exists(key):
            self.expiring.add(_bytes(key))

    def persist(self, key: str) -> None:
        self.expiring.discard(_bytes(key))

    def publish(self, topic: str, message: object) -> int:
        return self.call(b"PUBLISH", topic, message)

    def xlen(self, key: str) -> int:
        return self.call(b"XLEN", key)

    def xrange(
        self, key: str, min: str = "-", max: str = "+", count: int | None = None
    ) -> list[tuple[bytes, dict[bytes, bytes]]]:
        entries = self.call(b"XRANGE", key, min, max, *(() if count is None else ("COUNT", count)))
        return [(entry, dict(zip(fields[::2], fields[1::2], strict=True))) for entry, fields in entries]

    def xrevrange(
        self, key: str, max: str = "+", min: str = "-", count: int | None = None
    ) -> list[tuple[bytes, dict[bytes, bytes]]]:
        return self.xrange(key, min, max)[::-1][:count]

    def pipeline(self, *, transaction: bool = True) -> Pipeline:
        return Pipeline(self)

    def register_script(self, text: str) -> Callable[..., Any]:
        """The script as ``redis.commands.core.Script`` is called."""
        compiled = _compiled(text)

        def run(keys: Sequence[str], args: Sequence[object], client: object = None) -> Any:
            self._before_change()
            table = _LUA.table_from
            return _reply(compiled(
                table([_bytes(key) for key in keys]), table([_bytes(arg) for arg in args]), self._redis, self._cjson))

        return run

    # -- commands as the broker does them ------------------------------------------------------------------------

    def call(self, command: bytes, key: object, *arguments: object) -> Any:
        """One command with its key; replies are int, bytes, list or None."""
        return _COMMANDS[command](self, _bytes(key), *map(_bytes, arguments))

    def _call_from_lua(self, command: bytes, key: object, *arguments: object) -> Any:
        reply = self.call(command, key, *arguments)
        return _table(reply) if isinstance(reply, list) else False if reply is None else reply

    def _hset(self, key: bytes, *pairs: bytes) -> int:
        fields = self.hashes.setdefault(key, {})
        before = len(fields)
        fields.update(zip(pairs[::2], pairs[1::2], strict=True))
        return len(fields) - before

    def _hsetnx(self, key: bytes, name: bytes, value: bytes) -> int:
        fields = self.hashes.setdefault(key, {})
        if name in fields:
            return 0
        fields[name] = value
        return 1

    def _hdel(self, key: bytes, *names: bytes) -> int:
        fields = self.hashes.get(key, {})
        removed = sum(fields.pop(name, None) is not None for name in names)
        if not fields:
            self.hashes.pop(key, None)
            self.expiring.discard(key)
        return removed

    def _hincrby(self, key: bytes, name: bytes, by: bytes) -> int:
        fields = self.hashes.setdefault(key, {})
        value = int(fields.get(name, 0)) + int(by)
        fields[name] = b"%d" % value
        return value

    def _xadd(self, key: bytes, entry: bytes, *fields: bytes) -> bytes:
        stream, number = self.streams.setdefault(key, Stream()), _id(entry)
        if number <= stream.newest:
            raise redis.ResponseError("The ID specified in XADD is equal or smaller than the target stream top item")
        stream.ids.append(number)
        stream.fields.append(list(fields))
        stream.newest = number
        return entry

    def _xrange(self, key: bytes, low: bytes, high: bytes, *count: bytes) -> list:
        stream = self.streams.get(key)
        if stream is None:
            return []
        first = _position(stream.ids, low, bisect.bisect_left, bisect.bisect_right)
        last = _position(stream.ids, high, bisect.bisect_right, bisect.bisect_left)
        if count:
            last = min(last, first + int(count[1]))
        return [[b"%d-%d" % stream.ids[index], stream.fields[index]] for index in range(first, last)]

    def _xtrim(self, key: bytes, minid: bytes, equal: bytes, entry: bytes) -> int:
        assert (minid, equal) == (b"MINID", b"="), "no other way of trimming is played"
        return self._remove(key, slice(0, bisect.bisect_left(self.streams[key].ids, _id(entry))))

    def _xdel(self, key: bytes, entry: bytes) -> int:
        stream, number = self.streams[key], _id(entry)
        index = bisect.bisect_left(stream.ids, number)
        is_there = index < len(stream.ids) and stream.ids[index] == number
        return self._remove(key, slice(index, index + 1)) if is_there else 0

    def _remove(self, key: bytes, which: slice) -> int:
        stream = self.streams[key]
        removed = len(stream.ids[which])
        del stream.ids[which], stream.fields[which]
        return removed

    def _remove_keys(self, *keys: bytes) -> int:
        for key in keys:
            for kind in (self.hashes, self.streams, self.texts):
                kind.pop(key, None)
            self.expiring.discard(key)
        return len(keys)

    def _expire(self, key: bytes, _seconds: bytes) -> int:
        self.expiring.add(key)
        return 1

    def _hash(self, key: bytes) -> dict[bytes, bytes]:
        return self.hashes.get(key, {})


_COMMANDS: dict[bytes, Callable[..., Any]] = {
    b"HGET": lambda broker, key, name: broker._hash(key).get(name),
    b"HMGET": lambda broker, key, *names: [broker._hash(key).get(name) for name in names],
    b"HGETALL": lambda broker, key: [part for pair in broker._hash(key).items() for part in pair],
    b"HKEYS": lambda broker, key: list(broker._hash(key)),
    b"HVALS": lambda broker, key: list(broker._hash(key).values()),
    b"HSTRLEN": lambda broker, key, name: len(broker._hash(key).get(name, b"")),
    b"HLEN": lambda broker, key: len(broker._hash(key)),
    b"HEXISTS": lambda broker, key, name: int(name in broker._hash(key)),
    b"HSET": PlayedRedis._hset, b"HSETNX": PlayedRedis._hsetnx, b"HDEL": PlayedRedis._hdel,
    b"HINCRBY": PlayedRedis._hincrby, b"DEL": PlayedRedis._remove_keys, b"EXPIRE": PlayedRedis._expire,
    b"XADD": PlayedRedis._xadd, b"XRANGE": PlayedRedis._xrange, b"XTRIM": PlayedRedis._xtrim,
    b"XDEL": PlayedRedis._xdel,
    b"XLEN": lambda broker, key: len(broker.streams[key].ids) if key in broker.streams else 0,
    b"PUBLISH": lambda broker, topic, message: 0,
}


class Pipeline:
    """Commands that are given first and done together."""

    def __init__(self, broker: PlayedRedis) -> None:
        self._broker = broker
        self._commands: list[Callable[[], Any]] = []

    def __getattr__(self, name: str) -> Callable[..., Pipeline]:
        def add(*arguments: Any, **options: Any) -> Pipeline:
            self._commands.append(lambda: getattr(self._broker, name)(*arguments, **options))
            return self

        return add

    def execute(self, *, raise_on_error: bool = True) -> list[Any]:
        commands, self._commands = self._commands, []
        return [command() if raise_on_error else _answered(command) for command in commands]


def _answered(command: Callable[[], Any]) -> Any:
    try:
        return command()
    except redis.ResponseError as error:
        return error


@cache
def _compiled(text: str) -> Any:
    """The script as a function of its keys, its arguments and the two libraries that Redis gives it."""
    text = text.removeprefix("#!lua flags=allow-oom\n")  # its first line, which is no Lua
    return _LUA.eval(f"function(KEYS, ARGV, redis, cjson) {text}\nend".encode())


def _reply(value: Any) -> Any:
    """What a client gets of what a script returns."""
    if value is None or value is False:
        return None
    if isinstance(value, (bool, float)):
        return int(value)
    if lua51.lua_type(value) != "table":
        return value
    if value[b"err"] is not None:
        raise redis.ResponseError(value[b"err"].decode())
    items = []
    while (item := value[len(items) + 1]) is not None:
        items.append(_reply(item))
    return items


def _table(items: list) -> Any:
    return _LUA.table_from([
        _table(item) if isinstance(item, list) else False if item is None else item for item in items])


def _decode_json(text: bytes) -> Any:
    value = json.loads(text)
    assert isinstance(value, dict), "scripts decode objects alone"
    return _in_lua(value)


def _in_lua(value: Any) -> Any:
    """A value of JSON as Lua has it."""
    if isinstance(value, dict):
        return _LUA.table_from({key.encode(): _in_lua(item) for key, item in value.items()})
    if isinstance(value, list):
        return _LUA.table_from([_in_lua(item) for item in value])
    return value.encode() if isinstance(value, str) else value


def _bytes(value: object) -> bytes:
    """An argument as it goes over the wire."""
    if type(value) is bytes:
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).encode()


def _id(entry: bytes) -> tuple[int, int]:
    first, _, second = entry.partition(b"-")
    return int(first), int(second or 0)


def _position(ids: list, bound: bytes, inclusive: Callable, exclusive: Callable) -> int:
    if bound in (b"-", b"+"):
        return 0 if bound == b"-" else len(ids)
    return exclusive(ids, _id(bound[1:])) if bound.startswith(b"(") else inclusive(ids, _id(bound))
