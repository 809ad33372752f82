"""A cache for one page: what several of its parts read from the database is read once, and the same for all."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

_answers: ContextVar[dict[Hashable, Any] | None] = ContextVar("answers", default=None)


@contextmanager
def read_once() -> Iterator[None]:
    """A context in which `once` reads each key once. Nothing within it may write."""
    token = _answers.set({})
    try:
        yield
    finally:
        _answers.reset(token)


def once(key: Hashable, read: Callable[[], T]) -> T:
    """The result of ``read``; within `read_once` its first result for this key."""
    answers = _answers.get()
    if answers is None:
        return read()
    if key not in answers:
        answers[key] = read()
    return answers[key]
