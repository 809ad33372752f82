"""pandas, of 24 to 35 MB, hidden from packages that look for it before anybody needs it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder


@contextmanager
def pandas_hidden() -> Iterator[None]:
    """While this lasts, an import of pandas by this thread finds none; others get it, and afterwards each does."""
    finder = _NoPandas(threading.get_ident())
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _NoPandas(MetaPathFinder):
    def __init__(self, thread: int) -> None:
        self._thread = thread

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """Nothing is looked for here but pandas, which is not there."""
        if fullname == "pandas" and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{fullname} is hidden", name=fullname)
