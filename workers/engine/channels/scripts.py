"""The Lua scripts that change channels: every change that two writers could meet in is one atomic script.

The JVM side carries the same files in its jar.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import redis

FOLDER = Path(__file__).parent / "lua"
NEEDS_TRIM = frozenset({"write", "commit", "register", "unregister", "spill", "skip", "intake", "waiting"})


@cache
def source(name: str) -> str:
    """The text of a script, with what it shares with others in front."""
    text = (FOLDER / f"{name}.lua").read_text(encoding="utf-8")
    return (FOLDER / "trim.lua").read_text(encoding="utf-8") + text if name in NEEDS_TRIM else text


def run(client: redis.Redis, name: str, keys: list[str], args: list[object]) -> object:
    """Run a script by its digest, loading it where the broker has lost it."""
    return client.register_script(source(name))(keys=keys, args=args, client=client)
