"""The syntax trees of all files go when these tests are over: whoever collects garbage later would go through them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.architecture import sources


@pytest.fixture(scope="package", autouse=True)
def _trees() -> Iterator[None]:
    yield
    sources.tree.cache_clear()
