"""Kinds of plans and steps are spelled in their registries alone: others ask the registry, or name its constant."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

import pytest

from scheduler import step_kinds
from scheduler.controllers.controller_registry import CONTROLLERS, PURE_COLLECTORS
from scheduler.model import plan_kinds
from scheduler.model.plan_kinds import PLAN_KINDS
from scheduler.step_kinds import STEP_KINDS

from .sources import ROOT, name_of, nodes, project_files, python_files, tree

REGISTRIES = {"scheduler/model/plan_kinds.py", "scheduler/step_kinds.py"}
NAMES = {*PLAN_KINDS, *STEP_KINDS}
# Other words that are spelled alike: ways to steer a sweep, calls of the broker's scripts.
OTHER_WORDS = {
    "dashboard/api/profile_routes.py", "dashboard/pages/views/sweeps.py",
    "dashboard/plans/joining_options.py",  # the option of a schedule
    "dashboard/commands/management/commands/secret.py",  # `./weir secret set`
}


def spelled(module: ast.Module) -> set[str]:
    """Names of kinds that a module compares with, gives as a kind, or has several of in a set, tuple or table."""
    kinds: set[str] = set()
    for node in nodes(module):
        if isinstance(node, ast.Compare):
            kinds |= names_in(node.comparators)
        elif isinstance(node, ast.keyword) and node.arg and "kind" in node.arg:
            kinds |= names_in([node.value])
        elif isinstance(node, ast.Set | ast.Tuple | ast.List | ast.Dict):
            names = names_in(node.keys if isinstance(node, ast.Dict) else node.elts)
            kinds |= names if len(names) > 1 else set()  # one alone may be another word: the option of a schedule
    return kinds


def names_in(places: Iterable[ast.expr | None]) -> set[str]:
    """The names of kinds among constants."""
    return {place.value for place in places if isinstance(place, ast.Constant) and place.value in NAMES}


def test_no_module_spells_a_kind() -> None:
    modules = [
        path for path in python_files("scheduler", "workers", "dashboard")
        if "migrations" not in path.parts and name_of(path) not in REGISTRIES | OTHER_WORDS]
    assert {name_of(path): names for path in modules if (names := spelled(tree(path)))} == {}
    assert {name for name in OTHER_WORDS if not spelled(tree(ROOT / name))} == set(), "exceptions that nothing needs"


def test_no_template_compares_with_a_kind() -> None:
    compared = re.compile(r"""kind\s*[!=]=\s*["'](\w+)["']""")
    pages = [path for path in project_files() if path.suffix == ".html" and path.is_relative_to(ROOT / "templates")]
    compared_kinds = {name_of(path): names for path in pages
        if (names := set(compared.findall(path.read_text())) & NAMES)}
    assert pages and compared_kinds == {}


@pytest.mark.parametrize("line", [
    "if plan.kind == 'defragment': pass",
    "if kind in {'pause', 'resume'}: pass", "WORDS = {'route': 1, 'open_tail': 2}",
    "Step(kind='hand_over', fragment='f')", "Proposal.objects.filter(plan__kind='submit')",
])
def test_the_check_sees(line: str) -> None:
    assert spelled(ast.parse(line))


# A plan kind's constant is named where its plans are made: by one module of the science, one of the site's kinds, and
# one service that proposes them. All others ask a flag of its entry.
PLAN_CONSTANTS, STEP_CONSTANTS = (
    {name for name, value in vars(registry).items() if isinstance(value, kind)}
    for registry, kind in ((plan_kinds, plan_kinds.PlanKind), (step_kinds, step_kinds.StepKind)))
OWN_MODULES = ("scheduler/", "dashboard/plans/site_plan_kinds/", "dashboard/approvals/services/")
# Which of them a plan is taken back by; by which a controller acts.
TABLES_OF_KINDS = {"scheduler/undoing.py", "dashboard/approvals/services/adapting.py"}


def constants_of(module: ast.Module, registry: str, constants: set[str]) -> set[str]:
    """The constants of a registry that a module imports, or reaches through it."""
    last = registry.rpartition(".")[2]
    imported = {
        alias.name for node in nodes(module)
        if isinstance(node, ast.ImportFrom) and (node.module or "").rpartition(".")[2] == last for alias in node.names}
    reached = {
        node.attr for node in nodes(module)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == last}
    return (imported | reached) & constants


def test_a_plan_kind_is_named_by_one_module_of_a_layer() -> None:
    modules_of: dict[tuple[str, str], list[str]] = {}
    elsewhere: dict[str, set[str]] = {}
    for path in python_files("scheduler", "workers", "dashboard"):
        name = name_of(path)
        if "migrations" in path.parts or name in REGISTRIES | TABLES_OF_KINDS:
            continue
        layer = next((place for place in OWN_MODULES if name.startswith(place)), None)
        for constant in constants_of(tree(path), "plan_kinds", PLAN_CONSTANTS):
            if layer is None:
                elsewhere.setdefault(name, set()).add(constant)
            else:
                modules_of.setdefault((layer, constant), []).append(name)
    assert elsewhere == {}
    assert {key: modules for key, modules in modules_of.items() if len(modules) > 1} == {}
    assert {constant for layer, constant in modules_of if layer == "dashboard/plans/site_plan_kinds/"} == PLAN_CONSTANTS


def named_beside_steps(module: ast.Module) -> set[str]:
    """Constants of step kinds that a module names for anything else than to make such a step."""
    constants = constants_of(module, "step_kinds", STEP_CONSTANTS)
    within: set[ast.AST] = set()
    for node in nodes(module):
        if isinstance(node, ast.Compare | ast.Dict | ast.Set):
            within |= set(ast.walk(node))
    return {
        node.id for node in within if isinstance(node, ast.Name) and node.id in constants}


def test_a_step_kind_is_named_only_where_such_a_step_is_made() -> None:
    makers = {"scheduler/setting.py"}
    modules = [
        path for path in python_files("scheduler", "workers", "dashboard")
        if name_of(path) not in REGISTRIES and constants_of(tree(path), "step_kinds", STEP_CONSTANTS)]
    assert {name_of(path) for path in modules if not name_of(path).startswith("scheduler/reuse/")} == makers
    assert {name_of(path): named for path in modules if (named := named_beside_steps(tree(path)))} == {}


@pytest.mark.parametrize(("line", "registry", "constants"), [
    ("from scheduler.model.plan_kinds import MOVE, PLAN_KINDS", "plan_kinds", {"MOVE"}),
    ("from .plan_kinds import SET as the_setting", "plan_kinds", {"SET"}),
    ("plan_kinds.PAUSE.name", "plan_kinds", {"PAUSE"}),
])
def test_a_constant_that_is_named_is_seen(line: str, registry: str, constants: set[str]) -> None:
    assert constants_of(ast.parse(line), registry, PLAN_CONSTANTS) == constants


CONTROLLER_MODULES = {type(controller).__module__ for controller in CONTROLLERS.values()}
EVIDENCE_OF = {
    PURE_COLLECTORS[controller.reads].evidence.__module__: type(controller).__module__
    for controller in CONTROLLERS.values()}
REGISTRY_OF_CONTROLLERS = "scheduler/controllers/controller_registry.py"
# What belongs to one controller alone, besides its evidence.
OF_ONE_CONTROLLER = {
    "dashboard/controllers/latency_told.py": {"BatchOpening"},  # why it leaves a dataflow's limit unmet
    "dashboard/operations/latency_control/open_batches.py": {"BatchOpening"},  # what its mode lets be open
    "dashboard/controllers/collecting/isolation_notes.py": {"HoldUps"},  # a part of its evidence
    "dashboard/api/team_routes.py": {"Defragmentation"},  # an address of its own asks for its mode
}
NAMES_OF_CONTROLLERS = {
    "dashboard/approvals/services/adapting.py": CONTROLLERS.keys() - {"remeasuring"},  # who carries each out
    "dashboard/controllers/sweeping.py": {"remeasuring"},  # what carries it out
    "dashboard/api/team_routes.py": {"defragmentation"},  # a field of the answer at its address
    # Pages and guides that are called alike.
    "dashboard/pages/sections.py": {"deployment"},
    "dashboard/pages/urls.py": {"adaptation", "deployment"},
    "dashboard/pages/views/adaptation.py": {"adaptation"},
    "dashboard/pages/views/alerts.py": {"deployment"},
    "dashboard/pages/views/deployment.py": {"deployment"},
    "dashboard/pages/views/guides.py": {"adaptation"},
    # Pages of what one controller does, which lead to its own.
    "templates/adaptation.html": {"adaptation"},
    "templates/deployment.html": {"deployment"},
    "templates/parts/goals.html": {"adaptation"},
    "templates/parts/latency.html": {"open_batches"},
}


def taken_from_controllers(module: ast.Module, package: str, *, its_own: str = "") -> set[str]:
    """What a module imports from modules of controllers but its own: any name, or the module."""
    taken, others = set[str](), CONTROLLER_MODULES - {its_own}
    for node in nodes(module):
        if isinstance(node, ast.Import):
            taken |= {alias.name for alias in node.names} & others
        if isinstance(node, ast.ImportFrom):
            above = package.split(".")[:len(package.split(".")) + 1 - node.level] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            taken |= {
                alias.name for alias in node.names
                if source in others or f"{source}.{alias.name}" in others}
    return taken


def test_no_module_takes_from_a_controller_that_is_not_its_own() -> None:
    taken: dict[str, set[str]] = {}
    for path in python_files("scheduler", "workers", "dashboard"):
        name = name_of(path)
        module = name.removesuffix(".py").replace("/", ".")
        if name == REGISTRY_OF_CONTROLLERS:
            continue
        package = module.rpartition(".")[0]
        if names := taken_from_controllers(tree(path), package, its_own=EVIDENCE_OF.get(module, "")):
            taken[name] = names
    assert taken == OF_ONE_CONTROLLER


def test_no_module_spells_a_controller() -> None:
    of_controllers = {module.replace(".", "/") + ".py" for module in CONTROLLER_MODULES}
    spelled_names = {
        name_of(path): names for path in python_files("scheduler", "workers", "dashboard")
        if "migrations" not in path.parts and name_of(path) not in of_controllers and (names := {
            node.value for node in nodes(tree(path)) if isinstance(node, ast.Constant)} & CONTROLLERS.keys())}
    of_pages = re.compile(r"""url 'controller' '(\w+)'|controller\w*\s*[!=]=\s*["'](\w+)["']""")
    for path in project_files():
        if path.suffix == ".html" and path.is_relative_to(ROOT / "templates"):
            names = {name for pair in of_pages.findall(path.read_text()) for name in pair} & CONTROLLERS.keys()
            spelled_names |= {name_of(path): names} if names else {}
    assert spelled_names == NAMES_OF_CONTROLLERS


@pytest.mark.parametrize(("line", "package"), [
    ("from scheduler.controllers.chaining import CAPACITY", "dashboard.plans"),
    ("from scheduler.controllers import chaining", "dashboard.plans"),
    ("import scheduler.controllers.chaining", "dashboard.plans"),
    ("from .chaining import Chains", "scheduler.controllers"),
    ("from . import chaining", "scheduler.controllers"),
    ("from ..chaining import Chains as C", "scheduler.controllers.evidence"),
])
def test_what_is_taken_from_a_controller_is_seen(line: str, package: str) -> None:
    assert taken_from_controllers(ast.parse(line), package)
