"""Parts of named savepoints: what a query would leave at a moment, kept while it works on, for others to begin with.

``<fragment>.saved-<savepoint>`` beside its checkpoint is such a part, with whole states: it points to no store, so it
stays what it is when the query and its checkpoint are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scheduler.contracts.desired import WantedFragment
from scheduler.contracts.savepoints import SAVEPOINTS, Savepoint
from scheduler.model.saved_states import SavedTask
from workers.engine.spark.failure_messages import FragmentFailed

from ..transport.parcels import Files
from .reconcile import CopyState


def unsaved(files: Files, fragments: Iterable[WantedFragment]) -> tuple[CopyState, ...]:
    """Copies that are still to be made for named savepoints: those of each fragment of which it has left no part."""
    lacking = (
        (fragment, [name for name in fragment.savepoints if files.size(fragment.id, kind_of(name)) is None])
        for fragment in fragments)
    return tuple(CopyState(fragment, savepoints=tuple(names)) for fragment, names in lacking if names)


def save(files: Files, fragment_id: str, names: Iterable[str], part: Savepoint) -> None:
    """Keep a fragment's part of named savepoints. One that is there stays: a savepoint is of one moment."""
    for name in names:
        if files.size(fragment_id, kind_of(name)) is None:
            files.write(fragment_id, kind_of(name), SAVEPOINTS.dumps(part).encode())


def saved(files: Files, places: Iterable[SavedTask]) -> Mapping[SavedTask, Savepoint]:
    """The parts of named savepoints that a fragment begins with.

    Raises
    ------
    FragmentFailed
        One of them is not on this node.
    """
    parts: dict[SavedTask, Savepoint] = {}
    for part in places:
        try:
            parts[part] = SAVEPOINTS.loads(files.read(part.fragment, kind_of(part.savepoint)).decode())
        except FileNotFoundError:
            raise FragmentFailed(
                f"Savepoint {part.savepoint} has no part of query {part.fragment} on this node, so the task cannot "
                "begin with its state. Remove the dataflow, and submit it to the node of the savepoint, or without it.",
            ) from None
    return parts


def kind_of(savepoint: str) -> str:
    """The kind of file of such a part, beside its fragment's checkpoint."""
    return f"saved-{savepoint}"
