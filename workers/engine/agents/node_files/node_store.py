"""The desired state and other orders of a node: files in its own folder, which survive everything else.

    <data-dir>/nodes/<node>/told/desired.json    the newest desired state that reached the node
    <data-dir>/nodes/<node>/told/known.json      fragments that it works for, or has to clear away
    <data-dir>/nodes/<node>/told/died-<slot>  how the slot's last driver ended that ended by itself
    <data-dir>/nodes/<node>/qos.json          the newest set-up of its latency manager and reporter
    <data-dir>/nodes/<node>/told/intervals.json  how far apart batches are to be, as managers chose it
    <data-dir>/nodes/<node>/told/copies.json  where copies of its queries' state are to be, and whose it holds
    <data-dir>/nodes/<node>/taken/<fragment>  one of another node has begun with what one of this node left
    <data-dir>/nodes/<node>/let-go/<fragment> what a connector did for it here is that node's (``passing``)
    <data-dir>/nodes/<node>/connectors/       what its connector host keeps, which writes nowhere else in this folder
    <data-dir>/nodes/<node>/void/<fragment>   the last that it goes on with never began, on another node
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from scheduler.contracts.desired import DESIRED_STATES, WANTED_FRAGMENTS, DesiredState, WantedFragment
from scheduler.contracts.qos import INTERVALS, QOS_SETUPS, NodeIntervals, QosSetup
from workers.engine.desired_publishing import keep_handing_over, with_intervals, without
from workers.engine.files.disk import remove_anything

from ..blame import Death
from .atomic_files import names_in, write_atomically

COPIES_FILE = "copies.json"
TOLD, TAKEN, LET_GO, VOID, HOST = "told", "taken", "let-go", "void", "connectors"  # folders
OF_HOST = ("sinks.json", "connectors.ended", "connectors.crashed", "connectors.suspects", "connectors.working")
DESIRED, INTERVALS_FILE, KNOWN_FILE = "desired.json", "intervals.json", "known.json"


@dataclass(frozen=True, slots=True)
class CopyWishes:
    """The copies of state that a node is to make: the holders of its own fragments' states, the fragments of other
    nodes whose states it is to hold, and the nodes that report."""

    own: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)
    living: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeStore:
    """The files in which a node keeps its desired state and other orders."""

    data_dir: Path
    node: str

    @property
    def folder(self) -> Path:
        return self.data_dir / "nodes" / self.node

    @property
    def host_folder(self) -> Path:
        """The connector host's own."""
        return self.folder / HOST

    @property
    def desired_path(self) -> Path:
        return self.folder / TOLD / DESIRED

    @property
    def intervals_path(self) -> Path:
        return self.folder / TOLD / INTERVALS_FILE

    @property
    def qos_path(self) -> Path:
        return self.folder / "qos.json"

    def slot_dir(self, slot: str) -> Path:
        """A slot's own folder."""
        return self.folder / f"slot-{slot}"

    def take_over(self) -> None:
        """Put what an earlier version, or a back-up of it, left beside these folders where it is now: where slots may
        read it, or the connector host writes."""
        remove_anything(self.folder / "connectors-spark")  # scratch
        for name in OF_HOST:
            if (earlier := self.folder / name).exists():
                if self.host_folder.is_symlink():  # the host of an earlier version could write here
                    self.host_folder.unlink()
                self.host_folder.mkdir(exist_ok=True)
                earlier.replace(self.host_folder / name)
        for name in (DESIRED, INTERVALS_FILE):
            earlier, now = self.folder / name, self.folder / TOLD / name
            if not earlier.exists():
                continue
            if now.exists() and now.stat().st_mtime_ns >= earlier.stat().st_mtime_ns:
                earlier.unlink()
            else:
                now.parent.mkdir(exist_ok=True)
                earlier.replace(now)

    @property
    def known_path(self) -> Path:
        """The file of the fragments that the node works for, or has to clear away."""
        return self.folder / TOLD / KNOWN_FILE

    def read_known(self) -> dict[str, WantedFragment] | None:
        """These fragments by id, as the node was told; None where an earlier version wrote nothing of it."""
        try:
            fragments = map(WANTED_FRAGMENTS.loads, json.loads(self.known_path.read_text()))
            return {fragment.id: fragment for fragment in fragments}
        except FileNotFoundError:
            return None

    def write_known(self, fragments: Mapping[str, WantedFragment]) -> None:
        """Keep these fragments."""
        write_atomically(self.known_path, json.dumps(list(map(WANTED_FRAGMENTS.dumps, fragments.values()))))

    def read_desired(self) -> DesiredState:
        """The newest desired state that reached the node; version 0 before the first."""
        try:
            return DESIRED_STATES.loads(self.desired_path.read_text())
        except FileNotFoundError:
            return DesiredState()

    def write_desired(self, desired: DesiredState) -> bool:
        """Keep a desired state and what it lets go for others; False where it is kept already, or older."""
        earlier = self.read_desired() if self.desired_path.exists() else None
        whole = keep_handing_over(without(desired, names_in(self.folder / VOID)), earlier)
        text = DESIRED_STATES.dumps(whole)
        if earlier is not None and (desired.order < earlier.order or text == self.desired_path.read_text()):
            return False
        write_atomically(self.desired_path, text)
        heirs = whole.heirs_elsewhere
        takers = {taker.id: taker for taker in whole.takers}
        for folder, names in ((TAKEN, heirs | takers), (LET_GO, heirs), (VOID, desired.wanted)):
            for name in names_in(self.folder / folder) - names.keys():
                remove_anything(self.folder / folder / name)
        return True

    def read_death(self, slot: str) -> Death | None:
        """The last death of a slot's driver that ended by itself; None where none has."""
        try:
            document = json.loads((self.folder / TOLD / f"died-{slot}").read_text())
        except FileNotFoundError:
            return None
        return Death(
            document["at_ms"], tuple(document["working"]), tuple(document["beginning"]), document["why"])

    def write_death(self, slot: str, death: Death) -> None:
        """Keep how a slot's driver has ended, for the next one."""
        write_atomically(self.folder / TOLD / f"died-{slot}", json.dumps(asdict(death)))

    def read_copy_wishes(self) -> CopyWishes | None:
        """The copies of state that are to be made; None where there are none at all."""
        try:
            document = json.loads((self.folder / TOLD / COPIES_FILE).read_text())
        except FileNotFoundError:
            return None
        nodes_by_query = {name: tuple(nodes) for name, nodes in document["own"].items()}
        return CopyWishes(nodes_by_query, document["held"], tuple(document["living"]))

    def write_copy_wishes(self, wishes: CopyWishes) -> None:
        """Say where copies of state are to be."""
        if wishes != self.read_copy_wishes():
            write_atomically(self.folder / TOLD / COPIES_FILE, json.dumps(asdict(wishes)))

    def read_qos(self) -> QosSetup:
        """The newest set-up of its latency manager and reporter; an empty one before the first."""
        try:
            return QOS_SETUPS.loads(self.qos_path.read_text())
        except FileNotFoundError:
            return QosSetup(node=self.node)

    def write_qos(self, setup: QosSetup) -> None:
        """Keep a set-up."""
        write_atomically(self.qos_path, QOS_SETUPS.dumps(setup))

    def read_intervals(self) -> Mapping[str, int]:
        """Intervals of batches that managers chose, in ms by query."""
        try:
            return INTERVALS.loads(self.intervals_path.read_text()).intervals_ms
        except FileNotFoundError:
            return {}

    def write_intervals(self, intervals_ms: Mapping[str, int]) -> bool:
        """Keep intervals that managers chose, or none any more; False where they are kept already."""
        if intervals_ms == self.read_intervals():
            return False
        if intervals_ms:
            write_atomically(self.intervals_path, INTERVALS.dumps(NodeIntervals(intervals_ms)))
        else:
            self.intervals_path.unlink(missing_ok=True)
        return True


class NewestDesired:
    """Gives the newest desired state that reached a node, with the intervals that managers chose; parsed once, however
    often it is asked for.

    A file that is gone counts on as it was; without one of intervals those of the site hold.
    """

    def __init__(self, store: NodeStore) -> None:
        self._store = store
        self._file_and_desired: tuple[tuple[int, ...], DesiredState] = ((), DesiredState())

    def __call__(self) -> DesiredState:
        file = _state_of(self._store.desired_path)
        newest = self._file_and_desired
        if not file:
            return newest[1]
        file += _state_of(self._store.intervals_path)
        if newest[0] != file:  # before it is read: what replaces it meanwhile is read the next time
            desired = with_intervals(self._store.read_desired(), self._store.read_intervals())
            newest = self._file_and_desired = (file, desired)
        return newest[1]


def _state_of(path: Path) -> tuple[int, ...]:
    """By what a file is told from another of its name; nothing where there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return ()
    return status.st_ino, status.st_mtime_ns, status.st_size
