"""The process of one look at a source: reads its order, opens the secrets, looks, writes what comes, and ends.

    python -m workers.engine.connectors.look       (started by the node agent; settings come from the environment)

The order is one JSON in a line of the standard input; in the next are the values of the secrets that it names. A
process of its own can be ended at any moment, whatever its libraries wait for, and no other team's secret is in it.
"""

from __future__ import annotations

import json
import os
import sys

from scheduler.contracts.looks import FAILED, LOOK_ORDERS, LookState
from scheduler.model.bounds import LOOK_MEMORY
from workers.engine import look_store
from workers.engine.agents.supervising.broker_sync import connect
from workers.engine.sealed_secrets import open_by, opened
from workers.engine.worker_settings import from_environment
from workers.library.registry import task_types

from .looking import look
from .memory_watch import most_bytes, watch_memory


def main() -> None:
    """Look once."""
    settings = from_environment()
    order = LOOK_ORDERS.loads(sys.stdin.readline())
    values = {(team, name): value for team, name, value in json.loads(sys.stdin.readline())}
    open_by(lambda team, name: values[team, name])
    broker = connect(settings.redis_url)
    most = most_bytes(settings.connector_memory_mb, at_most=LOOK_MEMORY.most)
    watch_memory(most, lambda _: look_store.tell(broker, order.id, LookState(
        FAILED, "look_too_large", f"What the source sends takes more than {most >> 20:,} MB of memory.",
        "Look at a source that sends smaller parts; one of its batches may be large once it is unpacked.")))
    look(
        order, task_types(),
        opened=lambda config: opened(config, redis_url=settings.redis_url, data_dir=settings.data_dir),
        tell=lambda state, batch: look_store.tell(broker, order.id, state, batch))
    os._exit(0)  # the thread that looked may wait in a library still


if __name__ == "__main__":
    main()
