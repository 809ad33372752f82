"""The node that a fragment leaves, the node of its heir, and the broker between them, as state transports see them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from scheduler.contracts.desired import DesiredState, WantedFragment, WantedSlot
from scheduler.contracts.savepoints import SAVEPOINTS, RestorePoint, Savepoint
from workers.engine.agents.node_files.checkpoint import CheckpointProgress
from workers.engine.agents.reconciling.instructions import RecordCopy
from workers.engine.agents.reconciling.record_actuator import RecordActuator
from workers.engine.agents.reconciling.started_fragments import SlotStore
from workers.engine.agents.transport.ahead import CopyLimits
from workers.engine.agents.transport.copying import make_copies
from workers.engine.agents.transport.state_transport import Elsewhere, StateTransport
from workers.engine.channels import keys
from workers.library.pieces import States
from workers.library.state_store import Pointer, StoreLocation

from ...channels.played_redis import PlayedRedis
from ..played_queries import Store

OLD = WantedFragment("a", ())
HEIR = WantedFragment("h", (), inherits=("a",), origin="n1")
LEAVES = DesiredState(node="n1", remote_heirs={"n2": (HEIR,)}, handing_over={"0": (OLD,)})
COMES = DesiredState(node="n2", slots={"0": WantedSlot((HEIR,))})
KEYS = 2_000
ROUNDS = CopyLimits(least_bytes=1, small_bytes=3_000)


def state(*changes: tuple[int, int], but: int = 0) -> Savepoint:
    """A number for each key; each change adds something to those of the first keys, so many of them."""
    keys_of = {
        f"key{number}": number + but * (number == 7) + sum(more for more, upto in changes if number < upto)
        for number in range(KEYS)}
    return Savepoint(source_offset={"t0": 5, "next": 7 + but}, states={"t": [json.dumps(keys_of), None]})


class Way:
    """A node that a fragment leaves, the one where it goes on, and the broker between them."""

    limits = CopyLimits(least_bytes=1)

    def __init__(self) -> None:
        self.broker, self.now_ms = PlayedRedis(), 0
        self.here, self.there = Store({}, "n1/0"), Store({}, "n2/0")
        self.here.states["a"] = {"t": KEYS}
        self.start()
        self.there.kept["standby"]["h"] = ()
        self.there.checkpoints["h"] = CheckpointProgress(0)

    def start(self) -> None:
        """Both slots start anew."""
        self.transports = [
            StateTransport(self.broker, store, clock_ms=lambda: self.now_ms, limits=self.limits, piece_bytes=500)
            for store in (self.here, self.there)]

    def turns(self, count: int = 200) -> Elsewhere:
        for _ in range(count):
            self.now_ms += 100
            elsewhere = self.transports[0].turn(LEAVES, "0")
            self.transports[1].turn(COMES, "0")
        return elsewhere

    def copy(self) -> None:
        self.here.files.write("h", "ahead", SAVEPOINTS.dumps(replace(state(), source_offset=None)).encode())

    def round(self, *changes: tuple[int, int]) -> None:
        make_copies(self.here, ("h",), state(*changes))

    @property
    def manifest(self) -> dict:
        return json.loads(self.broker.hget(keys.handover("a"), "manifest"))

    @property
    def stored(self) -> bytes:
        return self.broker.hget(keys.ahead("h"), "stored")


class StoreWay(Way):
    """Two nodes with disks; what is left has its state in a store."""

    def __init__(
        self, folder: Path, *, keeps_stores: bool = True, limits: CopyLimits = Way.limits, keys_held: int = KEYS
    ) -> None:
        self.broker, self.now_ms, self.keeps_stores, self.limits = PlayedRedis(), 0, keeps_stores, limits
        self.here, self.there = (SlotStore(folder / name, folder / name / "slot-0") for name in ("n1", "n2"))
        self.place = StoreLocation(str(self.here.fold_stores.folder), "a.t-0", large=0)
        self.pointer = self.place.create({f"key{number}": [number] for number in range(keys_held)}, {})
        self.here.record_begun("a", RestorePoint(states=self.record.states))
        self.there.record_standby("h", ())
        (self.there.checkpoint("h") / "commits").mkdir(parents=True)
        (self.there.checkpoint("h") / "commits" / "0").touch()
        self.start()

    def start(self) -> None:
        self.transports = [
            StateTransport(self.broker, store, clock_ms=lambda: self.now_ms, limits=self.limits,
                    keeps_stores=self.keeps_stores, piece_bytes=2_000)
            for store in (self.here, self.there)]

    @property
    def record(self) -> Savepoint:
        return Savepoint(source_offset={"t0": 5, "next": 7}, states={"t": [str(self.pointer)]})

    def work(self, first: int = 7, count: int = 1, *, value: int = -1) -> Pointer:
        """A batch that sets some keys; the pointer that it began with."""
        batch = self.place.begin(self.pointer)
        states = States(batch, {})
        for number in range(first, first + count):
            states.get(f"key{number}")[0] = value
        states.save()
        before, self.pointer = self.pointer, batch.commit()
        return before

    def copy(self) -> None:
        """What a slot does between two batches: a copy, or a round."""
        run = SimpleNamespace(id="a", copied=self.record.states)
        RecordActuator(SimpleNamespace(store=self.here)).do(run, RecordCopy(("h",)))

    def states(self) -> dict:
        """What the heir begins with."""
        received = self.there.received("h")
        assert received.source_offset == {"t0": 5, "next": 7}
        return json.loads(self.there.fold_stores.whole(received.states)["t"][0])
