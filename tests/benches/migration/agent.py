"""A node agent that tells its slots of no change, and slots that stop lazily: paper [4] without our pushes.

    python -m tests.benches.migration.agent [--lazy] --node n1 --slots 4 --data-dir DIR
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from workers.engine.agents import node_agent

LAZY = "--lazy"


def slot_argv(slot: str, *, lazy: bool) -> Sequence[str]:
    """The command of a slot."""
    module = "tests.benches.migration.slot" if lazy else "workers.engine.agents.slot"
    return [sys.executable, "-m", module, "--slot", slot]


def main() -> None:
    """Run the agent."""
    lazy, given = LAZY in sys.argv, [argument for argument in sys.argv[1:] if argument != LAZY]
    node_agent.main(given, slot_argv=lambda slot: slot_argv(slot, lazy=lazy), tells_slots=False)


if __name__ == "__main__":
    main()
