"""Ways to choose intervals: one place reads which is in force, and what one of them needs is used by that one alone."""

from __future__ import annotations

import ast

from .sources import name_of, nodes, python_files, tree

# What managers on nodes are: the site's side, the agents' side, and the science of both.
OF_MANAGERS = {
    "buffers", "constrained_paths", "constraints", "growing_intervals", "latency_reports", "managers", "managing",
    "qos", "qos_agent", "qos_sampling", "qos_setup", "qos_store", "setting_up", "standing_in", "stepping"}
# Who starts them, hands their messages on, or describes their contract.
USES_MANAGERS = {
    "dashboard/jobs.py", "dashboard/operations/latency_control/interval_choice.py",
    "scheduler/contracts/contract_schemas.py", "workers/engine/agents/node_agent.py",
    "workers/engine/agents/node_files/node_store.py"}
READS_THE_SETTING = {"dashboard/operations/latency_control/pacing_choice.py"}


def test_what_managers_need_is_used_by_them_alone() -> None:
    using = {
        name_of(path) for path in python_files("scheduler", "workers", "dashboard") if path.stem not in OF_MANAGERS
        for node in nodes(tree(path)) if isinstance(node, ast.ImportFrom)
        and OF_MANAGERS & {(node.module or "").rpartition(".")[2], *(alias.name for alias in node.names)}}
    assert using == USES_MANAGERS


def test_one_place_reads_which_way_is_in_force() -> None:
    reading = {
        name_of(path) for path in python_files("scheduler", "workers", "dashboard") for node in nodes(tree(path))
        if isinstance(node, ast.Attribute) and node.attr == "PACING"}
    assert reading == READS_THE_SETTING
