"""One word a thing: words that were given up for the field's terms (docs/words.md) do not come back as names."""

from __future__ import annotations

import ast

import pytest

from .sources import PACKAGES, ROOT, name_of, python_files, tree

# What was given up, and what is said instead.
CLASSES = {
    "Hands": "FragmentExecutor", "Doors": "OutputChannels", "Inlets": "InputChannels", "Departure": "Retirement",
    "Succession": "Savepoints", "Ended": "Savepoint", "Begun": "RestorePoint", "Conductor": "TrialRunner",
    "Inbox": "DesiredStateWatcher", "Outbox": "ReportPublisher", "Scale": "HeapSampler", "Shares": "UsageAttribution",
    "Surroundings": "SlotContext", "Settle": "ActivateRoutes", "Settler": "SlotAssigner", "Gates": "Backpressure",
    "Rotation": "QuotaPartitioner", "Doubt": "ProfileWarning", "Remark": "WarningNote", "Question": "SchedulingProblem",
    "Asked": "ScheduleOptions", "Decided": "PlanInForce", "Desired": "DesiredState",
}
MODULES = {
    "hands", "doors", "inlets", "departure", "succession", "conductor", "mail", "scale", "shares", "gates", "rotation",
    "settling", "under_way", "deciding", "asking", "keeping", "kept", "against", "doubts", "storing", "offered",
    "telling", "wanted", "supervisor",
}
PHRASES = ("the hands of", "the face of")


def defined(module: ast.Module) -> set[str]:
    """The classes that a module defines."""
    return {node.name for node in ast.walk(module) if isinstance(node, ast.ClassDef)}


def test_no_class_has_a_name_that_was_given_up() -> None:
    found = {
        name_of(path): {name: CLASSES[name] for name in names}
        for path in python_files(*PACKAGES) if (names := defined(tree(path)) & set(CLASSES))}
    assert found == {}, "docs/words.md has the words"


def test_no_module_has_a_name_that_was_given_up() -> None:
    found = [name_of(path) for path in python_files(*PACKAGES) if {path.stem, path.parent.name} & MODULES]
    assert found == []


def test_no_document_speaks_in_images() -> None:
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", *python_files(*PACKAGES)]
    assert [name_of(path) for path in pages if any(phrase in path.read_text().lower() for phrase in PHRASES)] == []


@pytest.mark.parametrize("name", sorted(set(CLASSES.values())))
def test_what_is_said_instead_is_there(name: str) -> None:
    sources = [*python_files(*PACKAGES), *(ROOT / "workers").rglob("*.java")]
    assert any(f"class {name}" in path.read_text() for path in sources)
