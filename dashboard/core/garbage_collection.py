"""Cyclic garbage collection in the processes of the site: rare, and without the objects of the start."""

from __future__ import annotations

import gc

NEW_OBJECTS = 20_000


def settle() -> None:
    """Exempt all present objects from collection, and collect later ones less often. Call it once all is loaded.

    A document or a reading makes thousands of objects that live for seconds, and no cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, 20, 20)
