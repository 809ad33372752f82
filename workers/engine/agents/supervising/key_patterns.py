"""The keys of the broker that a node's processes may touch, as patterns for its users (``broker_users``). Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from scheduler.contracts.desired import DesiredState, WantedFragment
from scheduler.model.alternates import is_dynamic
from scheduler.model.dataflow import Task
from scheduler.model.secrets import NAME, TEAM, is_owned
from workers.engine.channels import keys
from workers.library.model_store import PREFIX as MODELS
from workers.library.model_store import ModelName
from workers.library.registry import task_types

READ_ONLY = "%R~"  # before the pattern of a key that may be read alone
_NAMED = (
    keys.valve, keys.meter, keys.channel_meters, keys.key_meters, keys.tap, keys.try_again, keys.handover, keys.ahead,
    keys.heir, keys.ranges, keys.copies)
MOST_LEFT_OUT = 32  # channels that a fragment was told to read and now leaves out, the last ones
_BLANK = re.compile(r"[\s\0]")
_SPECIAL = re.compile(r"([\\*?\[\]])")


def known_fragments(*states: DesiredState, earlier: Iterable[WantedFragment] = ()) -> dict[str, WantedFragment]:
    """All fragments that a node works for, by id: wanted, coming to an end, or not cleared away yet.

    One that is to leave channels out reads them until its query is started anew, and looks at them once more then.
    """
    before = {fragment.id: fragment for fragment in earlier}
    fragments = dict(before)
    for state in states:
        takers = {fragment.id: fragment for fragment in state.takers}
        fragments |= {**takers, **state.outgoing, **state.heirs_elsewhere, **state.wanted}
    return {name: _reading_too(fragment, before.get(name, fragment)) for name, fragment in fragments.items()}


def _reading_too(fragment: WantedFragment, before: WantedFragment) -> WantedFragment:
    read = {item.channel for item in fragment.inputs}
    left_out = [item for item in before.inputs if item.channel not in read][:MOST_LEFT_OUT]
    return replace(fragment, inputs=(*fragment.inputs, *left_out)) if left_out else fragment


def of_fragments(fragments: Collection[WantedFragment]) -> frozenset[str]:
    """Patterns of the keys that slots touch of these fragments: all that are named after them, or after those whose
    work they go on with; the channels that they read; models of their teams."""
    return frozenset(pattern for fragment in fragments for pattern in _of_fragment(fragment))


def _of_fragment(fragment: WantedFragment) -> Iterator[str]:
    remote_givers = fragment.remote_givers
    if not fragment.tasks:  # of another node, and takes keys of this one's: whether it is ready, and what it is given
        yield READ_ONLY + escaped(keys.valve(fragment.id))
        remote_givers = fragment.inherits
    for giver in remote_givers:
        gift = keys.gift_name(giver, fragment.id)
        yield from map(escaped, (keys.handover(gift), keys.ahead(gift)))
    if not fragment.tasks:
        return
    inherited = {name for heirs in fragment.heirs.values() for name in heirs}
    for name in {fragment.id, *fragment.inherits, *inherited}:
        yield from named_after(name)
    if fragment.origin:
        yield READ_ONLY + escaped(keys.LOST)  # whether its node is
    for writer in fragment.writers.values():
        yield escaped(keys.valve(writer.fragment))
    for part in {bundle for readers in fragment.routes.values() for how in readers.values() for bundle in how.bundles}:
        for reader in fragment.readers_of(part):  # whether it has begun, or is ready
            yield READ_ONLY + escaped(keys.valve(reader))
    for name in {*fragment.channels.values(), *_read_by(fragment)}:
        yield from _of_stream(name)
    for task in fragment.tasks[:1]:
        yield escaped(keys.wave(task.id))  # a source
    for task in fragment.tasks:
        yield escaped(keys.tapped(task.id))
        yield f"{escaped(keys.tapped(task.id))}:*"
        if is_dynamic(task.type):
            yield from map(escaped, (keys.switches(task.id), keys.key_switches(task.id), keys.waves(task.id)))
            yield READ_ONLY + escaped(keys.keyed(task.id))
        for model in _models_of(task):
            yield escaped(f"{MODELS}{model[TEAM]}")
            yield escaped(ModelName(model[TEAM], model[NAME]).key)
            yield escaped(ModelName(model[TEAM], model[NAME]).texts)


def only_read(fragments: Collection[WantedFragment]) -> frozenset[str]:
    """Of these patterns those of channels that none of the fragments writes: of other nodes, and maybe other teams."""
    written = {name for fragment in fragments for name in fragment.channels.values()}
    read = {name for fragment in fragments for name in _read_by(fragment)}
    return frozenset(pattern for name in read for pattern in _of_stream(name)) - frozenset(
        pattern for name in written for pattern in _of_stream(name))


def _read_by(fragment: WantedFragment) -> set[str]:
    return {*fragment.writers, *(item.channel for item in fragment.inputs)}


def _of_stream(channel: str) -> Iterator[str]:
    """A channel, and of a part that of the whole stream, too."""
    yield from of_channel(channel)
    if keys.is_part(channel):
        yield from of_channel(keys.whole_of(channel))


def _models_of(task: Task) -> Iterator[Mapping[str, str]]:
    """The models that a task's type declares; what only looks like one, as in arguments of a function, is none."""
    declared = task_types().get(task.type)
    for parameter in declared.parameters if declared is not None else ():
        if parameter.of_team and is_owned(value := task.config.get(parameter.name)):
            yield value


def named_after(fragment: str, *, more: str = "") -> Iterator[str]:
    """Everything that is a fragment's: streams and their parts, valves, meters, what it leaves for an heir.

    Each kind of key is named: of the others some are read whoever is in the name, such as reports of nodes.
    """
    name = f"{escaped(fragment)}{more}"
    yield from (key(name) for key in _NAMED)
    yield f"{keys.channel(name)}[.:]*"


def of_channel(channel: str) -> Iterator[str]:
    """A channel, what is kept of it, and its parts."""
    yield escaped(keys.channel(channel))
    yield f"{escaped(keys.channel(channel))}[:@]*"


def of_copies(node: str, fragment_ids: Iterable[str], owners: Mapping[str, str]) -> Iterator[str]:
    """Patterns of the keys that slots touch of copies of state: of the node's own fragments those that go elsewhere,
    and those it holds."""
    yield READ_ONLY + escaped(keys.copies_at(node))
    for name in fragment_ids:
        yield escaped(keys.ahead(keys.copy_name(name, ""))) + "*"
    for name in owners:
        yield escaped(keys.ahead(keys.copy_name(name, node)))
        yield escaped(keys.copies(name))


def of_connectors(node: str) -> Iterator[str]:
    """Patterns of the keys that a connector host touches beside its node's fragments: its live sources and their
    channels, its sinks; whether who has them is lost."""
    yield READ_ONLY + escaped(keys.LOST)
    yield from (escaped(keys.hosted(node)), escaped(keys.sinks(node)))
    yield from (f"{keys.connector('')}*", f"{keys.sink('')}*", f"{keys.channel('in-')}*")


def can_be_given(pattern: str) -> bool:
    """True where the broker takes it for a pattern. With a blank, which no key of Weir's has, it takes none, and
    refuses all others of the user as well."""
    return _BLANK.search(pattern) is None


def escaped(key: str) -> str:
    """The pattern of one key."""
    return _SPECIAL.sub(r"\\\1", key)
