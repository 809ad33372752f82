"""Selection of the inputs that a fragment can read now, if its streams come in other channels than before. Pure.

A stream of a divided fragment comes in one channel of each bundle. A new channel is read once it is open and the reader
is registered there. A former channel is first read to its end. The channel of a leaving writer may never open, and is
read only if it exists. A planned batch is done with the channels of its plan, unless the reader is no longer registered
in one: then it was paused, and that time is not made up for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from scheduler.contracts.desired import Input


def select_inputs(
    inputs: Sequence[Input], before: Sequence[Input], *, ready: Collection[str], unread: Collection[str],
    between_batches: bool, later: Collection[str] = (),
) -> tuple[Input, ...] | None:
    """The inputs to read now.

    Parameters
    ----------
    inputs : sequence of Input
        Inputs that the fragment should read, a stream's channels behind one another.
    before : sequence of Input
        Inputs that it read when it last ran, so that its checkpoint tells how far; empty where it has none.
    ready : collection of str
        The channels that are open and have a place for it.
    unread : collection of str
        The known channels in which something is left for it to read.
    between_batches : bool
        True where every batch that its checkpoint planned is done.
    later : collection of str
        The channels that come after others in which something is left for it to read.

    Returns
    -------
    tuple of Input or None
        The channels to read, streams in the order of ``inputs``; None where it has to wait.
    """
    if not between_batches:
        if before and all(item.channel in ready for item in before):
            return tuple(before)
        before = ()  # it was let go where it read, and has to begin anew
    gone = [item for item in before if item not in inputs and item.channel in unread]
    due = [item for item in inputs if item.channel not in later]
    needed = [item for item in due if not item.ending or item in before]
    if all(item.channel in ready for item in needed):
        chosen = [item for item in due if item.channel in ready]
    else:  # what is new keeps nothing from going on that is not: its writer may take long to begin
        chosen = [item for item in due if item in before]
        if not all(item.channel in ready for item in chosen):
            return None
    streams = {item.task for item in (*chosen, *gone)}
    return _by_stream([*chosen, *gone], inputs) if streams >= {item.task for item in inputs} else None


def _by_stream(items: Sequence[Input], inputs: Sequence[Input]) -> tuple[Input, ...]:
    order = list(dict.fromkeys(item.task for item in inputs))
    return tuple(sorted(items, key=lambda item: order.index(item.task)))
