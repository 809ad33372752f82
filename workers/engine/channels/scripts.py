"""The Lua scripts that change channels, holds of live sources and sinks, and claims.

Every change that two writers could meet in is one atomic script. The JVM side carries the same files in its jar.

A node's own processes run what is here, and no other script (``agents/supervising/broker_users.py``): each of them ends
in a time that grows with what is stored. They may give the broker no text, but it runs by its digest whatever it keeps:
so a script that the site or an agent gives it begins with ``ALONE``.
"""

from __future__ import annotations

import hashlib
import math
import time
from functools import cache
from pathlib import Path

import redis

FOLDER = Path(__file__).parent / "lua"
SHARED, FREES = "trim", "frees"
NEEDS_TRIM = frozenset((
    "write", "commit", "register", "join", "unregister", "spill", "skip", "intake", "intake_room", "waiting"))
# They run while the broker is full, too.
MAKES_ROOM = frozenset({"blocks", "bounded", "commit", "unregister", "spill", "skip"})
ALONE = (
    "if not redis.acl_check_cmd('EVAL', '', '0') then\n"
    "  return redis.error_reply('NOPERM this script is for the site and for agents')\n"
    "end\n")
PATIENCE_S = 10.0  # of who may load none, with a broker that has lost them: its agent looks every few seconds
ASKS_AGAIN_S = 0.1


@cache
def source(name: str) -> str:
    """The text of a script, with what it shares with others in front."""
    parts = (*((FREES,) if name in MAKES_ROOM else ()), *((SHARED,) if name in NEEDS_TRIM else ()), name)
    return "".join((FOLDER / f"{part}.lua").read_text(encoding="utf-8") for part in parts)


@cache
def digests() -> dict[str, str]:
    """The digest of each script, by its name."""
    names = sorted(path.stem for path in FOLDER.glob("*.lua") if path.stem not in (SHARED, FREES))
    return {name: hashlib.sha1(source(name).encode()).hexdigest() for name in names}


def load(client: redis.Redis) -> None:
    """Load all scripts that the broker lacks, so that users who may not load scripts can run them."""
    for name, is_there in zip(digests(), client.script_exists(*digests().values()), strict=True):
        if not is_there:
            client.script_load(source(name))


def run(client: redis.Redis, name: str, keys: list[str], args: list[object]) -> object:
    """Run a script by its digest, loading it where the broker has lost it, or waiting until the node's agent has.

    Raises
    ------
    redis.ConnectionError
        The broker has lost the script, this process may load none, and nobody else did in time.
    """
    script = client.register_script(source(name))
    deadline_s = math.inf
    while True:
        try:
            return script(keys=keys, args=args, client=client)
        except redis.exceptions.NoPermissionError as refusal:
            if not isinstance(refusal.__context__, redis.exceptions.NoScriptError):
                raise  # of the keys: it was not loading that was refused
            deadline_s = min(deadline_s, time.monotonic() + PATIENCE_S)
            if time.monotonic() >= deadline_s:
                raise redis.ConnectionError(
                    "The broker has lost Weir's scripts, which the node's agent loads: see whether it runs.") from None
        time.sleep(ASKS_AGAIN_S)
