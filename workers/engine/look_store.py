"""Looks: the newest events of a live source that does not run, as they stand in the broker while somebody asks.

The site orders one, the node's agent takes it and has a process look. Imports nothing of Spark. Everything expires: an
order that nobody took in twenty seconds, what came of it in a minute; and a look ends when nobody asks any more.

    weir:looks:<node>             list of look ids that the node's agent has not taken yet
    weir:look:<id>                hash: order, who ordered it, how far it is, and its events as a block
    weir:look:<id>:asked          is there while somebody asks
    weir:looking:<owner>          the look of one who looks: a later one ends it
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import redis

from scheduler.contracts.looks import EVENTS, FAILED, LOOK_ORDERS, LOOK_STATES, ORDERED, TAKEN, LookOrder, LookState
from scheduler.model.errors import WeirError
from workers.engine.channels import block_codec
from workers.engine.channels.keys import PREFIX
from workers.engine.slot_values import newest_in, room_to_show
from workers.library.arrow_types import rows_in, spark_type
from workers.library.columns import STREAM
from workers.library.json_values import shown

ORDER_LIVES_S = 20
LIVES_S = 60
STATE_BYTES = 1 << 20  # of 200 columns with their paths, and of what is left out and unread
ASKED_S = 4  # a question counts for so long; who goes on asking repeats it


TOO_LONG = LookState(
    FAILED, "look_too_large", f"What the look says is longer than {STATE_BYTES >> 20} MiB.",
    "Look at a source whose events have fewer fields.")
NOT_TAKEN = LookState(
    FAILED, "look_not_taken", f"No node took the look within {ORDER_LIVES_S} s.",
    "See whether the agent of the node answers, then look again: it looks at a few sources at a time.")


@dataclass(frozen=True, slots=True)
class LookProgress:
    """The results of a look: its state, and its events, the newest first, with the types of their columns."""

    state: LookState
    types: dict[str, str | None] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)


# -- the site's side -------------------------------------------------------------------------------------------------


def order(broker: redis.Redis, look: LookOrder, *, owner: str) -> None:
    """Let the node's agent look, in the place of what this owner looked at before."""
    before = broker.set(_look_of(owner), look.id, ex=LIVES_S, get=True)
    pipeline = broker.pipeline()
    if before is not None:
        pipeline.delete(_asked_key(before.decode()))
    pipeline.hset(key(look.id), mapping={
        "order": LOOK_ORDERS.dumps(look), "owner": owner, "state": LOOK_STATES.dumps(LookState(ORDERED))})
    pipeline.expire(key(look.id), LIVES_S)
    pipeline.set(_asked_key(look.id), 1, ex=ASKED_S)
    pipeline.rpush(_queue(look.node), look.id).expire(_queue(look.node), ORDER_LIVES_S)
    pipeline.execute()


def seen(broker: redis.Redis, look_id: str, *, owner: str) -> LookProgress | None:
    """The progress of a look, which goes on being asked for; None where this owner ordered no such look, or it is over
    for a minute."""
    pipeline = broker.pipeline(transaction=False)
    (ordered_by, text, block), left_s = pipeline.hmget(
        key(look_id), "owner", "state", "block").ttl(key(look_id)).execute()
    if ordered_by is None or text is None or ordered_by.decode() != owner:
        return None
    state = _state(text)
    if state.state == ORDERED and left_s < LIVES_S - ORDER_LIVES_S:
        state = NOT_TAKEN
    if not state.is_over:
        broker.set(_asked_key(look_id), 1, ex=ASKED_S)
        if state.state != ORDERED:  # how long an order has waited is known by what is left of its life
            broker.expire(key(look_id), LIVES_S)
    types: dict[str, str | None] = {}
    events: list[dict[str, Any]] = []
    for batch in newest_in(block, room_to_show(EVENTS)):
        shown_columns = batch.drop_columns([name for name in batch.schema.names if name in STREAM])
        types |= {column.name: spark_type(column.type) for column in shown_columns.schema}
        events = [shown(event) for event in reversed(rows_in(shown_columns))]
    return LookProgress(state, types, events)


def cancel(broker: redis.Redis, look_id: str, *, owner: str) -> bool:
    """Let a look end, without waiting for it; False where this owner ordered no such look."""
    ordered_by = broker.hget(key(look_id), "owner")
    if ordered_by is None or ordered_by.decode() != owner:
        return False
    broker.delete(_asked_key(look_id), key(look_id))
    return True


# -- the node's side -------------------------------------------------------------------------------------------------


def take(broker: redis.Redis, node: str, *, wait_s: float) -> LookOrder | None:
    """The next order of a node that somebody still asks for, waiting for one."""
    popped = broker.blpop([_queue(node)], timeout=wait_s)
    if popped is None:
        return None
    look_id = popped[1].decode()
    text = broker.hget(key(look_id), "order")
    if text is None or not is_asked(broker, look_id):
        return None
    try:
        look = LOOK_ORDERS.loads(text)
    except WeirError as error:
        tell(broker, look_id, LookState(
            FAILED, "unreadable_order", f"Node {node} cannot read the order: {error}",
            "Run one version of Weir on the site and on the node."))
        return None
    tell(broker, look_id, LookState(TAKEN))
    return look


def is_asked(broker: redis.Redis, look_id: str) -> bool:
    """True where somebody still asks."""
    return bool(broker.exists(_asked_key(look_id)))


def state_of(broker: redis.Redis, look_id: str) -> LookState | None:
    """The state of a look; None where nobody can ask for it any more."""
    text = broker.hget(key(look_id), "state")
    return None if text is None else _state(text)


def _state(text: bytes) -> LookState:
    """A state from the text of the process that looks, bounded and checked: its reader has more rights and shared
    memory."""
    return TOO_LONG if len(text) > STATE_BYTES else LOOK_STATES.loads(text)


def tell(broker: redis.Redis, look_id: str, state: LookState, batch: pa.RecordBatch | None = None) -> None:
    """Say how far a look is, and what it has seen; to nobody where it was cancelled.

    Parameters
    ----------
    batch : pyarrow.RecordBatch, optional
        The newest events, oldest first; without it, those that were told before stay.
    """
    if not is_asked(broker, look_id):
        return
    block = {} if batch is None else {"block": block_codec.encode_block(batch)}
    pipeline = broker.pipeline()
    pipeline.hset(key(look_id), mapping={"state": LOOK_STATES.dumps(state), **block})
    pipeline.expire(key(look_id), LIVES_S)
    pipeline.execute()


def _queue(node: str) -> str:
    return f"{PREFIX}looks:{node}"


def _look_of(owner: str) -> str:
    return f"{PREFIX}looking:{owner}"


def key(look_id: str) -> str:
    """The hash of a look; the look's other keys begin with its name."""
    return f"{PREFIX}look:{look_id}"


def _asked_key(look_id: str) -> str:
    return f"{key(look_id)}:asked"
