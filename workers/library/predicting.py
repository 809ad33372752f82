"""Predicting by a model that a team keeps: read from the broker, kept in each Python worker, read again after a while.

While it cannot be read again, what was read last goes on serving; where none was ever read, nothing is predicted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from .learning import NO_MODEL, predicted_by
from .model_store import ModelName, connected, stored_text
from .models import UnreadableModel, read_model
from .outside import NotAnswered

AGAIN_S = 5.0  # until the broker is asked again where it did not answer
_read: dict[StoredModel, _Read] = {}  # of this Python worker


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A reference to a stored model: its team, a version or the newest (empty), its kind; how often it is looked for,
    and where."""

    model: ModelName
    version: str
    kind: str
    refresh_s: float
    url: str


@dataclass(slots=True)
class _Read:
    model: dict[str, Any] | None
    problem: str | None
    due_s: float


def predict_stored(
    source: StoredModel, features: tuple[str, ...], *, drops: bool
) -> Callable[[Mapping[str, Any]], list[tuple]]:
    """A function that gives (predicted, version, problem) for an event with the features as ``_f0``, ``_f1`` and so on.

    Parameters
    ----------
    drops : bool
        True where an event that nothing is predicted for is left out.
    """
    return partial(_predicted, source=source, features=features, drops=drops)


def _predicted(
    event: Mapping[str, Any], *, source: StoredModel, features: tuple[str, ...], drops: bool,
    clock: Callable[[], float] = time.monotonic,
) -> list[tuple]:
    model_read, now_s = _read.get(source), clock()
    if model_read is None or now_s >= model_read.due_s:
        model_read = _read[source] = _refreshed(source, model_read, now_s)
    values = [event[f"_f{index}"] for index in range(len(features))]
    row = predicted_by(model_read.model, features, values, problem=model_read.problem)
    return [] if drops and row[0] is None else [row]


def _refreshed(source: StoredModel, earlier: _Read | None, now_s: float) -> _Read:
    import redis

    try:
        with connected(source.url) as broker:
            text = stored_text(broker, source.model, source.version)
    except redis.RedisError as error:
        if earlier is None:
            raise NotAnswered(f"The broker does not give the model: {error}") from None
        return _Read(earlier.model, earlier.problem, now_s + AGAIN_S)
    before = None if earlier is None else earlier.model
    due_s = now_s + source.refresh_s
    if text is None:
        missing = f"the team keeps no version {source.version} of it" if source.version else NO_MODEL
        return _Read(before, missing if before is None else None, due_s)
    try:
        model = read_model(text)
    except UnreadableModel as wrong:
        return _Read(before, f"the newest model cannot be used: {wrong}", due_s)
    if model["kind"] != source.kind:
        return _Read(before, f"{source.model.name} is a {model['kind']}, not a {source.kind}", due_s)
    return _Read(model, None, due_s)
