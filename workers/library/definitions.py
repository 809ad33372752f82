"""What stands at the top of a module, by its source: definitions, what they name, and what is imported.

Nothing is imported to find that out, so neither Spark nor what a package does on import is met.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec, resolve_name

DECLARES = ("TaskType", "Parameter")
NOT_LOGIC = frozenset({"doc", "family", "cost_us", "near", "near_ratio", "version"})  # of a declaration
NOT_SPELLED = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

Dotted = tuple[str, ...]  # a name and the attributes that are asked of it; of an import, a module and a name in it


@dataclass(frozen=True, slots=True)
class Module:
    """What stands at the top of a module: definitions by the names that they bind, imports, and modules of which it
    imports everything."""

    is_package: bool
    definitions: Mapping[str, Sequence[Definition]]
    imports: Mapping[str, Dotted]
    stars: Sequence[str]


class Definition:
    """A statement at the top of a module."""

    def __init__(self, statement: ast.stmt, package: str) -> None:
        self._statement = statement
        self._package = package

    @cached_property
    def _plain(self) -> ast.AST:
        return _Plain().visit(self._statement)

    @cached_property
    def spelled(self) -> str:
        """Its logic as a text."""
        return _spelled(self._plain)

    @cached_property
    def imports(self) -> Mapping[str, Dotted]:
        """What it imports itself."""
        nested = [node for node in ast.walk(self._plain) if isinstance(node, ast.Import | ast.ImportFrom)]
        return dict(pair for node in nested for pair in _imported(node, self._package))

    @cached_property
    def names(self) -> frozenset[Dotted]:
        """The names that it uses, with the attributes that it asks of them."""
        used = set(_used(self._plain))
        if not isinstance(self._statement, _FUNCTIONS):  # what it imports is for others to use
            used |= {(name,) for name in self.imports}
        return frozenset(used)


@cache
def read_module(name: str) -> Module | None:
    """A module by its source; None where there is none to read."""
    spec = _spec(name)
    loader = getattr(spec, "loader", None)
    is_package = getattr(spec, "submodule_search_locations", None) is not None
    try:
        source = loader.get_source(name) if hasattr(loader, "get_source") else "" if is_package else None
        body = ast.parse(source).body if source is not None else None
    except (ImportError, OSError, SyntaxError, ValueError, MemoryError, RecursionError):  # the last two: of the parser
        body = None
    if spec is None or body is None:
        return None
    package = name if is_package else name.rpartition(".")[0]
    definitions: dict[str, list[Definition]] = {}
    imports: dict[str, Dotted] = {}
    stars: list[str] = []
    touched: list[tuple[str, Definition]] = []
    for statement in body:
        if isinstance(statement, ast.If) and _is_for_types(statement.test):
            continue
        if isinstance(statement, ast.Import | ast.ImportFrom):
            imports.update(_imported(statement, package))
            stars += _starred(statement, package)
            continue
        definition = Definition(statement, package)
        for bound in _bound(statement):
            definitions.setdefault(bound, []).append(definition)
        touched += [(changed, definition) for changed in _changed(statement)]
    for changed, definition in touched:
        if changed in definitions and definition not in definitions[changed]:
            definitions[changed].append(definition)
    return Module(is_package, definitions, imports, stars)


def _spec(name: str) -> ModuleSpec | None:
    """Where a module is, without importing the packages that it is in."""
    top, *parts = name.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return None
    for part in parts:
        if spec is None or spec.submodule_search_locations is None:
            return None
        top = f"{top}.{part}"
        spec = PathFinder.find_spec(top, list(spec.submodule_search_locations))
    return spec


def _is_for_types(test: ast.expr) -> bool:
    return getattr(test, "id", getattr(test, "attr", "")) == "TYPE_CHECKING"


def _imported(statement: ast.Import | ast.ImportFrom, package: str) -> Iterator[tuple[str, Dotted]]:
    """The names that an import binds, and what each leads to: a module, or a name in one."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            top = alias.name.partition(".")[0]
            yield (alias.asname, (alias.name,)) if alias.asname else (top, (top,))
        return
    module = _source_of(statement, package)
    for alias in statement.names:
        if alias.name != "*":
            yield alias.asname or alias.name, (module, alias.name)


def _starred(statement: ast.Import | ast.ImportFrom, package: str) -> list[str]:
    is_star = isinstance(statement, ast.ImportFrom) and any(alias.name == "*" for alias in statement.names)
    return [_source_of(statement, package)] if is_star else []


def _source_of(statement: ast.ImportFrom, package: str) -> str:
    try:
        return resolve_name("." * statement.level + (statement.module or ""), package)
    except ImportError:  # above the top
        return statement.module or ""


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement binds where it stands."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
        return
    if isinstance(statement, _FUNCTIONS):
        yield statement.name
        return
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    for target in targets:
        nodes = ast.walk(target) if target is not None else ()
        yield from (node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    for inner in _inner(statement):
        yield from _bound(inner)


def _inner(statement: ast.stmt) -> Iterator[ast.stmt]:
    """The statements in one that has some, whichever of its branches they are in."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for node in getattr(statement, field, ()):
            if isinstance(node, ast.stmt):
                yield node
            else:
                yield from node.body


def _changed(statement: ast.stmt) -> Iterator[str]:
    """The names whose values a statement changes: by a method, an item or an attribute."""
    asked: list[ast.AST] = list(getattr(statement, "targets", ()))
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        asked = [statement.value.func]
    elif isinstance(statement, ast.AugAssign):
        asked = [statement.target]
    for node in asked:
        base = node
        while isinstance(base, ast.Attribute | ast.Subscript):
            base = base.value
        if base is not node and isinstance(base, ast.Name):
            yield base.id


# -- definitions, spelled out ------------------------------------------------------------------------------------------


class _Plain(ast.NodeTransformer):
    """Takes out what is for readers and planners: docstrings, and such words of a declaration."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if called in DECLARES:
            if called == "Parameter":
                del node.args[2:3]  # its doc
            node.keywords = [keyword for keyword in node.keywords if keyword.arg not in NOT_LOGIC]
        return self.generic_visit(node)


def _spelled(node: object) -> str:
    """A tree as a text: the same in every version of Python that has the same fields for it."""
    if isinstance(node, ast.AST):
        fields = [
            f"{name}={_spelled(value)}" for name, value in ast.iter_fields(node)
            if name not in NOT_SPELLED and value is not None and value != []]
        return f"{type(node).__name__}({','.join(fields)})"
    return f"[{','.join(map(_spelled, node))}]" if isinstance(node, list) else repr(node)


def _used(node: ast.AST) -> Iterator[Dotted]:
    attributes: list[str] = []
    base = node
    while isinstance(base, ast.Attribute):
        attributes.insert(0, base.attr)
        base = base.value
    if isinstance(base, ast.Name):
        yield base.id, *attributes
        return
    for child in ast.iter_child_nodes(base):
        yield from _used(child)
