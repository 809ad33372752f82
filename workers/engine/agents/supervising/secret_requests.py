"""Secrets of a process behind a wall: it has no key, so it asks its agent, in lines like all that they say.

    {"open": 3, "team": "city", "secret": "hook"}                  to the agent
    secret {"open": 3, "value": "…"}                               from it; or code, message and remedy
"""

from __future__ import annotations

import itertools
import json
import queue
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from scheduler.model.errors import WeirError
from workers.engine.sealed_secrets import SecretAway

WITHIN_S = 10.0
WORD = "secret "


class RequestedSecrets:
    """Asks for values and waits for them."""

    def __init__(self, tell: Callable[[Mapping[str, Any]], None]) -> None:
        self._tell = tell
        self._numbers = itertools.count(1)
        self._waiting: dict[int, queue.SimpleQueue[Mapping[str, Any]]] = {}

    def __call__(self, team: str, name: str) -> str:
        """The value of a team's secret; raises ``SecretAway``."""
        number = next(self._numbers)
        answers = self._waiting[number] = queue.SimpleQueue()
        try:
            self._tell({"open": number, "team": team, "secret": name})
            answer = answers.get(timeout=WITHIN_S)
        except queue.Empty:
            raise SecretAway(
                f"The node's agent did not open the secret {name} of team {team} within {WITHIN_S:g} s.",
                remedy="It is asked again by itself; see whether the agent's machine is overloaded.", team=team,
                secret=name) from None
        finally:
            del self._waiting[number]
        if "value" in answer:
            return answer["value"]
        raise SecretAway(answer["message"], remedy=answer["remedy"], team=team, secret=name)

    def hear(self, line: str) -> bool:
        """Take in a line of the agent's; False where it is none of these."""
        if not line.startswith(WORD):
            return False
        answer = json.loads(line.removeprefix(WORD))
        if (answers := self._waiting.get(answer["open"])) is not None:
            answers.put(answer)
        return True


def answer(
    request: Mapping[str, Any], allowed: frozenset[tuple[str, str]], open_one: Callable[[str, str], str]
) -> bytes:
    """The line that answers what a process asks for; it gets what it has to do with, and nothing else.

    Parameters
    ----------
    allowed : frozenset of pairs of str
        Teams and names of the secrets that are named in what it has to do.
    """
    team, name = str(request.get("team")), str(request.get("secret"))
    try:
        if (team, name) not in allowed:
            raise SecretAway(f"The secret {name} of team {team} is in nothing that runs here.",
                             remedy="A task names its secrets in its config.")
        answered: dict[str, Any] = {"value": open_one(team, name)}
    except WeirError as error:
        answered = {"message": error.message, "remedy": error.remedy}
    except Exception as error:  # a damaged file, say; whoever waits is to hear of it
        answered = {
            "message": f"The secret {name} of team {team} cannot be opened: {type(error).__name__}.",
            "remedy": "The log of the node's agent says more."}
    return WORD.encode() + json.dumps({"open": request["open"], **answered}).encode() + b"\n"


def obey(
    commands: TextIO, *, stop: Callable[[], None], poke: Callable[[], None], secrets: RequestedSecrets,
    try_out: Callable[[Mapping[str, Any]], None] | None = None,
) -> None:
    """Do what the agent says, line by line, until it says stop or is gone.

    Parameters
    ----------
    stop, poke : callable
        For the end, and for every line that only says that something is new.
    """
    for line in commands:
        if line.strip() == "stop":
            break
        if secrets.hear(line):
            continue
        if try_out is not None and line.startswith("trial "):
            try_out(json.loads(line.removeprefix("trial ")))
        else:
            poke()
    stop()  # asked to, or the agent is gone
