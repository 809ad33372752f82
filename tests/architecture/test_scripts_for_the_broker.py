"""Who sends the broker scripts: what runs in slots and connector hosts has the loaded ones alone."""

from __future__ import annotations

import ast

from .sources import ROOT, nodes, python_files, tree

SENDS = {"eval", "eval_ro", "register_script", "script_load"}
# Only the site and the agent itself, which have the broker's own password, call what these send.
OF_SITE_AND_AGENT = {
    "workers/engine/agents/supervising/lease.py", "workers/engine/broker_room.py",
    "workers/engine/desired_publishing.py", "workers/engine/measuring/feeder.py", "workers/engine/newest_blocks.py",
    "workers/engine/qos_store.py", "workers/engine/trial_store.py", "workers/engine/turns.py",
    "workers/engine/wave_publishing.py"}


def test_a_script_for_slots_is_one_that_the_agent_loads() -> None:
    sending = {
        path.relative_to(ROOT).as_posix() for path in python_files("workers")
        for node in nodes(tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SENDS}
    assert sending == {*OF_SITE_AND_AGENT, "workers/engine/channels/scripts.py"}


def test_java_sends_no_script_in_full() -> None:
    sources = ROOT / "workers/engine/channels/jvm/src"
    assert not [path.name for path in sources.rglob("*.java") if '"EVAL"' in path.read_text()]
