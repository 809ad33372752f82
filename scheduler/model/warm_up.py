"""Warming up: an alternate with state works beside the one that is on, and what it makes is thrown away.

What works at an element is one text, from settings down to the queries: the name of the alternate that is on, and
behind a ``+``, which no name has, that of the one that warms up. ``docs/dynamic.md`` says what warming up promises.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .task_types import DYNAMIC_FOLD
from .units import in_unit

WARM = "warm"  # the key of a task in a document: for how long, in seconds
_BESIDE = "+"


def working(on: str, warming: str = "") -> str:
    """The alternates that work at an element: the alternate that is on, and the one that warms up, where one does.

    >>> working("all"), working("all", "evens")
    ('all', 'all+evens')
    """
    return f"{on}{_BESIDE}{warming}" if warming else on


def on_of(text: str) -> str:
    """The alternate that is on, of what works."""
    return text.partition(_BESIDE)[0]


def warming_of(text: str | None) -> str:
    """The alternate that warms up, of what works; empty where none does."""
    return (text or "").partition(_BESIDE)[2]


def at_work_in_words(text: str) -> str:
    """The alternates that work at an element, in words that go on from “is done by”.

    >>> at_work_in_words("all"), at_work_in_words("all+evens")
    ('all', 'all, while evens warms up')
    """
    warming = warming_of(text)
    return f"{on_of(text)}, while {warming} warms up" if warming else text


def warm_s(task_type: str, config: Mapping[str, Any]) -> float:
    """The warm-up of an alternate of a task before it is on, in seconds; 0 where it does not."""
    stated = config.get(WARM) if task_type == DYNAMIC_FOLD else None
    return float((in_unit(stated, "s") if isinstance(stated, str) else stated) or 0)
