"""Scripts that the site and agents give the broker: it keeps them, and no process of a node runs one by its digest."""

from __future__ import annotations

import ast
from importlib import import_module

import pytest
import redis

from tests.architecture.sources import ROOT, python_files, tree
from tests.engine.agents.test_broker_users import as_role, users  # noqa: F401 - a fixture
from workers.engine.agents.supervising.broker_users import CONNECTORS, LOOKS, SLOTS

pytestmark = pytest.mark.broker
SITE_SCRIPTS = [
    pytest.param(getattr(import_module(".".join(path.relative_to(ROOT).with_suffix("").parts)), node.args[0].id),
                 id=f"{path.stem} {node.args[0].id}")
    for path in python_files("workers", "dashboard") for node in ast.walk(tree(path))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "eval"]


@pytest.mark.parametrize("text", SITE_SCRIPTS)
def test_what_the_site_and_agents_run_alone_no_process_of_a_node_runs_by_its_digest(users, broker, text):  # noqa: F811
    digest = broker.script_load(text)
    for role in (SLOTS, CONNECTORS, LOOKS):
        with as_role(users, role) as client, pytest.raises(redis.ResponseError, match="this script is for"):
            client.evalsha(digest, 0, *["1"] * 5)
