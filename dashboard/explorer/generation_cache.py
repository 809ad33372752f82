"""Values that hold as long as the estate's generation does, kept by this process: many people look at one estate."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import TypeVar

from dashboard.operations.models import EstateState

MOST = 16

Value = TypeVar("Value")
_values: OrderedDict[Hashable, object] = OrderedDict()
_lock = Lock()


def cached(key: Hashable, build: Callable[[], Value]) -> Value:
    """The value under this key at the estate's generation, built where it is not there yet.

    Two who ask at once may both build it: the values are equal.
    """
    at = EstateState.objects.filter(pk=1).values_list("generation", "changed").first()
    whole = (at, key)
    with _lock:
        if whole in _values:
            _values.move_to_end(whole)
            return _values[whole]
    value = build()
    with _lock:
        _values[whole] = value
        while len(_values) > MOST:
            _values.popitem(last=False)
    return value
