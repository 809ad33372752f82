"""Cases of one test that begin with the same world, which is made once for all of them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import pytest

from tests.dashboard.building import taken_back


def each(names: str, cases: Iterable[Any], *, stays: bool = False) -> Callable[[Callable[..., None]], Any]:
    """Run a test with each of these cases, as ``pytest.mark.parametrize`` does, but make its fixtures once.

    What a case changes in the database is taken back, unless it ``stays``: that is for tests with several connections.
    All cases are run; those that fail are named.
    """
    every, parts = list(cases), [name.strip() for name in names.split(",")]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(*arguments: Any, **fixtures: Any) -> None:
            failures: list[BaseException] = []
            for case in every:
                given = dict(zip(parts, case if len(parts) > 1 else (case,), strict=True))
                try:
                    with nullcontext() if stays else taken_back():
                        test(*arguments, **fixtures, **given)
                except (Exception, pytest.fail.Exception) as failure:
                    failure.add_note(f"in the case {given}")
                    failures.append(failure)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(every)} cases fail", failures)

        whole = inspect.signature(test)
        run.__signature__ = whole.replace(  # pytest reads from it which fixtures to make
            parameters=[parameter for name, parameter in whole.parameters.items() if name not in parts])
        return run

    return decorate
