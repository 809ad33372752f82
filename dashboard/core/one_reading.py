"""Answers of the database that several parts of one page need: read for the first, and the same for all of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

_answers: ContextVar[dict[Hashable, Any] | None] = ContextVar("answers", default=None)


@contextmanager
def read_once() -> Iterator[None]:
    """A context in which the readings by `once` are done once; around what writes nothing."""
    token = _answers.set({})
    try:
        yield
    finally:
        _answers.reset(token)


def once(key: Hashable, read: Callable[[], T]) -> T:
    """The result of ``read``; within `read_once` what it gave to the first who asked with this key."""
    answers = _answers.get()
    if answers is None:
        return read()
    if key not in answers:
        answers[key] = read()
    return answers[key]
