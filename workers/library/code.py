"""A digest of the code that a task type rests on, read from its sources: where it is another, profiles are stale.

It is of whole modules: the one that ``build`` names, and those of its package and of this library that are imported
from there, by way of others too. Comments, docstrings, formatting, the names of modules and what a declaration says for
readers and planners do not count. Nothing is imported, so Spark is not either.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec, resolve_name

from scheduler.model.task_types import TaskType

LIBRARY = "workers.library"
SCHEME = "modules"  # digests of another scheme are of the same code for all that is known
DIGITS = 16
DECLARES = ("TaskType", "Parameter")
NOT_LOGIC = frozenset({"doc", "family", "cost_us", "near", "near_ratio", "opens", "version"})  # of a declaration


def code_digest(task_type: TaskType) -> str:
    """A digest of the code that a task type's builder rests on; empty where its module has no source.

    It is found once in the life of a process, which goes on with the code that it began with.
    """
    return _digest(task_type.build.partition(":")[0])


def forget() -> None:
    """Read sources again the next time."""
    _digest.cache_clear()
    _read.cache_clear()


def source_of(module: str) -> str | None:
    """A module's source, found without importing anything; None where there is none."""
    loader = getattr(_spec(module), "loader", None)
    try:
        return loader.get_source(module) if hasattr(loader, "get_source") else None
    except (ImportError, OSError, SyntaxError, ValueError):
        return None


@cache
def _digest(module: str) -> str:
    if _read(module) is None:
        return ""
    top = module.partition(".")[0]
    logic: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in logic or not any(name == root or name.startswith(f"{root}.") for root in (top, LIBRARY)):
            continue
        if (read := _read(name)) is not None:
            logic[name], imported = read
            waiting += imported
    text = "\0".join(sorted(logic.values())).encode(errors="surrogatepass")
    return f"{SCHEME}:{hashlib.sha256(text).hexdigest()[:DIGITS]}"


@cache
def _read(name: str) -> tuple[str, tuple[str, ...]] | None:
    """A module's logic as a text, and what may be modules that it imports; None where there is no source to read."""
    spec = _spec(name)
    loader = getattr(spec, "loader", None)
    if not hasattr(loader, "get_source"):
        return None
    try:
        source = loader.get_source(name)
        tree = ast.parse(source or "")
    except (ImportError, OSError, SyntaxError, ValueError):
        return None
    except (MemoryError, RecursionError):  # of the parser: what a program wrote may be nested deeper than it can go
        return source, ()
    if source is None:
        return None
    package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
    imported = tuple(_imported(tree, package))
    try:
        return ast.unparse(_Logic().visit(tree)), imported
    except RecursionError:
        return source, imported


def _spec(name: str) -> ModuleSpec | None:
    """The place of a module, without importing its packages."""
    path, *parts = name.split(".")
    try:
        spec = find_spec(path)
    except (ImportError, ValueError):
        return None
    for part in parts:
        if spec is None or spec.submodule_search_locations is None:
            return None
        path = f"{path}.{part}"
        spec = PathFinder.find_spec(path, list(spec.submodule_search_locations))
    return spec


def _imported(tree: ast.Module, package: str) -> Iterator[str]:
    """The modules that are imported anywhere in a module; of ``from a import b``, a and a.b, whichever they are."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            try:
                module = resolve_name("." * node.level + (node.module or ""), package)
            except ImportError:  # above the top
                continue
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


class _Logic(ast.NodeTransformer):
    """Takes out docstrings, what declarations say for readers and planners, and where modules that count are.

    A package that moves is the same code.
    """

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        if node.level or (node.module or "").startswith(LIBRARY):
            node.module, node.level = None, 1
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if called in DECLARES:
            if called == "Parameter":
                del node.args[2:3]  # its doc
            node.keywords = [keyword for keyword in node.keywords if keyword.arg not in NOT_LOGIC]
            for keyword in node.keywords:
                if keyword.arg == "build" and isinstance(keyword.value, ast.Constant):
                    keyword.value = ast.Constant(str(keyword.value.value).rpartition(":")[2])
        return self.generic_visit(node)
