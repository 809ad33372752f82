"""Settings: what a fragment's queries are set to while they run, beside what they are made of.

Settings change while a query runs and never change its outputs. A plan of kind ``set`` changes them as it changes
fragments; intervals alone follow latency limits, which were approved with their dataflows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from .fragment import Fragment

MOST_OPEN_A_SLOT = 16  # queries of one slot whose batches stay open: each holds a thread of its driver


@dataclass(frozen=True, slots=True)
class FragmentSettings:
    """What the queries of one fragment are set to.

    ``trigger_ms`` is how far apart their batches begin, or the groups of events of an open one; None: as far as the
    installation says. With ``real_time`` their batches stay open.
    """

    trigger_ms: int | None = None
    real_time: bool = False


USUAL = FragmentSettings()


def open_in_slots(fragments: Mapping[str, Fragment], settings: Mapping[str, FragmentSettings]) -> Counter[str]:
    """How many queries of each slot are to leave their batches open."""
    return Counter(
        fragments[name].slot for name, own in settings.items() if own.real_time and name in fragments)


def inherited_settings(
    before: Mapping[str, Fragment], after: Mapping[str, Fragment], settings: Mapping[str, FragmentSettings],
    open_in_slot: Mapping[str, int],
) -> dict[str, FragmentSettings]:
    """The settings of new fragments that go on with the work of others: moved, fused or cut queries.

    A new fragment has the shortest interval of those that it inherits from. Its batches stay open where all of theirs
    do and its slot has room. Without this it would begin with micro-batches, and be restarted a moment later.

    Parameters
    ----------
    before, after : mapping of str to Fragment
        The fragments that a plan touches, as they were and as they are.
    open_in_slot : mapping of str to int
        How many queries of each slot have open batches, those that the plan ends left out.

    Returns
    -------
    dict of str to FragmentSettings
        By new fragment; usual settings are left out.
    """
    opened = Counter(open_in_slot)
    inherited = {}
    for name, fragment in after.items():
        if name in before or not fragment.inherits:
            continue
        earlier = [settings.get(ancestor, USUAL) for ancestor in fragment.inherits if ancestor in before]
        intervals = [each.trigger_ms for each in earlier if each.trigger_ms is not None]
        stays_open = bool(earlier) and not fragment.divided and all(each.real_time for each in earlier) and (
            opened[fragment.slot] < MOST_OPEN_A_SLOT)
        opened[fragment.slot] += stays_open
        own = FragmentSettings(min(intervals, default=None), stays_open)
        if own != USUAL:
            inherited[name] = own
    return inherited


def settings_applied(
    before: Mapping[str, Fragment], after: Mapping[str, Fragment], wanted: Mapping[str, FragmentSettings],
    settings: Mapping[str, FragmentSettings], fragments: Mapping[str, Fragment],
) -> dict[str, FragmentSettings]:
    """All settings of an estate once a plan is applied.

    Parameters
    ----------
    before, after : mapping of str to Fragment
        The fragments that the plan touches, as they were and as they are.
    """
    ended = before.keys() - after.keys()
    staying = {name: own for name, own in settings.items() if name not in ended}
    inherited = inherited_settings(before, after, settings, open_in_slots(fragments, staying))
    return {name: own for name, own in {**staying, **inherited, **wanted}.items() if own != USUAL}
