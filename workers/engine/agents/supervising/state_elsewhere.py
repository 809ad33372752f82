"""A node that comes back with an empty data folder while others have copies of the state of what ran there.

Would it serve at once, what ran there would begin without its state: it would tell heirs that there is nothing to hand
over. So it stays silent until its queries have gone on from the copies (docs/decisions/0242).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import redis

from scheduler.contracts.codec import InvalidContract
from scheduler.contracts.desired import DesiredState
from workers.engine import desired_publishing, observed
from workers.engine.channels.batch_ranges import are_recorded
from workers.engine.lost_nodes import all_holders_of

from ..agent_logs import logger
from ..node_files.node_store import NodeStore

MOST_S = 180.0  # a silent node counts as such after 45 s at most; then the site moves what has copies


class StateElsewhere:
    """Decides whether an agent has to wait at its start.

    Parameters
    ----------
    clock_s : callable
        Seconds that never go back.
    """

    def __init__(
        self, broker: redis.Redis, store: NodeStore, *, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._broker, self._store, self._clock_s = broker, store, clock_s
        self._since_s: float | None = None

    def may_begin(self) -> bool:
        """True where nothing is left that could go on from copies elsewhere, or some of it did not in `MOST_S`; False
        while the broker is away. An agent whose folder has something need not ask."""
        if self._store.desired_path.exists():
            return True
        try:
            fragments = self._fragments_left()
        except redis.RedisError:
            return False
        except InvalidContract:
            return True  # what is desired cannot be read, so nothing begins
        if not fragments:
            return True
        self._since_s = self._clock_s() if self._since_s is None else self._since_s
        if self._clock_s() < self._since_s + MOST_S:
            return False
        logger().error("begins without the state that other nodes have copies of", fragments=fragments)
        return True

    def _fragments_left(self) -> list[str]:
        node = self._store.node
        desired = desired_publishing.read(self._broker, node) or DesiredState()
        named = {*desired.wanted, *(name for heir in desired.heirs_elsewhere.values() for name in heir.inherits)}
        recorded = [name for name in sorted(named) if self._records(name)]
        if not recorded:
            return []
        living = {name for name, _ in observed.read_reports(self._broker).items()} - {node}
        return sorted(all_holders_of(self._broker, recorded, living=living))

    def _records(self, fragment: str) -> bool:
        with suppress(redis.ResponseError):  # slots write there
            return are_recorded(self._broker, fragment)
        return False
