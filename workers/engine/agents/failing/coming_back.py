"""The order in which the queries of a slot begin, a few at a time: first those that most others wait for. Pure.

After a driver's death all of them are due at once. The first batch of each takes most of a second of a core, and much
more if all are planned together. So a few begin, and the next ones after the first batches of these.
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
    """All actions but starts, then those starts whose turn it is, first to last.

    Starts are ordered by the shortest interval of the query and its readers, which follows latency limits, then by the
    number of readers. Queries that wait for their inputs, or failed, come after all new ones. A query that goes on with
    another's work does not wait for a turn, because its dataflow stands still until then.

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
    """Fragments, the most urgent first; a writer is always before its readers."""
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
