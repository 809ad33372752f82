"""A digest of the code that a task type rests on, read from its sources: where it is another, profiles are stale.

What counts is what ``build`` reaches: its own definition at the top of its module, the definitions that it names, and
so on through the modules of its package and of this library. An edit of one task therefore says nothing of the others
in its module. Comments, docstrings, formatting, places in files and what a declaration says for readers and planners
do not count. Other packages count by the names that are used of them. Nothing is imported, so Spark is not either.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from scheduler.model.task_types import TaskType

from .definitions import Dotted, read_module

LIBRARY = "workers.library"
DIGITS = 16
COMPANIONS = ("", "_schedule")  # of a builder: what makes events, and when


def code_digest(task_type: TaskType) -> str:
    """A digest of the code that a task type's builder rests on; empty where its sources cannot be read, or are nested
    too deeply.

    It is found once in the life of a process, which goes on with the code that it began with.
    """
    return _digest(task_type.build)


def forget() -> None:
    """Read sources again the next time."""
    _digest.cache_clear()
    read_module.cache_clear()


# -- what a builder reaches --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """A definition at the top of a module; without a name, the module as a whole."""

    module: str
    name: str = ""


@cache
def _digest(build: str) -> str:
    module, _, function = build.partition(":")
    own = module.partition(".")[0]
    try:
        found = [_found(module, function + suffix, own) for suffix in COMPANIONS]
        places = [place for place in found if isinstance(place, _Place) and place.name]
        reached = _reached(places, own) if found[0] in places else set()
    except RecursionError:  # what a program wrote may be nested deeper than a walk can go
        reached = set()
    if not reached:
        return ""
    logic = hashlib.sha256("\0".join(sorted(reached)).encode(errors="surrogatepass"))
    return logic.hexdigest()[:DIGITS]


def _reached(places: list[_Place], own: str) -> set[str]:
    """The definitions that are reached from some, spelled out, and the names of what is outside."""
    spelled: set[str] = set()
    seen: set[_Place] = set()
    while places:
        place = places.pop()
        if place in seen:
            continue
        seen.add(place)
        module = read_module(place.module)
        if not place.name:
            places.extend(_Place(place.module, name) for name in module.definitions)
        for definition in module.definitions.get(place.name, ()):
            spelled.add(definition.spelled)
            for dotted in definition.names:
                found = _followed(place.module, dotted, definition.imports, own)
                if isinstance(found, _Place):
                    places.append(found)
                elif found:
                    spelled.add(f"{dotted[0]} is {found}")
    return spelled


def _followed(module: str, dotted: Dotted, imports: Mapping[str, Dotted], own: str) -> _Place | str | None:
    """Where a dotted name of a module leads: to a definition or module that counts, or outside, or nowhere."""
    first, *rest = dotted
    found = _meant(imports[first], own) if first in imports else _found(module, first, own)
    while rest and isinstance(found, _Place) and not found.name:
        found = _found(found.module, rest.pop(0), own)
    return f"{found}.{'.'.join(rest)}" if rest and isinstance(found, str) else found


def _found(module: str, name: str, own: str, seen: frozenset[tuple[str, str]] = frozenset()) -> _Place | str | None:
    """Where a name at the top of a module is defined; the dotted name of what is outside; None for what is built in."""
    there = read_module(module)
    if there is None or (module, name) in seen:
        return None
    if name in there.definitions:
        return _Place(module, name)
    seen |= {(module, name)}
    if name in there.imports:
        return _meant(there.imports[name], own, seen)
    if there.is_package and read_module(f"{module}.{name}") is not None:
        return _Place(f"{module}.{name}")
    stars = (_found(star, name, own, seen) for star in there.stars if _counts(star, own))
    return next((found for found in stars if found is not None), None)


def _meant(target: Dotted, own: str, seen: frozenset[tuple[str, str]] = frozenset()) -> _Place | str | None:
    """What an import leads to."""
    module, *name = target
    if not _counts(module, own) or read_module(module) is None:
        return ".".join(target)
    return _found(module, name[0], own, seen) if name else _Place(module)


def _counts(module: str, own: str) -> bool:
    return any(module == one or module.startswith(f"{one}.") for one in (own, LIBRARY))
