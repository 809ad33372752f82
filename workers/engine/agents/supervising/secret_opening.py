"""Opens secrets for a node's processes, which have no key: each process gets those that its orders name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from scheduler.contracts.desired import DesiredState, WantedFragment
from workers.engine.sealed_secrets import open_one, references_in
from workers.engine.worker_settings import Settings

from .broker_users import CONNECTORS
from .secret_requests import answer
from .supervision import SlotProcess


class Opener:
    """Answers the processes of a node."""

    def __init__(self, settings: Settings, newest: Callable[[], DesiredState]) -> None:
        self._newest = newest
        self._open = partial(open_one, redis_url=settings.redis_url, data_dir=settings.data_dir)

    def answer(self, process: SlotProcess, request: Mapping[str, Any]) -> bytes:
        """The line that answers what a process asks for."""
        named = {
            reference for fragment in self._fragments_of(process.name) for task in fragment.tasks
            for reference in references_in(task.config)}
        return answer(request, process.ordered | named, self._open)

    def _fragments_of(self, name: str) -> Iterable[WantedFragment]:
        desired = self._newest()
        if name == CONNECTORS:
            return {**desired.outgoing, **desired.wanted}.values()
        return *desired.of_slot(name), *desired.handing_over.get(name, ())
