"""One word a thing: words that were given up for the field's terms (docs/words.md) do not come back as names."""

from __future__ import annotations

import ast
import re

import pytest

from .sources import PACKAGES, ROOT, name_of, nodes, python_files, tree

# What was given up, and what is said instead.
CLASSES = {
    "Hands": "FragmentExecutor", "Ended": "Savepoint", "Begun": "RestorePoint", "Conductor": "TrialRunner",
    "Inbox": "DesiredStateWatcher", "Outbox": "ReportPublisher", "Scale": "HeapSampler", "Shares": "UsageAttribution",
    "Surroundings": "SlotContext", "Settle": "ActivateRoutes", "Settler": "SlotAssigner", "Gates": "Backpressure",
    "Rotation": "QuotaPartitioner", "Doubt": "ProfileWarning", "Remark": "WarningNote", "Question": "SchedulingProblem",
    "Subject": "SweepTarget", "Place": "TextPosition", "TaskPlace": "TaskCode",
    "Crowd": "ThreadShortage",
    "Asked": "ScheduleOptions", "Decided": "PlanInForce", "Desired": "DesiredState",
}
CLASSES_GONE = {"Doors", "Inlets", "Departure", "Succession", "Standing", "Told"}  # now functions, or split
MODULES = {
    "hands", "doors", "inlets", "departure", "succession", "conductor", "mail", "scale", "shares", "gates", "rotation",
    "settling", "under_way", "deciding", "asking", "keeping", "kept", "against", "doubts", "storing", "offered",
    "telling", "wanted", "supervisor", "standing", "driving",
}
PHRASES = ("the hands of", "the face of")
# What users met and stumbled over, and what to say in its place.
AVOIDED = {
    r"\b(is|are) told\b": "say who says it, or “is shown”", r"\bbe had\b": "“the limit is”, “is possible”",
    r"\bcomes? to (its|an) end\b": "“finishes”", r"\bcomes? to (more than|\{)": "“has”, “takes”",
    r">\s*Over\s*<": "“Resolved”, “Last”", r">\s*Keep\s*<": "“Save”"}


def defined(module: ast.Module) -> set[str]:
    """The classes that a module defines."""
    return {node.name for node in nodes(module) if isinstance(node, ast.ClassDef)}


def test_no_class_has_a_name_that_was_given_up() -> None:
    given_up = {
        name_of(path): {name: CLASSES.get(name, "it is gone") for name in names}
        for path in python_files(*PACKAGES) if (names := defined(tree(path)) & (CLASSES.keys() | CLASSES_GONE))}
    assert given_up == {}, "docs/words.md has the words"


def test_no_module_has_a_name_that_was_given_up() -> None:
    given_up = [name_of(path) for path in python_files(*PACKAGES) if {path.stem, path.parent.name} & MODULES]
    assert given_up == []


def test_no_document_speaks_in_images() -> None:
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", *python_files(*PACKAGES)]
    assert [name_of(path) for path in pages if any(phrase in path.read_text().lower() for phrase in PHRASES)] == []


def test_no_text_in_code_says_what_no_page_may() -> None:
    """Errors, remedies, help: every text but docstrings."""
    texts = [
        (name_of(path), node.value) for path in python_files(*PACKAGES) for node in _texts(tree(path))
        if isinstance(node.value, str)]
    assert len(texts) > 1_000
    assert [(*text, AVOIDED[pattern]) for text in texts for pattern in AVOIDED if re.search(pattern, text[1])] == []


def _texts(module: ast.Module) -> list[ast.Constant]:
    bare = {id(node.value) for node in nodes(module) if isinstance(node, ast.Expr)}
    return [node for node in nodes(module) if isinstance(node, ast.Constant) and id(node) not in bare]


@pytest.mark.parametrize("name", sorted(set(CLASSES.values())))
def test_what_is_said_instead_is_there(name: str) -> None:
    sources = [*python_files(*PACKAGES), *(ROOT / "workers").rglob("*.java")]
    assert any(f"class {name}" in path.read_text() for path in sources)


# Names that say nothing of what they hold. A pair may be called one and other; fields of answers and rows are words.
PRONOUNS = frozenset({
    "found", "its", "those", "told", "kept", "said", "asked", "there", "together", "own", "known", "each"})
# A keyword by which packages of other people call.
PUBLIC = {"workers/library/state.py": {"kept"}}


def pronouns_of(module: ast.Module) -> set[str]:
    """The pronouns that a module's functions have as parameters or variables."""
    bound = [
        node for node in nodes(module)
        if isinstance(node, ast.arg) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))]
    names = {node.arg if isinstance(node, ast.arg) else node.id for node in bound}
    if not names & (PRONOUNS | {"one"}):
        return set()  # of the module itself, too
    functions = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    within = {id(node) for scope in nodes(module) if isinstance(scope, functions) for node in ast.walk(scope)}
    names = {node.arg if isinstance(node, ast.arg) else node.id for node in bound if id(node) in within}
    return names & PRONOUNS | ({"one"} if "one" in names and "other" not in names else set())


# What stands behind a name where it is bound. Most files have no pronoun in front of it, and need not be parsed.
BOUND = re.compile(rf"\b(?:{'|'.join({*PRONOUNS, 'one'})})\b\s*(?:[-+*/|&%^@<>]{{0,2}}=(?!=)|[,:)\]]|in\b)")


@pytest.mark.parametrize("package", [*PACKAGES, "tests"])
def test_variables_are_named_for_what_they_hold(package: str) -> None:
    pronouns = {name_of(path): names for path in python_files(package)
                if path.parent.name != "migrations" and BOUND.search(path.read_text())
                and (names := pronouns_of(tree(path)) - PUBLIC.get(name_of(path), set()))}
    assert pronouns == {}


def test_loops_of_templates_are_named_for_what_they_hold() -> None:
    loops = re.compile(r"{% for (\w+)(?:, (\w+))? in|{% with (\w+)=")
    names = {path: {name for match in loops.findall(path.read_text()) for name in match} & (PRONOUNS | {"one"})
             for path in (ROOT / "templates").rglob("*.html")}
    assert names and {path.name: pronouns for path, pronouns in names.items() if pronouns} == {}


# Names of attributes and functions that are a pronoun or a participle without its noun.
PARTICIPLES = frozenset({
    "acknowledged", "asked", "awaited", "begun", "coming", "done", "ended", "everything", "expected", "gathered",
    "given", "goes", "gone", "got", "had", "hanging", "heard", "held", "hurried", "hushed", "judged", "left", "looked",
    "looking", "lost", "made", "many", "met", "missed", "nobody", "none", "noted", "nothing", "others", "paced",
    "passing", "refused", "rested", "resting", "same", "seen", "sent", "settled", "shown", "some", "stands", "still",
    "taken", "tried", "wanted"})
# Fields that are stored or sent under their name; and two words of the tests' own language.
STORED = {
    "workers/engine/agents/node_files/node_store.py": {"own"}, "workers/engine/search_store.py": {"found"},
    "workers/engine/sinks/sink_store.py": {"kept"}, "dashboard/alerts/models.py": {"told"},
    "dashboard/api/answers/dataflows.py": {"asked"}, "dashboard/explorer/stream_searches.py": {"found"},
    "dashboard/operations/live_view/live_documents.py": {"kept"}, "dashboard/simulations/models.py": {"asked"},
    "scheduler/contracts/qos.py": {"own"}, "scheduler/contracts/reports.py": {"kept"},
    "tests/cases.py": {"each"}, "tests/pages/markup.py": {"one"}}
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
# As BOUND is for variables: where an attribute or a function gets such a name.
NAMED = re.compile(
    rf"(?:\bdef |\.|^(?: {{4}})?)(?:_?(?:{'|'.join({*PRONOUNS, 'one'})})|_(?:{'|'.join(PARTICIPLES)}))\b"
    r"\s*(?:\(|:|,|\)|[-+*/|&%^@<>]{0,2}=(?!=)|in\b)", re.MULTILINE)


def bare_names_of(module: ast.Module, *, only_functions: bool = False) -> set[str]:
    """The pronouns that attributes and functions have as names; of private ones the participles, too."""
    names = {node.name for node in nodes(module) if isinstance(node, FUNCTIONS)}
    attributes = {
        node.attr for node in nodes(module) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    for scope in (module, *(node for node in nodes(module) if isinstance(node, ast.ClassDef))):
        targets = [target for statement in scope.body if isinstance(statement, ast.Assign | ast.AnnAssign)
                   for target in getattr(statement, "targets", None) or [statement.target]]
        attributes |= {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    names |= {name for name in attributes if name.startswith("_") or not only_functions}
    return {name for name in names if name.lstrip("_") in PRONOUNS | {"one"}
            or (name.startswith("_") and name[1:] in PARTICIPLES)}


@pytest.mark.parametrize("package", [*PACKAGES, "tests"])
def test_attributes_and_functions_are_named_for_what_they_hold_and_give(package: str) -> None:
    bare = {name_of(path): names for path in python_files(package)
            if path.parent.name != "migrations" and NAMED.search(path.read_text())
            and (names := bare_names_of(tree(path), only_functions=package == "tests")
                 - STORED.get(name_of(path), set()))}
    assert bare == {}


def test_a_bare_name_is_seen_wherever_it_is_given() -> None:
    for text in (
            "def told(): pass", "async def _seen(): pass", "class A:\n    known: int", "class A:\n    _left = 1",
            "class A:\n    def one(self): pass", "a.known = 1", "a._made: int = 1", "a._taken += 1",
            "a._lost, b = 1, 2", "(b, a._lost) = 1, 2", "for a._given in (): pass", "_kept = 1", "_kept: int = 1"):
        assert bare_names_of(ast.parse(text)) and NAMED.search(text), text
    for text in ("class A:\n    left: int", "a._left_ids = 1", "f(_seen=1)", "a = b._made", "def f(_taken): pass"):
        assert not bare_names_of(ast.parse(text)), text
    assert not bare_names_of(ast.parse("a.told = 1"), only_functions=True)
    assert bare_names_of(ast.parse("a._told = 1"), only_functions=True) == {"_told"}


def test_a_pronoun_is_seen_wherever_it_is_bound() -> None:
    for text in (
            "def f(found): pass", "def f():\n  for one in (): pass", "def f(): return [x for its in () for x in its]",
            "def f():\n  told = 1", "def f():\n  told += 1", "def f():\n  a, told = 1, 2", "def f():\n  told: int = 1",
            "def f():\n  [told, a] = 1, 2", "def f():\n  with a as told: pass", "def f(*told): pass", "lambda told: 1",
            "def f():\n  if (told := 1): pass", "def f():\n  with (a as told\n  ): pass",
            "def f(): return {each: 1 for each in ()}", "max((), key=lambda own: own)", "def f(*, known=1): pass"):
        assert pronouns_of(ast.parse(text)) and BOUND.search(text), text
    assert not pronouns_of(ast.parse("def f(one, other): return {'found': one.own}, g(known=other)"))
