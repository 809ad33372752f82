"""The same surroundings as the site's other tests."""

from __future__ import annotations

from tests.dashboard.conftest import (  # noqa: F401
    _surroundings,
    committed_world,
    sent,
    world,
)
from tests.pages.conftest import client_of  # noqa: F401
from tests.profiles.nodes import node  # noqa: F401
