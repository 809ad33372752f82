"""In which order the queries of a slot begin, and how many at a time: those first that hold up most. Pure.

After a driver's death all of them are due at once. The first batch of each takes most of a second of a core, and much
more where all are planned together: so a few begin, and the next ones when those have done their first batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from scheduler.contracts.desired import WantedFragment

from ..reconciling.reconcile import Action, Actual, FragmentState, Start

AT_ONCE = 4  # as many as the executor has threads


def in_turn(
    actions: Sequence[Action], desired: Iterable[WantedFragment], actual: Mapping[str, Actual],
    *, coming: Callable[[], Collection[str]] = tuple,
) -> tuple[Action, ...]:
    """Actions with only those starts whose turn it is, first to last; other actions as they are, before them.

    A query comes before others whose strictest reader, or itself, has its batches further apart (as latency limits have
    them), then before those that fewer wait for. One that waits for what it reads, or failed, comes after all that are
    new. One that goes on with another's work has no turn to wait for: something stands still until it does.

    Parameters
    ----------
    desired : iterable of WantedFragment
        Fragments that the slot should run, upstream first.
    coming : callable
        Gives the fragments that begin now, up to the end of their first batch; asked where any is to start.
    """
    starts = [action for action in actions if isinstance(action, Start) and not action.fragment.inherits]
    if not starts:
        return tuple(actions)
    order = {name: number for number, name in enumerate(urgency({fragment.id: fragment for fragment in desired}))}
    others = [action for action in actions if action not in starts]

    def rank(start: Start) -> tuple[bool, int]:
        run = actual.get(start.fragment_id)
        return run is not None and run.state is not FragmentState.STOPPED, order.get(start.fragment_id, len(order))

    return (*others, *sorted(starts, key=rank)[:max(0, AT_ONCE - len(coming()))])


def urgency(fragments: Mapping[str, WantedFragment]) -> list[str]:
    """Fragments in the order in which they are missed most; a writer is always before those who read it."""
    readers = {
        name: {reader for of in (*fragment.outlets.values(), *(routes.keys() for routes in fragment.routes.values()))
               for reader in of}
        for name, fragment in fragments.items()}
    behind: dict[str, set[str]] = {}
    for name in reversed(fragments):  # upstream first: readers are known by now
        behind[name] = readers[name].union(*(behind.get(reader, ()) for reader in readers[name]))
    strictest_ms = {
        name: min([fragment.trigger_ms, *(
            fragments[reader].trigger_ms for reader in behind[name] if reader in fragments)])
        for name, fragment in fragments.items()}
    return sorted(fragments, key=lambda name: (strictest_ms[name], -len(behind[name])))
