"""How full the broker's memory is, and from when on sources wait for room. Pure."""

from __future__ import annotations

from dataclasses import dataclass

SOURCES_WAIT, GO_ON = 0.8, 0.7  # parts of the bound
OF_BROKER = "broker"  # what a source says that it waits for, in place of a full channel
REMEDY = (
    "Pause or remove dataflows that are far behind, or give the broker more memory (WEIR_BROKER_MEMORY_MB, or of a "
    "broker of your own maxmemory). The logs of nodes' agents name what holds most.")


@dataclass(frozen=True, slots=True)
class BrokerMemory:
    """Bytes that a broker holds, and that it may hold: 0 where it has no bound of its own."""

    held: int = 0
    most: int = 0
    policy: str = "noeviction"

    @property
    def loses(self) -> bool:
        """Whether it drops what it holds when it is full."""
        return bool(self.most) and self.policy != "noeviction"

    def is_crowded(self, *, was: bool = False) -> bool:
        """Whether sources are to wait; once they do, until there is clearly more room.

        >>> [BrokerMemory(held, 100).is_crowded(was=was) for held, was in ((81, False), (75, False), (75, True))]
        [True, False, True]
        """
        return bool(self.most) and self.held > (GO_ON if was else SOURCES_WAIT) * self.most


NO_BOUND = BrokerMemory()
