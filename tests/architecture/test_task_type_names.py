"""Task types are the library's: no other module names one that is shipped; it asks what the type declares."""

from __future__ import annotations

import ast

from workers.library import registry

from .sources import name_of, nodes, python_files, tree

# Names of types that are words of other things, too: they are not looked for.
OTHER_WORDS = {
    "files", "forecast", "join", "observations", "output", "postgresql", "python", "replay", "wait", "window"}
# Modules that name a type by what it is.
NAMING = {
    "scheduler/model/paths.py": {"into_port", "from_port"},  # the tasks that a path is put between
    "scheduler/model/shorthand.py": {"round_robin", "key_split"},  # the tasks that a split in a document becomes
    "scheduler/reuse/narrower_alternates.py": {"union"},  # the task that passes on what it reads
    "workers/engine/spark/rehearsal.py": {  # the two dataflows that each driver rehearses
        "block_average", "kalman_filter", "senml_parse", "smart_meter"},
    "dashboard/pages/views/profiles.py": {"senml_parse"},  # the example in a template to fill in
}


def named(module: ast.Module, names: set[str]) -> set[str]:
    """The names of task types that a module spells."""
    return {node.value for node in nodes(module) if isinstance(node, ast.Constant) and isinstance(node.value, str)
            } & names


def test_no_module_but_the_library_names_a_task_type() -> None:
    names = {task_type.name for task_type in registry.built_in()}
    assert names > OTHER_WORDS
    modules = [
        path for path in python_files("scheduler", "workers", "dashboard")
        if "migrations" not in path.parts and not name_of(path).startswith("workers/library/")]
    assert {name_of(path): types for path in modules if (types := named(tree(path), names - OTHER_WORDS))} == NAMING


def test_a_name_is_seen() -> None:
    assert named(ast.parse("if task.type in {'train', 'own'}: pass"), {"train"}) == {"train"}
