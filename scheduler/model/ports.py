"""Ports: what the science asks of an estate, wherever that is kept."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from .estate import Submitted
from .fragment import Fragment, RunningTask, Slot
from .settings_of_fragments import FragmentSettings
from .tenancy import SlotTenants
from .usage import SlotLoad, Users


class EstateView(SlotTenants, Protocol):
    """The estate at one generation, by look-ups alone.

    Mappings are looked up and never walked, so that what planning costs depends on the plan, however much runs. The
    whole `Estate` is one such view, and a database gives the part of one that a plan needs.
    """

    @property
    def generation(self) -> int: ...

    @property
    def tasks(self) -> Mapping[str, RunningTask]: ...

    @property
    def submitted(self) -> Mapping[str, Submitted]: ...

    @property
    def fragments(self) -> Mapping[str, Fragment]: ...

    @property
    def settings(self) -> Mapping[str, FragmentSettings]:
        """The settings of queries by fragment; usual ones are left out."""

    @property
    def places(self) -> Mapping[str, tuple[str, int]]:
        """Running task id to the fragment that executes it and its position there."""

    def users_of(self, task_id: str) -> Users:
        """The users of a running task."""

    def least_loaded(
        self, count: int, *, query_cores: float, apart: bool = False, held_by: str | None = None, node: str = ""
    ) -> Sequence[tuple[Slot, float]]:
        """At most ``count`` slots with the least to do, in the order of all slots, with the cores they spend.

        ``held_by``: only slots with queries of that team alone, or with none if it is empty. ``apart``: no slots with
        bundles of a schedule, as long as there are others. ``node``: only slots of that node.
        """

    def slot_loads(self, slots: Collection[str]) -> Mapping[str, SlotLoad]:
        """The load of the named slots, as far as they exist and are not reserved."""

    def divided_on(self, slots: Collection[str]) -> Sequence[Fragment]:
        """The fragments that work and that a schedule has put on any of these slots."""


def expect(rows: Mapping[str, object], keys: Iterable[str]) -> None:
    """Say which keys are about to be looked up: a mapping that reads rows from a store, and has a method of this name,
    reads them in one go."""
    if (read_together := getattr(rows, "expect", None)) is not None:
        read_together(keys)
