"""Functions of installed packages that configs may name: which ones the operator allows, and whether they are there.

``WEIR_PYTHON_PACKAGES`` lists packages, modules or single functions; by default there are none. A package is checked
without importing it: the site reads sources, and slots alone run them.
"""

from __future__ import annotations

import ast
import difflib
import os
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from typing import Any

from .code import source_of
from .config import InvalidConfig

VARIABLE = "WEIR_PYTHON_PACKAGES"
FUNCTION = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*"


def allowed(environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The operator's list of what may be called: packages, modules, and functions (``package.module:function``)."""
    env = os.environ if environment is None else environment
    return tuple(name.strip() for name in env.get(VARIABLE, "").split(",") if name.strip())


def require_function(name: str, wanted_version: str) -> None:
    """Raise ``InvalidConfig`` where a function may not be used, is not there, or is of another version of its package.

    Parameters
    ----------
    name : str
        ``package.module:function``.
    """
    module, _, function = name.partition(":")
    if not any(name == part or module == part or module.startswith(f"{part}.") for part in allowed()):
        raise InvalidConfig(
            f"The function {name} may not be used.", parameter="function", value=name,
            remedy=f"Ask the operator to name its package, its module or the function in {VARIABLE}.")
    versions = installed_versions(module)
    if not versions:
        raise InvalidConfig(
            f"{module} is of no package that is installed here.", parameter="function", value=name,
            remedy="Ask the operator to install the package for the site and on every machine with slots.")
    if wanted_version not in versions.values():
        installed = ", ".join(f"{package} {number}" for package, number in sorted(versions.items()))
        raise InvalidConfig(
            f"{name} is of {installed} here, not of version {wanted_version}.",
            parameter="version", value=wanted_version,
            remedy="Name the version that is installed; another one may do other things, so it makes another task.")
    defined = defined_names(module)
    if defined is None:
        raise InvalidConfig(f"There is no module {module}.", parameter="function", value=name,
                            remedy=f"See what {', '.join(sorted(versions))} brings.")
    if function not in defined:
        near = difflib.get_close_matches(function, defined, n=1)
        raise InvalidConfig(
            f"The module {module} has no function {function}.", parameter="function", value=name,
            remedy=f"Did you mean {near[0]}?" if near else "Name a function that it defines; one that it imports "
                   "is of the module that defines it.")


def installed_versions(module: str) -> dict[str, str]:
    """The packages that bring a module, with their versions; none for a module of no package."""
    versions = {}
    for package in packages_distributions().get(module.partition(".")[0], ()):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:  # it went away this moment
            continue
    return versions


def defined_names(module: str) -> frozenset[str] | None:
    """The names that a module's source defines at its top, None where there is no such module; nothing of it is run.

    What it imports, or calls by another name, is another module's: to allow one is not to allow what it uses.
    """
    source = source_of(module)
    if source is None:
        return None
    try:
        return frozenset(_names(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()


def _names(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign) and not isinstance(node.value, ast.Name | ast.Attribute):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


@lru_cache(maxsize=64)
def function_of(name: str) -> Callable[..., Any]:
    """The function, imported; for Python workers alone."""
    module, _, attribute = name.partition(":")
    function = getattr(import_module(module), attribute)
    if not callable(function):
        raise InvalidConfig(f"{name} is no function.")
    return function
