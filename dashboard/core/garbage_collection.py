"""The intervals at which a process of the site looks for objects that only hold one another."""

from __future__ import annotations

import gc

NEW_OBJECTS = 20_000


def settle() -> None:
    """Once all is loaded: what there is is not gone through again, and what comes less often.

    A document or a reading makes thousands of objects that live for seconds and none that hold one another in a ring.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, 20, 20)
